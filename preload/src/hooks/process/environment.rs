//! A program that is given an environment which was copied before MPI_Init, as Python's
//! `os.environ` is, learns of the rank that starts it all the same.

use std::ffi::{CStr, c_char, c_int};

use crate::child;
use crate::fd::in_order;
use crate::hooks::family::made;
use crate::hooks::process::programs::with_place;

made! {
    plain [execve, execvpe](
        path: *const c_char, arguments: *const *mut c_char, environment: *const *mut c_char
    ) -> c_int = |real| {
        in_order::stop_all(); // a vfork child: what it becomes may have our descriptors
        with_place(path, |path| {
            with_rank(environment, |environment| real(path, arguments, environment))
        })
    };
}

const ENTRIES_MAX: usize = 1024;

/// Adds the rank to an environment that loads us and does not tell of it. No allocation and no
/// lock: the caller may be a vfork child. Safety: `environment` is null or an array of C strings
/// that ends with null.
pub(super) unsafe fn with_rank<T>(
    environment: *const *mut c_char,
    call: impl FnOnce(*const *mut c_char) -> T,
) -> T {
    let Some(own) = child::variable().filter(|_| !environment.is_null()) else {
        return call(environment);
    };
    let mut longer = [std::ptr::null_mut(); ENTRIES_MAX + 2];
    let (mut count, mut loads, mut tells) = (0, false, false);
    // SAFETY: the caller's promise; the array has room for one more and the null at its end.
    unsafe {
        while count < ENTRIES_MAX && !(*environment.add(count)).is_null() {
            longer[count] = *environment.add(count);
            let text = CStr::from_ptr(longer[count]).to_bytes();
            loads |= text.starts_with(b"LD_PRELOAD=");
            tells |= text.starts_with(child::VARIABLE.as_bytes());
            count += 1;
        }
        if !loads || tells || !(*environment.add(count)).is_null() {
            return call(environment);
        }
    }
    longer[count] = own.as_ptr().cast_mut();
    call(longer.as_ptr())
}
