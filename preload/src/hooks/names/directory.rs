//! Directory streams; see [`crate::path::listing`]. scandir and glob read directories inside of
//! libc, so they are led through our own readdir.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};

use libc::{DIR, dirent};

use crate::engine::ask::Answer;
use crate::fd::handle::{Outcome, handle};
use crate::hooks::below::below_prefix;
use crate::hooks::family::interpose;
use crate::path::listing::{self, ADDED, ListingStage, begin_added, stage, with_merged};
use crate::path::question::Question;
use crate::{engine, signal::guard};

type Opendir = unsafe extern "C-unwind" fn(*const c_char) -> *mut DIR;
type Fdopendir = unsafe extern "C-unwind" fn(c_int) -> *mut DIR;
type Readdir = unsafe extern "C-unwind" fn(*mut DIR) -> *mut dirent;
type ReaddirInto = unsafe extern "C-unwind" fn(*mut DIR, *mut dirent, *mut *mut dirent) -> c_int;
type Closedir = unsafe extern "C-unwind" fn(*mut DIR) -> c_int;
type Rewinddir = unsafe extern "C-unwind" fn(*mut DIR);
type Telldir = unsafe extern "C-unwind" fn(*mut DIR) -> c_long;
type Scandir = unsafe extern "C-unwind" fn(
    *const c_char,
    *mut *mut *mut dirent,
    Option<Filter>,
    Option<Compare>,
) -> c_int;
type ScandirAt = unsafe extern "C-unwind" fn(
    c_int,
    *const c_char,
    *mut *mut *mut dirent,
    Option<Filter>,
    Option<Compare>,
) -> c_int;
type Glob =
    unsafe extern "C-unwind" fn(*const c_char, c_int, *const c_void, *mut GlobResult) -> c_int;
type Seekdir = unsafe extern "C-unwind" fn(*mut DIR, c_long);

interpose! {
    looking [opendir](path: *const c_char) -> *mut DIR = Opendir => opendir;
    plain [fdopendir](fd: c_int) -> *mut DIR = Fdopendir => fdopendir;
    plain [readdir, readdir64](stream: *mut DIR) -> *mut dirent = Readdir => readdir;
    plain [readdir_r, readdir64_r](
        stream: *mut DIR, entry: *mut dirent, result: *mut *mut dirent
    ) -> c_int = ReaddirInto => readdir_r;
    plain [closedir](stream: *mut DIR) -> c_int = Closedir => closedir;
    plain [rewinddir](stream: *mut DIR) -> () = Rewinddir => rewinddir;
    plain [telldir](stream: *mut DIR) -> c_long = Telldir => telldir;
    plain [seekdir](stream: *mut DIR, position: c_long) -> () = Seekdir => seekdir;
    plain [scandir, scandir64](
        path: *const c_char, list: *mut *mut *mut dirent,
        filter: Option<Filter>, compare: Option<Compare>
    ) -> c_int = Scandir => scandir;
    plain [scandirat, scandirat64](
        dirfd: c_int, path: *const c_char, list: *mut *mut *mut dirent,
        filter: Option<Filter>, compare: Option<Compare>
    ) -> c_int = ScandirAt => scandirat;
    plain [glob, glob64](
        pattern: *const c_char, flags: c_int, error: *const c_void, result: *mut GlobResult
    ) -> c_int = Glob => glob;
}

type Filter = unsafe extern "C-unwind" fn(*const dirent) -> c_int;
type Compare = unsafe extern "C-unwind" fn(*const *const dirent, *const *const dirent) -> c_int;

unsafe fn opendir(real: Opendir, path: *const c_char) -> *mut DIR {
    let job = |mut question: Question| match question.lookup(true) {
        Answer::Redirect(_) | Answer::Stat(_) => Outcome::Fail(libc::ENOTDIR),
        Answer::Fail(code) => Outcome::Fail(code),
        Answer::Pass | Answer::Done => Outcome::Pass,
    };
    // SAFETY: the program's own call.
    unsafe {
        below_prefix(std::ptr::null_mut(), libc::AT_FDCWD, path, job)
            .unwrap_or_else(|| merged(real(path)))
    }
}

unsafe fn fdopendir(real: Fdopendir, fd: c_int) -> *mut DIR {
    // SAFETY: the program's own call.
    merged(unsafe { real(fd) })
}

fn merged(stream: *mut DIR) -> *mut DIR {
    if !stream.is_null()
        && !guard::inside()
        && let Some(active) = engine::active()
    {
        let _: Option<()> = handle((), active, || {
            listing::begin(active, stream);
            Outcome::Pass
        });
    }
    stream
}

