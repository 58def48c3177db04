//! The beginning and the end of MPI as the engine sees them.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use mpi::ffi;
use scr_core::error::Result;

use super::{check, wait};

/// Tells whether MPI_Finalize has completed.
pub fn is_finalized() -> bool {
    let mut flag = 0;
    // SAFETY: may be called at any time; the out-parameter is a local.
    unsafe { ffi::PMPI_Finalized(&mut flag) == 0 && flag != 0 }
}

/// Tells whether MPI_Init has completed.
pub fn is_initialized() -> bool {
    let mut flag = 0;
    // SAFETY: may be called at any time; the out-parameter is a local.
    unsafe { ffi::PMPI_Initialized(&mut flag) == 0 && flag != 0 }
}

/// Returns the level of thread support that MPI has granted.
pub fn granted() -> c_int {
    let mut level = 0;
    // SAFETY: MPI is initialised when the program calls us; the out-parameter is a local.
    unsafe { ffi::PMPI_Query_thread(&mut level) };
    level
}

/// Ends MPI for this process; nothing if that has happened. Waits for the other ranks.
pub fn finalize() {
    if !is_finalized() {
        // SAFETY: MPI is initialised and not finalised; the process makes no MPI call afterwards.
        // An error could not be told to anybody any more.
        wait(|| unsafe { ffi::PMPI_Finalize() });
    }
}

/// Tells whether this process was spawned by another MPI program.
pub fn has_parent() -> bool {
    // SAFETY: MPI is initialised; MPI replaces the handle before it is compared.
    unsafe {
        let mut parent = ffi::RSMPI_COMM_NULL;
        ffi::PMPI_Comm_get_parent(&mut parent) == 0 && parent != ffi::RSMPI_COMM_NULL
    }
}

/// Has `callback` run inside MPI_Finalize, while communication still works: as the deletion of an
/// attribute of MPI_COMM_SELF. Callbacks run in reverse order of registration, so one registered at
/// init runs after those of the libraries that write files there (HDF5, PETSc).
///
/// # Errors
/// [`scr_core::error::Error::Comm`] when MPI refuses.
pub fn at_finalize(callback: fn()) -> Result<()> {
    let mut keyval = attribute(on_delete)?;
    // SAFETY: the attribute's value is the address of a function, never dereferenced as data; the
    // key is a local.
    unsafe {
        check(
            ffi::PMPI_Comm_set_attr(ffi::RSMPI_COMM_SELF, keyval, callback as *mut c_void),
            "MPI_Comm_set_attr",
        )?;
        // The attribute keeps it; nobody else has a use for it.
        check(ffi::PMPI_Comm_free_keyval(&mut keyval), "MPI_Comm_free_keyval")
    }
}

/// What MPI calls when an attribute goes.
pub(super) type OnDelete =
    unsafe extern "C" fn(ffi::MPI_Comm, c_int, *mut c_void, *mut c_void) -> c_int;

/// Makes the key of an attribute that no duplicate inherits.
pub(super) fn attribute(on_delete: OnDelete) -> Result<c_int> {
    let mut keyval = 0;
    // SAFETY: both functions have the C signatures of attribute callbacks and live for ever; the
    // key is a local.
    let code = unsafe {
        let nothing = std::ptr::null_mut();
        ffi::PMPI_Comm_create_keyval(Some(copy_nothing), Some(on_delete), &mut keyval, nothing)
    };
    check(code, "MPI_Comm_create_keyval")?;
    Ok(keyval)
}

/// A duplicate inherits nothing.
unsafe extern "C" fn copy_nothing(
    _comm: ffi::MPI_Comm,
    _keyval: c_int,
    _extra: *mut c_void,
    _value: *mut c_void,
    _copy: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: MPI passes a valid pointer to the flag.
    unsafe { *flag = 0 };
    0
}

unsafe extern "C" fn on_delete(
    _comm: ffi::MPI_Comm,
    _keyval: c_int,
    value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    // SAFETY: the value is the `fn()` that `at_finalize` stored.
    let callback: fn() = unsafe { std::mem::transmute(value) };
    // A panic must not unwind into MPI's C code; the callback itself reports what went wrong.
    let _ = std::panic::catch_unwind(callback);
    0
}
