//! MPI functions that a program takes from a handle (ctypes, cffi, Julia, plug-in hosts): a look-up
//! in the handle of libmpi does not come by this library, so such a program gets ours here. For all
//! other look-ups dlsym is jumped to: libc tells by the return address whose RTLD_NEXT or
//! RTLD_DEFAULT it is.

use std::ffi::{CStr, c_char, c_void};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use scr_abi::objects::object_info;

use crate::base::real;
use crate::signal::guard;

// Not in the libc crate.
unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

/// Versions under which libc, or libdl before it, has dlsym; the older ones stay.
const VERSIONS: [&CStr; 3] = [c"GLIBC_2.34", c"GLIBC_2.2.5", c"GLIBC_2.17"];

/// The structure is returned in two registers.
#[repr(C)]
struct Way {
    /// 0 means that the next one is to say.
    found: usize,
    next: usize,
}

#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {way}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jnz 2f",
        "jmp rdx",
        "2: ret",
        way = sym way,
    )
}

#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "bl {way}",
        "cbnz x0, 2f",
        "mov x16, x1",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "br x16",
        "2: ldp x29, x30, [sp], #32",
        "ret",
        way = sym way,
    )
}

extern "C" fn way(handle: *mut c_void, name: *const c_char) -> Way {
    let next = next_dlsym();
    if handle.is_null() || handle == libc::RTLD_NEXT || name.is_null() {
        return Way { found: 0, next };
    }
    // SAFETY: the program passes a C string.
    let name = unsafe { CStr::from_ptr(name) };
    let is_mpi = [&b"MPI_"[..], b"PMPI_"].iter().any(|head| name.to_bytes().starts_with(head));
    let found = if is_mpi && !guard::inside() { ours(handle, name) } else { None };
    Way { found: found.map_or(0, NonZeroUsize::get), next }
}

/// Our function, if it would call the very one that is asked for: not that of another MPI, or of a
/// tool.
fn ours(handle: *mut c_void, name: &CStr) -> Option<NonZeroUsize> {
    let own = real::resolving(|| {
        let own = own_function(name)?;
        // SAFETY: what the program has passed; this is one look-up more.
        let asked_for = NonZeroUsize::new(unsafe { libc::dlsym(handle, name.as_ptr()) } as usize)?;
        (real::next_or_private(name)? == asked_for).then_some(own)
    })?;
    // SAFETY: it has no preconditions. What was not found on the way is no error of the program.
    unsafe { libc::dlerror() };
    Some(own)
}

fn own_function(name: &CStr) -> Option<NonZeroUsize> {
    let own = object_info(real::own_address())?;
    // SAFETY: the loader's name of this object; RTLD_NOLOAD loads nothing. Closing the handle only
    // drops the reference that dlopen added.
    let address = unsafe {
        let handle = libc::dlopen(own.dli_fname, libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if handle.is_null() {
            return None;
        }
        let address = libc::dlsym(handle, name.as_ptr()) as usize;
        libc::dlclose(handle);
        address
    };
    let found = object_info(address)?;
    (found.dli_fbase == own.dli_fbase).then_some(NonZeroUsize::new(address)?)
}

/// The next one is libc's, or that of a tool.
fn next_dlsym() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let known = NEXT.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
    let of_libc = VERSIONS.iter().find_map(|version| {
        // SAFETY: two C strings; the name is looked up behind this object.
        let address =
            unsafe { dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) } as usize;
        NonZeroUsize::new(address)
    });
    let Some(of_libc) = of_libc else { return nothing as *const () as usize };
    // SAFETY: the function of that name, called from this object.
    let next = unsafe {
        let dlsym = std::mem::transmute::<usize, Dlsym>(of_libc.get());
        dlsym(libc::RTLD_NEXT, c"dlsym".as_ptr()) as usize
    };
    let next = if next == 0 { of_libc.get() } else { next };
    NEXT.store(next, Ordering::Relaxed);
    next
}

extern "C" fn nothing(_handle: *mut c_void, _name: *const c_char) -> *mut c_void {
    std::ptr::null_mut()
}