unsafe fn readdir(real: Readdir, stream: *mut DIR) -> *mut dirent {
    match with_merged(stream, stage) {
        // SAFETY: the program's own call.
        None => return unsafe { real(stream) },
        Some(ListingStage::Added(entry)) => return entry,
        Some(ListingStage::End) => return std::ptr::null_mut(),
        Some(ListingStage::Real) => {}
    }
    let saved = guard::errno();
    loop {
        guard::set_errno(0);
        // SAFETY: the program's own stream.
        let entry = unsafe { real(stream) };
        if entry.is_null() {
            if guard::errno() != 0 {
                return entry;
            }
            guard::set_errno(saved);
            return with_merged(stream, begin_added).flatten().unwrap_or(std::ptr::null_mut());
        }
        // SAFETY: a live entry of the stream with a C string as its name.
        let name = unsafe { CStr::from_ptr((&raw const (*entry).d_name).cast()) }.to_bytes();
        let hidden = with_merged(stream, |listing| listing.hidden.contains(name));
        if hidden != Some(true) {
            guard::set_errno(saved);
            return entry;
        }
    }
}

unsafe fn readdir_r(
    real: ReaddirInto,
    stream: *mut DIR,
    entry: *mut dirent,
    result: *mut *mut dirent,
) -> c_int {
    loop {
        match with_merged(stream, stage) {
            // SAFETY: the program's own call.
            None => return unsafe { real(stream, entry, result) },
            // SAFETY: the program's entry and pointer are writable.
            Some(ListingStage::Added(added)) => unsafe {
                entry.copy_from_nonoverlapping(added, 1);
                *result = entry;
                return 0;
            },
            // SAFETY: as above.
            Some(ListingStage::End) => unsafe {
                *result = std::ptr::null_mut();
                return 0;
            },
            Some(ListingStage::Real) => {}
        }
        // SAFETY: the program's own call; a live entry has a C string as its name.
        let name = unsafe {
            let code = real(stream, entry, result);
            if code != 0 {
                return code;
            }
            (!(*result).is_null()).then(|| CStr::from_ptr((&raw const (*entry).d_name).cast()))
        };
        let again = with_merged(stream, |listing| match name {
            Some(name) => listing.hidden.contains(name.to_bytes()),
            None => {
                listing.next = Some(0);
                true
            }
        });
        if again != Some(true) {
            return 0;
        }
    }
}

unsafe fn closedir(real: Closedir, stream: *mut DIR) -> c_int {
    listing::end(stream);
    // SAFETY: the program's own call.
    unsafe { real(stream) }
}

unsafe fn rewinddir(real: Rewinddir, stream: *mut DIR) {
    // SAFETY: the program's own call.
    unsafe { real(stream) };
    merged(stream);
    with_merged(stream, |listing| listing.next = None);
}

unsafe fn telldir(real: Telldir, stream: *mut DIR) -> c_long {
    let added = with_merged(stream, |listing| listing.next).flatten();
    match added {
        Some(index) => ADDED + c_long::try_from(index).unwrap_or(0),
        // SAFETY: the program's own call.
        None => unsafe { real(stream) },
    }
}

unsafe fn seekdir(real: Seekdir, stream: *mut DIR, position: c_long) {
    let index = usize::try_from(position.wrapping_sub(ADDED)).ok();
    let ours = with_merged(stream, |listing| {
        let index = index.filter(|&index| index <= listing.added.len());
        listing.next = index;
        index.is_some()
    });
    if ours != Some(true) {
        // SAFETY: the program's own call.
        unsafe { real(stream, position) };
    }
}

unsafe fn scandir(
    real: Scandir,
    path: *const c_char,
    list: *mut *mut *mut dirent,
    filter: Option<Filter>,
    compare: Option<Compare>,
) -> c_int {
    // SAFETY: the program's arguments; opendir is the exported one above.
    unsafe {
        if engine::active().is_some() && !guard::inside() {
            let stream = libc::opendir(path);
            if let Some(result) = scan_if_merged(stream, list, filter, compare) {
                return result;
            }
        }
        real(path, list, filter, compare)
    }
}

