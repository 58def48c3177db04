//! The objects that the loader has loaded.

use std::ffi::{CStr, CString, c_int, c_void};

/// Returns what the loader knows about the object that holds `address`; `None` if no object does.
pub fn object_info(address: usize) -> Option<libc::Dl_info> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr reads no memory at `address`, and writes the structure when it returns
    // nonzero.
    unsafe {
        if libc::dladdr(address as *const c_void, info.as_mut_ptr()) == 0 {
            return None;
        }
        Some(info.assume_init())
    }
}

/// Returns the file names of the loaded objects, without the main program.
pub fn loaded_objects() -> Vec<CString> {
    unsafe extern "C" fn collect(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        names: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a valid entry and the pointer that we gave it below.
        unsafe {
            let name = (*info).dlpi_name;
            if !name.is_null() && *name != 0 {
                (*names.cast::<Vec<CString>>()).push(CStr::from_ptr(name).to_owned());
            }
        }
        0
    }
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: `collect` has the type wanted, and `names` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut names).cast()) };
    names
}
