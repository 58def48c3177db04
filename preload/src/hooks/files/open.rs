//! open(2) and its relatives.

use std::ffi::{CStr, CString, c_char, c_int};

use libc::{AT_FDCWD, mode_t};
use scr_abi::{TOKEN_LAZY, TOKEN_LOGGED, TOKEN_SHORT, event};

use crate::base::thread::MpiFiles;
use crate::engine::ask::Answer;
use crate::fd::changes::Moment;
use crate::fd::failing_store::is_of_store;
use crate::fd::handle::Outcome;
use crate::fd::lazy::{put_in_place, wake_beyond, wake_descriptor};
use crate::fd::logged::{self, Log, parted};
use crate::fd::moves::evacuate;
use crate::fd::open_files::{self, Claim};
use crate::fd::release::{fresh, report, take_back};
use crate::hooks::below::{below_prefix, below_prefix_for};
use crate::hooks::family::interpose;
use crate::hooks::files::close::close_tracked;
use crate::hooks::files::unseen_mappings;
use crate::path::question::Question;
use crate::{engine, fd::identity, fd::in_order, fd::reuse, fd::stream_writes, signal::guard};

type Open = unsafe extern "C-unwind" fn(*const c_char, c_int, ...) -> c_int;
type OpenAt = unsafe extern "C-unwind" fn(c_int, *const c_char, c_int, ...) -> c_int;
type Creat = unsafe extern "C-unwind" fn(*const c_char, mode_t) -> c_int;

