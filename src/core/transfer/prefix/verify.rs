//! Whether the files of a dataset on the prefix are still what its summary says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::findings::{Findings, PrefixVerdict, Unchecked};
use super::index::note_failure;
use super::others::of_newer;
use super::paths::{folder, read_index};
use super::wholes::changed_wholes;
use crate::cache::agree::agree;
use crate::cache::{Ctx, Offered};
use crate::comm::trees;
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::params::{Settings, keys};
use crate::records::{FileMeta, Record as _, Summary};

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

/// Contents of what the program does not restart from are read if a rank's share is no larger.
const CONTENT_BYTES_MAX: u64 = 16 << 20;

impl Check {
    /// Returns how thoroughly to look: in full at what the program `restarts` from, or if the user
    /// sets SCR_CRC_ON_FLUSH=1 himself.
    pub fn of(settings: &Settings, restarts: bool) -> Check {
        let wanted = restarts || settings.is_chosen(keys::CRC_ON_FLUSH.param.name);
        match (settings.get(keys::CRC_ON_FLUSH), wanted) {
            (false, _) => Check::Sizes,
            (true, false) => Check::ContentsUpTo(CONTENT_BYTES_MAX),
            (true, true) => Check::Contents,
        }
    }
}

/// What [`verify_on_prefix`] has found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verified {
    /// Names of the dataset's files, relative to the prefix.
    pub names: Vec<String>,
    /// What is wrong; `None` also if nothing of the dataset is left.
    pub fault: Option<String>,
    /// Somebody has deleted all files, or has written all of them anew without us: what lies there
    /// now is not for us to judge.
    pub gone: bool,
    /// Somebody has written all files anew, in whatever size; a copy that was cut short is damage.
    pub anew: bool,
    /// What is not as the summary says and keeps nobody from reading.
    pub remark: Option<String>,
    /// Files without a checksum.
    pub unchecked: Unchecked,
}

/// Checks dataset `id` against its summary, each rank a share of the files. A fault is recorded in
/// the index. A file that a newer dataset lists too (a pointer file) may differ, one without the id
/// in its name may have been changed by somebody who chooses where to begin, and one that the
/// program wrote to the prefix itself may have changed. Collective.
pub fn verify_on_prefix(ctx: &Ctx, id: u64, check: Check) -> Result<Verified> {
    verify(ctx, id, check, None, |file| file.on_prefix)
}

/// Checks it against what the records of the caches say, if these have sealed it again since: the
/// program has changed its files on the prefix, where all of them are. Collective.
pub(crate) fn verify_sealed_again(
    ctx: &Ctx,
    id: u64,
    check: Check,
    cached: &Offered,
) -> Result<Verified> {
    verify(ctx, id, check, Some(cached), |file| file.on_prefix)
}

/// Does the same for a dataset that the program does not start from, since the cache has a newer
/// one: without ids the program may have written whatever has come to the prefix again. Collective.
pub fn verify_outdated(ctx: &Ctx, id: u64, check: Check) -> Result<Verified> {
    verify(ctx, id, check, None, |_| true)
}

fn verify(
    ctx: &Ctx,
    id: u64,
    check: Check,
    cached: Option<&Offered>,
    may_change: impl Fn(&FileMeta) -> bool,
) -> Result<Verified> {
    let mut summary = match read_summary(ctx, id)? {
        Ok(summary) => summary,
        Err(fault) => {
            note_fault(ctx, id)?;
            return Ok(Verified { fault: Some(fault), ..Verified::default() });
        }
    };
    if let Some(cached) = cached.filter(|cached| cached.epoch != summary.dataset.epoch) {
        summary.files.clear();
        for entry in cached.catalog.held() {
            summary.files.entry(entry.rank).or_default().push(entry.meta);
        }
    }
    let names: Vec<String> =
        summary.files.values().flatten().map(|file| file.name.clone()).collect();
    let contents = match check {
        Check::Sizes => false,
        Check::Contents => true,
        Check::ContentsUpTo(most) => bytes_of(&summary) / ctx.world.size().max(1) as u64 <= most,
    };
    let mut verdict = compare(ctx, &summary, contents, &may_change)?;
    if verdict.cut_short && !contents {
        // Contents tell a copy of it from the files of another state, some of which are smaller.
        verdict = compare(ctx, &summary, true, &may_change)?;
    }
    if verdict.fault.is_some() {
        note_fault(ctx, id)?;
    }
    let PrefixVerdict { fault, gone, anew, remark, unchecked, .. } = verdict;
    Ok(Verified { names, fault, gone, anew, remark, unchecked })
}

