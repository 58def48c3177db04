//! Files that lie in a store of this node, which has only what the ranks of this node have written
//! of them. What else a call needs is on other nodes: before it is made, the file moves to the PFS,
//! where it is whole. Calls on all other descriptors cost a load.

use std::ffi::c_int;

use libc::{off_t, size_t};
use scr_abi::Engine;

use crate::fd::changes::{MOVES_MAX, Moment};
use crate::fd::handle::{Outcome, handle};
use crate::fd::in_order::WritePlace;
use crate::fd::moves::evacuate;
use crate::fd::open_files::{self, Claim};
use crate::{engine, signal::guard};

/// Has a file that is parted move, unless all bytes are here that are about to be read. What MPI-IO
/// would write back is never all here: of what lies between its pieces others may be writing now.
/// False: it cannot; errno is set.
#[inline]
pub(crate) fn may_read(fd: c_int, at: WritePlace, bytes: size_t) -> bool {
    !super::is_parted(fd)
        || moved_unless(fd, |table, claim| {
            !super::mpi_io::writes_back() && has(table, claim, fd, at, bytes)
        })
}

/// Has one move that a call is about to use in a way that only a whole file can be used in. False:
/// it cannot; errno is set.
#[inline]
pub(crate) fn leave(fd: c_int) -> bool {
    !super::is_parted(fd) || moved_unless(fd, |_, _| false)
}

/// Does what [`leave`] does; guard held.
pub(crate) fn leave_held(table: &Engine, fd: c_int) -> bool {
    let parted = || open_files::claim(fd).filter(is_parted);
    parted().is_none_or(|claim| evacuate(table, claim, 0, Moment::now()) && parted().is_none())
}

/// Has all of them move before the process forks: a child cannot ask for what other nodes have, and
/// nobody would know what it has written.
pub(crate) fn leave_all() {
    if !guard::inside() {
        open_files::parted_descriptors().into_iter().for_each(|fd| _ = leave(fd));
    }
}

/// Has one move whose number is so high that no hook could tell. Guard held.
pub(crate) fn leave_beyond(table: &Engine, fd: c_int) -> bool {
    open_files::may_be_lazy(fd) || leave_held(table, fd)
}

/// Returns how long the file is; `here`: how long it is on this node.
#[inline]
pub(crate) fn size(fd: c_int, here: off_t) -> off_t {
    if super::is_parted(fd) { whole_size(fd).unwrap_or(here) } else { here }
}

/// Returns how long a file is that is parted.
#[inline]
pub(crate) fn size_of(fd: c_int) -> Option<off_t> {
    if super::is_parted(fd) { whole_size(fd) } else { None }
}

/// Makes room for bytes of a file that is parted, which needs none on this node: it becomes longer,
/// if it is to. `None`: the real call is to be made.
#[inline]
pub(crate) fn allocate(fd: c_int, grows: bool, start: off_t, bytes: off_t) -> Option<c_int> {
    if super::is_parted(fd) { lengthen(fd, grows, start, bytes) } else { None }
}

fn is_parted(claim: &Claim) -> bool {
    claim.log.is_some_and(super::Log::is_parted)
}

/// Asks until the file has moved or need not, since another one may move meanwhile.
#[cold]
fn moved_unless(fd: c_int, is_fine: impl Fn(&Engine, Claim) -> bool) -> bool {
    let Some(active) = engine::active() else { return true };
    for _ in 0..MOVES_MAX {
        let begun = Moment::now();
        let again = handle(-1, active, || match open_files::claim(fd).filter(is_parted) {
            None => Outcome::Done(0),
            Some(claim) if is_fine(&active.table, claim) => Outcome::Done(0),
            Some(claim) if evacuate(&active.table, claim, 0, begun) => Outcome::Done(1),
            Some(_) => Outcome::Fail(libc::EIO),
        });
        match again {
            Some(1) => {}
            Some(-1) => return false,
            _ => return true,
        }
    }
    guard::set_errno(libc::EIO);
    false
}

/// For who writes nobody has anything behind the end of the file. Who only reads may have been told
/// by a message that somebody has, and opened the file for that. Guard held.
fn has(table: &Engine, claim: Claim, fd: c_int, at: WritePlace, bytes: size_t) -> bool {
    let start = match at {
        WritePlace::Place => super::place_of(fd),
        WritePlace::Offset(offset) => offset,
    };
    let end = start.saturating_add(off_t::try_from(bytes).unwrap_or(off_t::MAX));
    let end = if claim.writable { end.min(size_now(table, claim, fd)) } else { end };
    start < 0 || start >= end || (table.has)(claim.token, start as u64, end as u64) != 0
}

/// Has the file move where nobody can know how long it is. Guard held.
fn size_now(table: &Engine, claim: Claim, fd: c_int) -> off_t {
    match (table.file_size)(claim.token) {
        u64::MAX => {
            evacuate(table, claim, 0, Moment::now());
            size_here(fd)
        }
        known => off_t::try_from(known).unwrap_or(off_t::MAX),
    }
}

fn size_here(fd: c_int) -> off_t {
    let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: fstat writes the structure when it returns 0.
    unsafe {
        if libc::fstat(fd, found.as_mut_ptr()) == 0 { found.assume_init().st_size } else { 0 }
    }
}

#[cold]
fn whole_size(fd: c_int) -> Option<off_t> {
    let active = engine::active()?;
    handle(0, active, || match open_files::claim(fd).filter(is_parted) {
        Some(claim) => Outcome::Done(size_now(&active.table, claim, fd)),
        None => Outcome::Pass,
    })
}

#[cold]
fn lengthen(fd: c_int, grows: bool, start: off_t, bytes: off_t) -> Option<c_int> {
    let active = engine::active()?;
    handle(-1, active, || {
        let parted = open_files::claim(fd).filter(|claim| claim.writable && is_parted(claim));
        let Some(claim) = parted else { return Outcome::Pass };
        if start < 0 || bytes <= 0 {
            return Outcome::Fail(libc::EINVAL);
        }
        let Some(end) = start.checked_add(bytes) else { return Outcome::Fail(libc::EFBIG) };
        if !grows || end <= size_now(&active.table, claim, fd) {
            return Outcome::Done(0);
        }
        // SAFETY: system call on numbers.
        Outcome::of(unsafe { libc::ftruncate(fd, end) })
    })
}
