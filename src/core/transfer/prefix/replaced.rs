//! Generations of a series without ids: each flush takes the names of the one before. While the
//! window (`SCR_PREFIX_SIZE`) has room, the files of older ones stay in their folders, and a start
//! can go back to one whose newer ones are damaged (docs/internals/flush.md). They get there as
//! hard links, before the newer files are renamed over their names.
//!
//! KEPT in the index: `REPLACED` with it, the files are in the folder; alone, they are on their way
//! back to their names, and whoever finds it so brings them there.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::paths::{self, FILES, change_index, copy_place, folder, is_published, read_index};
use crate::cache::Ctx;
use crate::cache::agree::agree;
use crate::error::{Error, Result};
use crate::files::{create_dirs, join_relative, remove_file_if_there, remove_tree, sync_dir};
use crate::log;
use crate::records::{FileMeta, IndexEntry, PrefixIndex};
use crate::system::test_pause;

struct Generation {
    entry: IndexEntry,
    files: Vec<FileMeta>,
}

impl Generation {
    fn lists(&self, name: &str) -> Option<&FileMeta> {
        self.files.iter().find(|file| file.name == name)
    }
}

fn files_of(prefix: &Path, id: u64) -> Option<Vec<FileMeta>> {
    paths::files_of(prefix, id).ok().flatten()
}

/// Keeps files of datasets that are about to lose their names, and returns the ids of those that
/// could be kept.
pub(super) fn keep_replaced(prefix: &Path, index: &PrefixIndex, ids: &[u64]) -> Vec<u64> {
    let without_id = |id: u64| {
        let dataset = index.by_id(id).and_then(|entry| entry.dataset.as_ref());
        dataset.is_some_and(|dataset| dataset.key.id.is_empty())
    };
    let keep = |id: &u64| {
        let Some(files) = files_of(prefix, *id).filter(|_| without_id(*id)) else { return false };
        // What the program writes on the prefix itself it changes there: a link would change, too.
        let ours = |file: &FileMeta| {
            !file.on_prefix
                && join_relative(prefix, &file.name).is_ok_and(|path| is_published(&path, file))
        };
        if files.is_empty() || !files.iter().all(ours) {
            return false;
        }
        let linked = link_all(prefix, *id, &files);
        if let Err(error) = &linked {
            log::message(1, format_args!("{error}; dataset {id} is not kept"));
            let _ = remove_tree(&copies(prefix, *id));
        }
        linked.is_ok()
    };
    ids.iter().copied().filter(keep).collect()
}

fn copies(prefix: &Path, id: u64) -> PathBuf {
    folder(prefix, id).join(FILES)
}

/// Links files into the folder of dataset `id`, durably. Says whether each is there, as it was
/// published.
fn link_all(prefix: &Path, id: u64, files: &[FileMeta]) -> Result<bool> {
    let (mut dirs, mut whole) = (BTreeSet::new(), true);
    for file in files {
        let source = join_relative(prefix, &file.name)?;
        let link = copy_place(prefix, id, &file.name)?;
        if !is_published(&source, file) && is_published(&link, file) {
            continue; // It was on its way back, and could not come.
        }
        whole &= is_published(&source, file);
        if !source.symlink_metadata().is_ok_and(|found| found.is_file()) {
            whole = false;
            continue;
        }
        let dir = link.parent().unwrap_or(prefix).to_path_buf();
        create_dirs(&dir, 0o777)?;
        if !is_same_file(&source, &link) {
            remove_file_if_there(&link)?;
            fs::hard_link(&source, &link).map_err(|e| Error::io("cannot link", &link, e))?;
        }
        dirs.insert(dir);
    }
    dirs.iter().try_for_each(|dir| sync_dir(dir))?;
    Ok(whole)
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.symlink_metadata().map(|it| (it.dev(), it.ino())).ok();
    identity(one).is_some() && identity(one) == identity(other)
}

