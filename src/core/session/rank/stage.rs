//! How far a rank has come: it uses the cache, ends, has ended, or is not the rank at all.

use std::sync::atomic::Ordering;

use crate::session::rank::Rank;

impl Rank {
    /// Tells whether files go to the cache.
    pub(crate) fn is_routing(&self) -> bool {
        !self.stage.passes.load(Ordering::Relaxed)
    }

    /// Sends all that comes straight to the PFS. Returns whether that was so before.
    pub(crate) fn stop_routing(&self) -> bool {
        self.stage.passes.swap(true, Ordering::Relaxed)
    }

    /// Tells whether this process is a forked child of the rank.
    pub(crate) fn is_child(&self) -> bool {
        self.stage.child.load(Ordering::Relaxed)
    }

    /// Notes that it is.
    pub(crate) fn become_child(&self) -> bool {
        self.stage.child.swap(true, Ordering::Relaxed)
    }

    /// Tells whether the engine has ended.
    pub(crate) fn is_ended(&self) -> bool {
        self.stage.ended.load(Ordering::Relaxed)
    }

    /// Notes that it has.
    pub(crate) fn end(&self) -> bool {
        self.stage.ended.swap(true, Ordering::Relaxed)
    }

    /// Tells whether the process ends without MPI_Finalize, so far.
    pub(crate) fn is_exiting(&self) -> bool {
        self.stage.exiting.load(Ordering::Relaxed)
    }

    /// Notes that it does. Returns whether that was noted before.
    pub(crate) fn begin_exit(&self) -> bool {
        self.stage.exiting.swap(true, Ordering::Relaxed)
    }

    /// Tells whether the rank is in MPI_Finalize, or ends for a halt condition.
    pub(crate) fn is_finishing(&self) -> bool {
        self.stage.finishing.load(Ordering::Relaxed)
    }

    /// Notes that it is.
    pub(crate) fn begin_finish(&self) -> bool {
        self.stage.finishing.swap(true, Ordering::Relaxed)
    }
}
