//! Questions to the engine, and what a hook does with the answer.

use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::MaybeUninit;

use scr_abi::{Engine, StatAnswer, Verdict, event, kind};

use crate::engine::{self, Active};
use crate::fd::reuse;
use crate::path::canonical::Located;
use crate::path::glance::{self, Where};
use crate::path::memory::{Key, Known};
use crate::{path::canonical, signal::guard};

/// Symlinks followed in one name, as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// How a hook goes on.
pub(crate) enum Outcome<T> {
    /// The real call with the program's own arguments.
    Pass,
    /// The hook returns this.
    Done(T),
    /// The hook fails with this `errno`.
    Fail(c_int),
}

impl Outcome<c_int> {
    /// Makes an outcome of what a real call returned; must follow it at once, since it reads
    /// `errno`.
    pub(crate) fn of(result: c_int) -> Self {
        if result == -1 { Self::Fail(guard::errno()) } else { Self::Done(result) }
    }
}

/// What the engine answered.
pub(crate) enum Answer {
    /// Not ours: the real call.
    Pass,
    /// The real call on this file.
    Redirect(CString),
    /// Fail with this `errno`.
    Fail(c_int),
    /// Dealt with: return 0.
    Done,
    /// The file is elsewhere; this is what stat says.
    Stat(StatAnswer),
}

/// A located path with the engine that knows about it.
pub(crate) struct Question {
    /// The engine.
    pub engine: &'static Engine,
    /// The prefix, canonical.
    pub prefix: &'static [u8],
    /// The canonical path, below the prefix.
    pub path: CString,
    /// The name as the program wrote it, to be remembered when it turns out not to be ours, and
    /// whether this is an open for writing.
    pub written: Option<(Key, bool)>,
}

/// Runs `job` if `path` lies below the prefix; `None` means: make the real call.
///
/// Costs one load before the engine is active, and a look at the path afterwards: a name that was
/// found not to be ours once is remembered, so neither a lock nor a system call is needed.
///
/// # Safety
/// `path` is null or a C string.
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

/// Does what [`below_prefix`] does, for an open with `flags`: the engine hears of a name that only
/// a symlink keeps from being one below the prefix.
///
/// # Safety
/// As for [`below_prefix`].
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
    let written = Key::as_written(dirfd, path);
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
    match written.map_or(Known::Nothing, Key::recall) {
        Known::Foreign => return None,
        // The engine hears of the first open for writing.
        Known::Unwritten if !writes => return None,
        _ => {}
    }
    ask_below((active, writes), failed, dirfd, path, written, refusing_files(path, job))
}

/// Does what [`below_prefix`] does, for calls that make or remove links and directories: even a
/// name that is not ours by itself changes what other names mean.
///
/// # Safety
/// As for [`below_prefix`].
pub(crate) unsafe fn below_prefix_anew<T>(
    failed: T,
    dirfd: c_int,
    path: *const c_char,
    job: impl FnOnce(Question) -> Outcome<T>,
) -> Option<T> {
    // SAFETY: the caller's promise.
    let (active, path) = unsafe { to_be_asked(path) }?;
    ask_below((active, false), failed, dirfd, path, None, refusing_files(path, job))
}

/// Does what [`below_prefix_anew`] does, for calls that make what they name: a slash behind the
/// name does not mean that it has to be a directory already.
///
/// # Safety
/// As for [`below_prefix`].
pub(crate) unsafe fn below_prefix_to_make<T>(
    failed: T,
    dirfd: c_int,
    path: *const c_char,
    job: impl FnOnce(Question) -> Outcome<T>,
) -> Option<T> {
    // SAFETY: the caller's promise.
    let (active, path) = unsafe { to_be_asked(path) }?;
    ask_below((active, false), failed, dirfd, path, None, job)
}

/// Whom to ask about `path`, unless the shim itself calls.
///
/// # Safety
/// `path` is null or a C string that lives for `'a`.
#[inline]
unsafe fn to_be_asked<'a>(path: *const c_char) -> Option<(&'static Active, &'a [u8])> {
    let active = engine::active()?;
    if path.is_null() || guard::inside() {
        return None;
    }
    // SAFETY: not null, so a C string by this function's contract.
    Some((active, unsafe { CStr::from_ptr(path) }.to_bytes()))
}

/// Tells whether the name may lead to the file of a descriptor, whatever that is called.
fn leads_to_descriptor(path: &[u8]) -> bool {
    path.is_empty() || path.starts_with(b"/proc/") || path.starts_with(b"/dev/fd/")
}

