//! A descriptor that could write and has only read so far: it is open on a sealed copy, and gets a
//! copy of its own before its first change (DESIGN 4, "Intent"). What stdio, a forked child or
//! asynchronous I/O write passes no hook, so those are woken when the descriptor is handed over.

use std::ffi::c_int;

use crate::ask::{Outcome, handle};
use crate::{engine, lazy, open_files};

/// To be asked before every change through `fd`; false: it is impossible, errno is set.
#[inline]
pub(super) fn may_change(fd: c_int) -> bool {
    !open_files::is_lazy(fd) || wake_descriptor(fd)
}

#[cold]
fn wake_descriptor(fd: c_int) -> bool {
    let Some(active) = engine::active() else { return true };
    // Inside of our own work, and in a vfork child, the engine cannot be asked: the change goes to
    // the sealed copy, and the engine finds it at the close.
    let woken = handle(0, active, || match lazy::wake_descriptor(&active.table, fd) {
        true => Outcome::Done(1),
        false => Outcome::Fail(libc::ENOSPC),
    });
    woken != Some(0)
}
