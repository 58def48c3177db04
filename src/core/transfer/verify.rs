//! Whether the files of a dataset on the prefix are still what its summary says.

use std::fs;
use std::path::Path;

use super::background::is_published;
use super::index::{folder, index_path, mark_failed};
use crate::cache::Ctx;
use crate::cache::agree::agree;
use crate::error::{Error, Result};
use crate::files::{crc32_of_file, join_relative};
use crate::kvtree::KvTree;
use crate::records::{DatasetKey, FileMeta, IndexEntry, PrefixIndex, Record, Summary};

/// How thoroughly [`verify_on_prefix`] looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Sizes.
    Sizes,
    /// Contents too.
    Contents,
    /// Contents if a rank's share of the dataset has at most this many bytes, else sizes.
    ContentsUpTo(u64),
}

/// Outcome of [`verify_on_prefix`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verified {
    /// Names of the dataset's files, relative to the prefix.
    pub names: Vec<String>,
    /// What is wrong, one sentence; `None` if all is well, or nothing of the dataset is left.
    pub fault: Option<String>,
    /// Nothing of the dataset is left: somebody has deleted all its files, or has written all of
    /// them anew without us. What lies there now is not for us to judge.
    pub gone: bool,
    /// Somebody has written all its files anew, in whatever size.
    pub anew: bool,
}

/// Checks dataset `id` on the prefix against its summary, each rank a share of the files. A fault
/// is recorded in the index, and the names tell what to hide from the program. A file that a newer
/// dataset lists too (a pointer file) may differ, one without the id in its name may have been
/// changed by somebody who chooses where to begin, and one that the program wrote to the prefix
/// itself may have grown, or gone; in a series without ids it may even have been written anew by
/// half. Collective.
///
/// # Errors
/// If communication fails, or the index cannot be written. A damaged summary is a fault.
pub fn verify_on_prefix(ctx: &Ctx, id: u64, check: Check) -> Result<Verified> {
    verify(ctx, id, check, |file| file.on_prefix)
}

/// The same for one that the program does not start from, since the cache has a newer one of its
/// series. Without ids the program may have written again whatever has come to the prefix: it finds
/// there what it would find without us. Collective.
///
/// # Errors
/// As [`verify_on_prefix`].
pub fn verify_outdated(ctx: &Ctx, id: u64, check: Check) -> Result<Verified> {
    verify(ctx, id, check, |_| true)
}

/// Without ids, files of which `may_change` says so may have changed.
fn verify(
    ctx: &Ctx,
    id: u64,
    check: Check,
    may_change: impl Fn(&FileMeta) -> bool,
) -> Result<Verified> {
    let summary = match read_summary(ctx, id)? {
        Ok(summary) => summary,
        Err(fault) => {
            note_fault(ctx, id)?;
            return Ok(Verified { fault: Some(fault), ..Verified::default() });
        }
    };
    let files: Vec<&FileMeta> = summary.files.values().flatten().collect();
    let bytes = files.iter().fold(0u64, |sum, file| sum.saturating_add(file.size));
    let contents = match check {
        Check::Sizes => false,
        Check::Contents => true,
        Check::ContentsUpTo(most) => bytes / ctx.world.size().max(1) as u64 <= most,
    };
    let share = files.iter().skip(ctx.world.rank()).step_by(ctx.world.size());
    let mut own = Tally::default();
    // Without ids the program writes the same files again: what it left half written is what it
    // would find without us, too.
    let in_place = summary.dataset.key.id.is_empty();
    let is_rewritten = |file: &FileMeta| may_change(file) && is_changed(ctx.prefix, file);
    share.filter(|file| !(in_place && is_rewritten(file))).for_each(|file| {
        // One of another generation may be as long; the time tells that it is not this one's.
        let contents = contents || (in_place && is_changed(ctx.prefix, file));
        own.count(ctx.prefix, (id, &summary.dataset.key), file, contents);
    });
    let all = ctx.world.all_gather(&own.to_tree().encode())?;
    let mut total = Tally::default();
    for part in &all {
        total.add(&KvTree::decode(part)?);
    }
    let (gone, anew) = (total.is_gone(), total.is_anew());
    let fault = total.wrong.filter(|_| !gone).map(|name| {
        format!("{name} is missing or has not the size or content that it was flushed with")
    });
    if fault.is_some() {
        note_fault(ctx, id)?;
    }
    let names = files.iter().map(|file| file.name.clone()).collect();
    Ok(Verified { names, fault, gone, anew })
}

/// Names of the files of dataset `id`, relative to the prefix; none if its summary cannot be read.
/// Collective.
///
/// # Errors
/// If communication fails.
pub fn names_on_prefix(ctx: &Ctx, id: u64) -> Result<Vec<String>> {
    let summary = read_summary(ctx, id)?.unwrap_or_default();
    Ok(summary.files.into_values().flatten().map(|file| file.name).collect())
}

/// What was found of a dataset's files.
#[derive(Debug, Default)]
struct Tally {
    files: u64,
    missing: u64,
    /// There, but not as they were written: another time of modification.
    changed: u64,
    /// Of the changed ones, those that are no shorter: a rewrite, not a loss.
    full: u64,
    /// The first wrong one.
    wrong: Option<String>,
}

