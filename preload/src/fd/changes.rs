//! Calls that change a file of ours at this moment: it can be moved only when there is none. A call
//! counts itself, then looks whether its descriptor is lazy; who moves a file makes its descriptors
//! lazy, then looks at the count. So of two at the same time one sees the other.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use scr_abi::change::CHANGES;

use crate::fd::handle::{Outcome, handle};
use crate::fd::logged::submitted;
use crate::{engine, fd::in_order, fd::lazy, fd::open_files};

/// Descriptors whose numbers differ by this share a count.
const COUNTS: usize = 256;
const INTERVAL: Duration = Duration::from_micros(100);
/// Moves of one file that a call waits for, or is made again after; there is one, usually.
pub(crate) const MOVES_MAX: usize = 16;

static UNDER_WAY: [AtomicUsize; COUNTS] = [const { AtomicUsize::new(0) }; COUNTS];

static MOVES: AtomicUsize = AtomicUsize::new(0);

/// The number of moves, of any files, at a moment: a call that has failed since may have met the
/// place that its file has left.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(usize);

impl Moment {
    #[inline]
    pub(crate) fn now() -> Self {
        Self(MOVES.load(Ordering::SeqCst))
    }
}

pub(crate) fn moved() {
    MOVES.fetch_add(1, Ordering::SeqCst);
}

/// No destructor: a thread that is cancelled in the real call unwinds through the hook.
#[must_use]
#[derive(Clone, Copy)]
pub(crate) struct Change(Option<usize>, Moment);

impl Change {
    fn of(fd: c_int) -> Self {
        let count = usize::try_from(fd).ok().map(|fd| fd % COUNTS);
        count.into_iter().for_each(|at| _ = UNDER_WAY[at].fetch_add(1, Ordering::SeqCst));
        Self(count, Moment::now())
    }

    /// Tells when the call began.
    #[inline]
    pub(crate) fn end(self) -> Moment {
        self.0.into_iter().for_each(|at| _ = UNDER_WAY[at].fetch_sub(1, Ordering::SeqCst));
        self.1
    }
}

/// Waits until the file of `fd` may be changed. `None`: it cannot be, errno is set.
#[inline]
pub(crate) fn begin(fd: c_int) -> Option<Change> {
    in_order::stop(fd);
    begin_next(fd)
}

/// Begins a change that is followed ([`in_order::next`]).
#[inline]
pub(crate) fn begin_next(fd: c_int) -> Option<Change> {
    if open_files::may_hold(fd) { begin_held(fd) } else { Some(Change(None, Moment(0))) }
}

fn begin_held(fd: c_int) -> Option<Change> {
    for _ in 0..MOVES_MAX {
        let change = Change::of(fd);
        if !open_files::is_lazy(fd) {
            return Some(change);
        }
        change.end(); // else the move would wait for us
        match wake(fd, CHANGES) {
            Some(true) => {}
            Some(false) => return None,
            None => break,
        }
    }
    Some(Change::of(fd))
}

/// Waits until a lazy descriptor is replaced. False: it cannot be, errno is set. `None`: inside of
/// our own work, and in a vfork child, the engine cannot be asked: the change goes to the sealed
/// copy, and the engine finds it at the close.
#[cold]
pub(crate) fn wake(fd: c_int, change: c_int) -> Option<bool> {
    let active = engine::active()?;
    let woken = handle(0, active, || match lazy::wake_to(&active.table, fd, change) {
        true => Outcome::Done(1),
        false => Outcome::Fail(libc::ENOSPC),
    });
    woken.map(|woken| woken != 0)
}

/// Waits until no call is under way on these lazy descriptors, but not for ever: a call of which a
/// thread was cancelled, or which it left by longjmp, never ends.
pub(crate) fn come_to_rest(descriptors: &[c_int], patience: Duration) -> bool {
    let until = Instant::now() + patience;
    let is_still = |fd: &c_int| {
        usize::try_from(*fd).is_ok_and(|fd| UNDER_WAY[fd % COUNTS].load(Ordering::SeqCst) == 0)
    };
    while !descriptors.iter().all(is_still) || !submitted::are_done(descriptors) {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(INTERVAL);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd::open_files::Claim;

    #[test]
    fn a_file_is_at_rest_when_no_call_is_under_way() {
        assert!(begin(1601).is_some_and(|change| change.0.is_none()), "it is not held");
        open_files::attach(1601, Claim { token: 71, writable: true, lazy: false, log: None });
        let one = begin(1601).unwrap();
        let soon = Duration::from_millis(1);
        assert!(!come_to_rest(&[1602, 1601], soon));
        assert!(come_to_rest(&[1602], soon));
        std::thread::scope(|scope| {
            scope.spawn(|| one.end());
            while !come_to_rest(&[1601], soon) {}
        });
        open_files::detach(1601);
    }
}
