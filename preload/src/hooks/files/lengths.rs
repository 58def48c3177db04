//! Calls on a descriptor that can tell how long its file is: one that is written over old pages is
//! as long as what was written ([`reuse`]).

use std::ffi::c_int;

use libc::off_t;
use scr_abi::accesses::trait_bit;

use crate::fd::logged::{self, parted};
use crate::fd::{course, reuse};
use crate::hooks::family::{interpose, made};

type Lseek = unsafe extern "C-unwind" fn(c_int, off_t, c_int) -> off_t;

interpose! {
    quick [lseek, lseek64](fd: c_int, offset: off_t, whence: c_int) -> off_t = Lseek => lseek;
}

made! {
    quick [fstat, fstat64](fd: c_int, buffer: *mut libc::stat) -> c_int
        = |real| corrected(real(fd, buffer), fd, buffer);
    plain [__fxstat, __fxstat64](version: c_int, fd: c_int, buffer: *mut libc::stat) -> c_int
        = |real| corrected(real(version, fd, buffer), fd, buffer);
    cancellable [flock](fd: c_int, operation: c_int) -> c_int = |real| {
        reuse::settle_of(fd);
        real(fd, operation)
    };
    cancellable [lockf, lockf64](fd: c_int, command: c_int, bytes: off_t) -> c_int = |real| {
        reuse::settle_of(fd);
        real(fd, command, bytes)
    };
}

/// Of nearly all descriptors there is nothing to correct or to log.
#[inline]
fn passes(fd: c_int) -> bool {
    !reuse::is_of(fd) && logged::is_none(fd)
}

unsafe fn corrected(result: c_int, fd: c_int, buffer: *mut libc::stat) -> c_int {
    if result == 0 && reuse::is_of(fd) {
        // SAFETY: the call has filled it.
        reuse::correct(fd, unsafe { &mut *buffer });
    }
    if result == 0 && !logged::is_none(fd) {
        // SAFETY: as above.
        let size = unsafe { &mut (*buffer).st_size };
        *size = parted::size(fd, *size);
        logged::asked(fd, *size);
    }
    result
}

unsafe fn lseek(real: Lseek, fd: c_int, offset: off_t, whence: c_int) -> off_t {
    if reuse::is_of(fd) {
        let bytes = course::bytes_so_far(fd);
        let stays = match whence {
            libc::SEEK_CUR => offset == 0,
            libc::SEEK_SET => u64::try_from(offset).ok() == bytes,
            _ => false,
        };
        if !stays {
            reuse::settle_of(fd);
        }
    }
    match whence {
        // SAFETY: the program's own call.
        libc::SEEK_SET | libc::SEEK_CUR => unsafe { real(fd, offset, whence) },
        // SAFETY: as above.
        _ => unsafe { seek_end(real, fd, offset, whence) },
    }
}

/// The place tells how long the file is, or where it has holes.
#[inline(never)]
unsafe fn seek_end(real: Lseek, fd: c_int, offset: off_t, whence: c_int) -> off_t {
    let size = if whence == libc::SEEK_END { parted::size_of(fd) } else { None };
    if whence != libc::SEEK_END && !parted::leave(fd) {
        return -1;
    }
    // SAFETY: the program's own call, or one for the place that it means.
    let place = unsafe {
        match size {
            Some(size) => real(fd, size.saturating_add(offset), libc::SEEK_SET),
            None => real(fd, offset, whence),
        }
    };
    match whence {
        libc::SEEK_END if place != -1 => logged::asked(fd, place - offset),
        libc::SEEK_END => {}
        _ => logged::mark(fd, trait_bit::HOLES),
    }
    place
}
