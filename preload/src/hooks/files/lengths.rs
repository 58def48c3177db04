//! Calls on a descriptor that can tell how long its file is: one that is written over old pages is
//! as long as what was written ([`reuse`]).

use std::ffi::c_int;

use libc::off_t;
use scr_abi::accesses::trait_bit;

use crate::fd::{course, logged, reuse};
use crate::hooks::family::interpose;

type Fstat = unsafe extern "C-unwind" fn(c_int, *mut libc::stat) -> c_int;
type FxStat = unsafe extern "C-unwind" fn(c_int, c_int, *mut libc::stat) -> c_int;
type Lseek = unsafe extern "C-unwind" fn(c_int, off_t, c_int) -> off_t;
type Flock = unsafe extern "C-unwind" fn(c_int, c_int) -> c_int;
type Lockf = unsafe extern "C-unwind" fn(c_int, c_int, off_t) -> c_int;

interpose! {
    plain [fstat, fstat64](fd: c_int, buffer: *mut libc::stat) -> c_int = Fstat => fstat;
    plain [__fxstat, __fxstat64](version: c_int, fd: c_int, buffer: *mut libc::stat) -> c_int
        = FxStat => fxstat;
    plain [lseek, lseek64](fd: c_int, offset: off_t, whence: c_int) -> off_t = Lseek => lseek;
    cancellable [flock](fd: c_int, operation: c_int) -> c_int = Flock => flock;
    cancellable [lockf, lockf64](fd: c_int, command: c_int, bytes: off_t) -> c_int
        = Lockf => lockf;
}

unsafe fn fstat(real: Fstat, fd: c_int, buffer: *mut libc::stat) -> c_int {
    // SAFETY: the program's own call, here and below.
    let result = unsafe { real(fd, buffer) };
    if result == 0 {
        // SAFETY: the call has filled it.
        told(fd, unsafe { &mut *buffer });
    }
    result
}

#[inline]
fn told(fd: c_int, found: &mut libc::stat) {
    if reuse::is_of(fd) {
        reuse::correct(fd, found);
    }
    logged::asked(fd, found.st_size);
}

unsafe fn fxstat(real: FxStat, version: c_int, fd: c_int, buffer: *mut libc::stat) -> c_int {
    // SAFETY: as in `fstat`.
    let result = unsafe { real(version, fd, buffer) };
    if result == 0 {
        // SAFETY: the call has filled it.
        told(fd, unsafe { &mut *buffer });
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
    // SAFETY: as in `fstat`.
    let place = unsafe { real(fd, offset, whence) };
    match whence {
        libc::SEEK_SET | libc::SEEK_CUR => {}
        libc::SEEK_END if place != -1 => logged::asked(fd, place - offset),
        _ => logged::mark(fd, trait_bit::HOLES),
    }
    place
}

unsafe fn flock(real: Flock, fd: c_int, operation: c_int) -> c_int {
    reuse::settle_of(fd);
    // SAFETY: as in `fstat`.
    unsafe { real(fd, operation) }
}

unsafe fn lockf(real: Lockf, fd: c_int, command: c_int, bytes: off_t) -> c_int {
    reuse::settle_of(fd);
    // SAFETY: as in `fstat`.
    unsafe { real(fd, command, bytes) }
}
