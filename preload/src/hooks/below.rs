//! Names that the program gives a hook: work is done only for those below the prefix.

use std::ffi::{CStr, CString, c_char, c_int};

use scr_abi::event;

use crate::engine::ask::Answer;
use crate::engine::{self, ActiveEngine};
use crate::fd::handle::{Outcome, handle_in_own};
use crate::fd::reuse;
use crate::path::canonical;
use crate::path::disk;
use crate::path::glance::{self, NameIs};
use crate::path::memory::{NameFact, NameKey};
use crate::path::question::{Question, lies_below_file};
use crate::path::text;
use crate::signal::guard;

/// Runs `job` if `path` lies below the prefix; `None`: make the real call. Costs one load before
/// the engine is active, and a look at the path afterwards: a name that was found not to be ours
/// once is remembered, so neither a lock nor a system call is needed. Safety: `path` is null or a C
/// string.
#[inline]
pub(crate) unsafe fn below_prefix<T>(
    failed: T,
    dirfd: c_int,
    path: *const c_char,
    job: impl FnOnce(Question) -> Outcome<T>,
) -> Option<T> {
    // SAFETY: the caller's promise.
    unsafe { below_prefix_for(failed, dirfd, path, libc::O_RDONLY, job) }
}

/// Serves an open with `flags`: the engine hears of a name that only a symlink keeps from being one
/// below the prefix. Safety: as for [`below_prefix`].
#[inline]
pub(crate) unsafe fn below_prefix_for<T>(
    failed: T,
    dirfd: c_int,
    path: *const c_char,
    flags: c_int,
    job: impl FnOnce(Question) -> Outcome<T>,
) -> Option<T> {
    // SAFETY: the caller's promise.
    let (active, path) = unsafe { to_be_asked(path) }?;
    if reuse::is_pending() && leads_to_descriptor(path) {
        reuse::settle();
    }
    let written = NameKey::as_written(dirfd, path);
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
    match written.map_or(NameFact::Nothing, NameKey::recall) {
        NameFact::Foreign => return None,
        // The engine hears of the first open for writing.
        NameFact::Unwritten if !writes => return None,
        _ => {}
    }
    let name = GivenName { dirfd, path, written, writes };
    ask_below(active, &name, failed, refusing_files(path, job))
}

/// Serves calls that make or remove links and directories: even a name that is not ours by itself
/// changes what other names mean. Safety: as for [`below_prefix`].
pub(crate) unsafe fn below_prefix_anew<T>(
    failed: T,
    dirfd: c_int,
    path: *const c_char,
    job: impl FnOnce(Question) -> Outcome<T>,
) -> Option<T> {
    // SAFETY: the caller's promise.
    let (active, path) = unsafe { to_be_asked(path) }?;
    let name = GivenName { dirfd, path, written: None, writes: false };
    ask_below(active, &name, failed, refusing_files(path, job))
}

/// Serves calls that make what they name: a slash behind the name does not mean that it has to be a
/// directory already. Safety: as for [`below_prefix`].
pub(crate) unsafe fn below_prefix_to_make<T>(
    failed: T,
    dirfd: c_int,
    path: *const c_char,
    job: impl FnOnce(Question) -> Outcome<T>,
) -> Option<T> {
    // SAFETY: the caller's promise.
    let (active, path) = unsafe { to_be_asked(path) }?;
    ask_below(active, &GivenName { dirfd, path, written: None, writes: false }, failed, job)
}

pub(crate) fn follows(flags: c_int) -> bool {
    flags & libc::AT_SYMLINK_NOFOLLOW == 0
}

struct GivenName<'a> {
    dirfd: c_int,
    path: &'a [u8],
    /// What was found out of the name is remembered here, if that may be.
    written: Option<NameKey>,
    writes: bool,
}

/// `None`: the shim itself calls, or nobody is to be asked. Safety: `path` is null or a C string
/// that lives for `'a`.
#[inline]
unsafe fn to_be_asked<'a>(path: *const c_char) -> Option<(&'static ActiveEngine, &'a [u8])> {
    let active = engine::active()?;
    if path.is_null() || guard::inside() {
        return None;
    }
    // SAFETY: not null, so a C string by this function's contract.
    Some((active, unsafe { CStr::from_ptr(path) }.to_bytes()))
}

fn leads_to_descriptor(path: &[u8]) -> bool {
    path.is_empty() || path.starts_with(b"/proc/") || path.starts_with(b"/dev/fd/")
}

/// A name that the program means for a directory's is none of a cached file.
fn refusing_files<T>(
    written: &[u8],
    job: impl FnOnce(Question) -> Outcome<T>,
) -> impl FnOnce(Question) -> Outcome<T> {
    let means_directory = text::means_directory(written);
    move |mut question| {
        if means_directory && !disk::is_directory(&question.path) {
            return match question.lookup(true) {
                Answer::Redirect(_) | Answer::Stat(_) => Outcome::Fail(libc::ENOTDIR),
                Answer::Fail(code) => Outcome::Fail(code),
                Answer::Pass | Answer::Done => Outcome::Pass,
            };
        }
        job(question)
    }
}

fn ask_below<T>(
    active: &'static ActiveEngine,
    name: &GivenName,
    failed: T,
    job: impl FnOnce(Question) -> Outcome<T>,
) -> Option<T> {
    let GivenName { dirfd, path, written, writes } = *name;
    if canonical::surely_outside(&active.prefix, path) || !engine::own_process() {
        return None;
    }
    reuse::settle();
    let glance = || glance::at(&active.prefix, dirfd, path);
    if let NameIs::Elsewhere { stays } = guard::look(glance)? {
        written.filter(|_| stays).inspect(|key| key.remember(NameFact::Foreign));
        return None;
    }
    handle_in_own(failed, active, || {
        let located = canonical::locate_whole(&active.prefix, dirfd, path);
        if lies_below_file(&active.table, &active.prefix, &located) {
            return Outcome::Fail(libc::ENOTDIR);
        }
        let misled = located.misled.filter(|_| writes).and_then(|name| CString::new(name).ok());
        if let Some(name) = misled {
            (active.table.note)(event::MISLED, name.as_ptr());
        }
        let Some(path) = located.name else { return Outcome::Pass };
        let written = written.map(|key| (key, writes));
        job(Question { engine: &active.table, prefix: &active.prefix, path, written })
    })
}
