//! Replaces descriptors on a copy that must not change by ones on a copy that may.

use std::cell::Cell;
use std::ffi::{CString, c_int};

use parking_lot::Mutex;

use crate::abi::Engine;
use crate::ask::{Outcome, handle};
use crate::lock::{GENERATIONS, Lock};
use crate::message::say;
use crate::{changes, engine, guard, open_files, stream_writes};

/// Held while descriptors are replaced, so that of two threads that write one waits.
static WAKING: Lock<()> = Lock::new([const { Mutex::new(()) }; GENERATIONS]);

/// Replaces the descriptors of `token`, and of all others on the same file: they are to see the
/// change. Guard held, no lock.
pub(crate) fn wake(table: &Engine, token: u64) -> bool {
    let _one_at_a_time = WAKING.lock();
    let lazy = open_files::lazy_holders();
    let Some(&(_, first)) = lazy.iter().find(|(held, _)| *held == token) else { return true };
    let mut done = true;
    for (token, _) in open_files::holders_of_same_file(first) {
        if !lazy.iter().any(|(held, _)| *held == token) {
            continue;
        }
        let Some(own) = hold(token) else { continue };
        match (table.evacuate)(token, own) {
            -1 => done = false,
            new => replace(token, new),
        }
        // SAFETY: made above.
        unsafe { libc::close(own) };
    }
    done
}

/// The same for the token that `fd` holds; true if there is nothing to be replaced.
pub(crate) fn wake_descriptor(table: &Engine, fd: c_int) -> bool {
    let lazy = open_files::claim(fd).filter(|claim| claim.lazy);
    lazy.is_none_or(|claim| wake(table, claim.token))
}

/// The same for a number so high that nothing could tell a write to it.
pub(crate) fn wake_beyond(table: &Engine, fd: c_int) -> bool {
    open_files::may_be_lazy(fd) || wake_descriptor(table, fd)
}

thread_local! {
    /// Of a fork that is under way: descriptors that could not be replaced, and read-only ones that
    /// take their places in the child.
    static STAND_INS: Cell<Vec<(c_int, c_int)>> = const { Cell::new(Vec::new()) };
}

/// Before a fork: the child's writes pass no hook of this process.
pub(crate) fn before_fork() {
    if let Some(active) = engine::active() {
        let _: Option<()> = handle((), active, || {
            let lazy = open_files::lazy_holders().into_iter();
            if lazy.filter(|(token, _)| !wake(&active.table, *token)).count() > 0 {
                let left = open_files::lazy_descriptors().into_iter();
                let stand_ins = left.filter_map(|fd| Some((fd, read_only_twin(fd)?))).collect();
                let _ = STAND_INS.try_with(|cell| cell.set(stand_ins));
            }
            Outcome::Pass
        });
    }
}

/// After it, in the parent.
pub(crate) fn after_fork() {
    for (_, twin) in STAND_INS.try_with(Cell::take).unwrap_or_default() {
        // SAFETY: a descriptor of ours.
        unsafe { libc::close(twin) };
    }
}

/// After it, in the child: a write that nothing could keep from the sealed copy fails there.
pub(crate) fn in_child() {
    for (fd, twin) in STAND_INS.try_with(Cell::take).unwrap_or_default() {
        put_in_place(twin, fd);
        // SAFETY: as in `after_fork`.
        unsafe { libc::close(twin) };
    }
}

/// A descriptor on the same file, at the same offset, that cannot write.
fn read_only_twin(fd: c_int) -> Option<c_int> {
    let path = CString::new(format!("/proc/self/fd/{fd}")).ok()?;
    // SAFETY: the path is a C string, the rest are system calls on numbers.
    unsafe {
        let twin = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        libc::lseek(twin, libc::lseek(fd, 0, libc::SEEK_CUR), libc::SEEK_SET);
        (twin >= 0).then_some(twin)
    }
}

/// For [`crate::abi::Host::wake`].
pub(crate) extern "C" fn wake_token(token: u64) {
    if let Some(active) = engine::active() {
        // The engine's own threads, and a call from inside a hook, hold the guard already.
        guard::enter_thread();
        wake(&active.table, token);
        guard::leave_thread();
    }
}

/// For [`crate::abi::Host::move_out`]. Other threads that write wait as before a lazy descriptor.
pub(crate) extern "C" fn move_out(token: u64) {
    let Some(active) = engine::active() else { return };
    guard::enter_thread();
    without_signals(|| move_file(&active.table, token));
    guard::leave_thread();
}

/// A handler on this thread could not wait with what it writes until the file has moved.
fn without_signals(job: impl FnOnce()) {
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset writes the set that the next call reads, and that one writes `before`,
    // which is put back.
    unsafe {
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        job();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
    }
}

