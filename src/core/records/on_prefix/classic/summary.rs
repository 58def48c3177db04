//! Its summary, and the map from ranks to files beside it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use super::index::dataset_of;
use crate::error::{Error, Result};
use crate::files::{join_relative, read_ours};
use crate::kvtree::KvTree;
use crate::records::record::number;
use crate::records::text::parse_crc;
use crate::records::{Dataset, FileMeta};

/// What a summary of the C implementation tells.
pub struct TheirSummary {
    /// The dataset.
    pub dataset: Dataset,
    /// Ranks of the launch that wrote it.
    pub ranks: u64,
    /// Files by rank.
    pub files: BTreeMap<usize, Vec<FileMeta>>,
}

/// Names of the map from ranks to files, in the dataset's directory.
const MAPS: [&str; 2] = ["rank2file", "rank2file.scr"];

/// More levels of it than any job has.
const LEVELS_MAX: u64 = 16;

/// Reads its summary, and the map beside it in `dir`; `None` if the tree is none.
pub fn summary_of(tree: &KvTree, dir: &Path) -> Option<Result<TheirSummary>> {
    let id = tree.child("DSET").get_u64("ID").filter(|_| tree.contains("COMPLETE"))?;
    let fields = tree.child("DSET");
    let name = fields.get_value("NAME").unwrap_or_default();
    let dataset = dataset_of(id, name, tree.get_flag("COMPLETE"), fields);
    let map = Map::read(dir, &dataset.name);
    Some(map.map(|Map { ranks, files, .. }| TheirSummary { dataset, ranks, files }))
}

/// The map from ranks to files.
struct Map<'a> {
    dir: &'a Path,
    /// The prefix, to which names are relative; in older ones of 3.0 to a folder of it.
    base: &'a Path,
    folder: String,
    ranks: u64,
    files: BTreeMap<usize, Vec<FileMeta>>,
}

impl Map<'_> {
    fn read<'a>(dir: &'a Path, name: &str) -> Result<Map<'a>> {
        let base = dir.parent().and_then(Path::parent).unwrap_or(dir);
        let mut map = Map { dir, base, folder: name.to_owned(), ranks: 0, files: BTreeMap::new() };
        let there = MAPS.iter().map(|name| dir.join(name)).find(|path| path.exists());
        let path = there.unwrap_or_else(|| dir.join(MAPS[0]));
        map.ranks = map.add(&path, 0, LEVELS_MAX)?;
        Ok(map)
    }

    /// Adds what the map at `offset` of a file lists, which has a level below `above`. Returns the
    /// number of its ranks.
    fn add(&mut self, path: &Path, offset: u64, above: u64) -> Result<u64> {
        let corrupt = |what: &str| Error::corrupt(path, what);
        let io = |error| Error::io("cannot read", path, error);
        let mut file = read_ours(path).map_err(io)?;
        file.seek(SeekFrom::Start(offset)).map_err(io)?;
        let (tree, _) = KvTree::read_prefix(&mut file, path)?;
        let tree = tree.get("RANK2FILE").unwrap_or(&tree);
        let level = tree.get_u64("LEVEL").filter(|level| *level < above);
        let level = level.ok_or_else(|| corrupt("it has no LEVEL below that of its parent"))?;
        let ranks = tree.get_u64("RANKS").ok_or_else(|| corrupt("no number of RANKS"))?;
        for (rank, entry) in tree.child("RANK") {
            if level == 0 {
                let rank = number(rank, "a rank").map_err(|what| corrupt(&what))?;
                for (name, fields) in entry.child("FILE") {
                    let meta = self.meta(name, fields).ok_or_else(|| {
                        corrupt(&format!("file {name:?} of rank {rank} has a bad field"))
                    })?;
                    self.files.entry(rank).or_default().push(meta);
                }
            } else {
                let name = entry.get_value("FILE").and_then(|name| Path::new(name).file_name());
                let name = name.ok_or_else(|| corrupt("a part of it has no FILE"))?;
                let part = self.dir.join(name);
                self.add(&part, entry.get_u64("OFFSET").unwrap_or(0), level)?;
            }
        }
        Ok(ranks)
    }

    /// What is known of a file; the map may leave out what the file itself tells.
    fn meta(&self, name: &str, fields: &KvTree) -> Option<FileMeta> {
        let at = |name: &str| fs::metadata(join_relative(self.base, name).ok()?).ok();
        let within = format!("{}/{name}", self.folder);
        let (name, found) = match (at(name), at(&within)) {
            (None, Some(found)) => (within, Some(found)),
            (found, _) => (name.to_owned(), found),
        };
        join_relative(self.base, &name).ok()?;
        let crc32 = fields.get_value("CRC");
        Some(FileMeta {
            name,
            size: fields.get_u64("SIZE").or(found.as_ref().map(fs::Metadata::len))?,
            crc32: crc32.map(|text| parse_crc(text).ok_or(())).transpose().ok()?,
            mode: found.as_ref().map_or(0o600, |found| found.permissions().mode() & 0o7777),
            mtime_seconds: found.as_ref().map_or(0, fs::Metadata::mtime),
            mtime_nanoseconds: found.as_ref().map_or(0, fs::Metadata::mtime_nsec),
            ..FileMeta::default()
        })
    }
}