interpose! {
    opening [open, open64, __open, __open64]
        (path: *const c_char, flags: c_int, mode: mode_t) -> c_int = Open => open;
    opening [__open_2, __open64_2](path: *const c_char, flags: c_int) -> c_int
        = Open => open_2;
    opening [openat, openat64, __openat64]
        (dirfd: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int
        = OpenAt => openat;
    opening [__openat_2, __openat64_2]
        (dirfd: c_int, path: *const c_char, flags: c_int) -> c_int = OpenAt => openat_2;
    opening [creat, creat64](path: *const c_char, mode: mode_t) -> c_int = Creat => creat;
}

unsafe fn open(real: Open, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the program's arguments, or an absolute path of ours in place of its own; here and
    // below.
    unsafe { open_any(AT_FDCWD, path, flags, mode, |path| real(path, flags, mode)) }
}

unsafe fn open_2(real: Open, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: as in `open`; the fortified form has no mode.
    unsafe { open_any(AT_FDCWD, path, flags, 0, |path| real(path, flags)) }
}

unsafe fn openat(
    real: OpenAt,
    dirfd: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: as in `open`.
    unsafe { open_any(dirfd, path, flags, mode, |path| real(dirfd, path, flags, mode)) }
}

unsafe fn openat_2(real: OpenAt, dirfd: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: as in `open_2`.
    unsafe { open_any(dirfd, path, flags, 0, |path| real(dirfd, path, flags)) }
}

unsafe fn creat(real: Creat, path: *const c_char, mode: mode_t) -> c_int {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
    // SAFETY: as in `open`.
    unsafe { open_any(AT_FDCWD, path, flags, mode, |path| real(path, mode)) }
}

/// The file is asked for where it was, where it has gone, and on the PFS.
const ASKS_MAX: usize = 3;

unsafe fn open_any(
    dirfd: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
    real: impl Fn(*const c_char) -> c_int,
) -> c_int {
    let call = |to: Option<&CStr>| real(to.map_or(path, CStr::as_ptr));
    if !concerns_files(flags) {
        // SAFETY: `path` is what the program gave for a C string.
        let done = unsafe { open_handle(dirfd, path, flags, call) };
        return fresh(done.unwrap_or_else(|| call(None)));
    }
    // SAFETY: as above.
    let done = unsafe { open_tracked(dirfd, path, flags, mode, call) };
    done.unwrap_or_else(|| fresh(call(None)))
}

/// Empties a file of ours by its name. The call is one that opens it and closes it again, so that
/// what is written next begins with it, as after that. `None`: it is none of ours.
///
/// Safety: `path` is null or a C string.
pub(in crate::hooks) unsafe fn empty(path: *const c_char) -> Option<c_int> {
    // Not waiting for anybody, as that call; nor is it the begin of a file that is written on.
    let flags = libc::O_WRONLY | libc::O_TRUNC | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let call = |to: Option<&CStr>| {
        let path = to.map_or(path, CStr::as_ptr);
        // SAFETY: a C string, and no mode is needed.
        unsafe { libc::syscall(libc::SYS_openat, AT_FDCWD, path, flags) as c_int }
    };
    // SAFETY: the caller's promise.
    let fd = unsafe { open_tracked(AT_FDCWD, path, flags, 0, call) }?;
    // SAFETY: a number of our own.
    let close = || match unsafe { libc::syscall(libc::SYS_close, fd) } {
        0 => Ok(0),
        _ => Err(guard::errno()),
    };
    if fd == -1 {
        return Some(-1);
    }
    Some(close_tracked(fd, close).unwrap_or_else(|| if close().is_ok() { 0 } else { -1 }))
}

/// Opens by `call`. `None`: the file is none of ours, and nothing was done. Safety: `path` is null
/// or a C string.
unsafe fn open_tracked(
    dirfd: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
    call: impl Fn(Option<&CStr>) -> c_int,
) -> Option<c_int> {
    let mode = if flags & libc::O_CREAT == 0 { 0 } else { mode };
    // SAFETY: as below.
    let behind = unsafe { name_behind(path, flags) };
    let path = behind.as_ref().map_or(path, |name| name.as_ptr());
    // SAFETY: as below.
    if unsafe { is_refused(path, flags) } {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe {
        below_prefix_for(-1, dirfd, path, flags, |question| {
            let engine = question.engine;
            let opened = open_below(question, flags, mode, |to| match call(to) {
                -1 => Err(guard::errno()),
                fd => Ok((fd, fd)),
            });
            match opened {
                None => Outcome::Pass,
                Some(Ok(fd)) if may_stay(engine, fd) => {
                    write_over(engine, fd, flags);
                    Outcome::Done(fd)
                }
                Some(Ok(fd)) => {
                    take_back(engine, fd, || libc::close(fd));
                    Outcome::Fail(libc::ENOSPC)
                }
                Some(Err(code)) => Outcome::Fail(code),
            }
        })
    }
}

/// Knows that the kernel creates no file with a slash behind its name, whatever is there. Safety:
/// `path` is null or a C string.
pub(super) unsafe fn is_refused(path: *const c_char, flags: c_int) -> bool {
    // SAFETY: the caller's promise.
    flags & libc::O_CREAT != 0
        && !path.is_null()
        && unsafe { CStr::from_ptr(path) }.to_bytes().ends_with(b"/")
}

/// Finds the name behind a descriptor's own name. Safety: `path` is null or a C string.
pub(in crate::hooks) unsafe fn name_behind(path: *const c_char, flags: c_int) -> Option<CString> {
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
    if !writes || path.is_null() || engine::active().is_none() {
        return None;
    }
    // SAFETY: the caller's promise.
    identity::number_in(unsafe { CStr::from_ptr(path) }.to_bytes()).and_then(identity::name_behind)
}

/// A directory or a path handle is never tracked, but what is seen under the name decides.
unsafe fn open_handle(
    dirfd: c_int,
    path: *const c_char,
    flags: c_int,
    call: impl Fn(Option<&CStr>) -> c_int,
) -> Option<c_int> {
    if flags & (libc::O_TMPFILE & !libc::O_DIRECTORY | libc::O_CREAT) != 0 {
        return None;
    }
    let job = |mut question: Question| match question.lookup(flags & libc::O_NOFOLLOW == 0) {
        Answer::Pass | Answer::Done => Outcome::Pass,
        Answer::Redirect(to) => Outcome::of(call(Some(&to))),
        Answer::Fail(code) => Outcome::Fail(code),
        // A file of another node.
        Answer::Stat(_) if flags & libc::O_DIRECTORY != 0 => Outcome::Fail(libc::ENOTDIR),
        Answer::Stat(_) => Outcome::Pass,
    };
    // SAFETY: the caller's promise.
    unsafe { below_prefix(-1, dirfd, path, job) }
}

fn concerns_files(flags: c_int) -> bool {
    flags & libc::O_TMPFILE != libc::O_TMPFILE && flags & (libc::O_DIRECTORY | libc::O_PATH) == 0
}

/// Opens by `call`, which returns the result and its descriptor, or an errno. `None`: the real call
/// without tracking, outside of our work. Guard held.
pub(super) fn open_below<T>(
    mut question: Question,
    flags: c_int,
    mode: mode_t,
    call: impl Fn(Option<&CStr>) -> Result<(T, c_int), c_int>,
) -> Option<Result<T, c_int>> {
    if MpiFiles::are_at(&question.path) {
        if flags & libc::O_CREAT != 0 {
            MpiFiles::note_made(&question.path);
        }
        return None; // no part of a checkpoint, and ranks of other nodes look for it on the prefix
    }
    let mut asks_left = ASKS_MAX;
    loop {
        let (again, result) = open_as_told(&mut question, flags, mode, &call)?;
        asks_left -= 1;
        if !again || asks_left == 0 {
            return Some(result);
        }
    }
}

/// A reader of a sealed copy stays one only if its first change cannot pass unseen; else it gets a
/// private copy now. False: that could not be made. Guard held.
fn may_stay(table: &scr_abi::Engine, fd: c_int) -> bool {
    let may_be_mapped = || open_files::is_lazy(fd) && !MpiFiles::are_opened();
    let unseen = || may_be_mapped() && !unseen_mappings::are_seen();
    wake_beyond(table, fd)
        && parted::leave_beyond(table, fd)
        && (!unseen() || wake_descriptor(table, fd))
}

/// `fd`, just opened, is to write over a file that is no longer needed. Guard held.
fn write_over(table: &scr_abi::Engine, fd: c_int, flags: c_int) {
    let is_plain = |claim: &Claim| claim.writable && !claim.lazy && claim.log.is_none();
    let claim = open_files::claim(fd).filter(is_plain);
    let Some(claim) = claim.filter(|_| reuse::fits(fd, flags)) else { return };
    let new = (table.reuse)(claim.token, fd);
    if new >= 0 {
        reuse::begin(claim.token, fd, new, || put_in_place(new, fd));
        // SAFETY: the engine gave us the descriptor.
        unsafe { libc::close(new) };
    }
}

fn log_of(table: &scr_abi::Engine, token: u64) -> Option<Log> {
    if token & TOKEN_LOGGED == 0 { None } else { logged::log_of(table, token) }
}

/// The first part of the result says whether the engine has another answer by now.
fn open_as_told<T>(
    question: &mut Question,
    flags: c_int,
    mode: mode_t,
    call: impl Fn(Option<&CStr>) -> Result<(T, c_int), c_int>,
) -> Option<(bool, Result<T, c_int>)> {
    let table = question.engine;
    let exclusive = libc::O_CREAT | libc::O_EXCL;
    let follow = flags & libc::O_NOFOLLOW == 0 && flags & exclusive != exclusive;
    let ask = |path: &CStr, verdict| (table.open)(path.as_ptr(), flags, mode, verdict);
    let (answer, token) = if follow {
        question.ask_following(ask)
    } else {
        crate::engine::ask::ask(|verdict| ask(&question.path, verdict))
    };
    let redirected = matches!(answer, Answer::Redirect(_));
    let result = match answer {
        Answer::Pass if token == 0 => return None,
        Answer::Redirect(to) => call(Some(&to)),
        Answer::Fail(code) => Err(code),
        _ => call(None),
    };
    if let (true, Ok((_, fd))) = (redirected, &result) {
        identity::note(*fd, &question.path);
    }
    // Another thread's collective may have sealed the file's dataset since the engine answered: its
    // directory has another name then, and the engine knows it.
    let mut again = redirected && matches!(result, Err(libc::ENOENT));
    if token != 0 {
        match &result {
            Ok((_, fd)) => {
                let writable = flags & libc::O_ACCMODE != libc::O_RDONLY;
                let lazy = token & TOKEN_LAZY != 0;
                let log = log_of(table, token);
                let claim = Claim { token, writable, lazy, log };
                let stale = open_files::attach(*fd, claim);
                report(table, stale);
                stream_writes::watch_standard(*fd);
                let begun = Moment::now();
                let fits = (table.opened)(token, *fd, 0) == 0;
                if !fits {
                    evacuate(table, claim, 0, begun);
                }
                if writable && !lazy {
                    let is_worth = token & TOKEN_SHORT == 0 && fits;
                    let follow = is_worth && redirected && log.is_none();
                    in_order::begin(*fd, follow && unseen_mappings::cannot_change(flags));
                }
            }
            Err(code) => again |= (table.opened)(token, -1, *code) != 0,
        }
    } else if let (true, Err(code)) = (redirected, &result)
        && is_of_store(*code)
    {
        (table.note)(event::UNREADABLE, question.path.as_ptr());
        again = true;
    }
    Some((again, result.map(|(value, _)| value)))
}
