//! Files that several ranks have open by MPI-IO: each blocking collective call on one of all ranks
//! is a sync point. All ranks count alike, since the mark of a handle is agreed.
//! With them what OMPIO is told when a file gets a view, as when it was opened.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::hooks::mpi::ompio::EachForItself;

#[derive(Clone, Copy)]
pub(super) struct OpenedFile {
    handle: usize,
    pub(super) mark: Option<c_int>,
    pub(super) each: Option<EachForItself>,
}

static HANDLES: Mutex<Vec<OpenedFile>> = Mutex::new(Vec::new());

fn handles() -> MutexGuard<'static, Vec<OpenedFile>> {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the handle in the program's variable, 0 without one.
fn handle_at(place: usize) -> usize {
    // SAFETY: the program passes null or a place for a handle, which in all MPIs is an address.
    unsafe { (place as *const usize).as_ref() }.copied().unwrap_or(0)
}

/// Notes what is known of the handle that is in the program's variable.
pub(super) fn note(place: usize, mark: Option<c_int>, each: Option<EachForItself>) {
    if mark.is_some() || each.is_some() {
        handles().push(OpenedFile { handle: handle_at(place), mark, each });
    }
}

/// Returns what is known of a handle.
pub(super) fn file_of(handle: usize) -> Option<OpenedFile> {
    handles().iter().find(|one| one.handle == handle).copied()
}

/// Forgets the handle in the program's variable, which is about to be closed, and returns that.
pub(super) fn closes(place: usize) -> Option<OpenedFile> {
    let (handle, mut all) = (handle_at(place), handles());
    let at = all.iter().position(|one| one.handle == handle);
    at.map(|at| all.swap_remove(at))
}
