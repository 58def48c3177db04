//! Writes to parted files that libc's own threads do. Their bytes are logged when they are given to
//! libc, so the file does not move before they are there.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::aiocb;
use parking_lot::Mutex;

use crate::base::lock::{GENERATIONS, Lock};
use crate::signal::guard;

/// Those of whose end the program has not heard.
static WRITES: Lock<Vec<Submitted>> = Lock::new([const { Mutex::new(Vec::new()) }; GENERATIONS]);
static COUNT: AtomicUsize = AtomicUsize::new(0);

struct Submitted {
    fd: c_int,
    block: usize,
}

/// Notes a write that was given to libc.
pub(crate) fn note(fd: c_int, block: *const aiocb) {
    if super::is_parted(fd) {
        change(|writes| {
            writes.retain(|one| one.block != block as usize);
            writes.push(Submitted { fd, block: block as usize });
        });
    }
}

/// Forgets one whose end the program hears of: its block may go.
#[inline]
pub(crate) fn forget(block: usize) {
    if COUNT.load(Ordering::Acquire) != 0 {
        change(|writes| writes.retain(|one| one.block != block));
    }
}

fn change(how: impl FnOnce(&mut Vec<Submitted>)) {
    let _: Option<()> = guard::work(|| {
        let mut writes = WRITES.lock();
        how(&mut writes);
        COUNT.store(writes.len(), Ordering::Release);
    });
}

/// Tells whether none is left on these descriptors. Guard held.
pub(crate) fn are_done(descriptors: &[c_int]) -> bool {
    // SAFETY: a block that the program has not heard of yet is there.
    let is_done = |one: &Submitted| unsafe {
        libc::aio_error(one.block as *const aiocb) != libc::EINPROGRESS
    };
    let writes = WRITES.lock();
    writes.iter().filter(|one| descriptors.contains(&one.fd)).all(is_done)
}
