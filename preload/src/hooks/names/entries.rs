//! Names that appear, move and go: unlink, rename, mkdir, rmdir.

use std::ffi::{CStr, CString, c_char, c_int, c_uint};

use libc::{AT_FDCWD, dev_t, mode_t};
use scr_abi::event;

use crate::base::thread::MpiFiles;
use crate::engine::ask::{Answer, ask};
use crate::fd::handle::{Outcome, handle};
use crate::hooks::below::{below_prefix, below_prefix_anew, below_prefix_to_make};
use crate::hooks::family::rerouted;
use crate::path::disk;
use crate::path::glance::{self, NameIs};
use crate::path::question::{Question, lies_below_file};
use crate::path::text;
use crate::{child, engine, path::canonical, signal::guard};

rerouted! {
    looking [unlink](path: *const c_char) -> c_int
        = |real| below_prefix(-1, AT_FDCWD, path, unlink_below);
    looking [unlinkat](dirfd: c_int, path: *const c_char, flags: c_int) -> c_int
        = |real| remove_below(dirfd, path, |_| flags & libc::AT_REMOVEDIR != 0);
    // remove(3) is unlink for files and rmdir for directories; libc's inner calls pass no hook.
    looking [remove](path: *const c_char) -> c_int
        = |real| remove_below(AT_FDCWD, path, |path| kind_of(path) == libc::S_IFDIR);
    plain [rmdir](path: *const c_char) -> c_int = |real| remove_below(AT_FDCWD, path, |_| true);
    plain [mkdir](path: *const c_char, mode: mode_t) -> c_int
        = |real| make_directory(AT_FDCWD, path, || real(path, mode));
    plain [mkdirat](dirfd: c_int, path: *const c_char, mode: mode_t) -> c_int
        = |real| make_directory(dirfd, path, || real(dirfd, path, mode));
    plain [mkfifo](path: *const c_char, mode: mode_t) -> c_int
        = |real| make_special(AT_FDCWD, path);
    plain [mkfifoat](dirfd: c_int, path: *const c_char, mode: mode_t) -> c_int
        = |real| make_special(dirfd, path);
    plain [mknod](path: *const c_char, mode: mode_t, device: dev_t) -> c_int
        = |real| make_special(AT_FDCWD, path);
    plain [mknodat](dirfd: c_int, path: *const c_char, mode: mode_t, device: dev_t) -> c_int
        = |real| make_special(dirfd, path);
    plain [__xmknod](version: c_int, path: *const c_char, mode: mode_t, device: *mut dev_t)
        -> c_int = |real| make_special(AT_FDCWD, path);
    plain [__xmknodat](
        version: c_int, dirfd: c_int, path: *const c_char, mode: mode_t, device: *mut dev_t
    ) -> c_int = |real| make_special(dirfd, path);
    looking [rename](from: *const c_char, to: *const c_char) -> c_int
        = |real| rename_any(AT_FDCWD, from, AT_FDCWD, to, 0);
    looking [renameat](
        from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char
    ) -> c_int = |real| rename_any(from_dir, from, to_dir, to, 0);
    looking [renameat2](
        from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char, flags: c_uint
    ) -> c_int = |real| rename_any(from_dir, from, to_dir, to, flags);
}

unsafe fn remove_below(
    dirfd: c_int,
    path: *const c_char,
    is_directory: impl FnOnce(&CStr) -> bool,
) -> Option<c_int> {
    let job = |question: Question| match is_directory(&question.path) {
        true => rmdir_below(question),
        false => unlink_below(question),
    };
    // SAFETY: the program's arguments, here and below.
    unsafe { if is_dots(path) { None } else { below_prefix_anew(-1, dirfd, path, job) } }
}

/// Returns the `S_IFMT` bits, 0 for nothing.
fn kind_of(path: &CStr) -> libc::mode_t {
    let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: lstat writes the structure when it returns 0; the guard is held.
    unsafe {
        if libc::lstat(path.as_ptr(), found.as_mut_ptr()) != 0 {
            return 0;
        }
        found.assume_init().st_mode & libc::S_IFMT
    }
}

pub(super) fn exists(path: &CStr) -> bool {
    // SAFETY: a C string; the guard is held, so this asks the file system itself.
    unsafe { libc::faccessat(AT_FDCWD, path.as_ptr(), libc::F_OK, libc::AT_SYMLINK_NOFOLLOW) == 0 }
}

fn unlink_below(question: Question) -> Outcome<c_int> {
    if MpiFiles::were_made_at(&question.path) {
        return Outcome::Pass; // as it was opened: the engine does not know of it
    }
    let (answer, _) = ask(|verdict| (question.engine.unlink)(question.path.as_ptr(), verdict));
    removed(answer, |path| {
        // SAFETY: a path of the engine.
        Outcome::of(unsafe { libc::unlink(path.as_ptr()) })
    })
}

