//! Turns that ranks of this node take to change names (`session/updates/turns.rs`). Here they only
//! count: what was found out before one may be wrong.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::base::real::Missing;
use crate::signal::guard;

static COUNT: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

const AGAIN_MAX: usize = 16;

/// Needs a `count` that is null or lives as long as the process.
pub(crate) fn follow(count: *const AtomicU64) {
    COUNT.store(count.cast_mut(), Ordering::Release);
}

#[inline]
pub(crate) fn taken() -> u64 {
    // SAFETY: null or an atomic that lives as long as the process.
    unsafe { COUNT.load(Ordering::Acquire).as_ref() }
        .map_or(0, |count| count.load(Ordering::SeqCst))
}

/// Makes the call again if it finds nothing and a turn was taken meanwhile.
#[inline]
pub(crate) fn settled<T: Missing + Copy + PartialEq>(call: impl Fn() -> T) -> T {
    settled_by(taken, call)
}

#[inline]
fn settled_by<T: Missing + Copy + PartialEq>(taken: impl Fn() -> u64, call: impl Fn() -> T) -> T {
    for _ in 0..AGAIN_MAX {
        let before = taken();
        let result = call();
        let is_final = || guard::errno() != libc::ENOENT || taken() == before;
        if result != T::VALUE || is_final() {
            return result;
        }
    }
    call()
}

/// Makes a call that does not look at names.
#[inline]
pub(crate) fn once<T>(call: impl Fn() -> T) -> T {
    call()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_call_that_finds_nothing_is_made_again_while_turns_are_taken() {
        let (calls, taken) = (Cell::new(0), Cell::new(7));
        let finds_nothing = |errno, turns| {
            calls.set(calls.get() + 1);
            taken.set(taken.get() + u64::from(calls.get() <= turns));
            guard::set_errno(errno);
            -1
        };
        for (errno, turns, expected) in [
            (libc::ENOENT, 0, 1),
            (libc::ENOENT, 3, 4),
            (libc::EACCES, 3, 1),
            (libc::ENOENT, i32::MAX, 17),
        ] {
            calls.set(0);
            assert_eq!(settled_by(|| taken.get(), || finds_nothing(errno, turns)), -1);
            assert_eq!(calls.get(), expected);
        }
    }
}
