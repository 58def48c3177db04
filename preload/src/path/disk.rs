//! What the file system says of a path. The guard is held, or the calls would come back to us.

use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::MaybeUninit;

use crate::base::errno::errno;

pub(crate) fn is_directory(path: &CStr) -> bool {
    let mut found = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: stat writes the structure when it returns 0.
    unsafe {
        libc::stat(path.as_ptr(), found.as_mut_ptr()) == 0
            && found.assume_init().st_mode & libc::S_IFMT == libc::S_IFDIR
    }
}

pub(crate) fn is_there_and_no_link(name: &[u8]) -> bool {
    let Ok(name) = CString::new(name) else { return false };
    let mut target: c_char = 0;
    // SAFETY: the buffer is writable for its length.
    let length = unsafe { libc::readlink(name.as_ptr(), &raw mut target, 1) };
    length < 0 && errno() == libc::EINVAL
}

pub(crate) fn of_descriptor(fd: c_int) -> Option<Vec<u8>> {
    let name = CString::new(format!("/proc/self/fd/{fd}")).ok()?;
    let mut target = [0_u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer is writable for its length.
    let length = unsafe { libc::readlink(name.as_ptr(), target.as_mut_ptr().cast(), target.len()) };
    let target = &target[..usize::try_from(length).ok()?];
    (target.first() == Some(&b'/')).then(|| target.to_vec())
}

pub(crate) fn real_path(path: &[u8]) -> Result<Vec<u8>, c_int> {
    let path = CString::new(path).map_err(|_| libc::EINVAL)?;
    // SAFETY: a null buffer makes realpath allocate; the result is freed below.
    unsafe {
        let found = libc::realpath(path.as_ptr(), std::ptr::null_mut());
        if found.is_null() {
            return Err(errno());
        }
        let bytes = CStr::from_ptr(found).to_bytes().to_vec();
        libc::free(found.cast());
        Ok(bytes)
    }
}

pub(super) fn working_directory() -> Option<Vec<u8>> {
    let mut buffer = [0 as c_char; libc::PATH_MAX as usize];
    // SAFETY: the buffer is writable for its length; on success it holds a C string.
    let path = unsafe {
        if libc::getcwd(buffer.as_mut_ptr(), buffer.len()).is_null() {
            return None;
        }
        CStr::from_ptr(buffer.as_ptr()).to_bytes()
    };
    // The kernel writes "(unreachable)" before a directory outside our root.
    (path.first() == Some(&b'/')).then(|| path.to_vec())
}
