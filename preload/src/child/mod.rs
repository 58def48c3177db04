//! A process that a rank has started or forked sees the files that the rank sees: what its hooks
//! ask goes to the rank (`src/core/session/handles/children.rs`), by a socket for each question
//! ([`crate::child::inquiry`]). When the rank has gone, or is stopped, the prefix is all there is.

mod inquiry;

use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicPtr, Ordering};

use scr_abi::wire::{FileStat, Question, Reply, Request};
use scr_abi::{Engine, EntryFn, PATH_BYTES, PathAnswer, StatAnswer, event, kind};

use crate::child::inquiry::InquiryFailure;
use crate::engine::ask::Answer;
use crate::engine::nothing::{NOTHING, idle};
use crate::engine::{self, ActiveEngine};
use crate::path::aliases::{self, Alias};
use crate::path::memory;

/// Where the rank listens, a colon, the prefix and its aliases. The engine takes it for none of its
/// parameters.
pub(crate) const VARIABLE: &str = "SCR_SHIM_RANK";

struct ParentRank {
    address: Vec<u8>,
    variable: CString,
    active: ActiveEngine,
}

static RANK: AtomicPtr<ParentRank> = AtomicPtr::new(std::ptr::null_mut());

fn rank() -> Option<&'static ParentRank> {
    // SAFETY: the pointer is null or leaked from a box below, hence valid for ever.
    unsafe { RANK.load(Ordering::Acquire).as_ref() }
}

pub(crate) fn active() -> Option<&'static ActiveEngine> {
    rank().map(|rank| &rank.active)
}

pub(crate) fn variable() -> Option<&'static CStr> {
    rank().map(|rank| rank.variable.as_c_str())
}

/// Has children of this rank ask at `address`.
pub(crate) fn adopt(address: &CStr, prefix: &[u8]) {
    know(address.to_bytes(), prefix, aliases::all());
    if let Some(variable) = variable() {
        // SAFETY: a C string that stays; MPI_Init sets variables at this time, too.
        unsafe { libc::putenv(variable.as_ptr().cast_mut()) };
    }
}

/// Has children of a rank without a door ask nobody, nor the rank that started it.
pub(crate) fn disown() {
    RANK.store(std::ptr::null_mut(), Ordering::Release);
    leave();
}

/// Returns false if the environment tells of no rank to ask. Called once, in the constructor.
pub(crate) fn follow() -> bool {
    let value = std::env::var_os(VARIABLE).map(OsString::into_vec).unwrap_or_default();
    let Some(colon) = value.iter().position(|&byte| byte == b':') else { return false };
    if std::env::var_os("SCR_ENABLE").is_none_or(|value| value != "0") {
        let (prefix, aliases) = aliases::from_text(&value[colon + 1..]);
        know(&value[..colon], &prefix, &aliases);
        aliases::set(aliases);
        return true;
    }
    false
}

/// Clears the environment: a launcher's ranks are no children of the rank that started the
/// launcher.
pub(crate) fn leave() {
    if std::env::var_os(VARIABLE).is_some() {
        // SAFETY: in the constructor there is no second thread; MPI_Init sets variables, too.
        unsafe { std::env::remove_var(VARIABLE) };
    }
}

fn know(address: &[u8], prefix: &[u8], aliases: &[Alias]) {
    let active = ActiveEngine { table: TABLE, prefix: prefix.to_vec(), idle: idle(), own: false };
    let places = aliases::to_text(prefix, aliases);
    let entry = [VARIABLE.as_bytes(), b"=", address, b":", &places].concat();
    let Ok(variable) = CString::new(entry) else { return };
    let rank = ParentRank { address: address.to_vec(), variable, active };
    RANK.store(Box::into_raw(Box::new(rank)), Ordering::Release);
}

/// Without an answer it is the real call, on what the prefix has; but a change that the rank may
/// have begun, or would not hear of, fails.
fn ask(question: &Question) -> Reply {
    let Some(rank) = rank() else { return Reply::Pass };
    let bytes = question.to_bytes();
    let mut answer = inquiry::ask(&rank.address, &bytes);
    if answer == Err(InquiryFailure::Cut) && question.may_be_repeated() {
        answer = inquiry::ask(&rank.address, &bytes);
    }
    let forsaken = matches!(
        answer,
        Err(InquiryFailure::Gone | InquiryFailure::Stopped | InquiryFailure::Late)
    );
    if forsaken && engine::active().is_some_and(|active| !active.own) {
        engine::pointer::forsake();
    }
    // What was known of names may be so no more: nobody tells a child.
    memory::forget();
    let unanswered = if question.may_change() { Reply::Fail(libc::EIO) } else { Reply::Pass };
    match answer {
        Ok(bytes) => Reply::from_bytes(&bytes).unwrap_or(unanswered),
        Err(InquiryFailure::Late | InquiryFailure::Cut) => unanswered,
        Err(InquiryFailure::Gone | InquiryFailure::Unreached | InquiryFailure::Stopped) => {
            Reply::Pass
        }
    }
}

