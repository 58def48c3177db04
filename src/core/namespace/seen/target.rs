//! Files of a dataset on this node, made so that a later open with the program's own flags behaves
//! as it would on the PFS.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::answer::Answer;
use super::place::Place;
use crate::cache::disk::describe;
use crate::error::{Error, Result};
use crate::files::{CopyOptions, copy_file};
use crate::namespace::{Makes, OpenIntent};
use crate::records::{FileMeta, PART_MODE};
use crate::system::{
    Attributes, clear_acl, copy_default_acl, is_denied, may_make_in, set_user_attributes,
    user_attributes_at,
};

/// What lies at a path on the PFS, as far as a write-open cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnPrefix {
    Absent,
    File {
        mode: u32,
    },
    /// A link, a directory, a device, a file with several names, or one that cannot be looked at.
    Other,
}

pub struct FoundTarget {
    pub place: Place,
    pub on_prefix: OnPrefix,
    pub exists: bool,
}

impl FoundTarget {
    /// Returns what is known of the file `name` in `dir`, of which this node has a part: what is
    /// here is never all of it.
    pub fn part_meta(&self, dir: &Path, name: &str) -> FileMeta {
        let meta = match &self.place {
            Place::Elsewhere(_, remote) => remote.meta.clone(),
            _ => describe(&dir.join(name), name).unwrap_or_else(|_| FileMeta {
                name: name.to_owned(),
                mode: PART_MODE,
                ..FileMeta::default()
            }),
        };
        FileMeta { is_shared: true, ..meta }
    }

    /// Answers an open of a file that is not routed: what is in the cache can only be found there.
    pub fn in_place(&self) -> Answer {
        match &self.place {
            Place::Cached(_, here) | Place::Private(here) => Answer::at(here.clone()),
            _ => Answer::PASS,
        }
    }

    /// Tells whether its rights forbid an open for writing. To change them, its owner or its times
    /// needs no right to write.
    pub fn is_denied(&self) -> bool {
        matches!(&self.place, Place::Cached(_, here) | Place::Private(here) if is_denied(here))
    }
}

/// Does not follow links.
pub fn on_prefix(path: &Path) -> OnPrefix {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() && found.nlink() == 1 => {
            OnPrefix::File { mode: found.mode() & 0o7777 }
        }
        Ok(_) => OnPrefix::Other,
        Err(e) if e.kind() == ErrorKind::NotFound => OnPrefix::Absent,
        Err(_) => OnPrefix::Other,
    }
}

pub fn may_create(path: &Path) -> bool {
    path.parent().is_some_and(may_make_in)
}

pub fn make_parents(dir: &Path, name: &str) -> Result<()> {
    let Some(parent) = dir.join(name).parent().map(Path::to_path_buf) else { return Ok(()) };
    if parent.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&parent)
        .map_err(|e| Error::io("cannot create the directory", &parent, e))
}

/// Marks a directory that waits for its default ACL: the sticky bit means nothing where all files
/// are of one user.
const WAITS_FOR_ACL: u32 = 0o1000;

/// Makes the directories that `name` needs below `dir`, so that a file made there gets the rights
/// that it would have below `prefix`. Ranks of a node do that at the same time: whoever finds a
/// directory that waits for its ACL gives it by himself.
pub fn make_parents_like(prefix: &Path, dir: &Path, name: &str) -> Result<()> {
    let (place, like) = (dir.join(name), prefix.join(name));
    let (Some(place), Some(like)) = (place.parent(), like.parent()) else { return Ok(()) };
    let failed = |error| Error::io("cannot create the directory", place, error);
    let give = || {
        let given = copy_default_acl(like, place);
        given.map_err(|e| Error::io("cannot give its default ACL to", place, e))
    };
    if place == dir {
        return make_parents(dir, name).and_then(|()| give());
    }
    let is_ready = |found: &fs::Metadata| found.is_dir() && found.mode() & WAITS_FOR_ACL == 0;
    if place.metadata().is_ok_and(|found| is_ready(&found)) {
        return Ok(());
    }
    let make = || fs::DirBuilder::new().mode(0o700 | WAITS_FOR_ACL).create(place);
    let mut made = make();
    if made.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        let above = name.rsplit_once('/').map_or("", |(above, _)| above);
        make_parents_like(prefix, dir, above)?;
        made = make();
    }
    if let Err(error) = made {
        let found = place.metadata().ok().filter(fs::Metadata::is_dir);
        let Some(found) = found else { return Err(failed(error)) };
        if is_ready(&found) {
            return Ok(());
        }
    }
    give()?;
    fs::set_permissions(place, fs::Permissions::from_mode(0o700)).map_err(failed)
}

