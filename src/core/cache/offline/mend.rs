//! Damaged files of a node's cache, replaced by files that were rebuilt elsewhere. A file that is
//! right is never touched; what takes the place of another is what the node's own record says.

use std::fs::{File, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::health::{Damage, damage_of};
use crate::cache::node::disk::{CHUNK_BYTES, has_all, make_own_dir, matches};
use crate::cache::node::layout::{Layout, store_of};
use crate::cache::node::names::OWN_FOLDER;
use crate::cache::node::scatter::read_filemaps;
use crate::cache::node::store::{Held, change_record};
use crate::cache::sealing::own_part::{note_protection, protection_of};
use crate::error::{Error, Result};
use crate::files::{
    CopyOptions, copy_file, join_relative, open_own, read_own, remove_file_if_there, replace,
    sync_dir,
};
use crate::kvtree::KvTree;
use crate::records::{FileContent, FileMeta, RecordedState};

/// Only so many differing parts of a file are told; the last one ends with the last difference.
const RANGES_MAX: usize = 8;
/// Differences that are less apart are told as one.
const GAP: u64 = 4096;

/// A file that was put in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// World rank whose it is.
    pub rank: usize,
    /// Its name in the dataset's directory; of a part, that of the whole file.
    pub name: String,
    /// The bytes that were wrong or missing: first, and the one behind the last. A redundancy file,
    /// which was made anew, has none.
    pub ranges: Vec<(u64, u64)>,
}

/// A damaged file that stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotMended {
    /// World rank whose it is.
    pub rank: usize,
    /// Its name, as in [`Put`].
    pub name: String,
    /// Why.
    pub why: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mended {
    pub put: Vec<Put>,
    pub left: Vec<NotMended>,
}

/// Returns the records of the sealed dataset `id` on a node, with the directories of their files.
pub(crate) fn parts_of(layout: &Layout, id: u64) -> Result<Vec<(Held, PathBuf)>> {
    let mut held = read_filemaps(&layout.control_dir)?.held;
    held.retain(|(_, one)| one.dataset_id == id && one.state == RecordedState::Prepared);
    let with_dir = |one: Held| {
        let dir = layout.data_dir(&one.1);
        (one, dir)
    };
    Ok(held.into_iter().map(with_dir).collect())
}

/// The records that have come of a rebuild, since the heads of its redundancy files name nodes and
/// times; and by store the directory of the files.
pub(crate) type Rebuilt<'a> = (&'a [Held], &'a dyn Fn(&str) -> PathBuf);

/// Replaces each damaged file of dataset `id` on this node by the rebuilt one. An error is of the
/// records: what happens to a file is told with it.
pub(crate) fn mend_node(layout: &Layout, id: u64, rebuilt: Rebuilt<'_>) -> Result<Mended> {
    let mut mended = Mended::default();
    for (held, dir) in parts_of(layout, id)? {
        let (rank, record) = &held;
        let from = rebuilt.1(store_of(record));
        for file in record.files.iter().filter(|file| !file.on_prefix) {
            let Some(damage) = damage_of(&dir, file, true) else { continue };
            let name = file.whole_name().to_owned();
            match put(&from, &dir, file, Some(&damage)) {
                Ok(ranges) => {
                    mended.put.push(Put { rank: *rank, name, ranges: in_whole(file, &ranges) });
                }
                Err(error) => {
                    mended.left.push(NotMended { rank: *rank, name, why: error.to_string() });
                }
            }
        }
        let known = protection_of(record);
        let is_damaged = |file: &FileMeta| damage_of(&dir, file, true).is_some();
        if known.iter().any(is_damaged) {
            mend_protection(layout, &held, &from, &dir, rebuilt.0, &mut mended);
        }
    }
    Ok(mended)
}

/// Puts a rank's redundancy files in place, then their sizes and checksums into its record: a kill
/// in between leaves files that count as lost, as they did before.
fn mend_protection(
    layout: &Layout,
    (rank, record): &Held,
    from: &Path,
    dir: &Path,
    rebuilt: &[Held],
    mended: &mut Mended,
) {
    let same = |(owner, other): &&Held| {
        (owner, other.dataset_id, other.epoch) == (rank, record.dataset_id, record.epoch)
    };
    let known = protection_of(record);
    let new = rebuilt.iter().find(same).map(|(_, one)| protection_of(one)).unwrap_or_default();
    let is_right = |file: &FileMeta| known.contains(file) && damage_of(dir, file, true).is_none();
    let (mut done, mut failed) = (Vec::new(), None);
    for file in new.iter().filter(|file| !is_right(file)) {
        match put(from, dir, file, None) {
            Ok(_) => done.push(file.name.clone()),
            Err(error) => failed = Some(error),
        }
    }
    let failed = match failed {
        Some(error) => Err(error),
        None => change_record(&layout.control_dir, *rank, record, |changed| {
            note_protection(changed, &new);
        }),
    };
    if new.is_empty() || failed.is_err() {
        let missing = || "it was not rebuilt".to_owned();
        let why = failed.err().map_or_else(missing, |error| error.to_string());
        let name = known.first().map(|file| file.name.clone()).unwrap_or_default();
        mended.left.push(NotMended { rank: *rank, name, why });
        return;
    }
    let put = |name| Put { rank: *rank, name, ranges: Vec::new() };
    mended.put.extend(done.into_iter().map(put));
}

