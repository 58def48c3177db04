//! The beginning and the end of MPI as the engine sees them.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use scr_core::error::Result;

use super::functions::OnDelete;
use super::library::{Library, library};
use super::values::Handle;
use super::{check, wait};

pub fn is_finalized() -> bool {
    let mut flag = 0;
    // SAFETY: may be called at any time; the out-parameter is a local.
    library().is_ok_and(|mpi| unsafe { (mpi.call.finalized)(&mut flag) == 0 && flag != 0 })
}

/// Tells whether the level of thread support that MPI has granted lets several threads communicate,
/// be it in turn. Where MPI does not say, they may.
pub fn permits_threads() -> bool {
    let mut level = 0;
    // SAFETY: MPI is initialised; the out-parameter is a local.
    library().map_or(true, |mpi| unsafe {
        (mpi.call.query_thread)(&mut level) != 0 || mpi.values.permits_threads(level)
    })
}

/// Ends MPI for this process; nothing if that has happened. Waits for the other ranks.
pub fn finalize() {
    let Ok(mpi) = library() else { return };
    if !is_finalized() {
        // SAFETY: MPI is initialised and not finalised; the process makes no MPI call afterwards.
        // An error could not be told to anybody any more.
        wait(|| unsafe { (mpi.call.finalize)() });
    }
}

pub fn has_parent() -> bool {
    let Ok(mpi) = library() else { return false };
    let mut parent = mpi.values.handles(1, mpi.values.comm_null);
    // SAFETY: MPI is initialised, and there is a place for a handle.
    let code = unsafe { (mpi.call.comm_get_parent)(parent.place(0)) };
    code == 0 && parent.get(0) != mpi.values.comm_null
}

/// Has `callback` run inside MPI_Finalize, while communication still works: as the deletion of an
/// attribute of MPI_COMM_SELF. Callbacks run in reverse order of registration, so one registered at
/// init runs after those of the libraries that write files there (HDF5, PETSc).
pub fn at_finalize(callback: fn()) -> Result<()> {
    let mpi = library()?;
    let mut keyval = attribute(mpi, on_delete)?;
    // SAFETY: the attribute's value is the address of a function, never dereferenced as data; the
    // key is a local.
    unsafe {
        let itself = mpi.values.comm_self;
        let code = (mpi.call.comm_set_attr)(itself, keyval, callback as *mut c_void);
        check(code, "MPI_Comm_set_attr")?;
        // The attribute keeps it; nobody else has a use for it.
        check((mpi.call.comm_free_keyval)(&mut keyval), "MPI_Comm_free_keyval")
    }
}

/// Makes an attribute that no duplicate inherits.
pub(super) fn attribute(mpi: &Library, on_delete: OnDelete) -> Result<c_int> {
    let mut keyval = 0;
    // SAFETY: both functions have the C signatures of attribute callbacks and live for ever; the
    // key is a local.
    let code = unsafe {
        let nothing = std::ptr::null_mut();
        (mpi.call.comm_create_keyval)(copy_nothing, on_delete, &mut keyval, nothing)
    };
    check(code, "MPI_Comm_create_keyval")?;
    Ok(keyval)
}

unsafe extern "C" fn copy_nothing(
    _comm: Handle,
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
    _comm: Handle,
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
