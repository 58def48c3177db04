//! Extended attributes that the program gives its files.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The name space that programs use; the others are the system's business.
const USER: &[u8] = b"user.";

/// Extended attributes by their names.
pub type Attributes = BTreeMap<String, Vec<u8>>;

/// Gives `to` the program's extended attributes of `from`, as far as the file system of `to` takes
/// them: one that does not would have refused the program, too. A file without any costs one call.
pub fn copy_user_attributes(from: &File, to: &File) {
    set_user_attributes(to, &user_attributes(from));
}

/// Returns the program's extended attributes of the file at `path`. A file without any costs one
/// call.
#[must_use]
pub fn user_attributes_at(path: &Path) -> Attributes {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return Attributes::new() };
    // SAFETY: a C string; the length of the list is asked for.
    let size = unsafe { libc::listxattr(name.as_ptr(), std::ptr::null_mut(), 0) };
    let file = if size > 0 { File::open(path).ok() } else { None };
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
    let names = names.split(|byte| *byte == 0).filter(|name| name.starts_with(USER));
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

/// What `call` writes into a buffer that is as large as it says; `None` if that is nothing.
fn read(call: impl Fn(*mut u8, usize) -> libc::ssize_t) -> Option<Vec<u8>> {
    let size = usize::try_from(call(std::ptr::null_mut(), 0)).ok().filter(|size| *size > 0)?;
    let mut buffer = vec![0; size];
    let size = usize::try_from(call(buffer.as_mut_ptr(), buffer.len())).ok()?;
    buffer.truncate(size);
    Some(buffer)
}
