//! What a checkpoint directory of version 1.1 holds (manual 1.1, sections 8.2 and 11.10.7):
//! filemaps tell how many files a rank has, sidecars what each should be.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::error::{Error, Result};
use crate::files::is_safe_relative;
use crate::kvtree::KvTree;
use crate::records::text::parse_crc;
use crate::records::{FileMeta, Summary};

pub(super) const SIDECAR: &str = ".scr";
pub(super) const FILEMAP: &str = ".scrfilemap";
const PARITY: &str = ".xor";
/// Its own sidecar-like name is that of no file.
pub(super) const SUMMARY: &str = "summary.scr";

/// The error is a clause that says what is wrong.
pub(super) type ScannedDirectory<T> = std::result::Result<T, String>;

#[derive(Debug, Default)]
pub(super) struct Scan {
    pub id: u64,
    pub ranks: usize,
    pub of_rank: BTreeMap<usize, OfRank>,
    pub refused: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct OfRank {
    /// Files that it had, redundancy files included, as its filemap says.
    pub expected: Option<usize>,
    names: BTreeSet<String>,
    /// These and the redundancy files are what their sidecars say.
    pub files: Vec<FileMeta>,
    pub redundancy: Vec<FileMeta>,
}

struct Sidecar {
    name: String,
    is_redundancy: bool,
    complete: bool,
    size: u64,
    crc32: Option<u32>,
    id: u64,
    ranks: usize,
    rank: usize,
}

/// Tells whether `dir` has filemaps, sidecars or a summary of version 1.1.
pub fn is_older_directory(dir: &Path) -> bool {
    let Ok(names) = names_in(dir) else { return false };
    let sidecar = |name: &String| {
        name.ends_with(SIDECAR) && name != SUMMARY && Sidecar::read(&dir.join(name)).is_some()
    };
    let has_summary = || Summary::read_from(dir).is_ok_and(|read| read.is_some());
    names.iter().any(|name| name.ends_with(FILEMAP)) || names.iter().any(sidecar) || has_summary()
}

pub(super) fn scan(dir: &Path) -> Result<Scan> {
    let names = names_in(dir)?;
    let mut scan = Scan::default();
    for name in names.iter().filter(|name| name.ends_with(FILEMAP)) {
        match KvTree::read_file(dir.join(name)) {
            Ok(Some(tree)) => scan.add_filemap(&tree),
            Ok(None) => {} // Gone since the listing.
            Err(error) => scan.refused.push(error.to_string()),
        }
    }
    let is_sidecar = |name: &&String| name.ends_with(SIDECAR) && *name != SUMMARY;
    let mut found = Vec::new();
    for name in names.iter().filter(is_sidecar) {
        let described = name.strip_suffix(SIDECAR).unwrap_or(name);
        match Sidecar::read(&dir.join(name)) {
            Some(sidecar) => found.push((described, sidecar)),
            None => scan.refused.push(format!("{name} tells nothing of a file: it is damaged")),
        }
    }
    if scan.id == 0 {
        scan.id = found.first().map_or(0, |(_, sidecar)| sidecar.id);
    }
    let of_id = |(_, sidecar): &&(&str, Sidecar)| sidecar.id == scan.id;
    scan.ranks = found.iter().find(of_id).map_or(0, |(_, sidecar)| sidecar.ranks);
    if scan.id == 0 || scan.ranks == 0 {
        let path = dir.display();
        return Err(Error::Refused(format!("{path}: nothing tells which checkpoint it is")));
    }
    for (described, sidecar) in found {
        match scan.check(dir, described, &sidecar) {
            Ok(()) => scan.add(sidecar),
            Err(why) => scan.refused.push(format!("{described} does not count: {why}")),
        }
    }
    Ok(scan)
}

impl Scan {
    pub fn of_summary(listed: &Summary) -> Scan {
        let ranks = usize::try_from(listed.ranks).unwrap_or(0);
        let mut scan = Scan { id: listed.dataset.id, ranks, ..Scan::default() };
        for rank in 0..ranks {
            let files = listed.files.get(&rank).cloned().unwrap_or_default();
            let expected = Some(files.len());
            scan.of_rank.insert(rank, OfRank { expected, files, ..OfRank::default() });
        }
        scan
    }

