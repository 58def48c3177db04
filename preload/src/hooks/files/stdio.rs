//! Streams: opened, reopened and closed. `stream_writes` sees what stdio writes in between.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};

use libc::{AT_FDCWD, FILE};
use scr_abi::accesses::trait_bit;

use crate::fd::handle::{Outcome, handle};
use crate::fd::lazy::wake_descriptor;
use crate::fd::logged::{self, parted};
use crate::fd::release::{fresh, report, take_back};
use crate::hooks::below::below_prefix_for;
use crate::hooks::family::interpose;
use crate::hooks::files::close::{ended, loses_data, tell_whole};
use crate::hooks::files::intent::may_be_changed;
use crate::hooks::files::open::{is_refused, name_behind, open_below};
use crate::hooks::files::unseen_mappings;
use crate::{
    engine, fd::identity, fd::in_order, fd::open_files, fd::stream_writes, signal::guard,
    signal::handlers,
};

type Fopen = unsafe extern "C-unwind" fn(*const c_char, *const c_char) -> *mut FILE;
type Freopen = unsafe extern "C-unwind" fn(*const c_char, *const c_char, *mut FILE) -> *mut FILE;
type Fdopen = unsafe extern "C-unwind" fn(c_int, *const c_char) -> *mut FILE;
type Fcloseall = unsafe extern "C-unwind" fn() -> c_int;
type Fclose = unsafe extern "C-unwind" fn(*mut FILE) -> c_int;

