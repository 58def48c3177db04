//! How much of bandwidth and time a flush in the background takes: pure arithmetic, the clock is
//! given in.

use std::time::Duration;

/// Longest pause at a time, so that a stop is noticed.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Limits of one rank's flush, and what it has used so far.
#[derive(Debug, Clone)]
pub(super) struct Throttle {
    /// 0: no limit.
    bytes_per_second: f64,
    /// Of the time, 0 to 1; 0: no limit.
    share: f64,
    moved: u64,
    worked: Duration,
}

impl Throttle {
    /// `percent` as the parameter has it: 0 and 100 are no limit.
    pub fn new(bytes_per_second: f64, percent: f64) -> Throttle {
        let share = if percent < 100.0 { (percent / 100.0).max(0.0) } else { 0.0 };
        Throttle { bytes_per_second, share, moved: 0, worked: Duration::ZERO }
    }

    /// Bytes to move at a time: at most those of a tenth of a second, so that the rate is even.
    pub fn piece(&self, most: usize) -> usize {
        match self.bytes_per_second {
            rate if rate > 0.0 => most.min((rate / 10.0) as usize).max(4096),
            _ => most,
        }
    }

    /// `bytes` were moved in `worked`.
    pub fn note(&mut self, bytes: u64, worked: Duration) {
        self.moved += bytes;
        self.worked += worked;
    }

    /// How long to pause `elapsed` after the begin, until both limits hold; zero when they do. Ask
    /// again after it: long pauses come in parts.
    pub fn pause(&self, elapsed: Duration) -> Duration {
        let mut due = 0.0_f64;
        if self.bytes_per_second > 0.0 {
            due = self.moved as f64 / self.bytes_per_second;
        }
        if self.share > 0.0 {
            due = due.max(self.worked.as_secs_f64() / self.share);
        }
        let left = (due - elapsed.as_secs_f64()).max(0.0);
        Duration::from_secs_f64(left.min(PAUSE_MAX.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Moves `pieces` (bytes, microseconds of work) by a clock of its own; gives bytes per second
    /// and the share of the time that was work.
    fn simulate(mut throttle: Throttle, pieces: &[(u64, u64)]) -> (f64, f64) {
        let (mut clock, mut worked, mut moved) = (Duration::ZERO, Duration::ZERO, 0);
        for (bytes, micros) in pieces {
            let work = Duration::from_micros(*micros);
            clock += work;
            worked += work;
            moved += bytes;
            throttle.note(*bytes, work);
            loop {
                let pause = throttle.pause(clock);
                if pause.is_zero() {
                    break;
                }
                clock += pause;
            }
        }
        (moved as f64 / clock.as_secs_f64(), worked.as_secs_f64() / clock.as_secs_f64())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn limits_hold_within_a_tenth_and_are_used(
            pieces in proptest::collection::vec((1_000_u64..100_000, 50_u64..5_000), 20..60),
            percent in 1.0_f64..60.0,
        ) {
            // Slower than the work itself, or the limit would not be what decides.
            let (free, _) = simulate(Throttle::new(0.0, 0.0), &pieces);
            let (rate, _) = simulate(Throttle::new(free / 3.0, 0.0), &pieces);
            prop_assert!((rate / (free / 3.0) - 1.0).abs() < 0.1, "{rate} of {}", free / 3.0);
            let (_, share) = simulate(Throttle::new(0.0, percent), &pieces);
            prop_assert!((share * 100.0 / percent - 1.0).abs() < 0.1, "{share} of {percent}");
        }
    }

    #[test]
    fn no_limit_is_no_pause() {
        let mut throttle = Throttle::new(0.0, 100.0);
        throttle.note(1 << 40, Duration::from_secs(1));
        assert_eq!(throttle.pause(Duration::ZERO), Duration::ZERO);
        assert_eq!(throttle.piece(1 << 20), 1 << 20);
        assert_eq!(Throttle::new(1e6, 0.0).piece(1 << 20), 100_000);
    }
}
