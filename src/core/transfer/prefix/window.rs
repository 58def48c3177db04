//! Datasets leave the prefix: those outside the window (`SCR_PREFIX_SIZE`), and by explicit purge.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::paths::{DROPPED_NAME, FILES, change_index, files_of, folder, is_published, read_index};
use crate::cache::disk::names_in;
use crate::error::{Error, Result};
use crate::files::{crc32, join_relative, remove_file_if_there, remove_tree};
use crate::records::{Dataset, FileMeta, IndexEntry, RecordKey, SUMMARY_NAME};

/// Datasets that have left the prefix: id and key.
pub type Left = Vec<(u64, RecordKey)>;

/// Keeps the newest `keep` checkpoints of the series of `written`, which has just come, and returns
/// those that went; output stays. Those count that led to the current one or to `written`: flushes
/// by threads may end in another order, and what is newer is of a course that the run has left.
pub(crate) fn trim(prefix: &Path, written: &Dataset, keep: u64) -> Result<Left> {
    if keep == 0 || written.is_output {
        return Ok(Vec::new());
    }
    let index = read_index(prefix)?;
    let current = index.current_entry().map(|entry| entry.id);
    let same_series = |entry: &&IndexEntry| {
        let dataset = entry.dataset.as_ref();
        dataset.is_some_and(|one| one.key.series == written.key.series && !one.is_output)
    };
    let newest = current.map_or(written.id, |current| current.max(written.id));
    let of_series = index.newest_first().filter(same_series).filter(|one| one.id <= newest);
    // Those that cannot be restored, or that the run has left, take no place of one that counts.
    // One without an id whose names a newer one has is a record only: it stays as long as one would
    // that is there.
    let (mut kept, mut seen) = (0, 0);
    let (outside, inside): (Vec<_>, Vec<_>) = of_series.partition(|entry| {
        let full = kept >= keep || (seen >= keep && is_overwritten(entry) && !entry.is_kept());
        let counts = entry.is_restorable() || entry.is_kept();
        kept += u64::from(counts && entry.abandoned_by.is_none());
        seen += 1;
        full && entry.id != written.id && Some(entry.id) != current
    });
    // An older generation has files of a checkpoint with an id that the newer one may not have.
    let id = |entry: &IndexEntry| named(entry).1.id;
    let inside: BTreeSet<String> = inside.into_iter().map(id).collect();
    let whole = |entry: &&IndexEntry| id(entry).is_empty() || !inside.contains(&id(entry));
    let doomed: Left = outside.into_iter().filter(whole).map(named).collect();
    // The program may have written a file anew, without us: then it is none of an old dataset.
    delete(prefix, &doomed, &is_published)?;
    Ok(doomed)
}

/// More older datasets are looked at than come meanwhile.
const LOOKS: usize = 4;
/// The newest datasets of a series are never looked at: the cache may have them, too.
const YOUNG: usize = 4;

/// Takes datasets of the series of `written` out of the index when the program has deleted all
/// their files: a few older ones each time, so that what is left of them does not grow with the
/// run.
pub(crate) fn forget_deleted(prefix: &Path, written: &Dataset) -> Result<()> {
    let index = read_index(prefix)?;
    let current = index.current_entry().map(|entry| entry.id);
    let older = index.newest_first().filter(|entry| {
        let series = entry.dataset.as_ref().map(|one| &one.key.series);
        series == Some(&written.key.series) && entry.id < written.id && entry.is_restorable()
    });
    let older: Vec<u64> = older.skip(YOUNG).map(|entry| entry.id).collect();
    let first = crc32(&written.id.to_be_bytes()) as usize;
    let looked = (0..LOOKS.min(older.len())).map(|at| older[(first + at) % older.len()]);
    let gone = |id: &u64| Some(*id) != current && is_deleted(prefix, *id);
    let gone: BTreeSet<u64> = looked.filter(gone).collect();
    match gone.is_empty() {
        true => Ok(()),
        false => forget_datasets(prefix, &|id| gone.contains(&id)).map(drop),
    }
}

fn is_deleted(prefix: &Path, id: u64) -> bool {
    let files = files_of(prefix, id).ok().flatten().unwrap_or_default();
    let mut free = false;
    files.iter().all(|file| {
        let Ok(path) = join_relative(prefix, &file.name) else { return false };
        match path.symlink_metadata() {
            Ok(_) => !is_published(&path, file),
            Err(error) => {
                free = true;
                error.kind() == ErrorKind::NotFound
            }
        }
    }) && free
}

