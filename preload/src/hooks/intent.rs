//! A descriptor that could write and has only read so far: it is open on a sealed copy, and gets a
//! copy of its own before its first change (DESIGN 4, "Intent"). What stdio, a forked child or
//! asynchronous I/O write passes no hook, so those are woken when the descriptor is handed over.

use std::ffi::{c_int, c_void};

use crate::ask::{Outcome, handle};
use crate::family::interpose;
use crate::{engine, lazy, open_files};

type AioWrite = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
type LioListio =
    unsafe extern "C-unwind" fn(c_int, *const *mut c_void, c_int, *mut c_void) -> c_int;

interpose! {
    plain [aio_write, aio_write64](block: *mut c_void) -> c_int = AioWrite => aio_write;
    plain [lio_listio, lio_listio64](
        mode: c_int, blocks: *const *mut c_void, count: c_int, event: *mut c_void
    ) -> c_int = LioListio => lio_listio;
}

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

unsafe fn aio_write(real: AioWrite, block: *mut c_void) -> c_int {
    // SAFETY: the program's own call; a control block begins with its descriptor.
    unsafe { if may_change(*block.cast::<c_int>()) { real(block) } else { -1 } }
}

unsafe fn lio_listio(
    real: LioListio,
    mode: c_int,
    blocks: *const *mut c_void,
    count: c_int,
    event: *mut c_void,
) -> c_int {
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: as in `aio_write`; the list has `count` entries, which may be null.
        let block = unsafe { *blocks.add(index) };
        // SAFETY: as in `aio_write`.
        if !block.is_null() && !may_change(unsafe { *block.cast::<c_int>() }) {
            return -1;
        }
    }
    // SAFETY: the program's own call.
    unsafe { real(mode, blocks, count, event) }
}
