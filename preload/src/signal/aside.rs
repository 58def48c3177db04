//! The signals that are put aside, and how they are sent once more to their threads.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::siginfo_t;

use crate::base::thread::SIGNALS;

pub(super) struct PostponedSignal {
    /// The number of the signal's thread, negative when it has been sent once more; or what
    /// follows.
    pub thread: AtomicI32,
    /// The kernel does not let one thread send this to another.
    pub info: UnsafeCell<MaybeUninit<siginfo_t>>,
}

pub(super) const NONE: c_int = 0;
pub(super) const IS_FILLED: c_int = c_int::MIN;

// SAFETY: `info` is that thread's alone: from IS_FILLED until it has taken it again.
unsafe impl Sync for PostponedSignal {}

pub(super) static ASIDE: [PostponedSignal; SIGNALS] = [const {
    PostponedSignal { thread: AtomicI32::new(NONE), info: UnsafeCell::new(MaybeUninit::uninit()) }
}; SIGNALS];

pub(crate) fn any() -> bool {
    ASIDE.iter().any(|aside| aside.thread.load(Ordering::Acquire) > NONE)
}

/// Runs on the stand-in when that has got hold of malloc and the loader.
pub(crate) fn send_all() {
    for (number, aside) in ASIDE.iter().enumerate() {
        let thread = aside.thread.load(Ordering::Acquire);
        if thread <= NONE {
            continue;
        }
        aside.thread.store(-thread, Ordering::Release);
        // SAFETY: a thread that has ended gets no signal.
        if unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, number) } != 0 {
            aside.thread.store(NONE, Ordering::Release);
        }
    }
}