pub fn make_empty(path: &Path, mode: u32, attributes: &Attributes) -> Result<()> {
    let made = make(path, mode, attributes, fs::OpenOptions::new().create(true).truncate(true));
    made.map_err(|e| Error::io("cannot write", path, e))
}

/// Makes the file in `dir` for what this node will have of a file that several write, unless the
/// program's own open makes it.
pub fn make_part(
    prefix: &Path,
    dir: &Path,
    name: &str,
    found: &FoundTarget,
    intent: OpenIntent,
) -> Result<()> {
    make_parents_like(prefix, dir, name)?;
    let on_prefix = || user_attributes_at(&prefix.join(name));
    let (mode, attributes) = &match (&found.place, found.on_prefix) {
        (Place::Elsewhere(_, remote), _) => {
            (remote.meta.mode & 0o7777, remote.meta.attributes.clone())
        }
        // Who empties a file where it lies changes no right of it.
        (_, OnPrefix::File { mode }) if intent.makes == Makes::No && found.exists => {
            (mode, on_prefix())
        }
        _ if intent.makes == Makes::No => (PART_MODE, Attributes::default()),
        _ => return Ok(()),
    };
    make_if_missing(&dir.join(name), *mode, attributes)
}

/// Makes an empty file, but one that is there stays as it is: another rank of the node may have
/// made it just now, and written to it.
fn make_if_missing(path: &Path, mode: u32, attributes: &Attributes) -> Result<()> {
    match make(path, mode, attributes, fs::OpenOptions::new().create_new(true)) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(|e| Error::io("cannot write", path, e)),
    }
}

fn make(
    path: &Path,
    mode: u32,
    attributes: &Attributes,
    how: &mut fs::OpenOptions,
) -> io::Result<()> {
    let file = how.write(true).mode(0o600).open(path)?;
    clear_acl(&file);
    set_user_attributes(&file, attributes);
    file.set_permissions(fs::Permissions::from_mode(mode))
}

/// Copies content, permission bits and times.
pub fn copy_up(from: &Path, to: &Path) -> Result<()> {
    let options = CopyOptions { crc32: false, sync: false, ..CopyOptions::default() };
    copy_file(from, to, options).map(drop)
}

/// Moves a file, to another file system if need be. An `open` one cannot leave its file system: its
/// descriptors would stay behind.
pub fn move_to_unless(open: bool, from: &Path, to: &Path) -> Result<()> {
    match fs::rename(from, to) {
        Err(e) if e.kind() == ErrorKind::CrossesDevices && !open => {
            copy_up(from, to)?;
            remove(from)
        }
        other => other.map_err(|e| Error::io("cannot rename", from, e)),
    }
}

/// Moves a file as [`move_to_unless`] does; with `keep`, a copy stays at `from`, and what is `open`
/// goes along to `to`. After a failure `from` is as it was.
pub fn move_and_keep(open: bool, keep: bool, from: &Path, to: &Path) -> Result<()> {
    if !keep {
        return move_to_unless(open, from, to);
    }
    remove(to)?;
    if !open {
        return copy_up(from, to);
    }
    let mut copy = to.as_os_str().to_owned();
    copy.push(".scrtmp");
    let copy = Path::new(&copy);
    let put_back = |error| {
        let _ = fs::rename(to, from);
        Err(Error::io("cannot rename", copy, error))
    };
    let moved = copy_up(from, copy)
        .and_then(|()| move_to_unless(true, from, to))
        .and_then(|()| fs::rename(copy, from).or_else(put_back));
    if moved.is_err() {
        let _ = remove(copy);
    }
    moved
}

pub fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io("cannot delete", path, e)),
        _ => Ok(()),
    }
}

