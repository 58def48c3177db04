//! The one pointer that says whether hooks have work to do. [`active`] is `None` before MPI_Init
//! has returned, and for good when the engine is missing, does not fit, or has nothing to do. In
//! children of a rank it is the door to the rank ([`crate::child`]).

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use scr_abi::accesses::Moment;
use scr_abi::{BARRIERS_CARRY, Engine, Idle, sync_kind};

pub(crate) struct ActiveEngine {
    pub table: Engine,
    /// The name is canonical.
    pub prefix: Vec<u8>,
    pub idle: Idle,
    /// Otherwise the engine is that of the rank that started this process.
    pub own: bool,
}

// SAFETY: the functions of the table may be called from any thread, and the counter that `idle`
// points to is atomic and lives as long as the process.
unsafe impl Sync for ActiveEngine {}
// SAFETY: as above.
unsafe impl Send for ActiveEngine {}

impl ActiveEngine {
    /// Counts a collective or a barrier on `comm` that carries nothing.
    #[inline]
    pub(crate) fn passes(&self, comm: usize, kind: c_int) -> bool {
        // SAFETY: null, or an atomic of the engine, which is never unloaded.
        let Some(left) = (unsafe { self.idle.left.as_ref() }) else { return false };
        let now = left.load(Ordering::Relaxed);
        // SAFETY: pthread_self has no preconditions.
        let own = || unsafe { libc::pthread_self() } as usize;
        let counts = || self.idle.thread == 0 || self.idle.thread == own();
        let counted = now & !BARRIERS_CARRY;
        let carries = kind == sync_kind::BARRIER && counted != now;
        if counted == 0 || carries || comm & self.idle.mask != self.idle.world || !counts() {
            return false;
        }
        // One thread at a time passes sync points, and nobody else writes meanwhile.
        left.store(now - 1, Ordering::Relaxed);
        true
    }
}

impl ActiveEngine {
    /// Returns when something is done now.
    pub(crate) fn moment(&self) -> Moment {
        // SAFETY: null, or an atomic of the engine, which is never unloaded.
        let round = unsafe { self.idle.round.as_ref() };
        let round = round.map_or(0, |round| round.load(Ordering::Acquire));
        Moment { points: self.points_passed(), round }
    }

    /// Counts the sync points that this rank has entered.
    fn points_passed(&self) -> u64 {
        // SAFETY: null, or atomics of the engine, which is never unloaded.
        let (points, left) = unsafe { (self.idle.points.as_ref(), self.idle.left.as_ref()) };
        let Some(points) = points else { return 0 };
        loop {
            let before = points.load(Ordering::Acquire);
            let left = left.map_or(0, |left| left.load(Ordering::Acquire) & !BARRIERS_CARRY);
            if before != u64::MAX && points.load(Ordering::Acquire) == before {
                return before.saturating_sub(u64::from(left));
            }
            std::hint::spin_loop(); // the engine writes both, in a few instructions
        }
    }
}

static ACTIVE: AtomicPtr<ActiveEngine> = AtomicPtr::new(std::ptr::null_mut());
/// A vfork child shares our memory but not this number.
static OWNER: AtomicI32 = AtomicI32::new(0);

#[inline]
pub(crate) fn active() -> Option<&'static ActiveEngine> {
    // SAFETY: the pointer is null or leaked from a box, hence valid for ever.
    unsafe { ACTIVE.load(Ordering::Acquire).as_ref() }
}

/// Returns false in vfork children.
pub(crate) fn own_process() -> bool {
    // SAFETY: getpid has no preconditions.
    OWNER.load(Ordering::Relaxed) == unsafe { libc::getpid() }
}

pub(crate) fn own() {
    // SAFETY: getpid has no preconditions.
    OWNER.store(unsafe { libc::getpid() }, Ordering::Relaxed);
}

/// Lets all hooks pass: the rank that started this process has gone.
pub(crate) fn forsake() {
    set_active(None);
}

pub(crate) fn set_active(active: Option<&'static ActiveEngine>) {
    let pointer =
        active.map_or(std::ptr::null_mut(), |active| std::ptr::from_ref(active).cast_mut());
    ACTIVE.store(pointer, Ordering::Release);
}