/// Puts one file in place: a copy is compared before it gets the name. Returns what was wrong with
/// a file of the program, whose `damage` is known.
fn put(
    from: &Path,
    dir: &Path,
    file: &FileMeta,
    damage: Option<&Damage>,
) -> Result<Vec<(u64, u64)>> {
    let (source, target) = (join_relative(from, &file.name)?, join_relative(dir, &file.name)?);
    if file.crc32.is_none() || !matches(from, &file.as_copy(), true) {
        return Err(Error::Refused("it was not rebuilt as its record says".into()));
    }
    if file.is_live() {
        return fill_part(from, dir, file);
    }
    let ranges = match damage {
        None => Vec::new(),
        Some(Damage::Missing | Damage::Unreadable(_)) => vec![(0, file.size)],
        Some(Damage::Size(_) | Damage::Content) => differences(&target, &source)?,
    };
    let own = dir.join(OWN_FOLDER);
    make_own_dir(&own)?;
    let temporary = own.join(format!("mend.{}", std::process::id()));
    let placed = place(&source, &temporary, &target, file, damage.is_none());
    if placed.is_err() {
        // What went wrong is told; the temporary goes with the dataset at the latest.
        let _ = remove_file_if_there(&temporary);
    }
    placed.map(|()| ranges)
}

/// Writes a part to its places in the file that ranks of the node have written together; returns
/// what was wrong of it. A kill leaves one that is damaged, as it was before.
fn fill_part(from: &Path, dir: &Path, file: &FileMeta) -> Result<Vec<(u64, u64)>> {
    let target = FileContent::of(dir, file)?;
    let path = target.path();
    make_own_dir(path.parent().unwrap_or(dir))?;
    let mut options = File::options();
    let opened = open_own(path, options.read(true).write(true).create(true).truncate(false))
        .map_err(|error| Error::io("cannot open", path, error))?;
    let cannot_write = |error| Error::io("cannot write", path, error);
    let (mut wrong, mut there) = (Vec::new(), vec![0; CHUNK_BYTES]);
    FileContent::of(from, &file.as_copy())?.pass(|mut at, bytes| {
        let mut rest = bytes;
        for piece in target.pieces(at, bytes.len() as u64) {
            let (now, later) = rest.split_at(piece.len() as usize);
            let there = &mut there[..now.len()];
            match opened.read_exact_at(there, piece.begin) {
                Ok(()) => note_differences(&mut wrong, at, now, there),
                Err(_) => note(&mut wrong, at, at + piece.len()),
            }
            opened.write_all_at(now, piece.begin).map_err(cannot_write)?;
            (rest, at) = (later, at + piece.len());
        }
        Ok(())
    })?;
    opened.sync_all().map_err(cannot_write)?;
    Ok(wrong)
}

/// Gives ranges of a part as those of the whole file.
fn in_whole(file: &FileMeta, ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let pieces = ranges.iter().flat_map(|(begin, end)| file.places(*begin, end - begin));
    pieces.for_each(|piece| note(&mut found, piece.begin, piece.end));
    found
}

fn place(
    source: &Path,
    temporary: &Path,
    target: &Path,
    file: &FileMeta,
    redundancy: bool,
) -> Result<()> {
    copy_file(source, temporary, CopyOptions::default())?;
    if !has_all(&FileContent::dense(temporary.to_path_buf(), file.size), file.crc32) {
        return Err(Error::corrupt(temporary, "the copy is not what was rebuilt"));
    }
    let opened = open_own(temporary, File::options().write(true));
    let given = opened.and_then(|copy| match redundancy {
        true => {
            copy.set_permissions(Permissions::from_mode(file.mode & 0o7777))?;
            copy.sync_all()
        }
        false => file.give_to(&copy),
    });
    given.map_err(|error| Error::io("cannot set the mode of", temporary, error))?;
    let parent = target.parent().unwrap_or(target);
    make_own_dir(parent)?;
    replace(temporary, target).map_err(|error| Error::io("cannot replace", target, error))?;
    sync_dir(parent)
}