/// Returns the copy; nothing is left of one that fails.
pub fn copy_into(folder: &Path, name: &str, origin: &Path) -> Result<PathBuf> {
    let copy = folder.join(name);
    let made = make_parents(folder, name).and_then(|()| copy_up(origin, &copy));
    if made.is_err() {
        let _ = remove(&copy);
    }
    made.map(|()| copy)
}

/// Copies `from` to `to`, where nothing stays that was there; after an error nothing is there.
pub fn copy_over(from: &Path, to: &Path) -> Result<()> {
    remove(to)?;
    copy_up(from, to).inspect_err(|_| drop(remove(to)))
}

/// A file as it was when the program deleted it; the prefix has it until its deletion is real. It
/// is known by more than its name, which a rank of another node may give to another file meanwhile
/// (it moves a directory there, say).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doomed {
    /// Device and inode on the prefix, and how the file looks: a new file may get the inode of one
    /// that has gone.
    there: Option<(u64, u64, Stamped)>,
    /// The cached file, which a flush may yet bring there, with its size and time.
    cached: Option<Stamped>,
}

/// Bytes, and seconds and nanoseconds of the last change.
type Stamped = (u64, i64, i64);

impl Doomed {
    pub fn of(path: &Path, cached: Option<&Path>) -> Doomed {
        let found = path.symlink_metadata().ok();
        let here = cached.and_then(|here| here.metadata().ok());
        Doomed {
            there: found.map(|found| (found.dev(), found.ino(), look(&found))),
            cached: here.map(|here| look(&here)),
        }
    }

    /// Takes a file of which nothing was known for the one at `path`.
    pub fn is_at(&self, path: &Path) -> bool {
        let Ok(found) = path.symlink_metadata() else { return true };
        (self.there.is_none() && self.cached.is_none())
            || self.there == Some((found.dev(), found.ino(), look(&found)))
            || self.cached == Some(look(&found))
    }
}

/// Returns by what a later look tells whether the file at `path` is still the same: its size and
/// time. What is not there has neither.
pub fn look_at(path: &Path) -> FileMeta {
    let found = path.symlink_metadata().map(|found| look(&found));
    let (size, mtime_seconds, mtime_nanoseconds) = found.unwrap_or_default();
    FileMeta { size, mtime_seconds, mtime_nanoseconds, ..FileMeta::default() }
}

fn look(found: &fs::Metadata) -> Stamped {
    (found.len(), found.mtime(), found.mtime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_moves_and_its_copy_stays() {
        use std::io::Write as _;
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("f"), dir.path().join("g"));
        let mut file = fs::File::create(&from).unwrap();
        file.write_all(b"one").unwrap();
        move_and_keep(true, true, &from, &to).unwrap();
        file.write_all(b" two").unwrap();
        assert_eq!(fs::read(&from).unwrap(), b"one");
        assert_eq!(fs::read(&to).unwrap(), b"one two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn links_and_directories_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        assert_eq!(on_prefix(&file), OnPrefix::Absent);
        make_empty(&file, 0o640, &Attributes::new()).unwrap();
        assert_eq!(on_prefix(&file), OnPrefix::File { mode: 0o640 });
        fs::write(&file, "of another rank").unwrap();
        make_if_missing(&file, 0o600, &Attributes::new()).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"of another rank");
        assert_eq!(on_prefix(&file), OnPrefix::File { mode: 0o640 });
        fs::hard_link(&file, dir.path().join("g")).unwrap();
        assert_eq!(on_prefix(&file), OnPrefix::Other);
        assert_eq!(on_prefix(dir.path()), OnPrefix::Other);
    }

    #[test]
    fn another_file_of_the_name_is_told_from_what_was_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let [path, cached, other] = ["file", "cached", "other"].map(|name| dir.path().join(name));
        std::fs::write(&path, "old").unwrap();
        std::fs::write(&cached, "in the cache").unwrap();
        let doomed = Doomed::of(&path, Some(&cached));
        assert!(doomed.is_at(&path));
        // A flush comes late.
        std::fs::rename(&cached, &path).unwrap();
        assert!(doomed.is_at(&path));
        std::fs::write(&other, "moved here by another rank").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert!(!doomed.is_at(&path));
        assert!(Doomed::of(&other, None).is_at(&path), "nothing was known of it");
        std::fs::remove_file(&path).unwrap();
        assert!(doomed.is_at(&path));
    }
}
