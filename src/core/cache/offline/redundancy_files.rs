//! The redundancy files in a dataset's directory, by their names: for who has no records of it.

use std::fs;
use std::path::Path;

use crate::cache::node::disk::names_in;
use crate::error::Result;
use crate::records::FileMeta;
use crate::redundancy::{Code, Manifest, MemberList, ParityHeader, REDUNDANCY_DIR};

#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// TYPE of the descriptor that it was made by.
    pub scheme: &'static str,
    pub id: u64,
    pub epoch: u64,
    pub world_size: usize,
    /// World ranks of the set, in set order; none if the file does not tell.
    pub group: Vec<usize>,
    /// What a rank had: under XOR and RS the one that the file belongs to, under PARTNER the one
    /// whose files it has copies of.
    pub list: MemberList,
    /// Under PARTNER: the parts of files that who keeps the copies has itself.
    pub own_parts: Vec<FileMeta>,
    /// The redundancy files, relative to the dataset's directory, without checksums.
    pub files: Vec<FileMeta>,
}

pub fn is_redundancy_name(name: &str) -> bool {
    is_parity(name) || (name.starts_with("partner.") && name.ends_with(".scr"))
}

fn is_parity(name: &str) -> bool {
    name.contains("_of_") && (name.ends_with(".xor") || name.ends_with(".rs"))
}

/// Returns the redundancy files of the dataset in `dir`, in order of their names. Those that are
/// damaged or cannot be read count as lost.
pub fn find_redundancy(dir: &Path) -> Result<Vec<Trace>> {
    let names = names_in(&dir.join(REDUNDANCY_DIR))?;
    let trace = |name: &String| match is_parity(name) {
        true => of_parity(dir, name),
        false if is_redundancy_name(name) => of_partner(dir, name),
        false => None,
    };
    Ok(names.iter().filter_map(trace).collect())
}

fn of_parity(dir: &Path, name: &str) -> Option<Trace> {
    let name = format!("{REDUNDANCY_DIR}/{name}");
    let path = dir.join(&name);
    let (header, header_bytes) = ParityHeader::read(&path).ok()?;
    let size = header_bytes + header.chunks_bytes();
    Some(Trace {
        scheme: match header.code {
            Code::Xor => "XOR",
            Code::ReedSolomon => "RS",
        },
        id: header.id,
        epoch: header.epoch,
        world_size: header.world_size,
        group: header.group,
        list: header.current,
        own_parts: Vec::new(),
        files: vec![FileMeta { name, size, ..FileMeta::default() }],
    })
}

fn of_partner(dir: &Path, name: &str) -> Option<Trace> {
    let name = format!("{REDUNDANCY_DIR}/{name}");
    let manifest = Manifest::read(&dir.join(&name))?;
    let size = fs::metadata(dir.join(&name)).ok()?.len();
    let mut files = manifest.copies();
    files.push(FileMeta { name, size, mode: 0o600, ..FileMeta::default() });
    Some(Trace {
        scheme: "PARTNER",
        id: manifest.id,
        epoch: manifest.epoch,
        world_size: manifest.world_size,
        group: Vec::new(),
        list: manifest.list,
        own_parts: manifest.own_parts,
        files,
    })
}
