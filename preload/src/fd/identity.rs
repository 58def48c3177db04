//! The names of files that descriptors are open on, for programs that open a descriptor anew
//! through `/proc/self/fd`, as freopen(3) without a name does: the bytes behind it may be a copy
//! that must not change, so the open has to go by the name.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_int};

use parking_lot::Mutex;
use scr_abi::Engine;

use crate::base::lock::{GENERATIONS, Lock};
use crate::engine::ask::{Answer, ask};
use crate::{engine, fd::reuse, signal::guard};

/// What a number stands for may have changed since, so it is compared.
static NAMES: Lock<BTreeMap<c_int, CString>> =
    Lock::new([const { Mutex::new(BTreeMap::new()) }; GENERATIONS]);

/// Takes a canonical `name`.
pub(crate) fn note(fd: c_int, name: &CStr) {
    NAMES.lock().insert(fd, name.to_owned());
}

/// Reads names like `/proc/self/fd/7`.
pub(crate) fn number_in(path: &[u8]) -> Option<c_int> {
    let digits = path.strip_prefix(b"/proc/self/fd/").or_else(|| path.strip_prefix(b"/dev/fd/"))?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

pub(crate) fn name_behind(fd: c_int) -> Option<CString> {
    let active = engine::active()?;
    reuse::settle();
    guard::work(|| {
        let wanted = identity(|found| {
            // SAFETY: fstat writes the structure when it returns 0.
            unsafe { libc::fstat(fd, found) }
        })?;
        let names = NAMES.lock().clone();
        let own = names.get(&fd).into_iter().chain(names.values());
        own.into_iter().find(|name| place_of(&active.table, name) == Some(wanted)).cloned()
    })
    .flatten()
}

fn place_of(table: &Engine, name: &CStr) -> Option<(u64, u64)> {
    let (answer, _) = ask(|verdict| (table.lookup)(name.as_ptr(), 0, verdict));
    let Answer::Redirect(place) = answer else { return None };
    identity(|found| {
        // SAFETY: stat writes the structure when it returns 0.
        unsafe { libc::stat(place.as_ptr(), found) }
    })
}

fn identity(fill: impl FnOnce(*mut libc::stat) -> c_int) -> Option<(u64, u64)> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
    if fill(found.as_mut_ptr()) != 0 {
        return None;
    }
    // SAFETY: filled by the call, which has returned 0.
    let found = unsafe { found.assume_init() };
    Some((found.st_dev, found.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_in_names() {
        assert_eq!(number_in(b"/proc/self/fd/7"), Some(7));
        assert_eq!(number_in(b"/dev/fd/12"), Some(12));
        for other in [&b"/proc/self/fd/"[..], b"/proc/self/fd/x", b"/proc/7/fd/7", b"/dev/fd"] {
            assert_eq!(number_in(other), None);
        }
    }
}
