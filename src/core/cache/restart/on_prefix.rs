//! Files of a cached dataset that lie on the prefix: between two runs a person, a job script or a
//! purge reaches them, and with what the cache has they would be a mixture.
//!
//! Metadata alone decides, each rank looks at its own. A file that is gone, or shorter than it was,
//! is not what was sealed. Another time of modification proves nothing: copies have one, and so
//! does data that another client of the prefix sends late.
//!
//! What the cache has of a dataset that is not known to be complete must not hide what the program
//! has written since under the same names: that may be the complete one.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::rebuild::{Offered, RebuildReport, Withheld};
use crate::cache::{Ctx, Share};
use crate::comm::trees;
use crate::error::Result;
use crate::files::join_relative;
use crate::kvtree::KvTree;
use crate::records::{DatasetRecord, FileMeta, RecordKey};

#[derive(Debug, Default, PartialEq, Eq)]
struct PrefixLook {
    /// Says of the first file that is not what was sealed what is wrong.
    spoiled: Option<String>,
    /// Name of the first that somebody has written to since, and that is no shorter.
    rewritten: Option<String>,
    /// Says of the first that the cache has an older one of that it is newer.
    newer: Option<String>,
}

/// Looks at those of `files` that lie on the prefix and that `counts` names.
///
/// A name that other datasets of the series have, too (a log or pointer beside files with the id in
/// their names), does not count: whatever the program does next changes it, and an older dataset
/// would be no better off.
fn look_on_prefix(
    prefix: &Path,
    key: &RecordKey,
    files: &[FileMeta],
    counts: &dyn Fn(&str) -> bool,
) -> PrefixLook {
    let mut found = PrefixLook::default();
    // Files of a dataset that the program has named are in it by its word, no pattern has them.
    let is_part = |name: &str| key.is_named() || (!key.is_shared_name(name) && counts(name));
    let own = |file: &&FileMeta| file.on_prefix && is_part(&file.name);
    for file in files.iter().filter(own) {
        let Ok(path) = join_relative(prefix, &file.name) else { continue };
        let shown = path.display();
        match fs::metadata(&path) {
            Ok(now) if now.is_file() && now.len() >= file.size => {
                let time = (now.mtime(), now.mtime_nsec());
                if time > (file.mtime_seconds, file.mtime_nanoseconds) {
                    found.rewritten.get_or_insert_with(|| file.name.clone());
                }
            }
            Ok(now) if now.is_file() => {
                found.spoiled = Some(format!(
                    "{shown} has {} bytes, and had {} when it was complete",
                    now.len(),
                    file.size
                ));
            }
            Err(error)
                if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            _ => found.spoiled = Some(format!("{shown} is missing")),
        }
        if found.spoiled.is_some() {
            return found;
        }
    }
    found
}

/// Looks, of those of `files` that lie in the cache, for one that the prefix has a newer one of.
fn look_for_newer(
    prefix: &Path,
    key: &RecordKey,
    files: &[FileMeta],
    counts: &dyn Fn(&str) -> bool,
) -> PrefixLook {
    let cached =
        |file: &&FileMeta| !file.on_prefix && !key.is_shared_name(&file.name) && counts(&file.name);
    let newer = |file: &FileMeta| {
        let path = join_relative(prefix, &file.name).ok()?;
        let now = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        let is_newer =
            (now.mtime(), now.mtime_nsec()) > (file.mtime_seconds, file.mtime_nanoseconds);
        is_newer.then(|| {
            let shown = path.display();
            format!("{shown} is newer than what the cache has, which may not be complete")
        })
    };
    PrefixLook { newer: files.iter().filter(cached).find_map(newer), ..PrefixLook::default() }
}

