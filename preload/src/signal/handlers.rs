//! Handlers of the program wait while their thread is in our own or the engine's work: they may
//! write a checkpoint, or end the process. In a rank, [`on_signal`] stands in place of each of
//! them, and sends the signal once more to the same thread. (To block it beforehand would hand it
//! to another one.) What comes while malloc or the loader is held waits, too
//! ([`crate::signal::postponed`]). What tells of the very instruction that is being run cannot
//! wait: what its handler asks of us is done on another thread, or passes.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::LocalKey;

use libc::{siginfo_t, ucontext_t};

use crate::base::errno::{errno, set_errno};
use crate::base::real::Symbol;
use crate::base::thread::{self, SIGNALS, set_of};
use crate::{engine, signal::postponed, signal::stand_in};

static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
static FLAGS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

thread_local! {
    static HANDLERS_RUN: Cell<u32> = const { Cell::new(0) };
    static CRASHES: Cell<u32> = const { Cell::new(0) };
    static STUCK: Cell<bool> = const { Cell::new(false) };
    static UNSAFE_CALLS: Cell<u32> = const { Cell::new(0) };
}

/// These tell of the very instruction that is being run, and cannot wait.
const AT_ONCE: [c_int; 7] = [
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGSEGV,
    libc::SIGSYS,
    libc::SIGTRAP,
];

type SetAction = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
type Handler = unsafe extern "C-unwind" fn(c_int);
type HandlerWithInfo = unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void);

/// UCX, below MPICH, has a `sigaction` of its own that leaves its handlers of crashes in place.
fn set_action() -> Option<SetAction> {
    static OWN: Symbol = Symbol::new(c"__sigaction");
    static NEXT: Symbol = Symbol::new(c"sigaction");
    // SAFETY: the address of `sigaction`, whose type this is.
    let typed = |real: NonZeroUsize| unsafe { std::mem::transmute::<usize, SetAction>(real.get()) };
    OWN.next().or_else(|| NEXT.next()).map(typed)
}

fn own_address() -> usize {
    on_signal as *const () as usize
}

pub(crate) fn told(number: c_int, address: usize) -> usize {
    if address == own_address() { of(&HANDLERS, number) } else { address }
}

pub(crate) fn told_flags(number: c_int, action: &libc::sigaction) -> c_int {
    if action.sa_sigaction == own_address() { of(&FLAGS, number) as c_int } else { action.sa_flags }
}

fn of(table: &[AtomicUsize; SIGNALS], number: c_int) -> usize {
    let entry = usize::try_from(number).ok().and_then(|number| table.get(number));
    entry.map_or(0, |entry| entry.load(Ordering::Acquire))
}

pub(crate) fn adopt_all() {
    postponed::prepare();
    (1..SIGNALS as c_int).for_each(adopt);
}

pub(crate) fn adopt(number: c_int) {
    let at = usize::try_from(number).ok().filter(|at| (1..SIGNALS).contains(at));
    let (Some(at), Some(set_action)) = (at, set_action()) else { return };
    let mut action = MaybeUninit::uninit();
    // SAFETY: the structure is written when 0 is returned, and is put back with a handler that
    // takes the place of the one in it.
    unsafe {
        if set_action(number, std::ptr::null(), action.as_mut_ptr()) != 0 {
            return; // no such signal, or one of libc's own
        }
        let mut action = action.assume_init();
        let no_function = [libc::SIG_DFL, libc::SIG_IGN, own_address()];
        if no_function.contains(&action.sa_sigaction) {
            return;
        }
        HANDLERS[at].store(action.sa_sigaction, Ordering::Release);
        FLAGS[at].store(action.sa_flags as usize, Ordering::Release);
        action.sa_sigaction = own_address();
        // One that is to be used once would be gone when the signal comes the second time.
        action.sa_flags = (action.sa_flags | libc::SA_SIGINFO) & !libc::SA_RESETHAND;
        set_action(number, &raw const action, std::ptr::null_mut());
    }
}

