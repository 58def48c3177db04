//! A store that is full or fails is no reason to fail: the engine moves the file to the PFS, its
//! new descriptor replaces the old one, and the call is made again. What cannot be made again gets
//! its room beforehand ([`ensure`]).

use std::ffi::c_int;

use scr_abi::Engine;

use crate::fd::changes::Moment;
use crate::fd::handle::{Outcome, handle};
use crate::fd::moves::evacuate;
use crate::{engine, fd::open_files};

/// Knows the program's mistakes (a directory to be copied from), and "try again".
pub(crate) fn harmless(code: c_int) -> bool {
    matches!(
        code,
        libc::EINTR
            | libc::EAGAIN
            | libc::EBADF
            | libc::EFAULT
            | libc::EINVAL
            | libc::EISDIR
            | libc::ESPIPE
            | libc::EXDEV
            | libc::ENOSYS
            | libc::EOPNOTSUPP
    )
}

/// Knows the errors that the PFS may not have.
pub(crate) fn is_of_store(code: c_int) -> bool {
    matches!(
        code,
        libc::EDQUOT
            | libc::EIO
            | libc::ENODEV
            | libc::ENOSPC
            | libc::ENXIO
            | libc::EROFS
            | libc::ESTALE
            | libc::EUCLEAN
    )
}

#[derive(PartialEq, Eq)]
enum FailureMet {
    Moved,
    /// All that was to be made durable will be at the close.
    PutOff,
    Failed,
}

/// Returns true if the file has moved and the call, which is not under way any more, is worth
/// another try. Otherwise the engine has heard of the failure.
#[cold]
pub(crate) fn try_again(fd: c_int, code: c_int, begun: Moment) -> bool {
    met(fd, code, begun, false) == FailureMet::Moved
}

/// Serves a call that only waits until the file is durable.
#[cold]
pub(crate) fn sync_again(fd: c_int, begun: Moment, call: impl Fn() -> c_int) -> c_int {
    let code = crate::signal::guard::errno();
    match met(fd, code, begun, true) {
        FailureMet::Moved => match call() {
            -1 => sync_again(fd, Moment::now(), call),
            result => result,
        },
        FailureMet::PutOff => 0,
        FailureMet::Failed => {
            crate::signal::guard::set_errno(code);
            -1
        }
    }
}

fn met(fd: c_int, code: c_int, begun: Moment, only_syncs: bool) -> FailureMet {
    if harmless(code) || !open_files::may_hold(fd) {
        return FailureMet::Failed;
    }
    let Some(active) = engine::active() else { return FailureMet::Failed };
    let met = handle(FailureMet::Failed, active, || {
        let Some(claim) = open_files::claim(fd) else { return Outcome::Pass };
        let again = is_of_store(code) && (only_syncs || !appends_twice(fd, code));
        if again && evacuate(&active.table, claim, code, begun) {
            return Outcome::Done(FailureMet::Moved);
        }
        if only_syncs && put_off(&active.table, claim.token, code) {
            return Outcome::Done(FailureMet::PutOff);
        }
        (active.table.failed)(claim.token, code);
        Outcome::Pass
    });
    met.unwrap_or(FailureMet::Failed)
}

/// Leaves it to the close to bring the file to the PFS. False: it cannot. Guard held.
pub(crate) fn put_off(table: &Engine, token: u64, code: c_int) -> bool {
    is_of_store(code) && (table.evacuate)(token, -1, code) != -1
}

/// What was appended may be there although the call that was to make it durable, too, has failed.
fn appends_twice(fd: c_int, code: c_int) -> bool {
    // SAFETY: system call on a number.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    code == libc::EIO && flags & libc::O_APPEND != 0 && flags & libc::O_DSYNC != 0
}

/// Reserves the room, or moves the file to where it is: the error of such a write comes too late.
pub(crate) fn ensure(fd: c_int, offset: i64, bytes: usize) {
    if !open_files::may_hold(fd) {
        return;
    }
    let Some(active) = engine::active() else { return };
    let begun = Moment::now();
    let _: Option<c_int> = handle(0, active, || {
        let (Ok(offset), Ok(bytes)) = (u64::try_from(offset), u64::try_from(bytes)) else {
            return Outcome::Pass;
        };
        if let Some(claim) = open_files::claim(fd).filter(|claim| claim.writable)
            && (active.table.reserve)(claim.token, fd, offset, bytes) != 0
        {
            evacuate(&active.table, claim, 0, begun);
        }
        Outcome::Pass
    });
}

/// One call of write(2) takes at most so many bytes on Linux.
const WRITE_MAX: usize = 0x7fff_f000;

/// Counts bytes that were to be written here. A full store takes a part of a write and no error; a
/// PFS with room takes all, and few programs expect less.
#[inline]
pub(crate) fn left_undone(fd: c_int, wanted: usize, result: isize) -> usize {
    match usize::try_from(result) {
        Ok(done) if done < wanted.min(WRITE_MAX) => cut_short(fd, wanted.min(WRITE_MAX) - done),
        _ => 0,
    }
}

#[cold]
fn cut_short(fd: c_int, rest: usize) -> usize {
    let ours =
        open_files::may_hold(fd) && engine::active().is_some() && !crate::signal::guard::inside();
    // A limit on file sizes cuts writes short as well, and sends a signal at the next one.
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is valid for the call.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    if ours && known && limit.rlim_cur == libc::RLIM_INFINITY { rest } else { 0 }
}
