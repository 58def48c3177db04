//! A thread that does for signal handlers what they cannot do themselves: they have interrupted
//! anything, malloc and the loader included, perhaps on a stack that is too small for work. So the
//! handler's thread only waits, without lock and allocation.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use scr_abi::messages;

use crate::base::message::complain;
use crate::base::thread;
use crate::signal::aside;

static STAND_IN: OnceLock<Thread> = OnceLock::new();
/// The clock of the thread's processor time.
static CLOCK: AtomicI32 = AtomicI32::new(0);
/// The job's number times [`STAGES`], and how far the job is.
static STAGE: AtomicU32 = AtomicU32::new(IDLE);
static JOB: AtomicPtr<LentJob> = AtomicPtr::new(std::ptr::null_mut());

const IDLE: u32 = 0;
const TAKEN: u32 = 1;
const ASKED: u32 = 2;
/// Neither malloc nor the loader is held by the thread that waits, or the job needs neither.
const BEGUN: u32 = 3;
const ASKED_TO_LOOK: u32 = 4;
const STAGES: u32 = 8;

/// How long to wait while the stand-in uses no processor time: it has met a lock, or a slow disk.
struct Patience {
    /// Another thread's job must be done before.
    turn: Duration,
    /// malloc and the loader must be let go before.
    begin: Duration,
    end: Duration,
}

const BEGIN: Duration = Duration::from_secs(2);
const FOREVER: Patience = Patience { turn: Duration::MAX, begin: BEGIN, end: Duration::MAX };
const BRIEFLY: Duration = Duration::from_millis(2);
const PAUSE: Duration = Duration::from_micros(200);
const YIELDS: u32 = 64;

struct LentJob {
    call: *mut dyn FnMut(),
    done: AtomicBool,
}

pub(crate) fn prepare() {
    match std::thread::Builder::new().name("scr-stand-in".into()).spawn(live) {
        Ok(thread) => drop(STAND_IN.set(thread.thread().clone())),
        Err(error) => complain(
            messages::NO_THREAD,
            &format!(
                "no thread can be made ({error}): what the program closes right before _exit or \
             quick_exit is lost, and signal handlers must not write checkpoints"
            ),
        ),
    }
}

/// Returns `None` if the calling thread has interrupted what the job needs: nothing has been done.
pub(crate) fn lend<T>(job: impl FnOnce() -> T) -> Option<T> {
    lend_with(ASKED, &FOREVER, job)
}

/// Serves a signal that came at once, and may have interrupted malloc: another thread's job may
/// wait for that, too.
pub(crate) fn lend_in_crash<T>(job: impl FnOnce() -> T) -> Option<T> {
    lend_with(ASKED, &Patience { turn: BEGIN, ..FOREVER }, job)
}

/// Serves a job that needs neither malloc nor the loader.
pub(crate) fn lend_a_look<T>(job: impl FnOnce() -> T) -> Option<T> {
    lend_with(ASKED_TO_LOOK, &Patience { turn: BEGIN, ..FOREVER }, job)
}

/// Serves a process that ends: without processor time used for `patience` the job is left half
/// done.
pub(crate) fn lend_for<T>(patience: Duration, job: impl FnOnce() -> T) -> Option<T> {
    lend_with(ASKED, &Patience { turn: patience, end: patience, ..FOREVER }, job)
}

/// Gives up unless the job can be begun almost at once.
pub(crate) fn lend_now<T>(job: impl FnOnce() -> T) -> Option<T> {
    lend_with(ASKED, &Patience { turn: BRIEFLY, begin: BRIEFLY, ..FOREVER }, job)
}

pub(crate) fn is_there() -> bool {
    STAND_IN.get().is_some()
}

fn lend_with<T>(asked: u32, patience: &Patience, job: impl FnOnce() -> T) -> Option<T> {
    let stand_in = STAND_IN.get()?;
    let (mut job, mut result) = (Some(job), None);
    let mut call = || result = job.take().map(|job| job());
    let call: &mut dyn FnMut() = &mut call;
    // SAFETY: only the lifetime changes; see below.
    let call: *mut (dyn FnMut() + 'static) = unsafe { std::mem::transmute(call) };
    let mut own = LentJob { call, done: AtomicBool::new(false) };
    let number = take_turn(patience.turn)?;
    JOB.store(&raw mut own, Ordering::Relaxed);
    STAGE.store(number + asked, Ordering::Release);
    stand_in.unpark();
    // The stand-in does not touch the job once it is done or withdrawn.
    wait(&own, number, asked, patience);
    result
}

fn take_turn(patience: Duration) -> Option<u32> {
    let since = Instant::now();
    loop {
        let stage = STAGE.load(Ordering::Acquire);
        let next = stage.wrapping_add(STAGES);
        if stage % STAGES == IDLE
            && STAGE
                .compare_exchange(stage, next + TAKEN, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
        {
            return Some(next);
        }
        if since.elapsed() > patience {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
}

fn wait(job: &LentJob, number: u32, asked: u32, patience: &Patience) {
    let (mut worked, mut since, mut yields) = (Duration::ZERO, Instant::now(), 0..YIELDS);
    while !job.done.load(Ordering::Acquire) {
        if yields.next().is_some() {
            std::thread::yield_now();
            continue;
        }
        std::thread::sleep(PAUSE);
        let now = processor_time();
        if now != worked {
            (worked, since) = (now, Instant::now());
            continue;
        }
        let (asked, none) = (number + asked, number + IDLE);
        let withdraw = || STAGE.compare_exchange(asked, none, Ordering::AcqRel, Ordering::Acquire);
        let idle = since.elapsed();
        if idle > patience.end || idle > patience.begin && withdraw().is_ok() {
            return;
        }
    }
}

fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is writable; without that clock it stays as it is.
    unsafe { libc::clock_gettime(CLOCK.load(Ordering::Relaxed), &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

fn live() {
    let mut clock = 0;
    // SAFETY: the set is filled before it is used, the clock is written before it is read; the
    // program's signals are for its own threads.
    unsafe {
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
        libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock);
    }
    CLOCK.store(clock, Ordering::Relaxed);
    thread::enter_thread();
    loop {
        let stage = STAGE.load(Ordering::Acquire);
        let asked = stage % STAGES;
        if asked != ASKED && asked != ASKED_TO_LOOK {
            if aside::any() {
                touch_what_may_be_held();
                aside::send_all();
            } else {
                std::thread::park();
            }
            continue;
        }
        if asked == ASKED {
            touch_what_may_be_held();
        }
        let (number, job) = (stage - asked, JOB.load(Ordering::Relaxed));
        let begin =
            STAGE.compare_exchange(stage, number + BEGUN, Ordering::AcqRel, Ordering::Acquire);
        if begin.is_ok() {
            // SAFETY: the thread that asked waits until `done` is set. Jobs do not panic.
            unsafe {
                (*(*job).call)();
                STAGE.store(number + IDLE, Ordering::Release);
                (*job).done.store(true, Ordering::Release);
            }
        }
    }
}

/// Waits for as long as the thread that asks has interrupted malloc or the loader.
fn touch_what_may_be_held() {
    // SAFETY: both only read; mallinfo takes the lock of each of malloc's arenas in turn.
    unsafe {
        libc::mallinfo();
        libc::dlsym(libc::RTLD_NEXT, c"_exit".as_ptr());
    }
}
