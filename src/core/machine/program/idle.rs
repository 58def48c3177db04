//! Sync points that carry no agreement, and only have to be counted, which the door of the program
//! does with one load and one store. The session grants some after each agreement; what the door
//! has counted down is added to the machine's account before anybody looks at that.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use scr_abi::BARRIERS_CARRY;

#[derive(Debug, Default)]
pub struct Idle {
    /// Counted down by the one thread that passes sync points; [`BARRIERS_CARRY`].
    left: AtomicU32,
    /// Written under the lock of the state only.
    granted: AtomicU32,
    /// How many sync points have been entered when none is left; all bits: that changes just now.
    points: AtomicU64,
}

impl Idle {
    pub fn left(&self) -> &AtomicU32 {
        &self.left
    }

    pub fn points(&self) -> &AtomicU64 {
        &self.points
    }

    /// Counts the sync points passed since this was asked last; with the lock of the state.
    pub fn take_passed(&self) -> u64 {
        let left = self.left.load(Ordering::Relaxed);
        let granted = self.granted.swap(left, Ordering::Relaxed);
        u64::from((granted & !BARRIERS_CARRY).saturating_sub(left & !BARRIERS_CARRY))
    }

    /// Lets so many more pass, of which `entered` have; with the lock of the state.
    pub fn grant(&self, points: u32, entered: u64) {
        self.points.store(u64::MAX, Ordering::SeqCst);
        self.left.store(points, Ordering::Release);
        self.granted.store(points, Ordering::Relaxed);
        self.entered(entered);
    }

    /// Notes that so many have been passed, those included that [`Idle::take_passed`] has told.
    pub fn entered(&self, entered: u64) {
        let granted = u64::from(self.granted.load(Ordering::Relaxed) & !BARRIERS_CARRY);
        self.points.store(entered + granted, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_passed_is_taken_once() {
        let idle = Idle::default();
        assert_eq!(idle.take_passed(), 0);
        idle.grant(5, 7);
        assert_eq!(idle.points().load(Ordering::Relaxed), 12);
        idle.left().store(3, Ordering::Relaxed);
        assert_eq!((idle.take_passed(), idle.take_passed()), (2, 0));
        idle.left().store(0, Ordering::Relaxed);
        assert_eq!(idle.take_passed(), 3);
    }
}
