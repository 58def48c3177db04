//! The end of the process: the engine is told, and what the program leaves open is closed. `_exit`
//! runs no handlers, and a signal handler may call it: so [`crate::signal::stand_in`] does the
//! work.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use scr_abi::event;

use crate::base::thread::MpiDepth;
use crate::engine::{self, ActiveEngine};
use crate::{fd::open_files, fd::reuse, signal::guard, signal::handlers, signal::stand_in};

const PATIENCE: Duration = Duration::from_secs(600);

static FINALIZED: AtomicBool = AtomicBool::new(false);

pub(crate) fn prepare() {
    // SAFETY: the handlers are functions of this library, which is never unloaded.
    unsafe {
        libc::atexit(at_exit);
        at_quick_exit(at_once);
    }
}

pub(crate) fn set_finalized() {
    FINALIZED.store(true, Ordering::Release);
}

fn own_engine() -> Option<&'static ActiveEngine> {
    engine::active().filter(|engine| engine.own && engine::own_process())
}

fn tell(engine: &ActiveEngine, what: i32) {
    if !FINALIZED.load(Ordering::Acquire) {
        (engine.table.note)(what, std::ptr::null());
    }
}

fn give_up_descriptors(engine: &ActiveEngine) {
    for token in open_files::detach_all() {
        reuse::tell_failure(&engine.table, token);
        (engine.table.closed)(token);
    }
}

extern "C" fn at_exit() {
    if let Some(engine) = own_engine() {
        let _depth = MpiDepth::enter();
        let tell = || tell(engine, event::EXIT);
        match guard::inside() {
            true => tell(), // the engine itself ends the process
            false => drop(guard::work(tell)),
        }
    }
}

/// Serves a process that ends without exit(3)'s handlers. Callable in signal handlers; does nothing
/// in children of a rank.
pub(crate) extern "C" fn at_once() {
    let Some(engine) = own_engine().filter(|_| !guard::inside()) else { return };
    let end = || {
        // The engine then takes these files with it, before it waits for the other ranks.
        give_up_descriptors(engine);
        tell(engine, event::EXIT);
        tell(engine, event::LEAVE);
    };
    // What went wrong has been told.
    let end = || stand_in::lend_for(PATIENCE, || catch_unwind(AssertUnwindSafe(end)));
    let _ = handlers::unless_stuck(end);
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