unsafe fn scandirat(
    real: ScandirAt,
    dirfd: c_int,
    path: *const c_char,
    list: *mut *mut *mut dirent,
    filter: Option<Filter>,
    compare: Option<Compare>,
) -> c_int {
    // SAFETY: the program's arguments; fdopendir is the exported one above, and takes the
    // descriptor over.
    unsafe {
        if engine::active().is_some() && !guard::inside() {
            let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
            let directory = libc::openat(dirfd, path, flags);
            if directory >= 0 {
                let stream = libc::fdopendir(directory);
                if stream.is_null() {
                    libc::close(directory);
                }
                if let Some(result) = scan_if_merged(stream, list, filter, compare) {
                    return result;
                }
            }
        }
        real(dirfd, path, list, filter, compare)
    }
}

/// Closes `stream`, which may be null. `None`: it is not merged, the real call will do.
unsafe fn scan_if_merged(
    stream: *mut DIR,
    list: *mut *mut *mut dirent,
    filter: Option<Filter>,
    compare: Option<Compare>,
) -> Option<c_int> {
    if stream.is_null() {
        return None;
    }
    // SAFETY: an open stream; the exported functions.
    unsafe {
        let result =
            with_merged(stream, |_| ()).map(|()| scan_merged(stream, list, filter, compare));
        libc::closedir(stream);
        result
    }
}

/// The program will free the entries, so malloc has their memory.
unsafe fn scan_merged(
    stream: *mut DIR,
    list: *mut *mut *mut dirent,
    filter: Option<Filter>,
    compare: Option<Compare>,
) -> c_int {
    let mut entries: Vec<*mut dirent> = Vec::new();
    // SAFETY: the stream is open; entries are copied whole, up to their own length.
    unsafe {
        loop {
            let entry = libc::readdir(stream);
            if entry.is_null() {
                break;
            }
            if filter.is_some_and(|wanted| wanted(entry) == 0) {
                continue;
            }
            let bytes = size_of::<dirent>();
            let copy = libc::calloc(1, bytes).cast::<u8>();
            if copy.is_null() {
                entries.into_iter().for_each(|entry| libc::free(entry.cast()));
                guard::set_errno(libc::ENOMEM);
                return -1;
            }
            let length = usize::from((*entry).d_reclen).min(bytes);
            copy.copy_from_nonoverlapping(entry.cast::<u8>(), length);
            entries.push(copy.cast());
        }
        if let Some(compare) = compare {
            entries.sort_by(|a, b| compare((&raw const *a).cast(), (&raw const *b).cast()).cmp(&0));
        }
        let all = libc::malloc(entries.len().max(1) * size_of::<*mut dirent>());
        let all = all.cast::<*mut dirent>();
        if all.is_null() {
            entries.into_iter().for_each(|entry| libc::free(entry.cast()));
            guard::set_errno(libc::ENOMEM);
            return -1;
        }
        all.copy_from_nonoverlapping(entries.as_ptr(), entries.len());
        *list = all;
    }
    c_int::try_from(entries.len()).unwrap_or(c_int::MAX)
}

/// `glob_t` with the members that glibc has for programs' own directory functions.
#[repr(C)]
struct GlobResult {
    count: usize,
    names: *mut *mut c_char,
    reserved: usize,
    flags: c_int,
    closedir: Option<unsafe extern "C" fn(*mut DIR) -> c_int>,
    readdir: Option<unsafe extern "C" fn(*mut DIR) -> *mut dirent>,
    opendir: Option<unsafe extern "C" fn(*const c_char) -> *mut DIR>,
    lstat: Option<unsafe extern "C" fn(*const c_char, *mut libc::stat) -> c_int>,
    stat: Option<unsafe extern "C" fn(*const c_char, *mut libc::stat) -> c_int>,
}

const GLOB_ALTDIRFUNC: c_int = 1 << 9;

/// A program that brought directory functions of its own keeps them.
unsafe fn glob(
    real: Glob,
    pattern: *const c_char,
    flags: c_int,
    error: *const c_void,
    result: *mut GlobResult,
) -> c_int {
    let ours = engine::active().is_some() && flags & GLOB_ALTDIRFUNC == 0 && !result.is_null();
    // SAFETY: the program's arguments. The libc functions named here are the hooks of this library,
    // first in the search order.
    unsafe {
        if !ours {
            return real(pattern, flags, error, result);
        }
        (*result).closedir = Some(libc::closedir);
        (*result).readdir = Some(libc::readdir);
        (*result).opendir = Some(libc::opendir);
        (*result).lstat = Some(libc::lstat);
        (*result).stat = Some(libc::stat);
        let code = real(pattern, flags | GLOB_ALTDIRFUNC, error, result);
        (*result).flags &= !GLOB_ALTDIRFUNC;
        code
    }
}
