//! Asynchronous I/O. It is done by libc's own threads, which pass no hook, and when the program
//! asks for the results it is too late to write elsewhere: room is made beforehand.

use std::ffi::{c_int, c_void};

use libc::{aiocb, ssize_t};
use scr_abi::accesses::Deed;

use crate::fd::changes::{self, Change};
use crate::fd::failing_store::{ensure, harmless};
use crate::fd::handle::{Outcome, handle};
use crate::fd::in_order::WritePlace;
use crate::fd::logged::{self, parted, submitted};
use crate::hooks::family::interpose;
use crate::hooks::files::intent::may_change;
use crate::{engine, fd::open_files};

type AioWrite = unsafe extern "C-unwind" fn(*mut aiocb) -> c_int;
type LioListio = unsafe extern "C-unwind" fn(c_int, *const *mut aiocb, c_int, *mut c_void) -> c_int;
type AioError = unsafe extern "C-unwind" fn(*const c_void) -> c_int;
type AioReturn = unsafe extern "C-unwind" fn(*mut c_void) -> ssize_t;

interpose! {
    plain [aio_write, aio_write64](block: *mut aiocb) -> c_int = AioWrite => aio_write;
    plain [aio_read, aio_read64](block: *mut aiocb) -> c_int = AioWrite => aio_read;
    cancellable [lio_listio, lio_listio64](
        mode: c_int, blocks: *const *mut aiocb, count: c_int, event: *mut c_void
    ) -> c_int = LioListio => lio_listio;
    plain [aio_error, aio_error64](block: *const c_void) -> c_int = AioError => aio_error;
    plain [aio_return, aio_return64](block: *mut c_void) -> ssize_t = AioReturn => aio_return;
}

unsafe fn aio_write(real: AioWrite, block: *mut aiocb) -> c_int {
    // SAFETY: the program's own call on a valid control block.
    unsafe {
        if !prepare(block) {
            return -1;
        }
        let Some(change) = changes::begin((*block).aio_fildes) else { return -1 };
        let result = real(block);
        if result == 0 {
            note_write(block);
        }
        change.end();
        result
    }
}

unsafe fn lio_listio(
    real: LioListio,
    mode: c_int,
    blocks: *const *mut aiocb,
    count: c_int,
    event: *mut c_void,
) -> c_int {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the program's list has `count` entries, each a valid control block or null.
    let blocks_of = |operation| unsafe {
        let all = (0..count).map(|index| *blocks.add(index)).filter(|block| !block.is_null());
        all.filter(move |block| (**block).aio_lio_opcode == operation)
    };
    // SAFETY: as above; the program's own call.
    unsafe {
        let may_write = blocks_of(libc::LIO_WRITE).all(|block| prepare(block));
        if !may_write || !blocks_of(libc::LIO_READ).all(|block| prepare_read(block)) {
            return -1;
        }
        let mut under_way = Vec::new();
        for block in blocks_of(libc::LIO_WRITE) {
            under_way.extend(changes::begin((*block).aio_fildes));
            note_write(block);
        }
        let result = real(mode, blocks, count as c_int, event);
        under_way.into_iter().for_each(|change: Change| _ = change.end());
        result
    }
}

/// The file must be allowed to change, and have room. False: errno is set. Safety: `block` is a
/// valid control block.
unsafe fn prepare(block: *const aiocb) -> bool {
    // SAFETY: the caller's promise.
    let (fd, offset, bytes) =
        unsafe { ((*block).aio_fildes, (*block).aio_offset, (*block).aio_nbytes) };
    if !may_change(fd) {
        return false;
    }
    ensure(fd, offset, bytes);
    true
}

/// Notes what will be written, while its file cannot move. Safety: as of [`prepare`].
unsafe fn note_write(block: *const aiocb) {
    // SAFETY: the caller's promise.
    let (fd, offset, bytes) =
        unsafe { ((*block).aio_fildes, (*block).aio_offset, (*block).aio_nbytes) };
    logged::will(fd, Deed::Write, offset, bytes);
    submitted::note(fd, block);
}

/// All that is to be read must be here. False: errno is set. Safety: `block` is a valid control
/// block.
unsafe fn prepare_read(block: *const aiocb) -> bool {
    // SAFETY: the caller's promise.
    let (fd, offset, bytes) =
        unsafe { ((*block).aio_fildes, (*block).aio_offset, (*block).aio_nbytes) };
    if !parted::may_read(fd, WritePlace::Offset(offset), bytes) {
        return false;
    }
    logged::will(fd, Deed::Read, offset, bytes);
    true
}

unsafe fn aio_read(real: AioWrite, block: *mut aiocb) -> c_int {
    // SAFETY: the program's own call on a valid control block.
    unsafe { if prepare_read(block) { real(block) } else { -1 } }
}

/// What failed all the same makes the dataset invalid.
unsafe fn aio_error(real: AioError, block: *const c_void) -> c_int {
    // SAFETY: the program's own call; a control block begins with its descriptor.
    let (code, fd) = unsafe { (real(block), *block.cast::<c_int>()) };
    if code != libc::EINPROGRESS {
        submitted::forget(block as usize);
    }
    if code > 0 && code != libc::EINPROGRESS && code != libc::ECANCELED {
        failed_later(fd, code);
    }
    code
}

unsafe fn aio_return(real: AioReturn, block: *mut c_void) -> ssize_t {
    // SAFETY: the program's own call. The error is to be asked for before the result is taken; the
    // function is the one above.
    unsafe {
        libc::aio_error(block.cast::<libc::aiocb>());
        real(block)
    }
}

#[cold]
fn failed_later(fd: c_int, code: c_int) {
    if open_files::may_hold(fd)
        && !harmless(code)
        && let Some(active) = engine::active()
    {
        let _: Option<c_int> = handle(0, active, || {
            if let Some(claim) = open_files::claim(fd).filter(|claim| claim.writable) {
                (active.table.failed)(claim.token, code);
            }
            Outcome::Pass
        });
    }
}
