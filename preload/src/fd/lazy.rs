//! Replaces descriptors on a copy that must not change by ones on a copy that may.

use std::cell::Cell;
use std::ffi::{CString, c_int};

use parking_lot::Mutex;
use scr_abi::{
    Engine,
    change::{CHANGES, EMPTIES},
};

use crate::base::lock::{GENERATIONS, Lock};
use crate::fd::handle::{Outcome, handle};
use crate::fd::open_files::{Claim, Replaced};
use crate::{engine, fd::in_order, fd::logged, fd::open_files, fd::reuse, signal::guard};

/// A thread that replaces descriptors holds it, so of two threads that write one waits.
pub(crate) static WAKING: Lock<()> = Lock::new([const { Mutex::new(()) }; GENERATIONS]);

/// Replaces the descriptors of all tokens on `token`'s file: they are to see the `change`
/// ([`scr_abi::change`]). Guard held, no lock.
pub(crate) fn wake(table: &Engine, token: u64, change: c_int) -> bool {
    let _one_at_a_time = WAKING.lock();
    let lazy = open_files::lazy_holders();
    let Some(&(_, first)) = lazy.iter().find(|(held, _)| *held == token) else { return true };
    let mut done = true;
    for (token, _) in open_files::holders_of_same_file(first) {
        if !lazy.iter().any(|(held, _)| *held == token) {
            continue;
        }
        let Some(own) = hold(token) else { continue };
        match (table.evacuate)(token, own, change) {
            -1 => done = false,
            new => replace(table, token, new),
        }
        // SAFETY: made above.
        unsafe { libc::close(own) };
    }
    done
}

/// Returns true, too, if there is nothing to be replaced.
pub(crate) fn wake_descriptor(table: &Engine, fd: c_int) -> bool {
    wake_to(table, fd, CHANGES)
}

/// Does so before that `change`.
pub(crate) fn wake_to(table: &Engine, fd: c_int, change: c_int) -> bool {
    let lazy = open_files::claim(fd).filter(|claim| claim.lazy);
    let fails = |claim: &Claim| change == EMPTIES && !claim.writable;
    lazy.is_none_or(|claim| fails(&claim) || wake(table, claim.token, change))
}

/// Wakes a number so high that nothing could tell a write to it; true for others.
pub(crate) fn wake_beyond(table: &Engine, fd: c_int) -> bool {
    open_files::may_be_lazy(fd) || wake_descriptor(table, fd)
}

thread_local! {
    /// While a fork is under way: descriptors that could not be replaced, and read-only ones that
    /// take their places in the child.
    static STAND_INS: Cell<Vec<(c_int, c_int)>> = const { Cell::new(Vec::new()) };
}

/// Replaces all that is lazy: the child's writes pass no hook of this process.
pub(crate) fn before_fork() {
    in_order::stop_all();
    if let Some(active) = engine::active() {
        reuse::give_up();
        let _: Option<()> = handle((), active, || {
            let lazy = open_files::lazy_holders().into_iter();
            if lazy.filter(|(token, _)| !wake(&active.table, *token, CHANGES)).count() > 0 {
                let left = open_files::lazy_descriptors().into_iter();
                let stand_ins = left.filter_map(|fd| Some((fd, read_only_twin(fd)?))).collect();
                let _ = STAND_INS.try_with(|cell| cell.set(stand_ins));
            }
            Outcome::Pass
        });
    }
}

pub(crate) fn after_fork() {
    for (_, twin) in STAND_INS.try_with(Cell::take).unwrap_or_default() {
        // SAFETY: a descriptor of ours.
        unsafe { libc::close(twin) };
    }
}

/// Lets a write fail that nothing could keep from the sealed copy.
pub(crate) fn in_child() {
    for (fd, twin) in STAND_INS.try_with(Cell::take).unwrap_or_default() {
        put_in_place(twin, fd);
        // SAFETY: as in `after_fork`.
        unsafe { libc::close(twin) };
    }
}

/// The twin shares the offset.
fn read_only_twin(fd: c_int) -> Option<c_int> {
    let path = CString::new(format!("/proc/self/fd/{fd}")).ok()?;
    // SAFETY: the path is a C string, the rest are system calls on numbers.
    unsafe {
        let twin = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        libc::lseek(twin, libc::lseek(fd, 0, libc::SEEK_CUR), libc::SEEK_SET);
        (twin >= 0).then_some(twin)
    }
}

/// Serves as [`scr_abi::Host::wake`].
pub(crate) extern "C" fn wake_token(token: u64) {
    if let Some(active) = engine::active() {
        // The engine's own threads, and a call from inside a hook, hold the guard already.
        guard::enter_thread();
        wake(&active.table, token, CHANGES);
        guard::leave_thread();
    }
}

/// Makes a descriptor of ours: the program may close its own, and use the number for another file.
pub(crate) fn hold(token: u64) -> Option<c_int> {
    reuse::settle();
    // SAFETY: system calls on numbers only.
    let copy = |fd| unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
    open_files::hold(token, copy).filter(|own| *own >= 0)
}

pub(crate) fn replace(table: &Engine, token: u64, new: c_int) {
    let log = logged::log_of(table, token);
    open_files::replace(token, Replaced { lazy: false, log }, |fd| put_in_place(new, fd));
    // SAFETY: the engine gave us the descriptor.
    unsafe { libc::close(new) };
}

/// Leaves the mark for exec of `fd` as it is.
pub(crate) fn put_in_place(new: c_int, fd: c_int) {
    // SAFETY: system calls on numbers only.
    unsafe {
        let marks = libc::fcntl(fd, libc::F_GETFD);
        let close_on_exec = if marks & libc::FD_CLOEXEC == 0 { 0 } else { libc::O_CLOEXEC };
        libc::dup3(new, fd, close_on_exec);
    }
}