fn move_file(table: &Engine, token: u64) {
    let _one_at_a_time = WAKING.lock();
    stream_writes::watch();
    let Some(own) = hold(token) else { return };
    let holders = open_files::holders_of_same_file(own);
    let tokens: Vec<u64> = holders.iter().map(|(token, _)| *token).collect();
    tokens.iter().for_each(|token| open_files::set_lazy(*token, true));
    if is_held_back(&tokens) {
        move_held(table, own, &tokens);
    }
    tokens.iter().for_each(|token| open_files::set_lazy(*token, false));
    // SAFETY: made above.
    unsafe { libc::close(own) };
}

/// Nothing that could be seen writes to the file of these lazy `tokens`, or will until they are not
/// lazy any more. Else the file moves another time, at the latest at its close.
fn is_held_back(tokens: &[u64]) -> bool {
    let descriptors = open_files::descriptors_of(tokens);
    // The program's standard streams may be on descriptors that it has put there.
    let waits = |(fd, has_stream): &(c_int, bool)| {
        let may_write = *has_stream || *fd <= libc::STDERR_FILENO;
        open_files::may_be_lazy(*fd) && (!may_write || stream_writes::are_seen())
    };
    let numbers: Vec<c_int> = descriptors.iter().map(|(fd, _)| *fd).collect();
    // What is written through a mapping of the old file would be lost. A call that makes one is
    // under way until it is known.
    descriptors.iter().all(waits)
        && changes::come_to_rest(&numbers)
        && !tokens.iter().any(|token| open_files::is_mapped(*token))
}

/// `old` is on the file of all `tokens`.
fn move_held(table: &Engine, old: c_int, tokens: &[u64]) {
    let before = stamp(old);
    let mut name = None;
    for token in tokens {
        let Some(own) = hold(*token) else { continue };
        match (table.evacuate)(*token, own) {
            -1 if name.is_some() => (table.failed)(*token, libc::EIO),
            -1 => {}
            new => {
                name = std::fs::read_link(format!("/proc/self/fd/{new}")).ok().or(name);
                replace_in_use(*token, own, new);
            }
        }
        // SAFETY: made above.
        unsafe { libc::close(own) };
    }
    if let Some(name) = name
        && stamp(old) != before
    {
        say(&format!(
            "{} was written while it moved to the PFS, by a call that SCR does not see; what it \
             wrote then is lost",
            name.display()
        ));
    }
}

/// Like [`replace`]; a thread that only reads or seeks has not waited, so what it has done to the
/// place of `own`, a copy of the token's descriptors, since the engine looked is done to `new`.
fn replace_in_use(token: u64, own: c_int, new: c_int) {
    // SAFETY: system calls on numbers; the engine gave us the descriptor.
    unsafe {
        let place = |fd| libc::lseek(fd, 0, libc::SEEK_CUR);
        let before = place(new);
        open_files::replace(token, |fd| put_in_place(new, fd));
        let after = place(own);
        if after != before && place(new) == before {
            libc::lseek(new, after, libc::SEEK_SET);
        }
        libc::close(new);
    }
}

/// Size and time of the last change; `None` if the kernel does not tell.
fn stamp(fd: c_int) -> Option<(i64, i64, i64)> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: fstat writes the structure when it returns 0.
    unsafe {
        if libc::fstat(fd, found.as_mut_ptr()) != 0 {
            return None;
        }
        let found = found.assume_init();
        Some((found.st_size, found.st_mtime, found.st_mtime_nsec))
    }
}

/// A descriptor of ours on the file of `token`: the program may close its own, and use the number
/// for another file.
fn hold(token: u64) -> Option<c_int> {
    // SAFETY: system calls on numbers only.
    let copy = |fd| unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
    open_files::hold(token, copy).filter(|own| *own >= 0)
}

/// Puts `new` in place of every descriptor of `token`. Guard held.
pub(crate) fn replace(token: u64, new: c_int) {
    open_files::replace(token, |fd| put_in_place(new, fd));
    // SAFETY: the engine gave us the descriptor.
    unsafe { libc::close(new) };
}

/// Makes `fd` a copy of `new`; its own mark for exec stays.
fn put_in_place(new: c_int, fd: c_int) {
    // SAFETY: system calls on numbers only.
    unsafe {
        let marks = libc::fcntl(fd, libc::F_GETFD);
        let close_on_exec = if marks & libc::FD_CLOEXEC == 0 { 0 } else { libc::O_CLOEXEC };
        libc::dup3(new, fd, close_on_exec);
    }
}
