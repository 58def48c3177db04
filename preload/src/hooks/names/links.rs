//! Links, what names lead to (readlink, realpath), and what holds them (statfs, statvfs).

use std::ffi::{CStr, CString, c_char, c_int};

use libc::{AT_FDCWD, size_t, ssize_t};
use scr_abi::Engine;

use crate::base::thread::MpiFiles;
use crate::engine::ask::{Answer, ask};
use crate::fd::handle::Outcome;
use crate::hooks::below::{below_prefix, below_prefix_to_make};
use crate::hooks::family::rerouted;
use crate::hooks::names::entries::{self, rename_below};
use crate::path::disk;
use crate::path::question::{Question, lies_below_file};
use crate::path::text;
use crate::{engine, fd::identity, path::aliases, path::canonical};

rerouted! {
    looking [link](target: *const c_char, path: *const c_char) -> c_int
        = |real| hard_link(AT_FDCWD, target, AT_FDCWD, path);
    looking [linkat](
        target_dir: c_int, target: *const c_char, dirfd: c_int, path: *const c_char, flags: c_int
    ) -> c_int = |real| {
        let call = |to: &CStr| real(target_dir, target, AT_FDCWD, to.as_ptr(), flags);
        match is_handle(target, flags) {
            true => nameless(target_dir, target, dirfd, path, call),
            false => hard_link(target_dir, target, dirfd, path),
        }
    };
    plain [symlink](target: *const c_char, path: *const c_char) -> c_int
        = |real| symbolic_link(target, AT_FDCWD, path);
    plain [symlinkat](target: *const c_char, dirfd: c_int, path: *const c_char) -> c_int
        = |real| symbolic_link(target, dirfd, path);
    looking [readlink](path: *const c_char, buffer: *mut c_char, size: size_t) -> ssize_t
        = |real| read_link(AT_FDCWD, path, buffer, size, |to| real(to.as_ptr(), buffer, size));
    looking [readlinkat](dirfd: c_int, path: *const c_char, buffer: *mut c_char, size: size_t)
        -> ssize_t = |real| read_link(dirfd, path, buffer, size, |to| {
            real(AT_FDCWD, to.as_ptr(), buffer, size)
        });
    // The real function judges the sizes: it ends the program when they do not fit.
    looking [__readlink_chk](path: *const c_char, buffer: *mut c_char, size: size_t, room: size_t)
        -> ssize_t = |real| read_link(AT_FDCWD, path, buffer, size.min(room), |to| {
            real(to.as_ptr(), buffer, size, room)
        });
    looking [__readlinkat_chk](
        dirfd: c_int, path: *const c_char, buffer: *mut c_char, size: size_t, room: size_t
    ) -> ssize_t = |real| read_link(dirfd, path, buffer, size.min(room), |to| {
        real(AT_FDCWD, to.as_ptr(), buffer, size, room)
    });
    // A buffer that is too small is left to the real function.
    looking [__realpath_chk](path: *const c_char, resolved: *mut c_char, room: size_t)
        -> *mut c_char = |real| match room < libc::PATH_MAX as size_t {
            true => None,
            false => canonical(path, resolved),
        };
    looking [realpath](path: *const c_char, resolved: *mut c_char) -> *mut c_char
        = |real| canonical(path, resolved);
    looking [canonicalize_file_name](path: *const c_char) -> *mut c_char
        = |real| canonical(path, std::ptr::null_mut());
    plain [statfs, statfs64, __statfs](path: *const c_char, buffer: *mut libc::statfs) -> c_int
        = |real| file_system(path, |to| real(to.as_ptr(), buffer));
    plain [statvfs, statvfs64](path: *const c_char, buffer: *mut libc::statvfs) -> c_int
        = |real| file_system(path, |to| real(to.as_ptr(), buffer));
}

/// `target` stands for a descriptor: a file that has no name, mostly. Safety: it is null or a C
/// string.
unsafe fn is_handle(target: *const c_char, flags: c_int) -> bool {
    if target.is_null() {
        return false;
    }
    // SAFETY: the caller's promise.
    let target = unsafe { CStr::from_ptr(target) }.to_bytes();
    flags & libc::AT_EMPTY_PATH != 0 && target.is_empty()
        || flags & libc::AT_SYMLINK_FOLLOW != 0 && identity::number_in(target).is_some()
}

/// `call` makes the real call with another name. What lies in the cache is linked by its own name.
unsafe fn nameless(
    target_dir: c_int,
    target: *const c_char,
    dirfd: c_int,
    path: *const c_char,
    call: impl Fn(&CStr) -> c_int,
) -> Option<c_int> {
    // SAFETY: C strings of the program.
    unsafe {
        let fd = identity::number_in(CStr::from_ptr(target).to_bytes()).unwrap_or(target_dir);
        if let Some(name) = identity::name_behind(fd) {
            return hard_link(AT_FDCWD, name.as_ptr(), dirfd, path);
        }
        let job = |mut question: Question| match question.lookup(false) {
            Answer::Redirect(_) | Answer::Stat(_) => Outcome::Fail(libc::EEXIST),
            Answer::Fail(libc::ENOENT) => in_place_of_a_deleted_one(question, call),
            _ => Outcome::Pass,
        };
        below_prefix_to_make(-1, dirfd, path, job)
    }
}

