//! Files that are opened as a descriptor is, to take its place.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::{Error, Result};
use crate::system::{is_open_elsewhere, user_attributes_at};

/// Opens `path` with the access mode and the offset of `fd`.
pub fn open_alike(fd: i32, path: &Path) -> Result<File> {
    let (flags, offset) = descriptor_info(fd)?;
    let access = flags & libc::O_ACCMODE;
    let mut file = OpenOptions::new()
        .read(access != libc::O_WRONLY)
        .write(access != libc::O_RDONLY)
        .custom_flags(flags & (libc::O_APPEND | libc::O_SYNC | libc::O_DSYNC))
        .open(path)
        .map_err(|e| Error::io("cannot open", path, e))?;
    file.seek(SeekFrom::Start(offset)).map_err(|e| Error::io("cannot seek in", path, e))?;
    Ok(file)
}

pub fn descriptor_info(fd: i32) -> Result<(i32, u64)> {
    let path = std::path::PathBuf::from(format!("/proc/self/fdinfo/{fd}"));
    let text = std::fs::read_to_string(&path).map_err(|e| Error::io("cannot read", &path, e))?;
    let field = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next())
    };
    let flags = field("flags:").and_then(|word| i32::from_str_radix(word, 8).ok());
    let offset = field("pos:").and_then(|word| word.parse().ok());
    match (flags, offset) {
        (Some(flags), Some(offset)) => Ok((flags, offset)),
        _ => Err(Error::corrupt(path, "no flags or no position")),
    }
}

/// Opens `spare` as `fd` is, with the attributes of that one's file; `None`: it cannot be that
/// file, or somebody may look at it still.
pub fn open_in_place_of(fd: i32, spare: &Path) -> Option<File> {
    let empty = PathBuf::from(format!("/proc/self/fd/{fd}"));
    let like = empty.metadata().ok()?;
    let file = open_alike(fd, spare).ok()?;
    let found = file.metadata().ok()?;
    let alike = (found.dev(), found.uid(), found.gid()) == (like.dev(), like.uid(), like.gid());
    let is_alone = found.is_file() && (found.nlink(), like.nlink()) == (1, 1);
    let is_plain = |path: &Path| user_attributes_at(path).is_empty();
    let fits = is_alone && alike && like.len() == 0 && is_plain(spare) && is_plain(&empty);
    if !fits || is_open_elsewhere(&file) != Some(false) {
        return None;
    }
    file.set_permissions(Permissions::from_mode(like.mode() & 0o7777)).ok()?;
    file.set_modified(SystemTime::now()).ok()?;
    Some(file)
}

/// Names the file of a descriptor, whatever else it is called.
pub fn own_path(fd: i32) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{fd}"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    use super::*;

    struct Both(tempfile::TempDir, PathBuf, File);

    impl Both {
        fn new() -> Both {
            let dir = tempfile::tempdir_in("/dev/shm").unwrap();
            let spare = dir.path().join("old");
            fs::write(&spare, "old content").unwrap();
            let mut options = File::options();
            let new = options.write(true).create_new(true).mode(0o640);
            let new = new.open(dir.path().join("new")).unwrap();
            Both(dir, spare, new)
        }

        fn opened(&self) -> Option<File> {
            open_in_place_of(self.2.as_raw_fd(), &self.1)
        }
    }

    #[test]
    fn the_old_file_gets_the_attributes_of_the_new_one() {
        let both = Both::new();
        let long_ago = SystemTime::UNIX_EPOCH;
        File::options().write(true).open(&both.1).unwrap().set_modified(long_ago).unwrap();
        let (found, new) = (both.opened().unwrap().metadata().unwrap(), both.2.metadata().unwrap());
        assert_eq!((found.mode(), found.len()), (new.mode(), 11));
        assert!(found.modified().unwrap() > long_ago);
    }

    #[test]
    fn nothing_is_written_over_that_somebody_may_look_at() {
        let both = Both::new();
        let reader = File::open(&both.1).unwrap();
        assert!(both.opened().is_none(), "somebody reads it");
        drop(reader);
        let second = both.1.with_extension("second");
        fs::hard_link(&both.1, &second).unwrap();
        assert!(both.opened().is_none(), "it has a second name");
        fs::remove_file(&second).unwrap();
        fs::hard_link(both.0.path().join("new"), &second).unwrap();
        assert!(both.opened().is_none(), "the new one has");
        fs::remove_file(&second).unwrap();
        assert!(both.opened().is_some());
    }

    #[test]
    fn a_descriptor_tells_its_mode_and_place() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"12345").unwrap();
        let (flags, offset) = descriptor_info(file.as_raw_fd()).unwrap();
        assert_eq!((flags & libc::O_ACCMODE, offset), (libc::O_RDWR, 5));
    }
}