/// Serves a child of the rank that opens the file past all hooks. The rank itself may ask, for
/// changes that only the PFS can make.
pub(crate) fn opens(question: &mut crate::path::question::Question, flags: c_int) -> Answer {
    if rank().is_none() {
        return Answer::Pass;
    }
    question.ask_following(|path, verdict| open(path.as_ptr(), flags, 0, verdict)).0
}

/// What a child has open is no business of the rank's: there are no tokens.
static TABLE: Engine =
    Engine { note, open, lookup, change, unlink, rename, link, rmdir, list, ..NOTHING };

extern "C" fn note(what: c_int, path: *const c_char) {
    match what {
        event::MKDIR => drop(ask(&about(Request::Made, path))),
        event::MAKE => drop(ask(&about(Request::Make, path))),
        _ => {}
    }
}

extern "C" fn open(path: *const c_char, flags: c_int, _mode: u32, verdict: *mut PathAnswer) {
    put(&Question { flags, ..about(Request::Open, path) }, verdict);
}

extern "C" fn lookup(path: *const c_char, compares: c_int, verdict: *mut PathAnswer) {
    put(&Question { flags: compares, ..about(Request::Lookup, path) }, verdict);
}

extern "C" fn change(path: *const c_char, verdict: *mut PathAnswer) {
    put(&about(Request::Change, path), verdict);
}

extern "C" fn unlink(path: *const c_char, verdict: *mut PathAnswer) {
    put(&about(Request::Unlink, path), verdict);
}

extern "C" fn rename(from: *const c_char, to: *const c_char, verdict: *mut PathAnswer) {
    put(&Question { other: text(to), ..about(Request::Rename, from) }, verdict);
}

extern "C" fn link(
    target: *const c_char,
    path: *const c_char,
    symbolic: c_int,
    verdict: *mut PathAnswer,
) {
    put(&Question { other: text(path), flags: symbolic, ..about(Request::Link, target) }, verdict);
}

extern "C" fn rmdir(path: *const c_char, verdict: *mut PathAnswer) {
    put(&about(Request::Rmdir, path), verdict);
}

extern "C" fn list(path: *const c_char, entry: EntryFn, context: *mut c_void) -> c_int {
    let Reply::Entries(entries) = ask(&about(Request::List, path)) else { return 0 };
    for one in &entries {
        let d_type = if one.is_dir { libc::DT_DIR } else { libc::DT_REG };
        if let Ok(name) = CString::new(one.name.as_slice()) {
            entry(context, name.as_ptr(), d_type, one.ino, c_int::from(one.hide));
        }
    }
    c_int::try_from(entries.len()).unwrap_or(c_int::MAX)
}

fn about(what: Request, path: *const c_char) -> Question {
    Question { what, flags: 0, path: text(path), other: Vec::new() }
}

fn text(path: *const c_char) -> Vec<u8> {
    // SAFETY: the hooks pass C strings that live during the call.
    unsafe { CStr::from_ptr(path) }.to_bytes().to_vec()
}

fn put(question: &Question, verdict: *mut PathAnswer) {
    let reply = ask_in_time(question);
    // SAFETY: the hooks pass a verdict that is theirs alone, initialised but for its path: as it is
    // it stands for "the real call".
    unsafe {
        match reply {
            Reply::Pass | Reply::Entries(_) => {}
            Reply::Done => (*verdict).kind = kind::DONE,
            Reply::At(path) if path.len() < PATH_BYTES => {
                let to = (&raw mut (*verdict).path).cast::<u8>();
                to.copy_from_nonoverlapping(path.as_ptr(), path.len());
                to.add(path.len()).write(0);
                (*verdict).kind = kind::REDIRECT;
            }
            Reply::At(_) => fail(verdict, libc::ENAMETOOLONG),
            Reply::Fail(code) => fail(verdict, code),
            Reply::Known(known) => {
                (*verdict).kind = kind::STAT;
                (*verdict).stat = stat_answer(known);
            }
        }
    }
}

/// Asks again where the file has gone since it was answered: its dataset was sealed or evicted.
fn ask_in_time(question: &Question) -> Reply {
    const TIMES: usize = 3;
    let mut reply = ask(question);
    for _ in 1..TIMES {
        match &reply {
            Reply::At(path) if !is_there(path) => reply = ask(question),
            _ => break,
        }
    }
    reply
}

fn is_there(path: &[u8]) -> bool {
    let Ok(path) = CString::new(path) else { return true };
    let nofollow = libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: a C string; the guard is held, so this asks the file system itself.
    unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::F_OK, nofollow) == 0 }
}

unsafe fn fail(verdict: *mut PathAnswer, code: c_int) {
    // SAFETY: the caller's promise.
    unsafe {
        (*verdict).kind = kind::FAIL;
        (*verdict).errno = code;
    }
}

fn stat_answer(known: FileStat) -> StatAnswer {
    // SAFETY: these two have no preconditions and cannot fail.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    known.answer(uid, gid)
}
