//! The journal of a flush, so that the next start completes or undoes one that was interrupted.
//!
//! `<prefix>/.scr/journal/<id>/` holds, each durable before what it announces begins:
//! * `part.<world rank of the node's leader>.scr`: what that node will stage
//!   (`EPOCH / <hex>`, `RANK / <world rank> / FILE / <name> / <fields>`, `ABOUT` as in the plan),
//! * `plan.scr`, for a flush in the background: what the dataset is and how many parts there are,
//!   written by rank 0,
//! * `staged.<rank>.scr`, `published.<rank>.scr` of such a flush, by the thread of a node's leader,
//!   `failed.<rank>.scr` by that of a rank that cannot write a file (WHY),
//! * `commit.scr`, written by rank 0 once everything is staged on all nodes: as the plan.
//!
//! With the commit all renames must come; without it all staged files must go. Both can be done
//! again and again, so an interrupted recovery is repeated by the next one.
//!
//! Each part says what the dataset is, too: a plan or commit that is damaged counts, and a part
//! tells what it said. A damaged part is missing: its node's files are not on the prefix then.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::about::About;
use super::kept::keep;
use super::stage::{publish_staged_of, remove_staged};
use crate::cache::Catalog;
use crate::cache::disk::names_in;
use crate::error::{Error, Result};
use crate::files::{Together, create_dirs, join_relative, remove_tree, sync_dir, write_ours};
use crate::kvtree::KvTree;
use crate::log;
use crate::transfer::prefix::paths::{OWN_MODE, own_folder};

const COMMIT: &str = "commit.scr";

fn journal_folder(prefix: &Path) -> PathBuf {
    own_folder(prefix).join("journal")
}

const PLAN: &str = "plan.scr";
/// What the dataset is, in a part.
const ABOUT: &str = "ABOUT";
/// Begins the name of one that has no work in it; its id follows.
const DONE: &str = "done";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Staged,
    Published,
    Failed,
}

