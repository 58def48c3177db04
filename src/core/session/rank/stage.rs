//! How far a rank has come: it uses the cache, ends, has ended, or is not the rank at all.

use std::sync::atomic::Ordering;

use crate::session::rank::Rank;

/// What comes about once, and is never taken back.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Milestone {
    /// The rank uses the cache no more: what comes goes straight to the PFS.
    OutOfCache = 1,
    /// This process is a forked child of the rank.
    Forked = 2,
    /// exit(3) was called before MPI_Finalize, which may come yet.
    Exiting = 4,
    /// In MPI_Finalize, or ending for a halt condition.
    Finishing = 8,
    Ended = 16,
}

impl Rank {
    /// Returns whether it had come about before.
    pub(crate) fn reach(&self, milestone: Milestone) -> bool {
        self.milestones.fetch_or(milestone as u8, Ordering::Relaxed) & milestone as u8 != 0
    }

    fn has_reached(&self, milestone: Milestone) -> bool {
        self.milestones.load(Ordering::Relaxed) & milestone as u8 != 0
    }

    pub(crate) fn is_routing(&self) -> bool {
        !self.has_reached(Milestone::OutOfCache)
    }

    pub(crate) fn is_child(&self) -> bool {
        self.has_reached(Milestone::Forked)
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.has_reached(Milestone::Ended)
    }

    pub(crate) fn is_exiting(&self) -> bool {
        self.has_reached(Milestone::Exiting)
    }

    pub(crate) fn is_finishing(&self) -> bool {
        self.has_reached(Milestone::Finishing)
    }
}
