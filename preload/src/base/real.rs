//! The next definition of a hooked symbol, looked up once and cached without a lock.
//!
//! redhook's own look-up is not used: it aborts on a missing symbol and deadlocks on re-entry.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::num::NonZeroUsize;

use once_cell::race::OnceNonZeroUsize;

use scr_abi::objects::{loaded_objects, object_info};

pub(crate) struct Symbol {
    name: &'static CStr,
    cell: OnceNonZeroUsize,
}

thread_local! {
    /// dlsym may allocate, and an allocator may call mmap, which is hooked.
    static RESOLVING: Cell<bool> = const { Cell::new(false) };
}

impl Symbol {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, cell: OnceNonZeroUsize::new() }
    }

    /// Returns what was looked up, if it was.
    #[inline]
    pub(crate) fn known(&self) -> Option<NonZeroUsize> {
        self.cell.get()
    }

    pub(crate) fn next(&self) -> Option<NonZeroUsize> {
        self.cell.get_or_try_init(|| resolving(|| next_after_us(self.name)).ok_or(())).ok()
    }

    /// Finds an object, too, that was loaded privately (`RTLD_LOCAL`, as Python does).
    pub(crate) fn next_or_private(&self) -> Option<NonZeroUsize> {
        self.cell.get_or_try_init(|| resolving(|| next_or_private(self.name)).ok_or(())).ok()
    }
}

pub(crate) fn next_or_private(name: &CStr) -> Option<NonZeroUsize> {
    next_after_us(name).or_else(|| in_any_object(name))
}

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
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) } as usize;
    NonZeroUsize::new(if takes_the_oldest() { newest_version(name, next) } else { next })
}

/// Before glibc 2.36 RTLD_NEXT finds the oldest of a function's versions; the `realpath` of 1997
/// refuses what all callers of today give it.
fn takes_the_oldest() -> bool {
    // SAFETY: the text is constant, and ends with NUL.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }.to_bytes();
    let minor = version.strip_prefix(b"2.").unwrap_or_default();
    let digits = minor.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0')) < 36
}

/// What is not the C library's stays as it was found.
fn newest_version(name: &CStr, found: usize) -> usize {
    // SAFETY: RTLD_NOLOAD loads nothing and runs no initialiser; the handle, which is never closed,
    // is that of an object that stays; both names are NUL-terminated.
    let newest = unsafe {
        let handle = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if handle.is_null() {
            return found;
        }
        libc::dlsym(handle, name.as_ptr()) as usize
    };
    let is_of_the_library = newest != 0 && found != 0 && object_base(newest) == object_base(found);
    if is_of_the_library { newest } else { found }
}

/// Looks in load order, private objects included, ours left out.
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

pub(crate) fn own_address() -> usize {
    own_address as *const () as usize
}

fn object_base(address: usize) -> usize {
    object_info(address).map_or(0, |info| info.dli_fbase as usize)
}

pub(crate) fn page_bytes() -> usize {
    // SAFETY: sysconf has no preconditions.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// What a call of a symbol that does not exist returns; `errno` is ENOSYS.
pub(crate) trait Missing {
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
