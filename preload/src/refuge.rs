//! A store that is full is no reason to fail: the engine moves the file to the PFS, its new
//! descriptor replaces the old one wherever that is open, and the call is made again.
//!
//! What cannot be made again gets its room beforehand ([`ensure`]).

use std::ffi::c_int;

use crate::ask::{Outcome, handle};
use crate::changes::Moment;
use crate::moves::evacuate;
use crate::{engine, open_files};

/// Errors that say nothing about the file: the program's mistakes (a directory to be copied from),
/// or "try again".
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

/// A call on `fd`, `begun` then and not under way any more, failed with the errno `code`. True if
/// the file has moved and the call is worth another try; otherwise the engine has heard of the
/// failure.
#[cold]
pub(crate) fn try_again(fd: c_int, code: c_int, begun: Moment) -> bool {
    if harmless(code) || !open_files::may_hold(fd) {
        return false;
    }
    let Some(active) = engine::active() else { return false };
    let moved = handle(0, active, || {
        let Some(claim) = open_files::claim(fd) else { return Outcome::Pass };
        let full = matches!(code, libc::ENOSPC | libc::EDQUOT);
        if full && evacuate(&active.table, claim, begun) {
            return Outcome::Done(1);
        }
        (active.table.failed)(claim.token, code);
        Outcome::Pass
    });
    moved == Some(1)
}

/// Makes sure that bytes of the file can be written without an error that comes too late: they are
/// reserved, or the file moves to where there is room.
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
            evacuate(&active.table, claim, begun);
        }
        Outcome::Pass
    });
}

/// Most bytes that one call of write(2) takes on Linux.
const WRITE_MAX: usize = 0x7fff_f000;

/// Bytes that a call on `fd` for `wanted` bytes has left undone, 0 if it failed or they are not to
/// be written here. A full store takes a part of a write and no error; a PFS with room takes all,
/// and few programs expect less.
#[inline]
pub(crate) fn left_undone(fd: c_int, wanted: usize, result: isize) -> usize {
    match usize::try_from(result) {
        Ok(done) if done < wanted.min(WRITE_MAX) => cut_short(fd, wanted.min(WRITE_MAX) - done),
        _ => 0,
    }
}

#[cold]
fn cut_short(fd: c_int, rest: usize) -> usize {
    let ours = open_files::may_hold(fd) && engine::active().is_some() && !crate::guard::inside();
    // A limit on file sizes cuts writes short as well, and sends a signal at the next one.
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is valid for the call.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    if ours && known && limit.rlim_cur == libc::RLIM_INFINITY { rest } else { 0 }
}
