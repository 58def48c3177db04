//! Small steps on files and directories that several operations of the cache share.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, again};
use crate::files::create_dirs;
use crate::records::{FileContent, FileMeta};
use crate::system::user_attributes_at;

pub(crate) const CHUNK_BYTES: usize = 1 << 20;

/// Makes a directory and its parents for this user only, unless it is there.
pub(crate) fn make_own_dir(dir: &Path) -> Result<()> {
    create_dirs(dir, 0o700)
}

/// Returns the names in a directory, sorted; none if it is not there.
pub(crate) fn names_in(dir: &Path) -> Result<Vec<String>> {
    let fail = |e| Error::io("cannot list the directory", dir, e);
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(fail(e)),
    };
    let mut names = Vec::new();
    for entry in entries {
        if let Ok(name) = entry.map_err(fail)?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Finds `dir` and all directories below it, but for those that are called `without`.
pub(crate) fn folders_below(dir: &Path, without: &str) -> Result<Vec<PathBuf>> {
    let mut found = vec![dir.to_path_buf()];
    let mut at = 0;
    while let Some(folder) = found.get(at).cloned() {
        let fail = |e| Error::io("cannot list the directory", &folder, e);
        for entry in fs::read_dir(&folder).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            if entry.file_name() != without && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.push(entry.path());
            }
        }
        at += 1;
    }
    Ok(found)
}

pub(crate) fn files_below(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for name in names_in(&dir.join(&folder))? {
            let relative = folder.join(name);
            match fs::symlink_metadata(dir.join(&relative)) {
                Ok(meta) if meta.is_dir() => folders.push(relative),
                Ok(_) => found.push(relative),
                Err(_) => {} // Gone since the listing.
            }
        }
    }
    found.sort();
    Ok(found)
}

pub(crate) fn describe(path: &Path, name: &str) -> Result<FileMeta> {
    let meta = fs::metadata(path).map_err(|e| Error::io("cannot read", path, e))?;
    Ok(FileMeta {
        name: name.to_owned(),
        size: meta.len(),
        crc32: None,
        mode: meta.mode() & 0o7777,
        mtime_seconds: meta.mtime(),
        mtime_nanoseconds: meta.mtime_nsec(),
        on_prefix: false,
        is_shared: false,
        attributes: user_attributes_at(path),
        part: None,
    })
}

/// Asks once more after an error, which may be passing.
pub(crate) fn is_there(path: &Path) -> bool {
    path.try_exists().or_else(|_| path.try_exists()).unwrap_or(false)
}

/// Tells whether a file has the recorded size and, with `content`, the recorded checksum. An error
/// may be passing, and what is taken for lost is given up, so the file is looked at once more.
pub(crate) fn matches(dir: &Path, meta: &FileMeta, content: bool) -> bool {
    let crc32 = meta.crc32.filter(|_| content);
    FileContent::of(dir, meta).is_ok_and(|there| has_all(&there, crc32))
}

/// Tells what `matches` tells of content at any place.
pub(crate) fn has_all(there: &FileContent, crc32: Option<u32>) -> bool {
    let path = there.path();
    let found = fs::metadata(path).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Err(error),
        _ => fs::metadata(path),
    });
    found.is_ok_and(|found| found.is_file() && there.fits(found.len()))
        && crc32.is_none_or(|crc32| again(|| there.crc32()).is_ok_and(|found| found == crc32))
}
