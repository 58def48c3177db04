//! Questions to the engine, and what a hook does with the answer.

use std::ffi::{CStr, CString, c_char, c_int};

use crate::abi::{Engine, PATH_BYTES, StatAnswer, Verdict, kind};
use crate::engine::{self, Active};
use crate::{guard, paths};

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
    /// What a real call returned; must follow it at once, since it reads `errno`.
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
}

/// Runs `job` if `path` lies below the prefix; `None` means: make the real call.
///
/// Costs one load before the engine is active, and a look at the path afterwards.
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
    let active = engine::active()?;
    if path.is_null() || guard::inside() {
        return None;
    }
    // SAFETY: not null, so a C string by this function's contract.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    if paths::surely_outside(&active.prefix, path) {
        return None;
    }
    handle(failed, active, || match paths::locate(&active.prefix, dirfd, path) {
        Some(path) => job(Question { engine: &active.table, prefix: &active.prefix, path }),
        None => Outcome::Pass,
    })
}

/// Runs `job` as our own work; `None` means: make the real call.
#[inline(never)]
pub(crate) fn handle<T>(
    failed: T,
    _active: &'static Active,
    job: impl FnOnce() -> Outcome<T>,
) -> Option<T> {
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
    let mut verdict = Verdict {
        kind: kind::PASS,
        errno: 0,
        token: 0,
        stat: StatAnswer::default(),
        path: [0; PATH_BYTES],
    };
    question(&raw mut verdict);
    let answer = match verdict.kind {
        kind::REDIRECT => CStr::from_bytes_until_nul(&verdict.path)
            .map_or(Answer::Pass, |path| Answer::Redirect(path.to_owned())),
        kind::FAIL => Answer::Fail(verdict.errno),
        kind::DONE => Answer::Done,
        kind::STAT => Answer::Stat(verdict.stat),
        _ => Answer::Pass,
    };
    (answer, verdict.token)
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
            let answer = ask(|verdict| question(&self.path, verdict));
            if !matches!(answer, (Answer::Pass, 0)) {
                return answer;
            }
            match paths::follow(self.prefix, &self.path) {
                Some(target) => self.path = target,
                None => return answer,
            }
        }
        (Answer::Pass, 0)
    }

    /// Where is the file? `follow` as in stat(2) against lstat(2).
    pub(crate) fn lookup(&mut self, follow: bool) -> Answer {
        let engine = self.engine;
        if follow {
            self.ask_following(|path, verdict| (engine.lookup)(path.as_ptr(), 1, verdict)).0
        } else {
            ask(|verdict| (engine.lookup)(self.path.as_ptr(), 0, verdict)).0
        }
    }

    /// Where is the file that is about to change?
    pub(crate) fn change(&mut self, follow: bool) -> Answer {
        let engine = self.engine;
        if follow {
            self.ask_following(|path, verdict| (engine.change)(path.as_ptr(), verdict)).0
        } else {
            ask(|verdict| (engine.change)(self.path.as_ptr(), verdict)).0
        }
    }
}
