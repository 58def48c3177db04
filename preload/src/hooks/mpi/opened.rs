//! Files that all ranks have open by MPI-IO: each blocking collective call on one is a sync point.
//! All ranks count alike, since a handle is noted when all have agreed that they have it.

use std::sync::{Mutex, MutexGuard, PoisonError};

static HANDLES: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn handles() -> MutexGuard<'static, Vec<usize>> {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the handle in the program's variable, 0 without one.
fn handle_at(place: usize) -> usize {
    // SAFETY: the program passes null or a place for a handle, which in all MPIs is an address.
    unsafe { (place as *const usize).as_ref() }.copied().unwrap_or(0)
}

/// Notes that all ranks have the file open whose handle is in the program's variable.
pub(super) fn note(place: usize) {
    handles().push(handle_at(place));
}

pub(super) fn is_of_all(handle: usize) -> bool {
    handles().contains(&handle)
}

/// Forgets the handle in the program's variable, which is about to be closed; tells what
/// [`is_of_all`] tells.
pub(super) fn closes(place: usize) -> bool {
    let (handle, mut all) = (handle_at(place), handles());
    let at = all.iter().position(|one| *one == handle);
    at.map(|at| all.swap_remove(at)).is_some()
}