/// Gives the files of the kept dataset `id` their names again; what has them is kept in its own
/// folder. With `damaged` that may be other than it was published. `Ok(Err(why))`: nothing has been
/// changed. Collective; after an error the next start goes on.
pub fn bring_back(ctx: &Ctx, id: u64, damaged: bool) -> Result<std::result::Result<(), String>> {
    let root = ctx.world.rank() == 0;
    let done = if root { bring_back_on(ctx.prefix, id, damaged) } else { Ok(Ok(())) };
    let own = agree(ctx.world, done)?;
    let mut why = own.err().unwrap_or_default().into_bytes();
    ctx.world.broadcast(&mut why, 0)?;
    let why = String::from_utf8_lossy(&why).into_owned();
    Ok(if why.is_empty() { Ok(()) } else { Err(why) })
}

fn bring_back_on(prefix: &Path, id: u64, damaged: bool) -> Result<std::result::Result<(), String>> {
    let index = read_index(prefix)?;
    let Some(wanted) = index.by_id(id).filter(|entry| entry.is_kept()) else {
        return Ok(Err("its files are not kept".into()));
    };
    let Some(files) = files_of(prefix, id) else {
        return Ok(Err("its summary cannot be read".into()));
    };
    let others = generations(prefix, &index, wanted);
    if let Some(why) = obstacle(prefix, id, &files, &others, damaged)? {
        return Ok(Err(why));
    }
    let mut kept = Vec::new();
    for holder in others.iter().filter(|other| other.entry.replaced_by.is_none()) {
        match link_all(prefix, holder.entry.id, &holder.files) {
            Ok(whole) => kept.push((holder.entry.id, whole)),
            Err(error) => return Ok(Err(error.to_string())),
        }
    }
    change_index(prefix, |index| {
        for (holder, whole) in &kept {
            if let Some(entry) = index.by_id_mut(*holder) {
                (entry.replaced_by, entry.kept) = (Some(id), *whole);
            }
        }
        if let Some(entry) = index.by_id_mut(id) {
            (entry.replaced_by, entry.kept) = (None, true);
        }
        // Generations between the two: no newer one has their names any more.
        for newer in others.iter().filter(|other| other.entry.id > id) {
            if let Some(entry) = index.by_id_mut(newer.entry.id) {
                entry.replaced_by = Some(id);
            }
        }
    })?;
    test_pause("return.noted");
    finish_returns(prefix).map(Ok)
}

fn generations(prefix: &Path, index: &PrefixIndex, wanted: &IndexEntry) -> Vec<Generation> {
    let names = |entry: &IndexEntry| {
        entry.dataset.as_ref().map(|it| (it.key.series.clone(), it.key.id.clone()))
    };
    let same = |entry: &&IndexEntry| entry.id != wanted.id && names(entry) == names(wanted);
    let read = |entry: &IndexEntry| {
        Some(Generation { entry: entry.clone(), files: files_of(prefix, entry.id)? })
    };
    index.newest_first().filter(same).filter_map(read).collect()
}

/// Why the dataset cannot have its names again, by sizes and times: the start reads the contents
/// anyway, with all ranks, once the names are back.
fn obstacle(
    prefix: &Path,
    id: u64,
    files: &[FileMeta],
    others: &[Generation],
    damaged: bool,
) -> Result<Option<String>> {
    for file in files {
        let (target, copy) =
            (join_relative(prefix, &file.name)?, copy_place(prefix, id, &file.name)?);
        let is_its = is_published(&target, file);
        if !is_its && !is_published(&copy, file) {
            return Ok(Some(format!("the copy of {} that was kept is damaged", file.name)));
        }
        let is_known = |other: &Generation| {
            let listed = other.lists(&file.name);
            let holds = other.entry.replaced_by.is_none();
            listed.is_some_and(|meta| is_published(&target, meta) || damaged && holds)
        };
        let there = target.symlink_metadata().is_ok();
        if there && !is_its && !others.iter().any(is_known) {
            return Ok(Some(format!("{} has been written anew since", file.name)));
        }
    }
    Ok(None)
}

