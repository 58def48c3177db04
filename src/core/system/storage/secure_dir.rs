//! Directories below a base that everybody can write (`/dev/shm`, `/tmp`): created step by step,
//! and nobody else can put something else in their place.
//!
//! Every directory below the base is opened from the one above without following a link, belongs to
//! this user and has mode 0700; the base lets nobody rename another user's entries (it is sticky,
//! or only its owner, root or we, can write it). Paths below are therefore as safe as descriptors.

use std::ffi::CString;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use crate::error::{Error, Result, again};
use crate::files;
use crate::system::errno::check;
use crate::system::user_id;

const MODE: u32 = 0o700;

/// Makes `<base>/<below[0]>/<below[1]>/...`, or makes sure of it; what is missing below the base is
/// created with mode 0700. The base itself must be there; it may be reached through links, since a
/// person named it.
pub fn secure_dir(base: &Path, below: &[&str]) -> Result<()> {
    again(|| open_secure(base, below))
}

fn open_secure(base: &Path, below: &[&str]) -> Result<()> {
    let mut dir = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY)
        .open(base)
        .map_err(|error| Error::io("cannot open the directory", base, error))?;
    check_base(base, &dir)?;
    let mut path = base.to_path_buf();
    for name in below {
        if !files::is_safe_relative(name) || name.contains('/') {
            return Err(refused(&path, format!("{name:?} cannot be a directory name below it")));
        }
        path.push(name);
        dir = step(&dir, name, &path)?;
    }
    Ok(())
}

fn check_base(path: &Path, dir: &File) -> Result<()> {
    let metadata = dir.metadata().map_err(|error| Error::io("cannot look at", path, error))?;
    let trusted = metadata.uid() == 0 || metadata.uid() == user_id();
    let sticky = metadata.mode() & libc::S_ISVTX != 0;
    if !trusted || (metadata.mode() & 0o022 != 0 && !sticky) {
        let what = format!(
            "users other than its owner can rename what is in it (owner uid {}, mode {:04o}); \
             set its sticky bit or name another base directory",
            metadata.uid(),
            metadata.mode() & 0o7777
        );
        return Err(refused(path, what));
    }
    Ok(())
}

fn step(parent: &File, name: &str, path: &Path) -> Result<File> {
    let failed = |error| Error::io("cannot create the directory", path, error);
    let c_name = CString::new(name).map_err(|_| failed(io::ErrorKind::InvalidInput.into()))?;
    // SAFETY: `c_name` ends with a NUL, and `parent` is open.
    let made = check(unsafe { libc::mkdirat(parent.as_raw_fd(), c_name.as_ptr(), MODE) });
    if let Err(error) = &made
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(failed(io::Error::from_raw_os_error(
            error.raw_os_error().unwrap_or(libc::EIO),
        )));
    }
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: as above; without O_CREAT no mode is needed.
    let fd = check(unsafe { libc::openat(parent.as_raw_fd(), c_name.as_ptr(), flags) }).map_err(
        |error| match error.raw_os_error() {
            Some(libc::ELOOP | libc::ENOTDIR) => {
                refused(path, "a link or file has its name; remove it".into())
            }
            _ => Error::io("cannot open the directory", path, error),
        },
    )?;
    // SAFETY: `fd` was just opened and belongs to nobody else.
    let dir = unsafe { File::from_raw_fd(fd) };
    if made.is_ok() {
        // The umask may have taken bits away that we need.
        dir.set_permissions(Permissions::from_mode(MODE)).map_err(failed)?;
        // All that will be durable below it needs its name. Where directories cannot be synced,
        // there is nothing better to do.
        match parent.sync_all() {
            Err(error) if !matches!(error.kind(), io::ErrorKind::InvalidInput) => {
                return Err(failed(error));
            }
            _ => {}
        }
    }
    let metadata = dir.metadata().map_err(failed)?;
    if metadata.uid() != user_id() {
        return Err(refused(path, format!("it belongs to uid {}", metadata.uid())));
    }
    if metadata.mode() & 0o777 != MODE {
        let mode = metadata.mode() & 0o777;
        return Err(refused(path, format!("its mode is {mode:04o}; make it 0700")));
    }
    Ok(dir)
}

/// Makes sure that a directory of ours that others can see, if it is there, is one, belongs to this
/// user, and that nobody else can put anything into it.
pub fn check_own_dir(path: &Path) -> Result<()> {
    again(|| check_own(path))
}

fn check_own(path: &Path) -> Result<()> {
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("cannot look at", path, error)),
    };
    if !found.is_dir() {
        return Err(refused(path, "a link or file has its name; remove it".into()));
    }
    if found.uid() != user_id() {
        return Err(refused(path, format!("it belongs to uid {}", found.uid())));
    }
    if found.mode() & 0o022 != 0 {
        let closed = Permissions::from_mode(found.mode() & 0o7755);
        std::fs::set_permissions(path, closed)
            .map_err(|error| Error::io("cannot set the mode of", path, error))?;
    }
    Ok(())
}

fn refused(path: &Path, why: String) -> Error {
    Error::Refused(format!("the directory {} is not used: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn base() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn creates_and_finds_again() {
        let base = base();
        secure_dir(base.path(), &["user", "scr.1"]).unwrap();
        let made = base.path().join("user/scr.1").metadata().unwrap();
        assert_eq!(made.mode() & 0o7777, 0o700);
        secure_dir(base.path(), &["user", "scr.1"]).unwrap();
    }

    #[test]
    fn links_files_and_open_modes_are_refused() {
        let base = base();
        let other = base.path().join("other");
        fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&other, base.path().join("link")).unwrap();
        fs::write(base.path().join("file"), "").unwrap();
        fs::set_permissions(&other, Permissions::from_mode(0o755)).unwrap();
        for (name, why) in [("link", "a link"), ("file", "a link or file"), ("other", "0755")] {
            let error = secure_dir(base.path(), &[name, "scr.1"]).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(name), "{error}");
        }
        assert!(!other.join("scr.1").exists());
        for name in ["..", ".", "", "a/b"] {
            assert!(secure_dir(base.path(), &[name]).is_err(), "{name:?}");
        }
    }

    #[test]
    fn what_others_can_see_must_be_ours_all_the_same() {
        let base = base();
        let path = base.path().join(".scr");
        check_own_dir(&path).unwrap();
        std::os::unix::fs::symlink(base.path(), &path).unwrap();
        assert!(check_own_dir(&path).unwrap_err().to_string().contains("a link"));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o2777)).unwrap();
        check_own_dir(&path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o2755);
        if user_id() == 0 {
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            assert!(check_own_dir(&path).unwrap_err().to_string().contains("uid 65534"));
        }
    }

    #[test]
    fn a_base_where_others_can_rename_is_refused() {
        let base = base();
        fs::set_permissions(base.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(secure_dir(base.path(), &["user"]).is_err());
        fs::set_permissions(base.path(), Permissions::from_mode(0o1777)).unwrap();
        secure_dir(base.path(), &["user"]).unwrap();
    }
}