fn bytes_of(summary: &Summary) -> u64 {
    let files = summary.files.values().flatten();
    files.fold(0, |sum: u64, file| sum.saturating_add(file.size))
}

/// Each rank looks at its share; rank 0, which alone reads other summaries, judges. Collective.
fn compare(
    ctx: &Ctx,
    summary: &Summary,
    contents: bool,
    may_change: &dyn Fn(&FileMeta) -> bool,
) -> Result<PrefixVerdict> {
    let changed = match contents {
        true => changed_wholes(ctx, summary, true)?,
        false => BTreeSet::new(),
    };
    let own = Findings::of_share(ctx, summary, contents, &changed, may_change);
    let report = (own != Findings::default()).then(|| (0, own.to_tree().encode()));
    let mut all = Findings::default();
    for (_, bytes) in ctx.world.sparse_exchange(report.into_iter().collect())? {
        all.add(Findings::from_tree(&KvTree::decode(&bytes)?));
    }
    let mut answer = KvTree::new();
    if ctx.world.rank() == 0 {
        let others = of_newer(ctx.prefix, summary.dataset.id, &all.suspects());
        let files = summary.files.values().map(Vec::len).sum();
        answer = all.judge(files, &others).to_tree();
    }
    Ok(PrefixVerdict::from_tree(&trees::from_root(ctx.world, &answer, 0)?))
}

/// Returns the names of the files of dataset `id`; none without a readable summary. Collective.
pub fn names_on_prefix(ctx: &Ctx, id: u64) -> Result<Vec<String>> {
    let summary = read_summary(ctx, id)?.unwrap_or_default();
    Ok(summary.files.into_values().flatten().map(|file| file.name).collect())
}

pub fn files_on_prefix(ctx: &Ctx, id: u64) -> Result<BTreeMap<usize, Vec<String>>> {
    let summary = read_summary(ctx, id)?.map_err(Error::Unreadable)?;
    let names = |files: Vec<FileMeta>| files.into_iter().map(|file| file.name).collect();
    Ok(summary.files.into_iter().map(|(rank, files)| (rank, names(files))).collect())
}

/// Reads the summary on rank 0, and all get it; or tells what is wrong with it.
pub(crate) fn read_summary(ctx: &Ctx, id: u64) -> Result<std::result::Result<Summary, String>> {
    let own = if ctx.world.rank() == 0 { summary_tree(ctx.prefix, id) } else { KvTree::new() };
    let tree = trees::from_root(ctx.world, &own, 0)?;
    if let Some(fault) = tree.get_value("FAULT") {
        return Ok(Err(fault.to_owned()));
    }
    Summary::from_tree(&tree).map(Ok).map_err(Error::Unreadable)
}

fn summary_tree(prefix: &Path, id: u64) -> KvTree {
    let mut fault = KvTree::new();
    match Summary::read_from(&folder(prefix, id)) {
        Ok(Some(summary)) => return summary.to_tree(),
        Ok(None) => fault.set_value("FAULT", format_args!("its summary is missing")),
        Err(error) => fault.set_value("FAULT", error),
    };
    fault
}

/// Notes the failure on rank 0, unless the index has it already. Collective.
pub(crate) fn note_fault(ctx: &Ctx, id: u64) -> Result<()> {
    let note = || match read_index(ctx.prefix)?.by_id(id) {
        Some(entry) if entry.is_restorable() => note_failure(ctx.prefix, id),
        _ => Ok(()),
    };
    agree(ctx.world, if ctx.world.rank() == 0 { note() } else { Ok(()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{Inputs, load};

    #[test]
    fn contents_are_read_as_far_as_somebody_wants() {
        let check = |value: Option<&str>, restarts| {
            let value = value.map(|value| ("SCR_CRC_ON_FLUSH".to_string(), value.to_string()));
            let inputs = Inputs {
                environment: &value.into_iter().collect(),
                working_directory: Path::new("/nowhere"),
                system_file: Path::new("/nowhere/scr.conf"),
                program: &[],
            };
            Check::of(&load(&inputs).unwrap(), restarts)
        };
        assert_eq!(check(None, true), Check::Contents);
        assert_eq!(check(None, false), Check::ContentsUpTo(CONTENT_BYTES_MAX));
        assert_eq!(check(Some("1"), false), Check::Contents);
        assert_eq!([true, false].map(|it| check(Some("0"), it)), [Check::Sizes, Check::Sizes]);
    }
}