interpose! {
    opening [fopen, fopen64, _IO_fopen](path: *const c_char, mode: *const c_char) -> *mut FILE
        = Fopen => fopen;
    cancellable [freopen, freopen64]
        (path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE
        = Freopen => freopen;
    plain [fdopen, _IO_fdopen](fd: c_int, mode: *const c_char) -> *mut FILE = Fdopen => fdopen;
    cancellable [fcloseall]() -> c_int = Fcloseall => fcloseall;
    cancellable [fclose, _IO_fclose](stream: *mut FILE) -> c_int = Fclose => fclose;
}

/// The umask is applied to these permissions.
const MODE: libc::mode_t = 0o666;

/// Reads the mode as glibc does.
fn flags_of(mode: &CStr) -> Option<c_int> {
    let mode = mode.to_bytes();
    let mut flags = match mode.first()? {
        b'r' => libc::O_RDONLY,
        b'w' => libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC,
        b'a' => libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND,
        _ => return None,
    };
    for letter in mode[1..].iter().take_while(|&&letter| letter != b',') {
        match letter {
            b'+' => flags = (flags & !libc::O_ACCMODE) | libc::O_RDWR,
            b'x' => flags |= libc::O_EXCL,
            b'e' => flags |= libc::O_CLOEXEC,
            _ => {}
        }
    }
    Some(flags)
}

unsafe fn fopen(real: Fopen, path: *const c_char, mode: *const c_char) -> *mut FILE {
    let _unsafe = handlers::unsafe_call();
    // SAFETY: the program's arguments, or a path of ours in place of its own.
    unsafe {
        let call = |to: Option<&CStr>| real(to.map_or(path, CStr::as_ptr), mode);
        open_stream(path, mode, call, |stream| libc::fclose(stream))
            .unwrap_or_else(|| fresh_stream(real(path, mode)))
    }
}

/// What a stream `reads` is not seen.
fn attach_stream(fd: c_int, stream: *mut FILE, reads: bool) {
    open_files::attach_stream(fd, stream as usize);
    stream_writes::watch();
    if reads || !open_files::streams_are_seen() {
        logged::mark(fd, trait_bit::UNSEEN);
    }
    if !open_files::streams_are_seen() {
        in_order::stop(fd);
    }
}

unsafe fn fresh_stream(stream: *mut FILE) -> *mut FILE {
    if !stream.is_null() && engine::active().is_some() {
        // SAFETY: an open stream.
        fresh(unsafe { libc::fileno(stream) });
    }
    stream
}

/// `undo` closes a stream that the program must not get.
unsafe fn open_stream<T>(
    path: *const c_char,
    mode: *const c_char,
    call: impl Fn(Option<&CStr>) -> *mut FILE,
    undo: impl FnOnce(*mut FILE) -> T,
) -> Option<*mut FILE> {
    // SAFETY: `mode` is what the program gave for a C string.
    let flags = flags_of(unsafe { CStr::from_ptr(mode) })?;
    // SAFETY: as above.
    if unsafe { is_refused(path, flags) } {
        return None;
    }
    // SAFETY: as above.
    let behind = unsafe { name_behind(path, flags) };
    let path = behind.as_deref().map_or(path, CStr::as_ptr);
    let open = |question: crate::path::question::Question| {
        let engine = question.engine;
        let opened = open_below(question, flags, MODE, |to| {
            let stream = call(to);
            if stream.is_null() {
                return Err(guard::errno());
            }
            // SAFETY: the stream was opened just now.
            Ok((stream, unsafe { libc::fileno(stream) }))
        });
        match opened {
            None => Outcome::Pass,
            Some(Ok(stream)) => {
                // SAFETY: as above.
                let fd = unsafe { libc::fileno(stream) };
                let reads = flags & libc::O_ACCMODE != libc::O_WRONLY;
                if reads && !parted::leave_held(engine, fd) {
                    take_back(engine, fd, || undo(stream));
                    return Outcome::Fail(libc::EIO);
                }
                if open_files::may_hold(fd) {
                    attach_stream(fd, stream, reads);
                }
                if wake_descriptor(engine, fd) {
                    return Outcome::Done(stream);
                }
                take_back(engine, fd, || undo(stream));
                Outcome::Fail(libc::ENOSPC)
            }
            Some(Err(code)) => Outcome::Fail(code),
        }
    };
    // SAFETY: `path` is null or what the program gave for a C string.
    unsafe { below_prefix_for(std::ptr::null_mut(), AT_FDCWD, path, flags, open) }
}

/// The descriptor stays tracked; the stream is remembered, since what it buffers is written when
/// the process ends at the latest.
unsafe fn fdopen(real: Fdopen, fd: c_int, mode: *const c_char) -> *mut FILE {
    let _unsafe = handlers::unsafe_call();
    // SAFETY: the program's own string.
    let flags = unsafe { if mode.is_null() { None } else { flags_of(CStr::from_ptr(mode)) } };
    let reads = flags.is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_WRONLY);
    // SAFETY: the program's own call and string.
    let stream = unsafe {
        let writes = !mode.is_null() && CStr::from_ptr(mode).to_bytes() != b"r";
        if writes && !may_be_changed(fd) || reads && !parted::leave(fd) {
            return std::ptr::null_mut();
        }
        real(fd, mode)
    };
    if !stream.is_null()
        && open_files::may_hold(fd)
        && let Some(active) = engine::active()
    {
        let _: Option<c_int> = handle(-1, active, || {
            attach_stream(fd, stream, reads);
            Outcome::Pass
        });
    }
    stream
}

unsafe fn freopen(
    real: Freopen,
    path: *const c_char,
    mode: *const c_char,
    stream: *mut FILE,
) -> *mut FILE {
    let _unsafe = handlers::unsafe_call();
    // Without a path libc opens the descriptor anew.
    // SAFETY: the program's stream and string.
    let behind = unsafe {
        let writes = !mode.is_null() && CStr::from_ptr(mode).to_bytes() != b"r";
        let anew = path.is_null() && writes && !stream.is_null() && engine::active().is_some();
        if anew { identity::name_behind(libc::fileno(stream)) } else { None }
    };
    let path = behind.as_ref().map_or(path, |name| name.as_ptr());
    if path.is_null() || stream.is_null() || engine::active().is_none() {
        // SAFETY: the program's own call.
        return unsafe { real(path, mode, stream) };
    }
    // SAFETY: the program's arguments; freopen closes the old file before it opens the new one, so
    // the old claim goes first.
    unsafe {
        give_up(stream);
        let called = Cell::new(false);
        let call = |to: Option<&CStr>| {
            called.set(true);
            real(to.map_or(path, CStr::as_ptr), mode, stream)
        };
        let opened = open_stream(path, mode, call, |stream| real(c"".as_ptr(), mode, stream));
        if opened.is_some_and(|found| found.is_null()) && !called.get() {
            // Refused by the engine; freopen(3) closes the old file all the same.
            let code = guard::errno();
            real(c"".as_ptr(), mode, stream);
            guard::set_errno(code);
        }
        opened.unwrap_or_else(|| fresh_stream(real(path, mode, stream)))
    }
}

