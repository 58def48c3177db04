//! Files that all ranks have open by MPI-IO: each blocking collective call on such a handle is a sync
//! point. All ranks count alike, since the handle is noted when all have agreed that they have it.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::engine;
use crate::hooks::mpi::calls::agree;

static HANDLES: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn handles() -> MutexGuard<'static, Vec<usize>> {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An MPI_File_open that is under way.
pub(super) struct Opening {
    pub comm: usize,
    /// Where the handle is put.
    pub place: usize,
}

impl Opening {
    /// Notes that it has returned: if all ranks took part, all hear of it.
    pub(super) fn end(&self, result: c_int) {
        let Some(active) = engine::active() else { return };
        let opened = c_int::from(result == 0);
        let counts = agree(active, |table| (table.file_opened)(self.comm, opened));
        if counts.is_some_and(|counts| counts != 0) {
            handles().push(handle_at(self.place));
        }
    }
}

/// Returns the handle in the program's variable, 0 without one.
fn handle_at(place: usize) -> usize {
    // SAFETY: the program passes null or a place for a handle, which in all MPIs is an address.
    unsafe { (place as *const usize).as_ref() }.copied().unwrap_or(0)
}

/// Tells whether all ranks have the file open.
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
