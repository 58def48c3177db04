//! Whether a checkpoint is due, for programs that ask (manual 1.1, SCR_Need_checkpoint).

use std::time::Duration;

/// When a checkpoint is due; 0 leaves a condition out.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NeedLimits {
    /// At every so manieth call.
    pub calls: u64,
    /// When so much time has passed since the last checkpoint, or since the start.
    pub since_last: Duration,
    /// While checkpoints take less than this share of the run, percent; the next one counts at the
    /// average cost of the others.
    pub percent: f64,
}

/// The times of a run that the decision rests on, milliseconds on one clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Need {
    begin_ms: u64,
    calls: u64,
    checkpoints: u64,
    checkpoints_ms: u64,
    last_end_ms: u64,
}

impl Need {
    /// Makes the account of a run that begins at `now_ms`.
    pub fn new(now_ms: u64) -> Need {
        Need { begin_ms: now_ms, last_end_ms: now_ms, ..Need::default() }
    }

    /// Notes that a checkpoint was written and sealed in this time.
    pub fn checkpoint(&mut self, begin_ms: u64, end_ms: u64) {
        self.checkpoints += 1;
        self.checkpoints_ms += end_ms.saturating_sub(begin_ms);
        self.last_end_ms = end_ms;
    }

    /// Decides whether the program is to write a checkpoint; when `halting`, the run ends after one
    /// more.
    pub fn ask(&mut self, now_ms: u64, limits: &NeedLimits, halting: bool) -> bool {
        self.calls += 1;
        let by_calls = limits.calls > 0 && self.calls.is_multiple_of(limits.calls);
        let passed = Duration::from_millis(now_ms.saturating_sub(self.last_end_ms));
        let by_time = !limits.since_last.is_zero() && passed >= limits.since_last;
        halting || by_calls || by_time || self.is_cheap(now_ms, limits.percent)
    }

    fn is_cheap(&self, now_ms: u64, percent: f64) -> bool {
        let average = self.checkpoints_ms as f64 / self.checkpoints.max(1) as f64;
        let run = now_ms.saturating_sub(self.begin_ms) as f64;
        // Of a first one nobody knows the cost.
        let unknown = self.checkpoints == 0;
        let share = (self.checkpoints_ms as f64 + average) / (run + average).max(1.0);
        percent > 0.0 && (unknown || share * 100.0 < percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: NeedLimits = NeedLimits { calls: 0, since_last: Duration::ZERO, percent: 0.0 };

    #[test]
    fn each_condition_by_itself() {
        let seconds = |seconds| NeedLimits { since_last: Duration::from_secs(seconds), ..NOTHING };
        let percent = |percent| NeedLimits { percent, ..NOTHING };
        // Checkpoints (begin and end, ms), when the program asks (ms), the limits, the answer.
        type Row<'a> = (&'a [(u64, u64)], u64, NeedLimits, bool);
        let rows: [Row; 11] = [
            (&[], 900_000, NOTHING, false),
            (&[], 10_999, seconds(10), false),
            (&[], 11_000, seconds(10), true),
            (&[(5000, 8000)], 17_999, seconds(10), false),
            (&[(5000, 8000)], 18_000, seconds(10), true),
            (&[], 1000, percent(5.0), true),
            // 4 s of 80 s, with one more of 2 s.
            (&[(5000, 7000), (50_000, 52_000)], 118_000, percent(5.0), false),
            (&[(5000, 7000), (50_000, 52_000)], 119_001, percent(5.0), true),
            (&[(5000, 5000)], 6000, percent(0.1), true),
            (&[(5000, 4000)], 4000, percent(1.0), true),
            (&[(0, u64::MAX)], u64::MAX, percent(100.0), false),
        ];
        for (checkpoints, now, limits, expected) in rows {
            let mut need = Need::new(1000);
            checkpoints.iter().for_each(|(begin, end)| need.checkpoint(*begin, *end));
            let row = (checkpoints, now, limits);
            assert_eq!(need.clone().ask(now, &limits, false), expected, "{row:?}");
            assert!(need.ask(now, &limits, true), "a halt is pending: {row:?}");
        }
    }
}
