//! Checkpoint directories of version 1.1 (manual 1.1, sections 5, 8 and 10), into the index:
//! scanned, rebuilt by their XOR files, with a summary in today's form.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::SystemTime;

mod scan;

pub use scan::is_older_directory;

use scan::{FILEMAP, SIDECAR, Scan, scan};

use super::prefix::{alone_on_prefix, state_dir};
use crate::cache::Flat;
use crate::error::{Error, Result};
use crate::files::{create_dirs, relative_to, remove_tree};
use crate::kvtree::KvTree;
use crate::records::text::crc_text;
use crate::records::{IndexEntry, PROGRAM, RecordKey, Summary};
use crate::transfer::{Restored, enter_flat, publish_file, record_incomplete, restore_flat};

/// What came of a directory of version 1.1.
#[derive(Debug, Clone, Default)]
pub struct AddedOlder {
    /// Its entry in the index.
    pub entry: IndexEntry,
    /// Ranks whose files were rebuilt.
    pub rebuilt: Vec<usize>,
    /// Files without a checksum that others were rebuilt from: damage in them has spread unseen.
    pub unchecked: usize,
    /// Why it is incomplete, if so.
    pub lost: Option<String>,
    /// Why files in it do not count, a sentence for each.
    pub refused: Vec<String>,
}

/// Enters the checkpoint in `dir`, a directory below `prefix`, into the index; rebuilds what is
/// missing. One that cannot be completed is entered as incomplete.
pub fn add_older_directory(prefix: &Path, dir: &Path) -> Result<AddedOlder> {
    let real = |path: &Path| {
        std::fs::canonicalize(path).map_err(|error| Error::io("cannot find", path, error))
    };
    let (prefix, dir) = (real(prefix)?, real(dir)?);
    let name = relative_to(&dir, &prefix).filter(|name| !name.is_empty()).ok_or_else(|| {
        let (dir, prefix) = (dir.display(), prefix.display());
        Error::Refused(format!("{dir} is not below the prefix {prefix}: move it there"))
    })?;
    look(&dir)?;
    create_dirs(&state_dir(&prefix), 0o755)?;
    alone_on_prefix(&prefix, || add(&prefix, &dir, &name))
}

fn add(prefix: &Path, dir: &Path, name: &str) -> Result<AddedOlder> {
    let found = look(dir)?;
    let key = RecordKey { series: PROGRAM.into(), id: name.to_owned(), generation: 0 };
    let index = super::read_index(prefix)?;
    if let Some(entry) = index.by_id(found.id) {
        let same = entry.dataset.as_ref().is_some_and(|dataset| dataset.key == key);
        let id = found.id;
        match (same, entry.complete) {
            (true, true) => {
                return Ok(AddedOlder { entry: entry.clone(), ..AddedOlder::default() });
            }
            (true, false) => {}
            (false, _) => {
                return Err(Error::Refused(format!(
                    "the index has another dataset {id} already (scr index drop {id})"
                )));
            }
        }
    }
    let unchecked = found.unchecked();
    let (found, rebuilt, lost) = complete(prefix, dir, &key, found)?;
    let unchecked = if rebuilt.is_empty() { 0 } else { unchecked };
    match &lost {
        Some(_) => record_incomplete(prefix, found.id, &key)?,
        None => enter_flat(prefix, name, &flat(dir, &key, &found))?,
    }
    let entry = super::find_dataset(prefix, &found.id.to_string())?;
    Ok(AddedOlder { entry, rebuilt, unchecked, lost, refused: found.refused })
}

/// The sidecars tell what there is unless the summary is right.
fn look(dir: &Path) -> Result<Scan> {
    let listed = Summary::read_from(dir).ok().flatten();
    match listed.filter(|listed| is_right(dir, listed)) {
        Some(listed) => Ok(Scan::of_summary(&listed)),
        None => scan(dir),
    }
}

fn is_right(dir: &Path, listed: &Summary) -> bool {
    listed.dataset.complete
        && listed.files.values().flatten().all(|file| {
            fs::metadata(dir.join(&file.name)).is_ok_and(|found| found.len() == file.size)
        })
}

