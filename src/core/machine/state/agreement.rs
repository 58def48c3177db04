//! The account of sync points and agreements on this rank.

use crate::machine::terms::{BARRIER_STRIDE_MAX, SYNC_POINTS_MAX};
use crate::streams::{HEAD, Streams};

pub const WORDS: usize = HEAD + OWN;

/// The words of the machine; the stream's come before them.
pub const OWN: usize = 9;

#[derive(Debug, Clone)]
pub struct Agreement {
    /// Sync points passed; as many on all ranks after each agreement.
    pub count: u64,
    /// Barriers and constructors among them, but for those that nobody has told.
    pub barriers: u64,
    pub streams: Streams,
    /// When this rank took part in the last agreement.
    pub asked_ms: u64,
    /// When this rank has asked for the one that is under way.
    pub asks_ms: u64,
    /// When the last one succeeded.
    pub agreed_ms: u64,
    /// Agreed time for which files have been open without a pause.
    pub busy_ms: u64,
    /// Agreed time since the last conference.
    pub since_conference_ms: u64,
    /// 2: the others must know at once; 1: something for the next conference; 0: nothing.
    pub changed: u8,
    /// All ranks have just tried to open a file together. 1: this one has it open; 2: it has not.
    pub opening: i64,
    /// What the agreement after it has said.
    pub opened_by_all: bool,
    pub disabled: bool,
}

impl Agreement {
    pub fn new(now_ms: u64) -> Self {
        Agreement {
            count: 0,
            barriers: 0,
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

    /// Asks for a conference: 1 when nobody is busy, 2 at the next agreement.
    pub fn changed(&mut self, urgency: u8) {
        self.changed = self.changed.max(urgency);
    }

    pub fn reported(&mut self) {
        self.changed = 0;
        self.since_conference_ms = 0;
    }
}

/// Returns after how many sync points the next agreement comes, `target_ms` after the last, since
/// which so many have `passed`. At most twice as many: a millisecond for two fast ones at the start
/// says nothing about the next forty, and would starve a program of slow steps.
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