pub fn purge_prefix(prefix: &Path) -> Result<Left> {
    let index = read_index(prefix)?;
    let all: Left = index.newest_first().map(named).collect();
    delete(prefix, &all, &|_, _| true)?;
    Ok(all)
}

pub fn delete_datasets(prefix: &Path, ids: &dyn Fn(u64) -> bool) -> Result<Left> {
    let index = read_index(prefix)?;
    let found: Left = index.newest_first().filter(|entry| ids(entry.id)).map(named).collect();
    delete(prefix, &found, &is_published)?;
    Ok(found)
}

fn is_overwritten(entry: &IndexEntry) -> bool {
    entry.replaced_by.is_some() && named(entry).1.id.is_empty()
}

fn named(entry: &IndexEntry) -> (u64, RecordKey) {
    (entry.id, entry.dataset.as_ref().map(|one| one.key.clone()).unwrap_or_default())
}

/// Takes datasets out of the index and returns them; their files stay.
pub fn forget_datasets(prefix: &Path, ids: &dyn Fn(u64) -> bool) -> Result<Left> {
    // Their folders go, too, or a damaged index would be made anew with these datasets.
    take_out(prefix, ids, &|one, dir| if one.is_kept() { forget(dir) } else { remove_tree(dir) })
}

/// Does the same for a person, who may want them back: summaries stay under another name, which
/// [`crate::transfer::enter_again`] knows.
pub fn set_aside_datasets(prefix: &Path, ids: &dyn Fn(u64) -> bool) -> Result<Left> {
    take_out(prefix, ids, &|_, dir| {
        let (from, to) = (dir.join(SUMMARY_NAME), dir.join(DROPPED_NAME));
        match fs::rename(&from, &to) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::io("cannot rename", &from, error))
            }
            _ => Ok(()),
        }
    })
}

fn take_out(
    prefix: &Path,
    ids: &dyn Fn(u64) -> bool,
    put_away: &dyn Fn(&IndexEntry, &Path) -> Result<()>,
) -> Result<Left> {
    let (found, is_beside) = change_index(prefix, |index| {
        let found = index.newest_first().filter(|entry| ids(entry.id));
        let found: Vec<IndexEntry> = found.cloned().collect();
        found.iter().for_each(|one| index.remove(one.id));
        (found, index.is_beside)
    })?;
    // Records of the C implementation stay as they are.
    for one in found.iter().filter(|_| !is_beside) {
        put_away(one, &folder(prefix, one.id))?;
    }
    Ok(found.iter().map(named).collect())
}

fn forget(dir: &Path) -> Result<()> {
    for name in names_in(dir)?.iter().filter(|name| *name != FILES) {
        remove_tree(&dir.join(name))?;
    }
    Ok(())
}

/// Deletes the files for which `is_its` says so, unless a dataset that stays has them, or has
/// written over the doomed one: what it has not written again is as it should be. The index first,
/// so that it never promises what is half deleted.
fn delete(
    prefix: &Path,
    doomed: &[(u64, RecordKey)],
    is_its: &dyn Fn(&Path, &FileMeta) -> bool,
) -> Result<()> {
    if doomed.is_empty() {
        return Ok(());
    }
    let ids: Vec<u64> = doomed.iter().map(|(id, _)| *id).collect();
    let index = read_index(prefix)?;
    let staying = index.newest_first().filter(|entry| !ids.contains(&entry.id));
    let (mut kept, mut groups) = (BTreeSet::new(), BTreeSet::new());
    for entry in staying {
        groups.insert(group(named(entry).1));
        // Without it nobody knows which files are needed: none may go.
        let files = files_of(prefix, entry.id)?.ok_or_else(|| {
            let dir = folder(prefix, entry.id).display().to_string();
            Error::Missing(format!("the summary in {dir} is missing: nothing older is deleted"))
        })?;
        kept.extend(files.into_iter().map(|file| file.name));
    }
    change_index(prefix, |index| ids.iter().for_each(|id| index.remove(*id)))?;
    for (id, key) in doomed {
        // What a summary that cannot be read names stays.
        let files = files_of(prefix, *id).ok().flatten().unwrap_or_default();
        let files = if groups.contains(&group(key.clone())) { Vec::new() } else { files };
        for file in files.iter().filter(|file| !kept.contains(&file.name)) {
            let path = join_relative(prefix, &file.name)?;
            if is_its(&path, file) {
                remove_file_if_there(&path)?;
            }
            remove_empty_parents(prefix, &file.name);
        }
        remove_tree(&folder(prefix, *id))?;
    }
    Ok(())
}