fn ends_in_dots(path: &[u8]) -> bool {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let name = path[..end].rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    name == b"." || name == b".."
}

unsafe fn is_dots(path: *const c_char) -> bool {
    // SAFETY: the caller's promise.
    !path.is_null() && ends_in_dots(unsafe { CStr::from_ptr(path) }.to_bytes())
}

fn rmdir_below(mut question: Question) -> Outcome<c_int> {
    if matches!(question.lookup(false), Answer::Redirect(_) | Answer::Stat(_)) {
        return Outcome::Fail(libc::ENOTDIR);
    }
    let (answer, _) = ask(|verdict| (question.engine.rmdir)(question.path.as_ptr(), verdict));
    let outcome = removed(answer, |path| {
        // SAFETY: a path of the engine.
        Outcome::of(unsafe { libc::rmdir(path.as_ptr()) })
    });
    canonical::forget();
    outcome
}

fn removed(answer: Answer, call: impl Fn(&CStr) -> Outcome<c_int>) -> Outcome<c_int> {
    match answer {
        Answer::Pass => Outcome::Pass,
        Answer::Redirect(path) => call(&path),
        Answer::Fail(code) => Outcome::Fail(code),
        Answer::Done | Answer::Stat(_) => Outcome::Done(0),
    }
}

/// Directories are real, on the PFS. One that is still there for the sake of files that the program
/// does not see any more is as good as new.
unsafe fn make_directory(
    dirfd: c_int,
    path: *const c_char,
    call: impl Fn() -> c_int,
) -> Option<c_int> {
    // SAFETY: as in `remove_below`.
    unsafe {
        below_prefix_to_make(-1, dirfd, path, |mut question| {
            if finds_no_room(&mut question) {
                return Outcome::Fail(libc::EEXIST);
            }
            let mut outcome = Outcome::of(call());
            if matches!(outcome, Outcome::Fail(libc::EEXIST))
                && matches!(question.lookup(false), Answer::Fail(libc::ENOENT))
                && kind_of(&question.path) == libc::S_IFDIR
            {
                outcome = Outcome::Done(0);
            }
            if matches!(outcome, Outcome::Done(_)) {
                (question.engine.note)(event::MKDIR, question.path.as_ptr());
            }
            outcome
        })
    }
}

/// A file that the program has deleted, and that waits on the PFS for its real deletion, makes room
/// now. True: the cache has something of the name.
fn finds_no_room(question: &mut Question) -> bool {
    let found = question.lookup(false);
    if matches!(found, Answer::Fail(libc::ENOENT)) {
        (question.engine.note)(event::MAKE, question.path.as_ptr());
    }
    matches!(found, Answer::Redirect(_) | Answer::Stat(_))
}

/// Special files are the PFS's business; but a cached file of that name is in the way.
unsafe fn make_special(dirfd: c_int, path: *const c_char) -> Option<c_int> {
    let job = |mut question: Question| match finds_no_room(&mut question) {
        true => Outcome::Fail(libc::EEXIST),
        false => Outcome::Pass,
    };
    // SAFETY: as in `remove_below`.
    unsafe { below_prefix_to_make(-1, dirfd, path, job) }
}

unsafe fn rename_any(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
    flags: c_uint,
) -> Option<c_int> {
    let active = engine::active()?;
    if from.is_null() || to.is_null() || guard::inside() {
        return None;
    }
    // SAFETY: not null, so C strings of the program.
    let (from, to) = unsafe { (CStr::from_ptr(from).to_bytes(), CStr::from_ptr(to).to_bytes()) };
    let prefix = &active.prefix;
    if canonical::surely_outside(prefix, from) && canonical::surely_outside(prefix, to) {
        return None;
    }
    if ends_in_dots(from) || ends_in_dots(to) {
        return None;
    }
    let is_elsewhere = |(dirfd, path)| glance::at(prefix, dirfd, path) != NameIs::MayBeBelow;
    if guard::look(|| [(from_dir, from), (to_dir, to)].into_iter().all(is_elsewhere))? {
        return None;
    }
    let means_directories = text::means_directory(from) || text::means_directory(to);
    handle(-1, active, || {
        let whole = [(from_dir, from), (to_dir, to)]
            .map(|(dirfd, path)| canonical::locate_whole(prefix, dirfd, path));
        if whole.iter().any(|located| lies_below_file(&active.table, prefix, located)) {
            return Outcome::Fail(libc::ENOTDIR);
        }
        let [below_from, below_to] = whole.map(|located| located.name);
        let (from, to) = match (below_from, below_to) {
            (None, None) => return Outcome::Pass,
            (Some(from), Some(to)) => (from, to),
            (Some(from), None) => match canonical::absolute_name(to_dir, to) {
                Some(to) => (from, to),
                None => return Outcome::Pass,
            },
            (None, Some(to)) => match canonical::absolute_name(from_dir, from) {
                Some(from) => (from, to),
                None => return Outcome::Pass,
            },
        };
        if matches!(kind_of(&from), libc::S_IFDIR | libc::S_IFLNK) {
            canonical::forget();
        }
        if means_directories && !disk::is_directory(&from) && text::below(prefix, from.to_bytes()) {
            return match place_of(&active.table, prefix, &from) {
                Answer::Redirect(_) | Answer::Stat(_) => Outcome::Fail(libc::ENOTDIR),
                Answer::Fail(code) => Outcome::Fail(code),
                Answer::Pass | Answer::Done => Outcome::Pass,
            };
        }
        rename_below(&active.table, &active.prefix, from, to, flags)
    })
}

