//! A cached dataset as the name space has it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::names::stable_number;
use crate::records::FileMeta;
use crate::session::answer::Attributes;
use crate::session::machine::DatasetKey;

/// A file on another node, as the catalog of its dataset tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remote {
    /// World rank that wrote it.
    pub owner: usize,
    /// Size, times, permission bits.
    pub meta: FileMeta,
}

impl Remote {
    /// What stat says about it.
    pub fn attributes(&self) -> Attributes {
        Attributes {
            size: self.meta.size,
            mode: libc::S_IFREG | (self.meta.mode & 0o7777),
            ino: stable_number(&self.meta.name),
            mtime_seconds: self.meta.mtime_seconds,
            mtime_nanoseconds: self.meta.mtime_nanoseconds,
        }
    }
}

/// One cached dataset.
#[derive(Debug, Clone)]
pub struct Layer {
    /// Series, captured id and generation.
    pub key: DatasetKey,
    /// Its directory on this node; changes its name at the seal.
    pub dir: PathBuf,
    /// It failed verification, or is newer than what the user chose: nothing of it is shown.
    pub hidden: bool,
    /// Files of other nodes; also those of them that are known to be on the PFS by now.
    pub elsewhere: BTreeMap<String, Remote>,
    /// Names whose current content is on the PFS although an older layer may have them.
    pub on_prefix: BTreeSet<String>,
}

impl Layer {
    /// A layer with nothing on other nodes.
    pub fn new(key: DatasetKey, dir: PathBuf) -> Self {
        Layer { key, dir, hidden: false, elsewhere: BTreeMap::new(), on_prefix: BTreeSet::new() }
    }

    /// Its files on this node.
    pub fn names_here(&self) -> BTreeSet<String> {
        let mut here = BTreeSet::new();
        files_below(&self.dir, ".", &mut here);
        here.iter().filter_map(|name| name.strip_prefix("./")).map(String::from).collect()
    }

    /// Whether it has the content of `name`, on this node or on another.
    pub fn has(&self, name: &str) -> bool {
        self.elsewhere.contains_key(name) || self.dir.join(name).symlink_metadata().is_ok()
    }
}

/// Adds the names of all files in `dir` below `top`.
pub(super) fn files_below(top: &Path, dir: &str, names: &mut BTreeSet<String>) {
    let Ok(entries) = top.join(dir).read_dir() else { return };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let name = format!("{dir}/{name}");
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_below(top, &name, names),
            _ => drop(names.insert(name)),
        }
    }
}