/// The name's old file is gone for the program only. It takes another name, and is renamed.
fn in_place_of_a_deleted_one(question: Question, call: impl Fn(&CStr) -> c_int) -> Outcome<c_int> {
    // By its number: C libraries before 2.30 have no name for it.
    // SAFETY: gettid has no preconditions.
    let unique = format!(".scr-link-{}", unsafe { libc::syscall(libc::SYS_gettid) });
    let path = question.path.to_bytes();
    let slash = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    let Ok(other) = CString::new([&path[..=slash], unique.as_bytes()].concat()) else {
        return Outcome::Pass;
    };
    if call(&other) != 0 {
        return Outcome::of(-1);
    }
    let to = question.path.clone();
    let outcome = match rename_below(question.engine, question.prefix, other.clone(), to, 0) {
        Outcome::Pass => {
            // SAFETY: C strings of ours.
            Outcome::of(unsafe { libc::rename(other.as_ptr(), question.path.as_ptr()) })
        }
        told => told,
    };
    if matches!(outcome, Outcome::Fail(_)) {
        // SAFETY: as above.
        unsafe { libc::unlink(other.as_ptr()) };
    }
    outcome
}

/// The new name decides whose business it is, and the target, if the new name lies elsewhere.
unsafe fn hard_link(
    target_dir: c_int,
    target: *const c_char,
    dirfd: c_int,
    path: *const c_char,
) -> Option<c_int> {
    if target.is_null() || path.is_null() {
        return None;
    }
    // SAFETY: not null, so C strings of the program.
    let (target_bytes, path_bytes) =
        unsafe { (CStr::from_ptr(target).to_bytes(), CStr::from_ptr(path).to_bytes()) };
    let job = |mut question: Question| {
        let located = canonical::locate_whole(question.prefix, target_dir, target_bytes);
        if lies_below_file(question.engine, question.prefix, &located) {
            return Outcome::Fail(libc::ENOTDIR);
        }
        let from = located.name.or_else(|| canonical::absolute_name(target_dir, target_bytes));
        let Some(from) = from else { return Outcome::Pass };
        if text::means_directory(target_bytes) && !disk::is_directory(&from) {
            let (answer, _) = ask(|verdict| (question.engine.lookup)(from.as_ptr(), 0, verdict));
            return match answer {
                Answer::Redirect(_) | Answer::Stat(_) => Outcome::Fail(libc::ENOTDIR),
                _ => Outcome::Pass,
            };
        }
        if text::means_directory(path_bytes) {
            // The kernel links to no directory, and makes none.
            let (target, _) = ask(|verdict| (question.engine.lookup)(from.as_ptr(), 0, verdict));
            let cached = |answer: &Answer| matches!(answer, Answer::Redirect(_) | Answer::Stat(_));
            let there = cached(&target) || entries::exists(&from);
            let taken = match question.lookup(false) {
                Answer::Pass | Answer::Done => entries::exists(&question.path),
                Answer::Redirect(_) | Answer::Stat(_) => true,
                Answer::Fail(_) => false,
            };
            return Outcome::Fail(if there && taken { libc::EEXIST } else { libc::ENOENT });
        }
        answered(question.engine, &from, &question.path)
    };
    let from_below = |question: Question| match canonical::absolute_name(dirfd, path_bytes) {
        Some(to) => answered(question.engine, &question.path, &to),
        None => Outcome::Pass,
    };
    // SAFETY: C strings of the program.
    unsafe {
        below_prefix_to_make(-1, dirfd, path, job)
            .or_else(|| below_prefix(-1, target_dir, target, from_below))
    }
}

fn answered(table: &Engine, target: &CStr, path: &CStr) -> Outcome<c_int> {
    let (answer, _) = ask(|verdict| (table.link)(target.as_ptr(), path.as_ptr(), 0, verdict));
    match answer {
        Answer::Pass => Outcome::Pass,
        // SAFETY: C strings of the engine and of ours.
        Answer::Redirect(from) => Outcome::of(unsafe { libc::link(from.as_ptr(), path.as_ptr()) }),
        Answer::Fail(code) => Outcome::Fail(code),
        Answer::Done | Answer::Stat(_) => Outcome::Done(0),
    }
}