/// Datasets of the same group have the same names.
fn group(key: RecordKey) -> (String, String) {
    (key.series, key.id)
}

fn remove_empty_parents(prefix: &Path, name: &str) {
    let parents = Path::new(name).ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
    for dir in parents {
        // One that still has something in it stays, and so do those above it.
        if std::fs::remove_dir(prefix.join(dir)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::CatalogEntry;
    use crate::cache::disk::describe;
    use crate::records::RecordKey;
    use crate::transfer::prefix::index::record_flushed;
    use std::fs;

    fn flushed(prefix: &Path, id: u64, output: bool) -> Dataset {
        let series = if output { "viz" } else { "ckpt" };
        let key = RecordKey { series: series.into(), id: id.to_string(), generation: 0 };
        flushed_files(prefix, id, key, output, [format!("{series}/{id}/data"), "latest".into()])
    }

    fn flushed_files(
        prefix: &Path,
        id: u64,
        key: RecordKey,
        output: bool,
        files: [String; 2],
    ) -> Dataset {
        let dataset = Dataset {
            id,
            key,
            complete: true,
            is_output: output,
            checkpoint_id: (!output).then_some(id),
            ..Dataset::default()
        };
        fs::create_dir_all(prefix.join(&files[0]).parent().unwrap()).unwrap();
        let entries = files.map(|name| {
            fs::write(prefix.join(&name), "x").unwrap();
            let meta = describe(&prefix.join(&name), &name).unwrap();
            CatalogEntry { rank: 0, meta }
        });
        record_flushed(prefix, &dataset, 1, &entries).unwrap();
        dataset
    }

    fn ids(left: Result<Left>) -> Vec<u64> {
        left.unwrap().into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn the_window_slides_and_takes_neither_output_nor_shared_files() {
        let dir = tempfile::tempdir().unwrap();
        let prefix = dir.path();
        flushed(prefix, 1, true);
        for id in 2..=5 {
            let newest = flushed(prefix, id, false);
            let gone = ids(trim(prefix, &newest, 2));
            assert_eq!(gone, if id < 4 { vec![] } else { vec![id - 2] });
        }
        let there = |id: u64| prefix.join(format!("ckpt/{id}")).exists();
        assert_eq!((2..=5).map(there).collect::<Vec<_>>(), [false, false, true, true]);
        assert!(prefix.join("viz/1/data").exists() && prefix.join("latest").exists());
        assert!(!folder(prefix, 2).exists() && folder(prefix, 4).exists());
        assert_eq!(purge_prefix(prefix).unwrap().len(), 3);
        assert!(!prefix.join("ckpt").exists() && !prefix.join("latest").exists());
    }

    #[test]
    fn what_the_program_has_deleted_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let prefix = dir.path();
        for id in 1..=100 {
            let newest = flushed(prefix, id, false);
            if id > 2 && (id - 2) % 10 != 0 {
                fs::remove_dir_all(prefix.join(format!("ckpt/{}", id - 2))).unwrap();
            }
            forget_deleted(prefix, &newest).unwrap();
        }
        let index = read_index(prefix).unwrap();
        let left: Vec<u64> = index.newest_first().map(|entry| entry.id).collect();
        let folders = (1..=100).filter(|id| folder(prefix, *id).exists()).count();
        assert!(left.len() == folders && folders < 30, "{left:?}");
        // Whatever is there is known, and so are the newest.
        assert!((1..=9).all(|ten| left.contains(&(ten * 10))), "{left:?}");
        assert!((97..=100).all(|id| left.contains(&id)), "{left:?}");
    }

    #[test]
    fn flushes_that_end_in_another_order_keep_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let prefix = dir.path();
        for id in [1, 2, 4] {
            flushed(prefix, id, false);
        }
        let late = flushed(prefix, 3, false);
        assert_eq!(ids(trim(prefix, &late, 2)), [2, 1]);
    }

    #[test]
    fn one_that_cannot_be_restored_takes_no_place_in_the_window() {
        let dir = tempfile::tempdir().unwrap();
        let prefix = dir.path();
        flushed(prefix, 1, false);
        flushed(prefix, 2, false);
        crate::transfer::prefix::index::note_failure(prefix, 2).unwrap();
        let newest = flushed(prefix, 3, false);
        assert_eq!(ids(trim(prefix, &newest, 2)), []);
        assert_eq!(ids(trim(prefix, &newest, 1)), [2, 1]);
    }

    #[test]
    fn nor_does_one_of_a_course_that_the_run_has_left() {
        let dir = tempfile::tempdir().unwrap();
        let prefix = dir.path();
        (1..=4).for_each(|id| drop(flushed(prefix, id, false)));
        change_index(prefix, |index| index.set_current("scr.dataset.2")).unwrap();
        let newest = flushed(prefix, 5, false);
        assert_eq!(ids(trim(prefix, &newest, 2)), [1], "5 and what it came from");
        let newest = flushed(prefix, 6, false);
        assert_eq!(ids(trim(prefix, &newest, 2)), [4, 3, 2]);
    }

    #[test]
    fn records_of_what_was_written_over_go_with_the_window_and_no_files_with_them() {
        let generations = |id: &str, keep: u64| {
            let dir = tempfile::tempdir().unwrap();
            for number in 1..=5 {
                let key =
                    RecordKey { series: "ckpt".into(), id: id.into(), generation: number - 1 };
                let files = ["data".into(), format!("once{number}")];
                let newest = flushed_files(dir.path(), number, key, false, files);
                trim(dir.path(), &newest, keep).unwrap();
            }
            let left: Vec<u64> = (1..=5).filter(|id| folder(dir.path(), *id).exists()).collect();
            let there = |number: u64| dir.path().join(format!("once{number}")).exists();
            assert!((1..=5).all(there) && dir.path().join("data").exists(), "{left:?}");
            left
        };
        assert_eq!(generations("", 2), [4, 5]);
        assert_eq!(generations("", 1), [5]);
        // The records tell which files go with the checkpoint.
        assert_eq!(generations("7", 1), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_file_that_was_written_anew_outside_stays() {
        let dir = tempfile::tempdir().unwrap();
        let prefix = dir.path();
        flushed(prefix, 1, false);
        flushed(prefix, 2, false);
        fs::write(prefix.join("ckpt/1/data"), "of the program itself").unwrap();
        let newest = flushed(prefix, 3, false);
        assert_eq!(ids(trim(prefix, &newest, 1)), [2, 1]);
        assert!(prefix.join("ckpt/1/data").exists() && !prefix.join("ckpt/2").exists());
    }

    #[test]
    fn nothing_goes_while_it_is_unknown_what_must_stay() {
        let dir = tempfile::tempdir().unwrap();
        let prefix = dir.path();
        flushed(prefix, 1, false);
        flushed(prefix, 2, false);
        let newest = flushed(prefix, 3, false);
        for what in ["damaged", "missing"] {
            let summary = folder(prefix, 2).join("summary.scr");
            match what {
                "damaged" => fs::write(&summary, [0xff; 40]).unwrap(),
                _ => fs::remove_file(&summary).unwrap(),
            }
            assert!(trim(prefix, &newest, 2).is_err(), "{what}");
            let index = read_index(prefix).unwrap();
            assert_eq!(index.newest_first().count(), 3, "{what}");
            assert!(prefix.join("ckpt/1/data").exists(), "{what}");
        }
        // The newest dataset can be told to go itself.
        assert_eq!(ids(trim(prefix, &newest, 1)), [2, 1]);
        assert!(!prefix.join("ckpt/1").exists() && prefix.join("ckpt/2/data").exists());
    }

    #[test]
    fn newer_ones_are_forgotten_and_their_files_stay() {
        let dir = tempfile::tempdir().unwrap();
        (1..=3).for_each(|id| drop(flushed(dir.path(), id, false)));
        assert_eq!(ids(forget_datasets(dir.path(), &|id| id > 1)), [3, 2]);
        let index = read_index(dir.path()).unwrap();
        assert_eq!(index.newest_first().map(|entry| entry.id).collect::<Vec<_>>(), [1]);
        assert!(dir.path().join("ckpt/3/data").exists());
    }
}
