//! The account of sync points and agreements on this rank.

use crate::machine::terms::{BARRIER_STRIDE_MAX, SYNC_POINTS_MAX};
use crate::streams::{HEAD, Streams};

/// Words of an agreement.
pub const WORDS: usize = HEAD + OWN;

/// Those of the machine.
pub const OWN: usize = 9;

/// This rank's account of agreements.
#[derive(Debug, Clone)]
pub struct Agreement {
    /// Sync points passed; as many on all ranks after each agreement.
    pub count: u64,
    /// Which sync points carry one.
    pub streams: Streams,
    /// Time of the last agreement on this rank.
    pub asked_ms: u64,
    /// What this rank has asked for the one that is under way: the time.
    pub asks_ms: u64,
    /// Time at which the last one succeeded on this rank.
    pub agreed_ms: u64,
    /// Agreed time for which files have been open without a pause.
    pub busy_ms: u64,
    /// Agreed time since the last conference.
    pub since_conference_ms: u64,
    /// 2: the others must know at once; 1: something for the next conference; 0: nothing.
    pub changed: u8,
    /// All ranks have just tried to open a file together. 1: this one has it open; 2: it has not.
    pub opening: i64,
    /// What the agreement after it has said: all have it open.
    pub opened_by_all: bool,
    /// No agreement ever again.
    pub disabled: bool,
}

impl Agreement {
    pub fn new(now_ms: u64) -> Self {
        Agreement {
            count: 0,
            streams: Streams::new(BARRIER_STRIDE_MAX, now_ms),
            asked_ms: now_ms,
            asks_ms: now_ms,
            agreed_ms: now_ms,
            busy_ms: 0,
            since_conference_ms: 0,
            changed: 0,
            opening: 0,
            opened_by_all: false,
            disabled: false,
        }
    }

    /// Ends the agreements on this rank; the others are to hear of it.
    pub fn disable(&mut self) {
        self.disabled = true;
        self.streams.end();
    }

    pub fn is_disabled(&self) -> bool {
        self.disabled
    }

    /// Returns when the last agreement succeeded on this rank, ms.
    pub fn agreed_ms(&self) -> u64 {
        self.agreed_ms
    }

    /// Asks for a conference: 1 when nobody is busy, 2 at the next agreement.
    pub fn changed(&mut self, urgency: u8) {
        self.changed = self.changed.max(urgency);
    }

    /// Notes that a report was made: it says all that has changed until now.
    pub fn reported(&mut self) {
        self.changed = 0;
        self.since_conference_ms = 0;
    }
}

/// Returns how many sync points pass until the next agreement, aimed at `target_ms` from the agreed
/// time of the last, since which so many have `passed`; at most twice as many. A start-up of a few
/// fast ones would else starve a program of slow steps: a millisecond for two of them says nothing
/// about the next forty.
pub fn stride(passed: u64, elapsed_ms: u64, target_ms: u64) -> u64 {
    let twice = passed * 2;
    let aimed = (passed * target_ms).checked_div(elapsed_ms).unwrap_or(twice);
    aimed.min(twice).clamp(1, SYNC_POINTS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_start_does_not_starve_slow_steps() {
        assert_eq!(stride(2, 1, 20), 4);
        assert_eq!(stride(2, 0, 20), 4);
        assert_eq!(stride(2, 40, 20), 1);
        assert_eq!(stride(1000, 0, 20), SYNC_POINTS_MAX);
    }
}