    /// The keys of manual 1.1, section 8.1: RANK / (rank) / CKPT / (id) / EXPECT.
    fn add_filemap(&mut self, tree: &KvTree) {
        for (rank, entry) in tree.child("RANK") {
            for (id, fields) in entry.child("CKPT") {
                let (Ok(rank), Ok(id)) = (rank.parse(), id.parse::<u64>()) else { continue };
                if self.id == 0 {
                    self.id = id;
                }
                if id == self.id {
                    let of_rank: &mut OfRank = self.of_rank.entry(rank).or_default();
                    of_rank.expected = fields.parse("EXPECT");
                    of_rank.names.extend(fields.child("FILE").keys().map(str::to_owned));
                }
            }
        }
    }

    /// The first of the seven checks, that all fields are there, is that of the reader.
    fn check(&self, dir: &Path, described: &str, sidecar: &Sidecar) -> ScannedDirectory<()> {
        if sidecar.name != described || !is_safe_relative(described) {
            return Err(format!("what is said of it is of {:?}", sidecar.name));
        }
        if !sidecar.complete {
            return Err("it was not complete".into());
        }
        let found = fs::metadata(dir.join(described)).ok().filter(fs::Metadata::is_file);
        let Some(found) = found else { return Err("it is missing".into()) };
        if found.len() != sidecar.size {
            return Err(format!("it has {} bytes, and had {}", found.len(), sidecar.size));
        }
        if sidecar.id != self.id {
            return Err(format!("it is of checkpoint {}", sidecar.id));
        }
        if sidecar.ranks != self.ranks {
            return Err(format!("it is of a run with {} ranks", sidecar.ranks));
        }
        Ok(())
    }

    fn add(&mut self, sidecar: Sidecar) {
        let of_rank = self.of_rank.entry(sidecar.rank).or_default();
        let Sidecar { name, size, crc32, is_redundancy, .. } = sidecar;
        let list = if is_redundancy { &mut of_rank.redundancy } else { &mut of_rank.files };
        list.push(FileMeta { name, size, crc32, ..FileMeta::default() });
    }

    pub fn unchecked(&self) -> usize {
        let all = self.of_rank.values().flat_map(|one| one.files.iter().chain(&one.redundancy));
        all.filter(|file| file.crc32.is_none()).count()
    }

    /// Finds the ranks that lack a file; the error says why the checkpoint is bad beyond repair
    /// (manual 1.1, section 11.10.8).
    pub fn missing(&self) -> ScannedDirectory<BTreeSet<usize>> {
        if let Some(rank) = self.of_rank.keys().find(|rank| **rank >= self.ranks) {
            return Err(format!("it has files of rank {rank}, of {} ranks", self.ranks));
        }
        let mut missing = BTreeSet::new();
        for rank in 0..self.ranks {
            let of_rank = self.of_rank.get(&rank);
            let count = of_rank.map_or(0, |one| one.files.len() + one.redundancy.len());
            match of_rank.and_then(|one| one.expected) {
                Some(expected) if count > expected => {
                    return Err(format!("rank {rank} has {count} files, and had {expected}"));
                }
                Some(expected) if count == expected => {}
                Some(_) if of_rank.is_some_and(OfRank::lacks_only_redundancy) => {}
                _ => drop(missing.insert(rank)),
            }
        }
        Ok(missing)
    }
}

impl OfRank {
    /// No restart needs redundancy files.
    fn lacks_only_redundancy(&self) -> bool {
        let there = self.files.iter().chain(&self.redundancy).map(|file| &file.name);
        let there: BTreeSet<&String> = there.collect();
        let mut absent = self.names.iter().filter(|name| !there.contains(name));
        let known = self.expected == Some(self.names.len());
        known && absent.all(|name| name.ends_with(PARITY))
    }
}

impl Sidecar {
    fn read(path: &Path) -> Option<Self> {
        let tree = KvTree::read_file(path).ok()??;
        Some(Sidecar {
            name: Path::new(tree.get_value("FILE")?).file_name()?.to_str()?.to_owned(),
            is_redundancy: tree.get_value("TYPE") == Some("XOR"),
            complete: tree.get_value("COMPLETE") == Some("1"),
            size: tree.get_u64("SIZE")?,
            crc32: tree.get_value("CRC").and_then(parse_crc),
            id: tree.get_u64("CKPT")?,
            ranks: tree.parse("RANKS")?,
            rank: tree.parse("RANK")?,
        })
    }
}

fn names_in(dir: &Path) -> Result<Vec<String>> {
    let fail = |error| Error::io("cannot list the directory", dir, error);
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(fail)? {
        names.extend(entry.map_err(fail)?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}
