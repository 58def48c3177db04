//! The redundancy files in a dataset's directory, by their names: for who has no records of it.

use std::fs;
use std::path::Path;

use crate::error::{Error, Result};
use crate::records::FileMeta;
use crate::redundancy::{Code, Manifest, MemberList, ParityHeader, REDUNDANCY_DIR};

/// What a redundancy file tells.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// TYPE of the descriptor that it was made by.
    pub scheme: &'static str,
    /// Dataset id.
    pub id: u64,
    /// Epoch of the seal.
    pub epoch: u64,
    /// Ranks in the world.
    pub world_size: usize,
    /// World ranks of the set, in set order; none if the file does not say.
    pub group: Vec<usize>,
    /// What a rank had: the one that the file belongs to (XOR, RS), or the one whose files it has
    /// copies of (PARTNER).
    pub list: MemberList,
    /// The redundancy files, relative to the dataset's directory; without checksums.
    pub files: Vec<FileMeta>,
}

/// Tells whether `name` is that of a redundancy file in a dataset's own folder.
#[must_use]
pub fn is_redundancy_name(name: &str) -> bool {
    is_parity(name) || (name.starts_with("partner.") && name.ends_with(".scr"))
}

fn is_parity(name: &str) -> bool {
    name.contains("_of_") && (name.ends_with(".xor") || name.ends_with(".rs"))
}

/// Looks for redundancy files of the dataset in `dir`, in order of their names. Those that are
/// damaged or cannot be read count as lost.
///
/// # Errors
/// If the folder cannot be listed.
pub fn find_redundancy(dir: &Path) -> Result<Vec<Trace>> {
    let folder = dir.join(REDUNDANCY_DIR);
    let fail = |error| Error::io("cannot list the directory", &folder, error);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(fail)? {
        names.extend(entry.map_err(fail)?.file_name().into_string());
    }
    names.sort();
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
        files,
    })
}
