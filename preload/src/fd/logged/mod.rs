//! Descriptors whose reads and writes are logged, and what their calls have done.
//!
//! A word for each number is where its log is, or null, which is the answer for nearly all. No lock
//! and no allocation: handlers of signals write, too, and so do forked children, whose memory of
//! the log is the rank's; that they do is all that is noted of them.

mod mpi_io;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod parted;
#[cfg_attr(test, allow(dead_code))]
pub(crate) mod submitted;

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{off_t, ssize_t};
use scr_abi::Engine;
use scr_abi::accesses::{Access, AccessLog, Deed, Moment, Within, trait_bit};

#[cfg_attr(test, allow(unused_imports))]
pub(crate) use mpi_io::WriteCall;

use crate::fd::in_order::WritePlace;
use crate::{engine, signal::guard};

/// Descriptors from this number on are not logged.
const LOGGED: usize = 65_536;

static LOGS: [AtomicPtr<AccessLog>; LOGGED] = [const { AtomicPtr::new(ptr::null_mut()) }; LOGGED];

/// A log, which stays as long as the process.
#[derive(Clone, Copy)]
pub(crate) struct Log(pub &'static AccessLog);

impl Log {
    /// Tells whether its file lies here in part.
    #[inline]
    pub(crate) fn is_parted(self) -> bool {
        self.0.traits() & trait_bit::PARTED != 0
    }
}

impl PartialEq for Log {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self.0, other.0)
    }
}

impl Eq for Log {}

impl std::fmt::Debug for Log {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{:p}", self.0)
    }
}

/// Asks for the log of a token.
pub(crate) fn log_of(table: &Engine, token: u64) -> Option<Log> {
    // SAFETY: null, or a log that stays as long as the process.
    unsafe { (table.log)(token).as_ref() }.map(Log)
}

/// Has what is done through `fd` logged, or not any more.
pub(super) fn set(fd: c_int, log: Option<Log>) {
    let place = usize::try_from(fd).ok().and_then(|fd| LOGS.get(fd));
    match (place, log) {
        (Some(place), Some(Log(log))) => {
            place.store(ptr::from_ref(log).cast_mut(), Ordering::Release);
        }
        (Some(place), None) => place.store(ptr::null_mut(), Ordering::Release),
        (None, Some(Log(log))) => log.mark(trait_bit::UNSEEN),
        (None, None) => {}
    }
}

/// Finds the log of `fd`.
#[inline]
fn any_of(fd: c_int) -> Option<&'static AccessLog> {
    let place = LOGS.get(usize::try_from(fd).ok()?)?.load(Ordering::Acquire);
    // SAFETY: null, or a log that stays as long as the process.
    unsafe { place.as_ref() }
}

/// Tells whether nothing that is done through `fd` is logged.
#[inline]
pub(crate) fn is_none(fd: c_int) -> bool {
    any_of(fd).is_none()
}

/// Tells whether the file of `fd` lies here in part.
#[inline]
pub(crate) fn is_parted(fd: c_int) -> bool {
    any_of(fd).is_some_and(|log| Log(log).is_parted())
}

/// Finds it if the program makes a call on `fd`.
#[inline]
fn of(fd: c_int) -> Option<&'static AccessLog> {
    any_of(fd).filter(|log| is_programs(log))
}

/// Tells whether it is the program that makes the call, in the rank itself.
#[cold]
fn is_programs(log: &AccessLog) -> bool {
    if guard::inside() {
        return false;
    }
    let own = engine::active().is_some_and(|active| active.own) && engine::own_process();
    if !own {
        log.mark(trait_bit::UNSEEN);
    }
    own
}

fn add(log: &AccessLog, deed: Deed, within: Within, start: off_t, end: off_t) {
    let stamp = engine::active().map_or(Moment::at(0), engine::ActiveEngine::moment);
    let (start, end) = (start.max(0).cast_unsigned(), end.max(0).cast_unsigned());
    log.add(Access { deed, within, stamp, start, end });
}

/// Where a descriptor is; 0 if it has no place.
fn place_of(fd: c_int) -> off_t {
    let saved = guard::errno();
    // SAFETY: system call on numbers.
    let place = unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) };
    guard::set_errno(saved);
    place.max(0)
}

/// A call on a descriptor that may be logged, until it is done. No destructor: see
/// [`crate::fd::changes::Change`].
#[must_use]
#[derive(Clone, Copy)]
pub(crate) struct LoggedCall(Option<UnderWay>);

#[derive(Clone, Copy)]
struct UnderWay {
    log: &'static AccessLog,
    fd: c_int,
    at: WritePlace,
    place: off_t,
}

