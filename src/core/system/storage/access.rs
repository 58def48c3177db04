//! What the program itself would be allowed to do.

use std::ffi::CString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Tells whether this process may write to `path`; false if there is no such path.
#[must_use]
pub fn may_write(path: &Path) -> bool {
    ask(path).is_ok()
}

/// Tells whether this process may make files in `dir`; false if there is no such directory.
#[must_use]
pub fn may_make_in(dir: &Path) -> bool {
    ask_for(dir, libc::W_OK | libc::X_OK).is_ok()
}

/// Tells whether the permissions of `path` forbid that this process writes to it. A file system
/// that fails, or is read-only, says nothing of them.
#[must_use]
pub fn is_denied(path: &Path) -> bool {
    ask(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

fn ask(path: &Path) -> std::io::Result<()> {
    ask_for(path, if path.is_dir() { libc::W_OK | libc::X_OK } else { libc::W_OK })
}

fn ask_for(path: &Path, mode: libc::c_int) -> std::io::Result<()> {
    let text = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `text` is NUL-terminated and outlives the call.
    match unsafe { libc::faccessat(libc::AT_FDCWD, text.as_ptr(), mode, libc::AT_EACCESS) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_cannot_be_written() {
        let dir = tempfile::tempdir().unwrap();
        assert!(may_write(dir.path()) && may_make_in(dir.path()));
        assert!(!may_write(&dir.path().join("x")) && !may_make_in(&dir.path().join("x")));
        assert!(!is_denied(&dir.path().join("x")));
    }
}
