//! Files of this user that the program has forbidden itself to read or write (mode 0200, 0000): on
//! the PFS they would be as good as any, so they are kept like any.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Read as _;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use crate::system::user_id;

/// Opens a file as `options` say. Where its mode alone forbids that, the mode is put aside for the
/// moment of the opening.
///
/// # Errors
/// It cannot be opened, or is not this user's.
pub fn open_own(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let denied = match options.open(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => error,
        opened => return opened,
    };
    let found = match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() && found.uid() == user_id() => found.permissions(),
        _ => return Err(denied),
    };
    fs::set_permissions(path, Permissions::from_mode(found.mode() | 0o600))?;
    let opened = options.open(path);
    fs::set_permissions(path, found)?;
    opened
}

/// Opens a file for reading, as [`open_own`] does.
///
/// # Errors
/// As [`open_own`].
pub fn read_own(path: &Path) -> io::Result<File> {
    open_own(path, OpenOptions::new().read(true))
}

/// Tells whether both files hold the same bytes; false if either cannot be read.
pub fn same_content(one: &Path, other: &Path) -> bool {
    let compare = || -> std::io::Result<bool> {
        let (mut a, mut b) = (read_own(one)?, read_own(other)?);
        let mut left = a.metadata()?.len();
        if left != b.metadata()?.len() {
            return Ok(false);
        }
        let (mut x, mut y) = (vec![0; 1 << 20], vec![0; 1 << 20]);
        while left > 0 {
            let count = left.min(1 << 20) as usize;
            a.read_exact(&mut x[..count])?;
            b.read_exact(&mut y[..count])?;
            if x[..count] != y[..count] {
                return Ok(false);
            }
            left -= count as u64;
        }
        Ok(true)
    };
    compare().unwrap_or(false)
}