/// Gives the directory scanned again, the rebuilt ranks, and why it is incomplete.
fn complete(
    prefix: &Path,
    dir: &Path,
    key: &RecordKey,
    found: Scan,
) -> Result<(Scan, Vec<usize>, Option<String>)> {
    let missing = match found.missing() {
        Ok(missing) if missing.is_empty() => return Ok((found, Vec::new(), None)),
        Ok(missing) => missing,
        Err(why) => return Ok((found, Vec::new(), Some(why))),
    };
    let work = state_dir(prefix).join("rebuild");
    remove_tree(&work)?;
    let restored = restore_flat(&work, &flat(dir, key, &found));
    let put = restored.and_then(|restored| match restored {
        Ok(parts) => put_in_place(prefix, dir, &found, &missing, &parts).map(|()| None),
        Err(why) => Ok(Some(why)),
    });
    remove_tree(&work)?;
    if let Some(why) = put? {
        return Ok((found, Vec::new(), Some(why)));
    }
    // The sidecars of what was rebuilt are there now: nothing is taken on trust.
    let again = scan(dir)?;
    match again.missing() {
        Ok(still) if still.is_empty() => Ok((again, missing.into_iter().collect(), None)),
        Ok(still) => {
            let ranks: Vec<String> = still.iter().map(usize::to_string).collect();
            let why = format!("files of rank {} are missing after the rebuild", ranks.join(", "));
            Ok((again, Vec::new(), Some(why)))
        }
        Err(why) => Ok((again, Vec::new(), Some(why))),
    }
}

fn flat<'a>(dir: &'a Path, key: &'a RecordKey, found: &Scan) -> Flat<'a> {
    let files = found
        .of_rank
        .iter()
        .flat_map(|(rank, one)| one.files.iter().map(|file| (*rank, file.clone())));
    let redundancy = found.of_rank.values().flat_map(|one| one.redundancy.clone());
    Flat {
        dir,
        key,
        id: found.id,
        ranks: found.ranks,
        files: files.collect(),
        redundancy: redundancy.collect(),
    }
}

/// Nothing tells which mode and time a rebuilt file had.
fn like_the_others(dir: &Path, found: &Scan, path: &Path) -> Result<()> {
    let fail = |error| Error::io("cannot set the mode of", path, error);
    if fs::metadata(path).map_err(fail)?.nlink() > 1 {
        return Ok(()); // It was there, and is the same file.
    }
    let other = found.of_rank.values().flat_map(|one| &one.files).next();
    let mode = other.and_then(|file| Some(fs::metadata(dir.join(&file.name)).ok()?.permissions()));
    let file = File::options().write(true).open(path).map_err(fail)?;
    file.set_modified(SystemTime::now()).map_err(fail)?;
    mode.map_or(Ok(()), |mode| file.set_permissions(mode).map_err(fail))
}

fn put_in_place(
    prefix: &Path,
    dir: &Path,
    found: &Scan,
    missing: &BTreeSet<usize>,
    parts: &[Restored],
) -> Result<()> {
    for Restored { rank, files, redundancy } in parts {
        if !missing.contains(rank) {
            continue;
        }
        let mut filemap = KvTree::new();
        filemap.set_kv("CKPT", found.id).set_kv("RANK", rank);
        let fields = filemap.set_kv("RANK", rank).set_kv("CKPT", found.id);
        fields.set_value("EXPECT", files.len() + redundancy.len());
        let all = files.iter().map(|file| (file, "FULL"));
        for ((meta, from), kind) in all.chain(redundancy.iter().map(|file| (file, "XOR"))) {
            let name = meta.name.rsplit('/').next().unwrap_or(&meta.name);
            fields.child_mut("FILE").child_mut(name);
            like_the_others(dir, found, from)?;
            publish_file(prefix, from, &dir.join(name))?;
            let mut sidecar = KvTree::new();
            sidecar.set_value("FILE", name);
            sidecar.set_value("TYPE", kind);
            sidecar.set_value("COMPLETE", "1");
            sidecar.set_value("SIZE", meta.size);
            if let Some(crc32) = meta.crc32 {
                sidecar.set_value("CRC", crc_text(crc32));
            }
            sidecar.set_value("CKPT", found.id);
            sidecar.set_value("RANKS", found.ranks);
            sidecar.set_value("RANK", rank);
            sidecar.write_file(dir.join(format!("{name}{SIDECAR}")))?;
        }
        filemap.write_file(dir.join(format!("{rank}{FILEMAP}")))?;
    }
    Ok(())
}