/// Brings files that are on their way back to their names. Every start calls it on rank 0 before it
/// reads the index.
pub fn finish_returns(prefix: &Path) -> Result<()> {
    let index = read_index(prefix)?;
    let under_way = |entry: &&IndexEntry| entry.kept && entry.replaced_by.is_none();
    for entry in index.newest_first().filter(under_way) {
        // Without its summary nobody knows where its files belong: they stay.
        let Some(files) = files_of(prefix, entry.id) else { continue };
        put(prefix, entry.id, &files)?;
        for newer in generations(prefix, &index, entry).iter().filter(|it| it.entry.id > entry.id) {
            take_away(prefix, newer, &files)?;
        }
        change_index(prefix, |index| {
            index.by_id_mut(entry.id).into_iter().for_each(|entry| entry.kept = false);
        })?;
        remove_tree(&copies(prefix, entry.id))?;
    }
    Ok(())
}

fn put(prefix: &Path, id: u64, files: &[FileMeta]) -> Result<()> {
    let mut dirs = BTreeSet::new();
    for file in files {
        let (target, copy) =
            (join_relative(prefix, &file.name)?, copy_place(prefix, id, &file.name)?);
        if copy.symlink_metadata().is_err() {
            continue; // It has its name already.
        }
        let dir = target.parent().unwrap_or(prefix).to_path_buf();
        create_dirs(&dir, 0o777)?;
        fs::rename(&copy, &target).map_err(|e| Error::io("cannot rename", &copy, e))?;
        // If both names are of one file, rename(2) leaves both.
        remove_file_if_there(&copy)?;
        dirs.insert(dir);
    }
    dirs.iter().try_for_each(|dir| sync_dir(dir))
}

/// Files of a newer generation that this one did not have stay in the folder of the newer one only.
fn take_away(prefix: &Path, newer: &Generation, files: &[FileMeta]) -> Result<()> {
    for file in newer.files.iter().filter(|file| !files.iter().any(|its| its.name == file.name)) {
        let target = join_relative(prefix, &file.name)?;
        if is_same_file(&target, &copy_place(prefix, newer.entry.id, &file.name)?) {
            remove_file_if_there(&target)?;
        }
    }
    Ok(())
}

/// Finds which generations are kept, and who has the names, for an index made anew from the
/// summaries. The newest one has them unless its files are in its folder and those of another are
/// not.
pub(super) fn find_kept(prefix: &Path, index: &mut PrefixIndex) {
    let has_copies = |entry: &IndexEntry| {
        files_of(prefix, entry.id).is_some_and(|files| {
            let is_there = |file: &FileMeta| {
                copy_place(prefix, entry.id, &file.name).is_ok_and(|copy| is_published(&copy, file))
            };
            !files.is_empty() && files.iter().all(is_there)
        })
    };
    let all: Vec<IndexEntry> = index.newest_first().cloned().collect();
    let without_id = |entry: &&IndexEntry| {
        entry.dataset.as_ref().is_some_and(|dataset| dataset.key.id.is_empty())
    };
    for newest in all.iter().filter(without_id).filter(|entry| entry.replaced_by.is_none()) {
        let series = |entry: &IndexEntry| entry.dataset.as_ref().map(|it| it.key.series.clone());
        let of_series = all.iter().filter(|entry| without_id(entry));
        let group: Vec<&IndexEntry> =
            of_series.filter(|entry| series(entry) == series(newest)).collect();
        let holder = group.iter().find(|entry| !has_copies(entry)).map_or(newest.id, |it| it.id);
        for one in group {
            let Some(entry) = index.by_id_mut(one.id) else { continue };
            match one.id == holder {
                // The files in its folder were on their way back.
                true => {
                    entry.replaced_by = None;
                    entry.kept = holder != newest.id && copies(prefix, one.id).is_dir();
                }
                false => {
                    entry.replaced_by = Some(one.replaced_by.unwrap_or(holder));
                    entry.kept = has_copies(one);
                }
            }
        }
    }
}
