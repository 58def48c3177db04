//! Extended attributes that the program gives its files.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::files::read_own;
use crate::system::errno::check;

/// The name space that programs use.
const USER: &[u8] = b"user.";
/// Rights beyond the mode, those included that the default ACL of a directory gives a new file. The
/// other names are the system's business.
const ACL: &[u8] = b"system.posix_acl_access";
const DEFAULT_ACL: &CStr = c"system.posix_acl_default";

/// Extended attributes by their names.
pub type Attributes = BTreeMap<String, Vec<u8>>;

/// Gives `to` the program's extended attributes of `from`, as far as the file system of `to` takes
/// them: one that does not would have refused the program, too. A file without any costs one call.
pub fn copy_user_attributes(from: &File, to: &File) {
    set_user_attributes(to, &user_attributes(from));
}

/// Takes from a file the rights beyond its mode that the default ACL of its directory gave it.
pub fn clear_acl(file: &File) {
    let name = CString::new(ACL).unwrap_or_default();
    // SAFETY: a C string, and an open descriptor. Mostly there are none.
    unsafe { libc::fremovexattr(file.as_raw_fd(), name.as_ptr()) };
}

/// Makes the default ACL of the directory `to` that of the directory `from`.
pub fn copy_default_acl(from: &Path, to: &Path) -> io::Result<()> {
    let path = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other);
    let (from, to) = (path(from)?, path(to)?);
    let acl = read(|at, size| {
        // SAFETY: C strings; the buffer is writable for `size` bytes; with none, the length is
        // asked for.
        unsafe { libc::getxattr(from.as_ptr(), DEFAULT_ACL.as_ptr(), at.cast(), size) }
    });
    let Some(acl) = acl else { return Ok(()) };
    // SAFETY: C strings, and a buffer that is readable for its length.
    let set = unsafe {
        libc::setxattr(to.as_ptr(), DEFAULT_ACL.as_ptr(), acl.as_ptr().cast(), acl.len(), 0)
    };
    check(set).map(drop)
}

/// Returns the program's extended attributes of the file at `path`. A file without any costs one
/// call.
#[must_use]
pub fn user_attributes_at(path: &Path) -> Attributes {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return Attributes::new() };
    // SAFETY: a C string; the length of the list is asked for.
    let size = unsafe { libc::listxattr(name.as_ptr(), std::ptr::null_mut(), 0) };
    let file = if size > 0 { read_own(path).ok() } else { None };
    file.as_ref().map(user_attributes).unwrap_or_default()
}

/// Gives a file these attributes, as far as its file system takes them.
pub fn set_user_attributes(to: &File, attributes: &Attributes) {
    for (name, value) in attributes {
        let Ok(name) = CString::new(name.as_str()) else { continue };
        // SAFETY: a C string, and a buffer that is readable for its length.
        unsafe {
            libc::fsetxattr(to.as_raw_fd(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0)
        };
    }
}

fn user_attributes(from: &File) -> Attributes {
    let names = read(|at, size| {
        // SAFETY: the buffer is writable for `size` bytes; with none, the length is asked for.
        unsafe { libc::flistxattr(from.as_raw_fd(), at.cast(), size) }
    });
    let names = names.unwrap_or_default();
    let names =
        names.split(|byte| *byte == 0).filter(|name| name.starts_with(USER) || *name == ACL);
    let value = |name: &[u8]| {
        let (text, name) = (std::str::from_utf8(name).ok()?, CString::new(name).ok()?);
        let value = read(|at, size| {
            // SAFETY: as above; the name is a C string.
            unsafe { libc::fgetxattr(from.as_raw_fd(), name.as_ptr(), at.cast(), size) }
        });
        Some((text.to_string(), value.unwrap_or_default()))
    };
    names.filter_map(value).collect()
}

fn read(call: impl Fn(*mut u8, usize) -> libc::ssize_t) -> Option<Vec<u8>> {
    let size = usize::try_from(call(std::ptr::null_mut(), 0)).ok().filter(|size| *size > 0)?;
    let mut buffer = vec![0; size];
    let size = usize::try_from(call(buffer.as_mut_ptr(), buffer.len())).ok()?;
    buffer.truncate(size);
    Some(buffer)
}
