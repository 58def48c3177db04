//! The next definition of a hooked symbol, looked up once and cached without a lock.
//!
//! redhook's own look-up is not used: it aborts on a missing symbol and deadlocks on re-entry.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::num::NonZeroUsize;

use once_cell::race::OnceNonZeroUsize;

use super::objects::{loaded_objects, object_info};

/// A symbol that some object behind us in the search order defines.
pub(crate) struct Symbol {
    name: &'static CStr,
    cell: OnceNonZeroUsize,
}

thread_local! {
    /// dlsym may allocate, and an allocator may call mmap, which is hooked.
    static RESOLVING: Cell<bool> = const { Cell::new(false) };
}

impl Symbol {
    /// Makes the symbol of that name; nothing is looked up yet.
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, cell: OnceNonZeroUsize::new() }
    }

    /// Returns the address of the next definition (`RTLD_NEXT`), `None` if there is none.
    pub(crate) fn next(&self) -> Option<NonZeroUsize> {
        self.cell.get_or_try_init(|| resolving(|| next_after_us(self.name)).ok_or(())).ok()
    }

    /// Does what [`Symbol::next`] does, but finds an object that was loaded privately
    /// (`RTLD_LOCAL`, as plug-in hosts such as Python do) as well.
    pub(crate) fn next_or_private(&self) -> Option<NonZeroUsize> {
        self.cell.get_or_try_init(|| resolving(|| next_or_private(self.name)).ok_or(())).ok()
    }
}

/// Looks up what [`Symbol::next_or_private`] returns.
pub(crate) fn next_or_private(name: &CStr) -> Option<NonZeroUsize> {
    next_after_us(name).or_else(|| in_any_object(name))
}

/// Runs `lookup` unless this thread is in a look-up already.
pub(crate) fn resolving(lookup: impl FnOnce() -> Option<NonZeroUsize>) -> Option<NonZeroUsize> {
    if RESOLVING.replace(true) {
        return None;
    }
    let found = lookup();
    RESOLVING.set(false);
    found
}

fn next_after_us(name: &CStr) -> Option<NonZeroUsize> {
    // SAFETY: the name is NUL-terminated; RTLD_NEXT searches behind the caller's object, this one.
    NonZeroUsize::new(unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) } as usize)
}

/// Looks `name` up in any object but our own, in load order, private ones included.
pub(crate) fn in_any_object(name: &CStr) -> Option<NonZeroUsize> {
    let own = object_base(own_address());
    for object in loaded_objects() {
        // SAFETY: the name is NUL-terminated; RTLD_NOLOAD loads nothing and runs no initialiser.
        let handle = unsafe { libc::dlopen(object.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
        if handle.is_null() {
            continue;
        }
        // SAFETY: the handle is live. Closing it only drops the reference that dlopen added.
        let address = unsafe {
            let address = libc::dlsym(handle, name.as_ptr()) as usize;
            libc::dlclose(handle);
            address
        };
        if address != 0 && object_base(address) != own {
            return NonZeroUsize::new(address);
        }
    }
    None
}

/// Returns an address inside this library.
pub(crate) fn own_address() -> usize {
    own_address as *const () as usize
}

fn object_base(address: usize) -> usize {
    object_info(address).map_or(0, |info| info.dli_fbase as usize)
}

/// What a call of a symbol that does not exist returns; `errno` is ENOSYS.
pub(crate) trait Missing {
    /// The value.
    const VALUE: Self;
}

impl Missing for c_int {
    const VALUE: Self = -1;
}
impl Missing for isize {
    const VALUE: Self = -1;
}
impl Missing for i64 {
    const VALUE: Self = -1;
}
impl Missing for () {
    const VALUE: Self = ();
}
impl<T> Missing for *mut T {
    const VALUE: Self = std::ptr::null_mut();
}