impl Mark {
    fn stem(self) -> &'static str {
        match self {
            Mark::Staged => "staged.",
            Mark::Published => "published.",
            Mark::Failed => "failed.",
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Journal {
    prefix: PathBuf,
    id: u64,
}

impl Journal {
    pub fn new(prefix: &Path, id: u64) -> Journal {
        Journal { prefix: prefix.to_path_buf(), id }
    }

    pub fn ids(prefix: &Path) -> Result<Vec<u64>> {
        let names = names_in(&journal_folder(prefix))?;
        let mut ids: Vec<u64> = names.iter().filter_map(|name| name.parse().ok()).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Removes what a kill has left of those that had no work in them any more.
    pub fn sweep(prefix: &Path) -> Result<()> {
        let folder = journal_folder(prefix);
        let mut done = names_in(&folder)?;
        done.retain(|name| name.starts_with(DONE));
        done.iter().try_for_each(|name| remove_tree(&folder.join(name)))
    }

    fn dir(&self) -> PathBuf {
        journal_folder(&self.prefix).join(self.id.to_string())
    }

    pub fn part_name(leader: usize) -> String {
        format!("part.{leader}.scr")
    }

    /// Announces what a node will stage, in a catalog of the node's ranks.
    pub fn write_part(&self, leader: usize, part: &Catalog, about: &About) -> Result<()> {
        create_dirs(&self.dir(), OWN_MODE)?;
        let mut tree = part.to_tree();
        tree.set(ABOUT, about.to_tree());
        tree.write_file(self.dir().join(Self::part_name(leader)))
    }

    /// Commits the flush: from here on it will be completed. All parts are there.
    pub fn commit(&self, about: &About) -> Result<()> {
        self.write_about(COMMIT, about)
    }

    /// Writes what a flush by threads is to become, so that a later start can commit it. All parts
    /// are there.
    pub fn plan(&self, about: &About) -> Result<()> {
        self.write_about(PLAN, about)
    }

    fn write_about(&self, name: &str, about: &About) -> Result<()> {
        let about = About { parts: self.parts()?.len(), ..about.clone() };
        about.to_tree().write_file(self.dir().join(name))
    }

    /// Leaves a mark, after what it tells of is durable. A mark of a failure is durable itself;
    /// another one that a power cut takes costs a second look at the files.
    pub fn mark(&self, mark: Mark, rank: usize, why: &str) -> Result<()> {
        let path = self.mark_path(mark, rank);
        if mark != Mark::Failed {
            return write_ours(&path, b"").map_err(|e| Error::io("cannot write", &path, e));
        }
        let mut tree = KvTree::new();
        tree.set_value("WHY", why);
        tree.write_file(path)
    }

    pub fn count(&self, mark: Mark) -> Result<usize> {
        Ok(self.names(mark.stem())?.len())
    }

    fn mark_path(&self, mark: Mark, rank: usize) -> PathBuf {
        self.dir().join(format!("{}{rank}.scr", mark.stem()))
    }

    fn names(&self, stem: &str) -> Result<Vec<String>> {
        let mut names = names_in(&self.dir())?;
        names.retain(|name| name.starts_with(stem) && name.ends_with(".scr"));
        Ok(names)
    }

    /// Reads the texts of marks. One that cannot be read is a mark all the same.
    pub fn marks(&self, mark: Mark) -> Result<Vec<String>> {
        let names = self.names(mark.stem())?;
        let text = |name: &String| match KvTree::read_file(self.dir().join(name)) {
            Ok(tree) => tree.unwrap_or_default().get_value("WHY").unwrap_or_default().to_owned(),
            Err(error) => error.to_string(),
        };
        Ok(names.iter().map(text).collect())
    }

    pub fn is_marked(&self, mark: Mark, rank: usize) -> Result<bool> {
        let path = self.mark_path(mark, rank);
        path.try_exists().map_err(|e| Error::io("cannot look at", &path, e))
    }

    /// Takes back what an earlier attempt has announced: not all files are staged again yet, and
    /// the nodes may be others.
    pub fn clear(&self) -> Result<()> {
        remove_tree(&self.dir().join(COMMIT))?;
        let names = names_in(&self.dir())?;
        names.iter().try_for_each(|name| remove_tree(&self.dir().join(name)))
    }

    pub fn revoke(&self) -> Result<()> {
        [COMMIT, PLAN].iter().try_for_each(|name| remove_tree(&self.dir().join(name)))?;
        sync_dir(&self.dir())
    }

    pub fn committed(&self) -> Result<Option<About>> {
        self.about(COMMIT)
    }

    /// Tells whether it is that of a flush by threads.
    pub fn has_plan(&self) -> bool {
        self.dir().join(PLAN).exists()
    }

    pub fn planned(&self) -> Result<Option<About>> {
        self.about(PLAN)
    }

    pub fn staged_plan(&self) -> Result<Option<About>> {
        let parts = self.parts()?.len();
        let staged = parts > 0 && self.count(Mark::Staged)? == parts;
        if staged { self.about(PLAN) } else { Ok(None) }
    }

    fn about(&self, name: &str) -> Result<Option<About>> {
        let path = self.dir().join(name);
        let damaged = match KvTree::read_file(&path) {
            Ok(None) => return Ok(None),
            Ok(Some(tree)) => match About::from_tree(&tree) {
                Some(about) => return Ok(Some(about)),
                None => Error::corrupt(path, "it is not the commit of a flush"),
            },
            Err(error @ Error::Corrupt { .. }) => error,
            Err(other) => return Err(other),
        };
        let of_part = |name: &String| {
            let tree = KvTree::read_file(self.dir().join(name)).ok()??;
            About::from_tree(tree.get(ABOUT)?)
        };
        self.parts()?.iter().find_map(of_part).map(Some).ok_or(damaged)
    }

    pub fn parts(&self) -> Result<Vec<String>> {
        self.names("part.")
    }

    pub fn missing_parts(&self, about: &About, count: usize) -> Option<Error> {
        let what = || format!("{} of its {} parts are missing", about.parts - count, about.parts);
        (count < about.parts).then(|| Error::corrupt(self.dir(), what()))
    }

    pub fn read_part(&self, name: &str) -> Result<Catalog> {
        let path = self.dir().join(name);
        let tree = KvTree::read_file(&path)?;
        let part = tree.as_ref().and_then(Catalog::from_tree);
        part.ok_or_else(|| Error::corrupt(path, "it is not a part of a flush's journal"))
    }

    pub fn is_of(&self, epoch: u64) -> bool {
        let of = |name: &String| self.read_part(name).is_ok_and(|part| part.epoch == epoch);
        self.parts().is_ok_and(|parts| parts.iter().all(of))
    }

    /// Removes the journal, under another name first: what a kill leaves has no work in it. Flushes
    /// of several series end beside one another, so each has a name of its own.
    pub fn remove(&self) -> Result<()> {
        let (dir, folder) = (self.dir(), journal_folder(&self.prefix));
        let done = folder.join(format!("{DONE}.{}", self.id));
        remove_tree(&done)?;
        match fs::rename(&dir, &done) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::io("cannot rename", &dir, error)),
        }
        sync_dir(&folder)?;
        remove_tree(&done)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Published {
    pub there: usize,
    /// Why one file is neither staged nor published: somebody has removed it or made a directory of
    /// its name, or the part that names it is damaged.
    pub gone: Option<Error>,
}

impl Published {
    pub fn and(self, other: Published) -> Published {
        Published { there: self.there + other.there, gone: self.gone.or(other.gone) }
    }
}

/// Publishes a file by calling its argument, unless something newer has taken its place; says
/// whether it did.
pub(crate) type Gate<'a> = &'a dyn Fn(&str, &mut dyn FnMut() -> Result<()>) -> Result<bool>;

/// Gives staged files their names, durably. One that is gone keeps no other from its name.
pub(crate) fn publish_part(prefix: &Path, part: &Catalog) -> Result<Published> {
    publish_part_if(prefix, part, &|_, publish| publish().map(|()| true))
}

/// Does what [`publish_part`] does, and removes staged files that `gate` holds back.
pub(crate) fn publish_part_if(prefix: &Path, part: &Catalog, gate: Gate) -> Result<Published> {
    let mut dirs = BTreeSet::new();
    let mut published = Published::default();
    for entry in part.entries.iter().filter(|entry| !entry.meta.on_prefix) {
        let name = entry.meta.whole_name();
        let target = join_relative(prefix, name)?;
        let wanted = gate(name, &mut || {
            if let Err(error) = keep(prefix, part, &entry.meta) {
                log::message(1, format_args!("{error}; no copy of {name} is kept"));
            }
            match publish_staged_of(prefix, &entry.meta, part.epoch) {
                Ok(dir) => {
                    published.there += 1;
                    dirs.insert(dir);
                }
                Err(error) if is_final(&error) => {
                    remove_staged(&target, part.epoch)?;
                    published.gone.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
            Ok(())
        })?;
        if !wanted {
            remove_staged(&target, part.epoch)?;
        }
    }
    Together::default().finish_with(dirs)?;
    Ok(published)
}

/// Tried again at each start, such an error would come again: the program could never run with SCR.
fn is_final(error: &Error) -> bool {
    use ErrorKind::{DirectoryNotEmpty, IsADirectory, NotADirectory, NotFound};
    let kinds = [NotFound, IsADirectory, NotADirectory, DirectoryNotEmpty];
    matches!(error, Error::Io { source, .. } if kinds.contains(&source.kind()))
}

pub(crate) fn unstage_part(prefix: &Path, part: &Catalog) -> Result<()> {
    for entry in part.entries.iter().filter(|entry| !entry.meta.on_prefix) {
        remove_staged(&join_relative(prefix, entry.meta.whole_name())?, part.epoch)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kill_leaves_of_journals_on_their_way_out_is_swept() {
        let dir = tempfile::tempdir().unwrap();
        let folder = journal_folder(dir.path());
        for name in ["done/part.0.scr", "done.7/part.0.scr", "8/part.0.scr", "9/part.0.scr"] {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        // Another flush is removing its own; that is not in the way.
        Journal::new(dir.path(), 8).remove().unwrap();
        assert!(folder.join("done.7").exists());
        Journal::sweep(dir.path()).unwrap();
        assert_eq!(names_in(&folder).unwrap(), ["9"]);
    }
}