fn differences(one: &Path, other: &Path) -> Result<Vec<(u64, u64)>> {
    let open = |path: &Path| read_own(path).map_err(|e| Error::io("cannot open", path, e));
    let (mut a, mut b) = (open(one)?, open(other)?);
    let (mut left, mut right) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    let (mut at, mut found) = (0_u64, Vec::<(u64, u64)>::new());
    loop {
        let fill = |file: &mut File, buffer: &mut Vec<u8>, path: &Path| {
            let mut read = 0;
            while read < buffer.len() {
                match file.read(&mut buffer[read..]) {
                    Ok(0) => break,
                    Ok(count) => read += count,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(Error::io("cannot read", path, error)),
                }
            }
            Ok(read)
        };
        let (first, second) = (fill(&mut a, &mut left, one)?, fill(&mut b, &mut right, other)?);
        let both = first.min(second);
        note_differences(&mut found, at, &left[..both], &right[..both]);
        let most = first.max(second) as u64;
        if both as u64 != most {
            note(&mut found, at + both as u64, at + most);
        }
        if most == 0 {
            return Ok(found);
        }
        at += most;
    }
}

fn note_differences(found: &mut Vec<(u64, u64)>, at: u64, left: &[u8], right: &[u8]) {
    let bytes = (at..).zip(left.iter().zip(right));
    bytes.filter(|(_, (a, b))| a != b).for_each(|(at, _)| note(found, at, at + 1));
}

fn note(found: &mut Vec<(u64, u64)>, begin: u64, end: u64) {
    let full = found.len() == RANGES_MAX;
    match found.last_mut() {
        Some(last) if full || begin - last.1 <= GAP => last.1 = end,
        _ => found.push((begin, end)),
    }
}

impl Mended {
    pub fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        for (number, one) in self.put.iter().enumerate() {
            let entry = tree.child_mut("PUT").child_mut(format_args!("{number:08}"));
            entry.set_value("RANK", one.rank);
            entry.set_value("FILE", &one.name);
            for (number, (begin, end)) in one.ranges.iter().enumerate() {
                entry.child_mut("RANGE").set_value(number, format_args!("{begin}-{end}"));
            }
        }
        for (number, one) in self.left.iter().enumerate() {
            let entry = tree.child_mut("LEFT").child_mut(format_args!("{number:08}"));
            entry.set_value("RANK", one.rank);
            entry.set_value("FILE", &one.name);
            entry.set_value("WHY", &one.why);
        }
        tree
    }

    /// Returns `None` if a field is missing or malformed.
    pub fn from_tree(tree: &KvTree) -> Option<Mended> {
        let range = |ranges: &KvTree, key: &str| {
            let (begin, end) = ranges.get_value(key)?.split_once('-')?;
            Some((begin.parse().ok()?, end.parse().ok()?))
        };
        let put = |entry: &KvTree| {
            let ranges = entry.child("RANGE");
            Some(Put {
                rank: entry.parse("RANK")?,
                name: entry.get_value("FILE")?.to_owned(),
                ranges: ranges.keys().map(|key| range(ranges, key)).collect::<Option<_>>()?,
            })
        };
        let left = |entry: &KvTree| {
            Some(NotMended {
                rank: entry.parse("RANK")?,
                name: entry.get_value("FILE")?.to_owned(),
                why: entry.get_value("WHY")?.to_owned(),
            })
        };
        Some(Mended {
            put: tree.child("PUT").iter().map(|(_, one)| put(one)).collect::<Option<_>>()?,
            left: tree.child("LEFT").iter().map(|(_, one)| left(one)).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn parts_that_differ_are_told_as_few_ranges() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("a"), dir.path().join("b"));
        let right = vec![7; 3 * CHUNK_BYTES];
        let mut wrong = right.clone();
        for at in [5, 9, CHUNK_BYTES + 1, 3 * CHUNK_BYTES - 1] {
            wrong[at] ^= 1;
        }
        let told = |bytes: &[u8]| {
            fs::write(&one, bytes).unwrap();
            fs::write(&other, &right).unwrap();
            differences(&one, &other).unwrap()
        };
        let (chunk, end) = (CHUNK_BYTES as u64, 3 * CHUNK_BYTES as u64);
        assert_eq!(told(&right), []);
        assert_eq!(told(&wrong), [(5, 10), (chunk + 1, chunk + 2), (end - 1, end)]);
        assert_eq!(told(&right[..100]), [(100, end)]);
        assert_eq!(told(&[]), [(0, end)]);
        let many: Vec<u8> = (0..end).map(|at| 7 + u8::from(at % 10_000 == 0)).collect();
        let ranges = told(&many);
        assert_eq!((ranges.len(), ranges[7].1), (RANGES_MAX, (end - 1) / 10_000 * 10_000 + 1));
    }
}