/// Takes out of what `report` offers each dataset that the cache has a part of and whose files on
/// the prefix are not what was sealed; and each that may not be complete, if the prefix has newer
/// files of its names and no newer dataset rests on it. Of the others that have a file which was
/// written since, returns the ids, with its name. Collective.
pub fn withhold_spoiled(
    ctx: &Ctx,
    report: &mut RebuildReport,
    counts: &dyn Fn(&str) -> bool,
) -> Result<Vec<(u64, String)>> {
    let mut own = KvTree::new();
    let mut note = |id: u64, found: PrefixLook| {
        let parts =
            [("SPOILED", found.spoiled), ("REWRITTEN", found.rewritten), ("NEWER", found.newer)];
        for (key, what) in parts {
            if let Some(what) = what {
                own.child_mut(id).set_value(key, what);
            }
        }
    };
    let look = |share: &Share| look_at_record(ctx.prefix, &share.record, counts);
    let mut any = look_at_offered(ctx.prefix, &report.offered, counts, &mut note);
    for one in &report.withheld {
        let shares = one.stranded.iter().flat_map(|stranded| &stranded.shares);
        any |= one.stranded.is_some();
        shares.for_each(|share| note(one.id, look(share)));
    }
    if !any {
        return Ok(Vec::new());
    }
    let mut all = KvTree::new();
    for theirs in trees::all_gather(ctx.world, &own)? {
        for (id, found) in &theirs {
            let all = all.child_mut(id);
            for key in found.keys() {
                if let (None, Some(what)) = (all.get(key), found.get_value(key)) {
                    all.set_value(key, what);
                }
            }
        }
    }
    let told = |id: u64, key: &str| all.child(&id.to_string()).get_value(key).map(str::to_owned);
    let (out, offered): (Vec<_>, Vec<_>) = std::mem::take(&mut report.offered)
        .into_iter()
        .partition(|one| told(one.id, "SPOILED").or(told(one.id, "NEWER")).is_some());
    report.offered = offered;
    for one in report.withheld.iter_mut().filter(|one| one.stranded.is_some()) {
        if let Some(reason) = told(one.id, "SPOILED") {
            (one.reason, one.stranded, one.spoiled) = (reason, None, true);
        }
    }
    let withheld = |one: Offered| {
        let spoiled = told(one.id, "SPOILED");
        // Of what is newer on the prefix the program finds what it would find without us.
        let is_spoiled = spoiled.is_some();
        let reason = spoiled.or(told(one.id, "NEWER")).unwrap_or_default();
        Withheld { id: one.id, key: one.key, reason, spoiled: is_spoiled, ..Withheld::default() }
    };
    report.withheld.extend(out.into_iter().map(withheld));
    report.withheld.sort_by_key(|one| one.id);
    let rewritten = |one: &Offered| Some((one.id, told(one.id, "REWRITTEN")?));
    Ok(report.offered.iter().filter_map(rewritten).collect())
}

fn look_at_offered(
    prefix: &Path,
    offered: &[Offered],
    counts: &dyn Fn(&str) -> bool,
    note: &mut dyn FnMut(u64, PrefixLook),
) -> bool {
    let mut any = false;
    for (at, one) in offered.iter().enumerate() {
        let newer = &offered[at + 1..];
        if is_divided(one) {
            any = true;
            // What the program has deleted there itself is not missing.
            let is_gone = |name: &str| newer.iter().any(|newer| newer.gone.contains_key(name));
            let stays = |name: &str| counts(name) && !one.left.contains(name) && !is_gone(name);
            note(one.id, look_on_prefix(prefix, &one.key, &one.files, &stays));
        }
        if may_be_outdated(one, newer) {
            any = true;
            let is_last = |name: &str| counts(name) && !newer.iter().any(|newer| newer.has(name));
            note(one.id, look_for_newer(prefix, &one.key, &one.files, &is_last));
        }
    }
    any
}

fn look_at_record(
    prefix: &Path,
    record: &DatasetRecord,
    counts: &dyn Fn(&str) -> bool,
) -> PrefixLook {
    // What the program has deleted there itself is not missing.
    let stays = |name: &str| counts(name) && !record.left.contains(name);
    look_on_prefix(prefix, &record.key, &record.files, &stays)
}

/// Says why the files on the prefix that the records of all ranks name are not what was sealed.
pub(crate) fn spoiled_in(prefix: &Path, records: &[DatasetRecord]) -> Option<String> {
    let files = || records.iter().flat_map(|record| &record.files);
    if files().all(|file| file.on_prefix) {
        return None;
    }
    records.iter().find_map(|one| look_at_record(prefix, one, &|_| true).spoiled)
}

/// The dataset is not known to be complete, and no complete one of the same id is newer. Without
/// ids what follows has the same names, complete or not.
fn may_be_outdated(one: &Offered, newer: &[Offered]) -> bool {
    let rests = |newer: &Offered| {
        newer.confirmed && (&newer.key.series, &newer.key.id) == (&one.key.series, &one.key.id)
    };
    !one.confirmed && !one.key.id.is_empty() && !one.is_on_prefix() && !newer.iter().any(rests)
}

fn is_divided(one: &Offered) -> bool {
    !one.is_on_prefix() && one.catalog.has_files_on_prefix()
}
