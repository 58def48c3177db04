//! The end of the process: the engine is told, and what the program leaves open is closed.
//!
//! exit(3) runs our handlers on the thread that calls it. `_exit` runs none, and may be called by a
//! signal handler that has interrupted anything, malloc and the loader included, on a stack that is
//! too small for work. So that thread only waits, without lock and allocation, and another one,
//! made at the start, does the work ([`at_once`]).

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crate::abi::event;
use crate::engine::{self, Active};
use crate::message::complain;
use crate::{guard, open_files};

static FINALIZED: AtomicBool = AtomicBool::new(false);

/// The thread that works when the process ends at once.
static CLOSER: OnceLock<Thread> = OnceLock::new();
/// Its processor time, a clock of the kernel's.
static CLOSER_CLOCK: AtomicI32 = AtomicI32::new(0);
/// How far it is.
static STAGE: AtomicU32 = AtomicU32::new(IDLE);

const IDLE: u32 = 0;
const ASKED: u32 = 1;
/// Neither malloc nor the loader is held by the thread that waits.
const BEGUN: u32 = 2;
const DONE: u32 = 3;

/// Without any processor time used for so long, the work has met a lock that is never let go.
const STUCK_BEFORE: Duration = Duration::from_secs(2);
/// The same once it has begun: the sync of a large file to a slow file system takes its time.
const STUCK_LATER: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_micros(200);

/// The engine has been started: it will want to know of the end.
pub(crate) fn prepare() {
    // SAFETY: the handlers are functions of this library, which is never unloaded.
    unsafe {
        libc::atexit(at_exit);
        at_quick_exit(at_once);
    }
    match std::thread::Builder::new().name("scr-closer".into()).spawn(close_when_asked) {
        Ok(thread) => drop(CLOSER.set(thread.thread().clone())),
        Err(error) => complain(&format!(
            "no thread can be made ({error}): what the program closes right before _exit or \
             quick_exit is lost"
        )),
    }
}

/// MPI_Finalize was called: leaving now is no surprise.
pub(crate) fn set_finalized() {
    FINALIZED.store(true, Ordering::Release);
}

/// The engine of this very process.
fn own_engine() -> Option<&'static Active> {
    engine::active().filter(|engine| engine.own && engine::own_process())
}

fn tell(engine: &Active, what: i32) {
    if !FINALIZED.load(Ordering::Acquire) {
        (engine.table.note)(what, std::ptr::null());
    }
}

fn give_up_descriptors(engine: &Active) {
    for token in open_files::detach_all() {
        (engine.table.closed)(token);
    }
}

extern "C" fn at_exit() {
    if let Some(engine) = own_engine() {
        guard::enter_thread();
        tell(engine, event::EXIT);
        guard::leave_thread();
    }
}

/// The process is about to end without exit(3)'s handlers. Callable in signal handlers; does
/// nothing in children of a rank.
///
/// A thread that was interrupted in our own work may hold our locks: then nothing is done.
pub(crate) extern "C" fn at_once() {
    if own_engine().is_none() || guard::inside() {
        return;
    }
    let Some(closer) = CLOSER.get() else { return };
    if STAGE.compare_exchange(IDLE, ASKED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        closer.unpark();
    }
    let (mut worked, mut since) = (Duration::ZERO, Instant::now());
    loop {
        let limit = match STAGE.load(Ordering::Acquire) {
            DONE => return,
            BEGUN => STUCK_LATER,
            _ => STUCK_BEFORE,
        };
        let now = closer_time();
        if now != worked {
            (worked, since) = (now, Instant::now());
        } else if since.elapsed() > limit {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Processor time that [`CLOSER`] has used.
fn closer_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is writable; without that clock it stays as it is.
    unsafe { libc::clock_gettime(CLOSER_CLOCK.load(Ordering::Relaxed), &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Of the life of the thread [`CLOSER`].
fn close_when_asked() {
    let mut clock = 0;
    // SAFETY: the set is filled before it is used, the clock is written before it is read; the
    // program's signals are for its own threads.
    unsafe {
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
        libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock);
    }
    CLOSER_CLOCK.store(clock, Ordering::Relaxed);
    guard::enter_thread();
    while STAGE.load(Ordering::Acquire) != ASKED {
        std::thread::park();
    }
    touch_what_may_be_held();
    STAGE.store(BEGUN, Ordering::Release);
    let work = || {
        if let Some(engine) = own_engine() {
            // The engine then takes these files with it, before it waits for the other ranks.
            give_up_descriptors(engine);
            tell(engine, event::EXIT);
            tell(engine, event::LEAVE);
        }
    };
    // What went wrong has been told.
    let _ = catch_unwind(AssertUnwindSafe(work));
    STAGE.store(DONE, Ordering::Release);
}

/// Waits for ever if the thread that ends the process has interrupted malloc or the loader.
fn touch_what_may_be_held() {
    // SAFETY: both only read; mallinfo takes the lock of each of malloc's arenas in turn.
    unsafe {
        libc::mallinfo();
        libc::dlsym(libc::RTLD_NEXT, c"_exit".as_ptr());
    }
}

// Not in the libc crate. Unlike atexit, the handlers of on_exit do not belong to a library that is
// being ended.
unsafe extern "C" {
    fn at_quick_exit(handler: extern "C" fn()) -> c_int;
    fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    fn ftrylockfile(stream: *mut libc::FILE) -> c_int;
    fn funlockfile(stream: *mut libc::FILE);
}

/// Runs among the libraries' destructors. Those of run-time systems still write and close files
/// (Fortran's, C++'s), so what is held in the end is given up behind all of them.
#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = {
    extern "C" fn destructor() {
        if own_engine().is_some() {
            // SAFETY: the handler is a function of this library, which stays mapped.
            unsafe { on_exit(give_up_all, std::ptr::null_mut()) };
        }
    }
    destructor
};

/// The program leaves files open and the process ends: their streams are flushed, and each is
/// closed as far as the engine is concerned. Only then it waits for the other ranks: a launcher
/// kills those that are left when the first one is gone.
extern "C" fn give_up_all(_status: c_int, _argument: *mut c_void) {
    let Some(engine) = engine::active() else { return };
    let failed = |fd: c_int| {
        let claim = open_files::claim(fd).filter(|claim| claim.writable);
        claim.map_or((), |claim| (engine.table.failed)(claim.token, libc::EIO))
    };
    // The flush itself is the program's: outside of our work, so that a full store is met as ever.
    for (fd, stream) in guard::work(open_files::streams).unwrap_or_default() {
        let stream = stream as *mut libc::FILE;
        // A stream that another thread is using is not waited for.
        // SAFETY: an open stream: closing it would have removed it from the table.
        unsafe {
            if ftrylockfile(stream) == 0 {
                let lost = libc::fflush(stream) != 0 || libc::ferror(stream) != 0;
                funlockfile(stream);
                if lost {
                    let _: Option<()> = guard::work(|| failed(fd));
                }
            }
        }
    }
    let _: Option<()> = guard::work(|| {
        give_up_descriptors(engine);
        tell(engine, event::LEAVE);
    });
}
