//! Files that are opened as a descriptor is, to take its place.

use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

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

/// Names the file of a descriptor, whatever else it is called.
pub fn own_path(fd: i32) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{fd}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn a_descriptor_tells_its_mode_and_place() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"12345").unwrap();
        let (flags, offset) = descriptor_info(file.as_raw_fd()).unwrap();
        assert_eq!((flags & libc::O_ACCMODE, offset), (libc::O_RDWR, 5));
    }
}
