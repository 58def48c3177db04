//! Files that several ranks have open by MPI-IO: each blocking collective call on one of all ranks
//! is a sync point. All ranks count alike, since the mark of a handle is agreed.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Handles and their marks.
static HANDLES: Mutex<Vec<(usize, c_int)>> = Mutex::new(Vec::new());

fn handles() -> MutexGuard<'static, Vec<(usize, c_int)>> {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the handle in the program's variable, 0 without one.
fn handle_at(place: usize) -> usize {
    // SAFETY: the program passes null or a place for a handle, which in all MPIs is an address.
    unsafe { (place as *const usize).as_ref() }.copied().unwrap_or(0)
}

/// Notes the mark of the handle that is in the program's variable.
pub(super) fn note(place: usize, mark: c_int) {
    handles().push((handle_at(place), mark));
}

/// Returns the mark of a handle that has one.
pub(super) fn mark_of(handle: usize) -> Option<c_int> {
    handles().iter().find(|(one, _)| *one == handle).map(|(_, mark)| *mark)
}

/// Forgets the handle in the program's variable, which is about to be closed; returns its mark.
pub(super) fn closes(place: usize) -> Option<c_int> {
    let (handle, mut all) = (handle_at(place), handles());
    let at = all.iter().position(|(one, _)| *one == handle);
    at.map(|at| all.swap_remove(at).1)
}