/// freopen(3) does not tell of what it could not write, so that is flushed before. Safety: `stream`
/// is open.
unsafe fn give_up(stream: *mut FILE) {
    // SAFETY: the caller's promise.
    let fd = unsafe { libc::fileno(stream) };
    if open_files::may_hold(fd)
        && let Some(active) = engine::active()
    {
        // SAFETY: as above.
        let (failed, marked) = unsafe { (stream_writes::flush(stream), libc::ferror(stream)) };
        let _: Option<c_int> = handle(-1, active, || {
            if let Some(claim) = open_files::claim(fd).filter(|claim| claim.writable)
                && (failed.is_some() || marked != 0)
            {
                (active.table.failed)(claim.token, libc::EIO);
            }
            if failed.is_none() && marked == 0 {
                tell_whole(&active.table, fd);
            }
            report(&active.table, open_files::detach(fd));
            Outcome::Pass
        });
    }
}

unsafe fn fclose(real: Fclose, stream: *mut FILE) -> c_int {
    let _unsafe = handlers::unsafe_call();
    let done = match engine::active() {
        Some(active) if !stream.is_null() && !guard::inside() => {
            // SAFETY: the program closes an open stream.
            let fd = unsafe { libc::fileno(stream) };
            if !open_files::may_hold(fd) {
                None
            } else {
                // SAFETY: as above.
                let unwritten = unsafe { stream_writes::flush(stream) };
                handle(libc::EOF, active, || {
                    unseen_mappings::claim_before_close(&active.table, fd);
                    if unwritten.is_none() {
                        tell_whole(&active.table, fd);
                    }
                    let Some(released) = open_files::detach(fd) else { return Outcome::Pass };
                    // SAFETY: as above. A write that failed earlier shows in the error mark only.
                    let (marked, result) = unsafe { (libc::ferror(stream), real(stream)) };
                    let code = guard::errno();
                    let token = released.claim.token;
                    if marked != 0 && released.claim.writable {
                        (active.table.failed)(token, libc::EIO);
                    }
                    if let Some(code) = unwritten {
                        if loses_data(code) {
                            (active.table.failed)(token, code);
                        }
                        report(&active.table, [released]);
                        return Outcome::Fail(code);
                    }
                    let result = if result == 0 { Ok(0) } else { Err(code) };
                    let result = ended(&active.table, released, result);
                    result.map_or_else(Outcome::Fail, Outcome::Done)
                })
            }
        }
        _ => None,
    };
    // SAFETY: the program's own call.
    done.unwrap_or_else(|| unsafe { real(stream) })
}

/// libc closes every stream inside; the descriptors of those that we know are given up after.
unsafe fn fcloseall(real: Fcloseall) -> c_int {
    let _unsafe = handlers::unsafe_call();
    if engine::active().is_some() && !guard::inside() {
        // SAFETY: flushes all streams, as the program's own call is about to do.
        unsafe { libc::fflush(std::ptr::null_mut()) };
    }
    let done = engine::active().filter(|_| !guard::inside()).and_then(|active| {
        handle(libc::EOF, active, || {
            let held = open_files::streams();
            // SAFETY: the program's own call.
            let result = unsafe { real() };
            let code = guard::errno();
            for (fd, _) in held {
                let Some(released) = open_files::detach(fd) else { continue };
                if result != 0 && released.claim.writable && loses_data(code) {
                    (active.table.failed)(released.claim.token, code);
                }
                report(&active.table, [released]);
            }
            if result == 0 { Outcome::Done(0) } else { Outcome::Fail(code) }
        })
    });
    // SAFETY: the program's own call.
    done.unwrap_or_else(|| unsafe { real() })
}
