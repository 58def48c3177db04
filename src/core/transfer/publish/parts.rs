//! A file that several nodes have written on its way to the prefix: each rank puts its part into
//! one staged file, in any order and as often as it likes; one of them gives it its name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Instant;

use crate::bytes::{Reader, Writer};
use crate::cache::{Catalog, Ctx};
use crate::error::{Error, Result};
use crate::files::{CopyOptions, Crc32, join_relative, open_own};
use crate::parts::CrcShare;
use crate::records::{DatasetRecord, FileContent, FileMeta, FilePart};
use crate::system;

/// Puts a part of the dataset in `dir` into `whole`, to be synced. What an earlier attempt has left
/// there is written over; after an error it stays, since others' parts are in it. Returns its share
/// in the checksum of the whole, if that is to be known.
pub(crate) fn write_part(
    dir: &Path,
    whole: &Path,
    file: &FileMeta,
    part: &FilePart,
    mut how: CopyOptions<'_>,
) -> Result<(Option<u32>, File)> {
    let begin = Instant::now();
    let mut create = OpenOptions::new();
    create.write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let failed = |error| Error::io("cannot write", whole, error);
    let copy = open_own(whole, &create).map_err(failed)?;
    if copy.metadata().map_err(failed)?.len() != part.whole {
        copy.set_len(part.whole).map_err(failed)?;
    }
    let content = FileContent::of(dir, file)?;
    let mut sums = how.crc32.then(|| (Crc32::new(), CrcShare::new(part.whole)));
    let mut at = 0;
    content.pass(|_, bytes| {
        let (length, mut rest) = (bytes.len() as u64, bytes);
        for piece in file.places(at, length) {
            let (now, later) = rest.split_at(piece.len() as usize);
            copy.write_all_at(now, piece.begin).map_err(failed)?;
            if let Some((crc32, share)) = &mut sums {
                crc32.update(now);
                share.add(piece.begin, now);
            }
            rest = later;
        }
        at += length;
        how.progress.as_mut().map_or(Ok(()), |progress| progress(length))
    })?;
    if let Some(pace) = how.pace {
        pace.note(at, begin.elapsed());
    }
    let found = sums.as_ref().map(|(crc32, _)| crc32.value());
    if file.crc32.zip(found).is_some_and(|(expected, found)| expected != found) {
        let what = "it is not what it was when the dataset was sealed";
        return Err(Error::corrupt(content.path(), what));
    }
    Ok((sums.map(|(_, share)| share.value()), copy))
}

/// Gives a file that parts were put into mode, times and attributes of the whole, durably, if it is
/// still there.
pub(crate) fn finish_whole(staged: &Path, file: &FileMeta) -> Result<()> {
    let mut write = OpenOptions::new();
    let done = open_own(staged, write.write(true).custom_flags(libc::O_NOFOLLOW));
    let done = done.and_then(|copy| {
        system::clear_acl(&copy);
        file.give_to(&copy)
    });
    match done {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::io("cannot write", staged, error))
        }
        _ => Ok(()),
    }
}

/// What all ranks have to know of a file of which several have parts.
struct StagedWhole {
    first: usize,
    is_left: bool,
    mode: u32,
    modified: (u64, u64),
}

/// Agrees on files of which several ranks have parts: what one rank leaves out, all do, also what
/// is `left_out`, by name, by one that has no part of it; mode and times are one; the lowest rank
/// that has a part gives the whole its name. Returns the names of this rank's. Collective.
pub(crate) fn agree_on_wholes<'a>(
    ctx: &Ctx,
    files: impl Iterator<Item = &'a mut FileMeta>,
    left_out: &dyn Fn(&str) -> bool,
) -> Result<BTreeSet<String>> {
    let own: Vec<&mut FileMeta> = files.filter(|file| file.part.is_some()).collect();
    let put = |out: &mut Writer, file: &&mut FileMeta| {
        out.counted(file.whole_name().as_bytes()).flags(&[file.on_prefix]).word32(file.mode);
        out.word(file.mtime_seconds as u64).word(file.mtime_nanoseconds as u64);
    };
    let bytes = Writer::new().list(&own, put).take();
    let mut wholes: BTreeMap<String, StagedWhole> = BTreeMap::new();
    for (rank, theirs) in ctx.world.all_gather(&bytes)?.into_iter().enumerate() {
        let take = |from: &mut Reader| {
            let (name, [is_left], mode) = (from.text()?, from.flags()?, from.word32()?);
            Some((
                name,
                StagedWhole { first: rank, is_left, mode, modified: (from.word()?, from.word()?) },
            ))
        };
        let unreadable = || Error::Unreadable("a rank's list of parts cannot be read".into());
        for (name, theirs) in Reader::new(&theirs).list(take).ok_or_else(unreadable)? {
            let (is_left, modified) = (theirs.is_left, theirs.modified);
            let whole = wholes.entry(name).or_insert(theirs);
            whole.is_left |= is_left;
            whole.modified = whole.modified.max(modified);
        }
    }
    // Who has put another file under the name may have no part of this one.
    let mut left: Vec<i64> = wholes.keys().map(|name| i64::from(left_out(name))).collect();
    ctx.world.all_max(&mut left)?;
    wholes.values_mut().zip(left).for_each(|(whole, left)| whole.is_left |= left > 0);
    for file in own {
        let Some(whole) = wholes.get(file.whole_name()) else { continue };
        file.mode = whole.mode;
        (file.mtime_seconds, file.mtime_nanoseconds) =
            (whole.modified.0 as i64, whole.modified.1 as i64);
        let Some(part) = file.part.as_mut().filter(|_| whole.is_left) else { continue };
        (file.on_prefix, file.crc32) = (true, None);
        let now = join_relative(ctx.prefix, &part.of)?.metadata();
        part.whole = now.map_or(part.whole, |now| now.len());
    }
    let me = ctx.world.rank();
    wholes.retain(|_, whole| whole.first == me && !whole.is_left);
    Ok(wholes.into_keys().collect())
}

/// Tells whether this rank gives the file its name, of several ranks' files the `wholes`.
pub(crate) fn is_named(file: &FileMeta, wholes: &BTreeSet<String>) -> bool {
    file.part.as_ref().is_none_or(|part| wholes.contains(&part.of))
}

/// Tells of which file `records`, those of all ranks, have not all parts that the dataset's catalog
/// knows.
pub(crate) fn lacking_parts(records: &[DatasetRecord]) -> Option<String> {
    fn sums<'a>(files: impl Iterator<Item = &'a FileMeta>) -> BTreeMap<&'a str, (u64, usize)> {
        let mut sums: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
        for (file, part) in files.filter_map(|file| Some((file, file.part.as_ref()?))) {
            let (bytes, parts) = sums.entry(&part.of).or_default();
            (*bytes, *parts) = (bytes.saturating_add(file.size), *parts + 1);
        }
        sums
    }
    let there = sums(records.iter().flat_map(|record| &record.files));
    let of_seal = |record: &DatasetRecord| {
        Catalog::read(&record.dir).ok().flatten().filter(|catalog| catalog.epoch == record.epoch)
    };
    let catalog = records.iter().filter(|_| !there.is_empty()).find_map(of_seal)?;
    let all = sums(catalog.entries.iter().map(|entry| &entry.meta));
    let lacking = all.into_iter().find(|(name, sum)| there.get(name) != Some(sum));
    lacking.map(|(name, _)| format!("not all parts of {name} are there"))
}