/// Begins a call that reads or writes at a place.
#[inline]
pub(crate) fn begin(fd: c_int, at: WritePlace) -> LoggedCall {
    LoggedCall(of(fd).map(|log| {
        let place = match at {
            WritePlace::Place => place_of(fd),
            WritePlace::Offset(offset) => offset,
        };
        UnderWay { log, fd, at, place }
    }))
}

/// Begins one that has its offset at `at`, or null for the descriptor's own place.
///
/// # Safety
/// `at` is null or a pointer that the kernel is given, too.
#[inline]
pub(crate) unsafe fn begin_at(fd: c_int, at: *const off_t) -> LoggedCall {
    if of(fd).is_none() {
        return LoggedCall(None);
    }
    // SAFETY: the caller's promise.
    let offset = unsafe { at.as_ref() }.copied();
    begin(fd, offset.map_or(WritePlace::Place, WritePlace::Offset))
}

impl LoggedCall {
    /// Ends the call, which has written `done` bytes, or has failed.
    #[inline]
    pub(crate) fn wrote(self, done: ssize_t) -> ssize_t {
        if let Some(one) = self.0.filter(|_| done > 0) {
            if one.at != WritePlace::Place && one.log.traits() & trait_bit::APPENDS != 0 {
                one.log.mark(trait_bit::UNSEEN); // the kernel appends all the same
            }
            let (start, end) = one.bytes(done as off_t);
            add(one.log, Deed::Write, mpi_io::place(), start, end);
        }
        done
    }

    /// Ends the call, which has read so many of the bytes that it was to, or has failed. One that
    /// gets fewer hears where the file ends.
    #[inline]
    pub(crate) fn read(self, wanted: usize, done: ssize_t) -> ssize_t {
        if let Some(one) = self.0.filter(|_| done >= 0) {
            let (start, end) = one.bytes(done as off_t);
            let within = mpi_io::reads();
            if done > 0 {
                add(one.log, Deed::Read, within, start, end);
            }
            // Nothing at all tells only that the file ends before.
            if done > 0 && done.unsigned_abs() < wanted && within == Within::Nothing {
                add(one.log, Deed::Size, within, 0, end);
            }
        }
        done
    }
}

impl UnderWay {
    /// The bytes from its place to where the descriptor is now: more than `done` if others have
    /// moved it, which write to the same file on the same node. Behind the end of the file where
    /// that was if it appends.
    fn bytes(&self, done: off_t) -> (off_t, off_t) {
        let exact = (self.place, self.place + done);
        if self.at != WritePlace::Place {
            return exact;
        }
        let now = place_of(self.fd);
        // SAFETY: fcntl on a number.
        let flags = || unsafe { libc::fcntl(self.fd, libc::F_GETFL) };
        match now == exact.1 || now < done {
            true => exact,
            false if flags() & libc::O_APPEND != 0 => (now - done, now),
            false => (self.place.min(now - done), now),
        }
    }
}

/// Notes that a call has told how long the file is.
#[inline]
pub(crate) fn asked(fd: c_int, size: off_t) {
    if let Some(log) = of(fd) {
        add(log, Deed::Size, mpi_io::place(), 0, size);
    }
}

/// Returns `result`; if that is 0, the call has made the file so long.
#[inline]
pub(crate) fn cut(result: c_int, fd: c_int, length: off_t) -> c_int {
    if let Some(log) = of(fd).filter(|_| result == 0) {
        add(log, Deed::Cut, Within::Nothing, 0, length);
    }
    result
}

/// Returns `result`; if that is 0, the call has made the file at least so long.
#[inline]
pub(crate) fn grown(result: c_int, fd: c_int, length: off_t) -> c_int {
    if let Some(log) = of(fd).filter(|_| result == 0) {
        add(log, Deed::Grow, Within::Nothing, 0, length);
    }
    result
}

/// Notes that these bytes may be read, or will be written, without another call.
pub(crate) fn will(fd: c_int, deed: Deed, start: off_t, bytes: usize) {
    if let Some(log) = of(fd) {
        let within = if deed == Deed::Write { mpi_io::place() } else { mpi_io::reads() };
        let end = start.saturating_add(off_t::try_from(bytes).unwrap_or(off_t::MAX));
        add(log, deed, within, start, end);
    }
}

/// Says something of all that is done to the file of `fd`: see [`trait_bit`].
#[inline]
pub(crate) fn mark(fd: c_int, bits: u64) {
    any_of(fd).into_iter().for_each(|log| log.mark(bits));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_without_a_log_has_no_call_and_one_beyond_the_table_is_told() {
        static LOG: AccessLog = AccessLog::new();
        assert!(
            begin(1901, WritePlace::Place).0.is_none() && begin(-1, WritePlace::Place).0.is_none()
        );
        set(LOGGED as c_int, Some(Log(&LOG)));
        assert_eq!(LOG.traits(), trait_bit::UNSEEN);
    }
}