extern "C-unwind" fn on_signal(number: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let at_once = AT_ONCE.contains(&number);
    if thread::inside() && !at_once {
        // SAFETY: what the kernel has passed.
        unsafe { wait(number, info, context.cast()) };
        return;
    }
    // SAFETY: the same.
    if !at_once && in_own_rank() && unsafe { postponed::put_aside(number, info, context.cast()) } {
        return;
    }
    let (handler, flags) = (of(&HANDLERS, number), of(&FLAGS, number) as c_int);
    if flags & libc::SA_RESETHAND != 0 {
        // SAFETY: zeros are SIG_DFL without flags.
        unsafe {
            let action: libc::sigaction = std::mem::zeroed();
            set_action().map(|set| set(number, &raw const action, std::ptr::null_mut()));
        }
    }
    STUCK.set(STUCK.get() && !at_once);
    let crash = at_once.then(|| Nesting::one_more(&CRASHES));
    let run = Nesting::one_more(&HANDLERS_RUN);
    // SAFETY: the program has set this function, with these flags.
    unsafe {
        if flags & libc::SA_SIGINFO != 0 {
            std::mem::transmute::<usize, HandlerWithInfo>(handler)(number, info, context);
        } else {
            std::mem::transmute::<usize, Handler>(handler)(number);
        }
    }
    drop((run, crash));
}

pub(crate) fn run<T>(job: impl FnOnce() -> T) -> Option<T> {
    match (CRASHES.get() != 0 && in_own_rank(), in_handler()) {
        (false, false) => Some(job()),
        (false, true) => stand_in::lend(job),
        (true, true) => unless_stuck(|| stand_in::lend_in_crash(job)),
        (true, false) => unless_stuck(|| stand_in::lend_in_crash(|| ())).map(|()| job()),
    }
}

/// Runs a job that needs neither malloc nor the loader, but some room on the stack.
pub(crate) fn run_look<T>(job: impl FnOnce() -> T) -> Option<T> {
    if in_handler() { unless_stuck(|| stand_in::lend_a_look(job)) } else { Some(job()) }
}

/// Tries nothing again that was in vain once in this handler.
pub(crate) fn unless_stuck<T>(lend: impl FnOnce() -> Option<T>) -> Option<T> {
    if STUCK.get() && CRASHES.get() != 0 {
        return None;
    }
    let done = lend();
    STUCK.set(done.is_none());
    done
}

pub(crate) struct Nesting(&'static LocalKey<Cell<u32>>, u32);

impl Nesting {
    fn one_more(of: &'static LocalKey<Cell<u32>>) -> Self {
        Self(of, of.replace(of.get() + 1))
    }
}

impl Drop for Nesting {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// Tells whether the thread has interrupted itself, and means to do what a handler may.
pub(crate) fn in_handler() -> bool {
    HANDLERS_RUN.get() != 0 && UNSAFE_CALLS.get() == 0 && in_own_rank()
}

/// A forked child has only the thread that forked.
fn in_own_rank() -> bool {
    engine::active().is_some_and(|engine| engine.own && engine::own_process())
}

/// Lasts until the result is dropped: a program that calls stdio in a handler counts on this
/// thread's locks.
pub(crate) fn unsafe_call() -> Nesting {
    Nesting::one_more(&UNSAFE_CALLS)
}

/// Notes a call that no handler can make: the program has left those that ran by longjmp.
pub(crate) fn in_no_handler() {
    HANDLERS_RUN.set(0);
    CRASHES.set(0);
}

/// The signal comes again when the thread has left our work, not before. Safety: the arguments are
/// those of a signal handler.
unsafe fn wait(number: c_int, info: *mut siginfo_t, context: *mut ucontext_t) {
    let code = errno();
    thread::note_waiting(1 << (number - 1));
    // SAFETY: by this function's contract; the mask in the context is the thread's when the handler
    // has returned. Here it may be another one (SA_NODEFER).
    unsafe {
        let waiting = set_of(1 << (number - 1));
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const waiting, std::ptr::null_mut());
        libc::sigaddset(&raw mut (*context).uc_sigmask, number);
        let (process, thread) = (libc::getpid(), libc::syscall(libc::SYS_gettid));
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, number, info);
    }
    set_errno(code);
}