/// `job`, but a name that the program means for a directory's is none of a cached file.
fn refusing_files<T>(
    written: &[u8],
    job: impl FnOnce(Question) -> Outcome<T>,
) -> impl FnOnce(Question) -> Outcome<T> {
    let means_directory = canonical::means_directory(written);
    move |mut question| {
        if means_directory && !canonical::is_directory(&question.path) {
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
    (active, writes): (&'static Active, bool),
    failed: T,
    dirfd: c_int,
    path: &[u8],
    written: Option<Key>,
    job: impl FnOnce(Question) -> Outcome<T>,
) -> Option<T> {
    if canonical::surely_outside(&active.prefix, path) || !engine::own_process() {
        return None;
    }
    reuse::settle();
    let glance = || glance::at(&active.prefix, dirfd, path);
    if let Where::Elsewhere { stays } = guard::look(glance)? {
        written.filter(|_| stays).inspect(|key| key.remember(Known::Foreign));
        return None;
    }
    handle(failed, active, || {
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

/// Tells whether what the name takes for a directory, and the file system does not have, is a file
/// in the cache. Guard held.
pub(crate) fn lies_below_file(table: &Engine, prefix: &[u8], located: &Located) -> bool {
    let mut missing = located.missing.clone();
    while let Some(path) = missing.filter(|path| path.as_bytes() != prefix) {
        let (answer, _) = ask(|verdict| (table.lookup)(path.as_ptr(), 0, verdict));
        if matches!(answer, Answer::Redirect(_) | Answer::Stat(_)) {
            return true;
        }
        missing = canonical::parent(&path).filter(|parent| !canonical::is_directory(parent));
    }
    false
}

/// Runs `job` as our own work; `None` means: make the real call.
#[inline(never)]
pub(crate) fn handle<T>(
    failed: T,
    _active: &'static Active,
    job: impl FnOnce() -> Outcome<T>,
) -> Option<T> {
    reuse::settle();
    let outcome = guard::work(|| if engine::own_process() { job() } else { Outcome::Pass })?;
    match outcome {
        Outcome::Pass => None,
        Outcome::Done(value) => Some(value),
        Outcome::Fail(code) => {
            guard::set_errno(code);
            Some(failed)
        }
    }
}

/// Asks once. Returns the answer and the token, 0 for none.
pub(crate) fn ask(question: impl FnOnce(*mut Verdict)) -> (Answer, u64) {
    let (answer, token, _) = ask_whole(question);
    (answer, token)
}

/// Like [`ask`]; the last part is true if the engine never wants to hear of the name again.
fn ask_whole(question: impl FnOnce(*mut Verdict)) -> (Answer, u64, bool) {
    let mut verdict = MaybeUninit::<Verdict>::uninit();
    let to = verdict.as_mut_ptr();
    // SAFETY: the fields are written, and then read, one by one through the pointer to the whole;
    // the path is read only when the engine says that it wrote a C string there.
    unsafe {
        (&raw mut (*to).kind).write(kind::PASS);
        (&raw mut (*to).errno).write(0);
        (&raw mut (*to).foreign).write(0);
        (&raw mut (*to).token).write(0);
        (&raw mut (*to).stat).write(StatAnswer::default());
        question(to);
        let answer = match (*to).kind {
            kind::REDIRECT => {
                let path = (&raw const (*to).path).cast::<c_char>();
                Answer::Redirect(CStr::from_ptr(path).to_owned())
            }
            kind::FAIL => Answer::Fail((*to).errno),
            kind::DONE => Answer::Done,
            kind::STAT => Answer::Stat((*to).stat),
            _ => Answer::Pass,
        };
        (answer, (*to).token, (*to).foreign != 0)
    }
}

impl Question {
    /// Asks about the path and, while the answer is "not ours" and the path is a symlink, about
    /// what it points to: the link lies on the PFS, its target may be in the cache. The path
    /// becomes that of the last question.
    pub(crate) fn ask_following(
        &mut self,
        mut question: impl FnMut(&CStr, *mut Verdict),
    ) -> (Answer, u64) {
        for _ in 0..LINKS_MAX {
            let (answer, token, foreign) = ask_whole(|verdict| question(&self.path, verdict));
            if !matches!((&answer, token), (Answer::Pass, 0)) {
                return (answer, token);
            }
            if let Some(target) = canonical::follow(self.prefix, &self.path) {
                self.path = target;
                self.written = None;
                continue;
            }
            if let Some((key, writes)) = self.written
                && foreign
                && canonical::is_no_link(&self.path)
            {
                key.remember(if writes { Known::Foreign } else { Known::Unwritten });
            }
            return (answer, token);
        }
        (Answer::Pass, 0)
    }

    /// Asks where the file is; `follow` as in stat(2) against lstat(2).
    pub(crate) fn lookup(&mut self, follow: bool) -> Answer {
        self.look(follow, 0)
    }

    /// Asks what [`Self::lookup`] asks, for a caller that may compare the answer with that of
    /// fstat(2).
    pub(crate) fn stat(&mut self, follow: bool) -> Answer {
        self.look(follow, 1)
    }

    fn look(&mut self, follow: bool, compares: c_int) -> Answer {
        let engine = self.engine;
        let look = |path: &CStr, verdict| (engine.lookup)(path.as_ptr(), compares, verdict);
        if follow { self.ask_following(look).0 } else { ask(|verdict| look(&self.path, verdict)).0 }
    }

    /// Asks where the file is that is about to change.
    pub(crate) fn change(&mut self, follow: bool) -> Answer {
        let engine = self.engine;
        if follow {
            self.ask_following(|path, verdict| (engine.change)(path.as_ptr(), verdict)).0
        } else {
            ask(|verdict| (engine.change)(self.path.as_ptr(), verdict)).0
        }
    }
}
