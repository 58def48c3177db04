//! The limit on the size of files (RLIMIT_FSIZE). Who writes beyond it gets SIGXFSZ, which ends the
//! process; the program has set it for its own files, and is not to be ended by ours.

use std::io;
use std::mem::MaybeUninit;

/// Fails if a file of so many bytes is not allowed.
pub fn allow_size(bytes: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is writable.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    match known && limit.rlim_cur != libc::RLIM_INFINITY && bytes > limit.rlim_cur {
        true => Err(io::Error::from_raw_os_error(libc::EFBIG)),
        false => Ok(()),
    }
}

/// While it lives, a write of this thread beyond the limit fails (EFBIG), and no more.
#[derive(Debug)]
pub struct BelowLimit {
    before: libc::sigset_t,
    /// One of the program's own was waiting.
    pending: bool,
}

#[must_use]
pub fn below_limit() -> BelowLimit {
    let one = signal();
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: both sets are valid for the calls, which cannot fail with these arguments.
    let before = unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const one, before.as_mut_ptr());
        before.assume_init()
    };
    BelowLimit { before, pending: is_pending() }
}

impl Drop for BelowLimit {
    fn drop(&mut self) {
        let (one, now) = (signal(), libc::timespec { tv_sec: 0, tv_nsec: 0 });
        if !self.pending && is_pending() {
            // SAFETY: set and time are valid; nobody asks for more than the number.
            unsafe { libc::sigtimedwait(&raw const one, std::ptr::null_mut(), &raw const now) };
        }
        // SAFETY: a mask that the kernel has given.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut())
        };
    }
}

fn signal() -> libc::sigset_t {
    let mut one = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is emptied before anything else reads it.
    unsafe {
        libc::sigemptyset(one.as_mut_ptr());
        libc::sigaddset(one.as_mut_ptr(), libc::SIGXFSZ);
        one.assume_init()
    }
}

fn is_pending() -> bool {
    let mut waiting = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the kernel fills the set, which is then read.
    unsafe {
        libc::sigpending(waiting.as_mut_ptr());
        libc::sigismember(waiting.as_ptr(), libc::SIGXFSZ) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_beyond_the_limit_ends_nobody() {
        // SAFETY: this thread sends itself what such a write does.
        let send = || unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGXFSZ) };
        let below = below_limit();
        assert_eq!((send(), is_pending()), (0, true));
        drop(below);
        assert!(!is_pending());
        assert!(allow_size(1).is_ok());
    }
}
