//! What the ranks of a node tell one another of a flush by threads: files in the control directory,
//! empty but for checksums. The leader tells what it has seen on the prefix, which bears one reader
//! a node, not one a rank; each rank tells how far its own files are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::cache::disk::names_in;
use crate::error::{Error, Result};
use crate::files::{remove_file_if_there, write_ours};
use crate::kvtree::KvTree;

/// By the names of files.
pub(super) type NewChecksums = BTreeMap<String, u32>;

#[derive(Debug, Clone, Copy)]
pub(super) enum Sign {
    Turn,
    Commit,
    /// All files of this world rank are staged. It has the checksums that were not known before.
    Staged(usize),
    /// All files of this world rank have their names.
    Named(usize),
}

impl Sign {
    pub fn path(self, control: &Path, id: u64) -> PathBuf {
        control.join(match self {
            Sign::Turn => format!("flush.{id}.turn"),
            Sign::Commit => format!("flush.{id}.commit"),
            Sign::Staged(rank) => format!("flush.{id}.staged.{rank}"),
            Sign::Named(rank) => format!("flush.{id}.named.{rank}"),
        })
    }

    pub fn give(self, control: &Path, id: u64) -> Result<()> {
        let path = self.path(control, id);
        write_ours(&path, b"").map_err(|e| Error::io("cannot write", path, e))
    }

    pub fn give_with(self, control: &Path, id: u64, checksums: &NewChecksums) -> Result<()> {
        let mut tree = KvTree::new();
        checksums.iter().for_each(|(name, crc32)| tree.set_value(name, crc32));
        tree.replace_file(self.path(control, id))
    }

    pub fn checksums(self, control: &Path, id: u64) -> Result<NewChecksums> {
        let tree = KvTree::read_file(self.path(control, id))?.unwrap_or_default();
        let one = |name: &str| Some((name.to_owned(), tree.get_value(name)?.parse().ok()?));
        Ok(tree.keys().filter_map(one).collect())
    }

    pub fn is_given(self, control: &Path, id: u64) -> Result<bool> {
        let path = self.path(control, id);
        path.try_exists().map_err(|e| Error::io("cannot look at", path, e))
    }

    pub fn clear(control: &Path, id: u64) -> Result<()> {
        remove(control, |of| of == id)
    }

    /// Removes those of launches that were killed in a flush. At a start, by the node's leader.
    pub fn clear_all(control: &Path) -> Result<()> {
        remove(control, |_| true)
    }
}

fn remove(control: &Path, which: impl Fn(u64) -> bool) -> Result<()> {
    let names = names_in(control)?;
    let id = |name: &str| name.strip_prefix("flush.")?.split_once('.')?.0.parse().ok();
    let mut names = names.iter().filter(|name| id(name).is_some_and(&which));
    names.try_for_each(|name| remove_file_if_there(&control.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_one_flush_go_without_the_others_and_at_a_start_all() {
        let dir = tempfile::tempdir().unwrap();
        let names = |left: &[&str]| {
            let mut found = names_in(dir.path()).unwrap();
            found.sort();
            assert_eq!(found, left);
        };
        std::fs::write(dir.path().join("filemap_0.scrinfo"), b"").unwrap();
        [Sign::Turn, Sign::Staged(3)].iter().for_each(|sign| sign.give(dir.path(), 2).unwrap());
        Sign::Staged(3).give(dir.path(), 22).unwrap();
        Sign::clear(dir.path(), 2).unwrap();
        names(&["filemap_0.scrinfo", "flush.22.staged.3"]);
        Sign::clear_all(dir.path()).unwrap();
        names(&["filemap_0.scrinfo"]);
    }
}