fn place_of(table: &'static scr_abi::Engine, prefix: &'static [u8], path: &CString) -> Answer {
    Question { engine: table, prefix, path: path.clone(), written: None }.lookup(false)
}

/// The kernel exchanges the names on the PFS; what is cached is brought there first, and leaves its
/// dataset, as when a child of this rank changes it.
fn exchange(
    table: &'static scr_abi::Engine,
    prefix: &'static [u8],
    from: &CString,
    to: &CString,
) -> Outcome<c_int> {
    let is_dir = [from, to].into_iter().any(|path| kind_of(path) == libc::S_IFDIR);
    let places = [from, to].map(|path| place_of(table, prefix, path));
    match &places {
        [Answer::Fail(code), _] | [_, Answer::Fail(code)] => return Outcome::Fail(*code),
        [Answer::Pass, Answer::Pass] if !is_dir => return Outcome::Pass,
        [Answer::Pass, _] if !exists(from) => return Outcome::Fail(libc::ENOENT),
        [_, Answer::Pass] if !exists(to) => return Outcome::Fail(libc::ENOENT),
        _ => {}
    }
    let lands = |path: &CString| {
        let mut question = Question { engine: table, prefix, path: path.clone(), written: None };
        let is_below = text::below(prefix, path.to_bytes());
        let mut brought = || matches!(child::opens(&mut question, libc::O_WRONLY), Answer::Pass);
        !is_below || (child::active().is_some() && brought())
    };
    if is_dir || !lands(from) || !lands(to) {
        // What a file system says that cannot exchange names; programs have a fallback for it.
        return Outcome::Fail(libc::EINVAL);
    }
    // SAFETY: C strings of ours.
    Outcome::of(unsafe {
        libc::renameat2(AT_FDCWD, from.as_ptr(), AT_FDCWD, to.as_ptr(), libc::RENAME_EXCHANGE)
    })
}

pub(super) fn rename_below(
    table: &'static scr_abi::Engine,
    prefix: &'static [u8],
    from: CString,
    to: CString,
    flags: c_uint,
) -> Outcome<c_int> {
    if flags == libc::RENAME_EXCHANGE {
        return exchange(table, prefix, &from, &to);
    }
    if flags != 0 {
        let place = |path| place_of(table, prefix, path);
        let (from_place, to_place) = (place(&from), place(&to));
        let is_dir = kind_of(&from) == libc::S_IFDIR;
        if flags != libc::RENAME_NOREPLACE {
            if !is_dir && matches!((&from_place, &to_place), (Answer::Pass, Answer::Pass)) {
                return Outcome::Pass;
            }
            // What a file system says that cannot exchange names; programs have a fallback for it.
            return Outcome::Fail(libc::EINVAL);
        }
        let there = match &from_place {
            Answer::Pass => exists(&from),
            Answer::Redirect(_) | Answer::Stat(_) => true,
            Answer::Fail(_) | Answer::Done => false,
        };
        match from_place {
            Answer::Pass if !there => return Outcome::Pass, // the kernel says what is wrong
            _ if !there => return Outcome::Fail(libc::ENOENT),
            _ => {}
        }
        let taken = match &to_place {
            Answer::Pass => exists(&to),
            Answer::Redirect(at) => exists(at),
            Answer::Stat(_) => true,
            Answer::Fail(_) | Answer::Done => false,
        };
        if taken {
            return Outcome::Fail(libc::EEXIST);
        }
    }
    let (answer, _) = ask(|verdict| (table.rename)(from.as_ptr(), to.as_ptr(), verdict));
    match answer {
        Answer::Pass => Outcome::Pass,
        // The file lies in the cache under another name, and leaves it under the program's.
        Answer::Redirect(place) => {
            // SAFETY: C strings of the engine and of ours.
            Outcome::of(unsafe { libc::rename(place.as_ptr(), to.as_ptr()) })
        }
        Answer::Fail(code) => Outcome::Fail(code),
        Answer::Done | Answer::Stat(_) => Outcome::Done(0),
    }
}