impl Tally {
    fn count(
        &mut self,
        prefix: &Path,
        (id, key): (u64, &DatasetKey),
        file: &FileMeta,
        contents: bool,
    ) {
        let path = join_relative(prefix, &file.name).ok();
        let path = path.as_deref();
        let right = path.is_some_and(|path| is_right(path, file, contents));
        let is_others = || {
            let pointer = key.is_shared_name(&file.name) && is_changed(prefix, file);
            pointer || listed_by_newer(prefix, id, &file.name)
        };
        if !right && is_others() {
            return;
        }
        self.files += 1;
        match path.and_then(|path| Some((path, fs::metadata(path).ok()?.len()))) {
            None => self.missing += 1,
            Some((path, length)) => {
                let as_written = FileMeta { size: length, ..file.clone() };
                let changed = !is_published(path, &as_written);
                self.changed += u64::from(changed);
                self.full += u64::from(changed && length >= file.size);
            }
        }
        if !right && self.wrong.is_none() {
            self.wrong = Some(file.name.clone());
        }
    }

    fn is_anew(&self) -> bool {
        self.changed == self.files && self.full > 0
    }

    fn is_gone(&self) -> bool {
        self.wrong.is_some() && self.is_anew() || self.files > 0 && self.missing == self.files
    }

    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        let counts = [self.files, self.missing, self.changed, self.full];
        for (key, count) in ["FILES", "MISSING", "CHANGED", "FULL"].iter().zip(counts) {
            tree.set_value(key, count);
        }
        if let Some(wrong) = &self.wrong {
            tree.set_value("WRONG", wrong);
        }
        tree
    }

    fn add(&mut self, part: &KvTree) {
        let count = |key: &str| part.get_u64(key).unwrap_or(0);
        self.files += count("FILES");
        self.missing += count("MISSING");
        self.changed += count("CHANGED");
        self.full += count("FULL");
        let wrong = || part.get_value("WRONG").map(str::to_owned);
        self.wrong = self.wrong.take().or_else(wrong);
    }
}

/// Rank 0 reads, all get it; or what is wrong with it.
pub(super) fn read_summary(ctx: &Ctx, id: u64) -> Result<std::result::Result<Summary, String>> {
    let mut answer = match ctx.world.rank() {
        0 => summary_tree(ctx.prefix, id).encode(),
        _ => Vec::new(),
    };
    ctx.world.broadcast(&mut answer, 0)?;
    let tree = KvTree::decode(&answer)?;
    if let Some(fault) = tree.get_value("FAULT") {
        return Ok(Err(fault.to_owned()));
    }
    Summary::from_tree(&tree).map(Ok).map_err(Error::Other)
}

/// The summary's tree, or FAULT.
fn summary_tree(prefix: &Path, id: u64) -> KvTree {
    let mut fault = KvTree::new();
    match Summary::read_from(&folder(prefix, id)) {
        Ok(Some(summary)) => return summary.to_tree(),
        Ok(None) => fault.set_value("FAULT", format_args!("its summary is missing")),
        Err(error) => fault.set_value("FAULT", error),
    };
    fault
}

/// Rank 0 notes the failure, unless the index has it already.
pub(super) fn note_fault(ctx: &Ctx, id: u64) -> Result<()> {
    let note = || {
        let index = PrefixIndex::read(&index_path(ctx.prefix))?.unwrap_or_default();
        match index.by_id(id) {
            Some(entry) if entry.is_restorable() => mark_failed(ctx.prefix, id),
            _ => Ok(()),
        }
    };
    agree(ctx.world, if ctx.world.rank() == 0 { note() } else { Ok(()) })
}

/// Somebody has written to the file since, or replaced it.
pub(super) fn is_changed(prefix: &Path, file: &FileMeta) -> bool {
    let found = join_relative(prefix, &file.name).and_then(|path| {
        let size = fs::metadata(&path).map_err(|e| Error::io("cannot look at", &path, e))?.len();
        Ok(is_published(&path, &FileMeta { size, ..file.clone() }))
    });
    matches!(found, Ok(false))
}

pub(super) fn is_right(path: &Path, meta: &FileMeta, contents: bool) -> bool {
    let right_size = match fs::metadata(path) {
        Ok(found) if meta.on_prefix => found.len() >= meta.size,
        Ok(found) => found.len() == meta.size,
        // The program may have deleted it before the flush that listed it.
        Err(_) => meta.on_prefix,
    };
    match meta.crc32 {
        Some(expected) if contents && right_size => {
            crc32_of_file(path).is_ok_and(|(_, found)| found == expected)
        }
        _ => right_size,
    }
}

pub(super) fn listed_by_newer(prefix: &Path, id: u64, name: &str) -> bool {
    let Ok(Some(index)) = PrefixIndex::read(&index_path(prefix)) else { return false };
    // The run may have gone back to this one from a newer generation, which is kept beside.
    let holds = |entry: &&IndexEntry| entry.replaced_by.is_none_or(|by| by > id);
    index.newest_first().take_while(|entry| entry.id > id).filter(holds).any(|entry| {
        let summary = Summary::read_from(&folder(prefix, entry.id)).ok().flatten();
        summary.is_some_and(|s| s.files.values().flatten().any(|file| file.name == name))
    })
}