unsafe fn symbolic_link(target: *const c_char, dirfd: c_int, path: *const c_char) -> Option<c_int> {
    let job = |mut question: Question| {
        if matches!(question.lookup(false), Answer::Redirect(_) | Answer::Stat(_)) {
            return Outcome::Fail(libc::EEXIST);
        }
        canonical::forget();
        let (answer, _) = ask(|verdict| {
            (question.engine.link)(target, question.path.as_ptr(), 1, verdict);
        });
        match answer {
            Answer::Pass => Outcome::Pass,
            // SAFETY: the program's target, a path of the engine.
            Answer::Redirect(at) => Outcome::of(unsafe { libc::symlink(target, at.as_ptr()) }),
            Answer::Fail(code) => Outcome::Fail(code),
            Answer::Done | Answer::Stat(_) => Outcome::Done(0),
        }
    };
    if target.is_null() {
        return None;
    }
    // SAFETY: `path` is null or a C string of the program.
    unsafe { below_prefix_to_make(-1, dirfd, path, job) }
}

/// `buffer` is the program's, for what the kernel would not say.
unsafe fn read_link(
    dirfd: c_int,
    path: *const c_char,
    buffer: *mut c_char,
    size: size_t,
    call: impl Fn(&CStr) -> ssize_t,
) -> Option<ssize_t> {
    // SAFETY: `path` is null or a C string of the program.
    let behind = unsafe { behind_descriptor(path) }.filter(|_| size > 0);
    if let Some(name) = behind {
        let bytes = name.as_bytes().len().min(size);
        // SAFETY: the program's buffer has at least that many bytes.
        unsafe { buffer.copy_from_nonoverlapping(name.as_ptr(), bytes) };
        return Some(bytes.cast_signed());
    }
    let job = |mut question: Question| match question.lookup(false) {
        Answer::Pass => Outcome::Pass,
        Answer::Redirect(to) => match call(&to) {
            -1 => Outcome::Fail(crate::signal::guard::errno()),
            bytes => Outcome::Done(bytes),
        },
        Answer::Fail(code) => Outcome::Fail(code),
        // A file that is elsewhere, and no symlink.
        Answer::Done | Answer::Stat(_) => Outcome::Fail(libc::EINVAL),
    };
    // SAFETY: `path` is null or a C string of the program.
    unsafe { below_prefix(-1, dirfd, path, job) }
}

/// Where the cached file should be that a name like `/proc/self/fd/7` stands for. Safety: `path` is
/// null or a C string.
unsafe fn behind_descriptor(path: *const c_char) -> Option<CString> {
    engine::active().filter(|_| !path.is_null())?;
    // SAFETY: not null, so a C string by this function's contract.
    let fd = identity::number_in(unsafe { CStr::from_ptr(path) }.to_bytes())?;
    let name = identity::name_behind(fd)?;
    CString::new(aliases::physical(name.to_bytes())).ok()
}

/// A cached file lies where it would lie without us; where its bytes are is our business.
unsafe fn canonical(path: *const c_char, resolved: *mut c_char) -> Option<*mut c_char> {
    let failed = std::ptr::null_mut();
    // SAFETY: the caller's promise.
    let behind = unsafe { behind_descriptor(path) };
    let path = behind.as_deref().map_or(path, CStr::as_ptr);
    let job = |mut question: Question| {
        match question.lookup(true) {
            Answer::Pass | Answer::Done => return Outcome::Pass,
            Answer::Fail(code) => return Outcome::Fail(code),
            Answer::Redirect(_) | Answer::Stat(_) => {}
        }
        let Ok(found) = CString::new(aliases::physical(question.path.to_bytes())) else {
            return Outcome::Pass;
        };
        let found = found.as_bytes_with_nul();
        if found.len() > libc::PATH_MAX as usize {
            return Outcome::Fail(libc::ENAMETOOLONG);
        }
        // SAFETY: the program's buffer has PATH_MAX bytes; without one it frees what strdup made.
        unsafe {
            if resolved.is_null() {
                return Outcome::Done(libc::strdup(found.as_ptr().cast()));
            }
            resolved.copy_from_nonoverlapping(found.as_ptr().cast(), found.len());
        }
        Outcome::Done(resolved)
    };
    // SAFETY: `path` is null or a C string of the program.
    unsafe { below_prefix(failed, AT_FDCWD, path, job) }
}

/// A cached file has the file system of its bytes, as fstatfs on its descriptor would say. One that
/// is elsewhere has that of its directory. Of a file that it is about to make MPI-IO asks the
/// directory, and writes as that says: the answer is that of the store.
unsafe fn file_system(path: *const c_char, call: impl Fn(&CStr) -> c_int) -> Option<c_int> {
    engine::active()?;
    let job = |mut question: Question| match question.lookup(true) {
        Answer::Pass | Answer::Done => match MpiFiles::store_for(&question.path) {
            Some(store) => Outcome::of(call(store)),
            None => Outcome::Pass,
        },
        Answer::Redirect(to) => Outcome::of(call(&to)),
        Answer::Fail(code) => Outcome::Fail(code),
        Answer::Stat(_) => {
            let path = question.path.to_bytes();
            let slash = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            match CString::new(&path[..slash.max(1)]) {
                Ok(directory) => Outcome::of(call(&directory)),
                Err(_) => Outcome::Pass,
            }
        }
    };
    // SAFETY: `path` is null or a C string of the program.
    unsafe { below_prefix(-1, AT_FDCWD, path, job) }
}
