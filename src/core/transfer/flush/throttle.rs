//! How much of bandwidth and time a flush by threads takes: pure arithmetic. What was not used may
//! be made up for, but only a little: limits are to hold now, not only for the whole flush.

use std::time::Duration;

const PAUSE_MAX: Duration = Duration::from_millis(100);
/// Shortest one: until then it adds up, since to go to sleep and to wake takes a processor, too.
const PAUSE_MIN: Duration = Duration::from_millis(5);
/// What may be made up for: more than a pause on a busy machine is too long.
const CREDIT: f64 = 0.2;
const PIECES: f64 = 20.0;

/// Limits of one rank's flush, and until when each is used up, in seconds after the begin.
#[derive(Debug, Clone)]
pub(super) struct Throttle {
    /// 0: no limit.
    bytes_per_second: f64,
    /// Of the time, 0 to 1; 0: no limit.
    share: f64,
    bandwidth_until: f64,
    share_until: f64,
}

impl Throttle {
    pub fn new(bytes_per_second: f64, percent: f64) -> Throttle {
        let share = if percent < 100.0 { (percent / 100.0).max(0.0) } else { 0.0 };
        Throttle { bytes_per_second, share, bandwidth_until: 0.0, share_until: 0.0 }
    }

    pub fn piece(&self, most: usize) -> usize {
        match self.bytes_per_second {
            rate if rate > 0.0 => most.min((rate / PIECES) as usize).max(4096),
            _ => most,
        }
    }

    /// Notes that `bytes` were moved in `worked`, until `elapsed` after the begin.
    pub fn note(&mut self, bytes: u64, worked: Duration, elapsed: Duration) {
        let worked = worked.as_secs_f64();
        let earliest = elapsed.as_secs_f64() - worked - CREDIT;
        if self.bytes_per_second > 0.0 {
            let taken = bytes as f64 / self.bytes_per_second;
            self.bandwidth_until = self.bandwidth_until.max(earliest) + taken;
        }
        if self.share > 0.0 {
            self.share_until = self.share_until.max(earliest) + worked / self.share;
        }
    }

    /// Tells how long to pause until both limits hold; long pauses come in parts.
    pub fn pause(&self, elapsed: Duration) -> Duration {
        let until = self.bandwidth_until.max(self.share_until);
        let left = Duration::from_secs_f64((until - elapsed.as_secs_f64()).max(0.0));
        if left < PAUSE_MIN { Duration::ZERO } else { left.min(PAUSE_MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Seconds after which a piece was there, its bytes, and the seconds of work on it.
    type Moved = Vec<(f64, u64, f64)>;

    /// Moves `bytes` by a clock of its own. `work`: seconds that a number of bytes takes from a
    /// given second on. Each pause is too long, by up to `late` seconds.
    fn run(
        mut throttle: Throttle,
        mut bytes: u64,
        buffer_bytes: usize,
        work: impl Fn(u64, f64) -> f64,
        late: f64,
    ) -> Moved {
        let piece = throttle.piece(buffer_bytes) as u64;
        let (mut clock, mut moved, mut dice) = (0.0, Vec::new(), fastrand::Rng::with_seed(7));
        while bytes > 0 {
            let count = bytes.min(piece);
            let seconds = work(count, clock);
            clock += seconds;
            throttle.note(count, Duration::from_secs_f64(seconds), Duration::from_secs_f64(clock));
            moved.push((clock, count, seconds));
            bytes -= count;
            loop {
                let pause = throttle.pause(Duration::from_secs_f64(clock));
                if pause.is_zero() {
                    break;
                }
                clock += pause.as_secs_f64() + late * dice.f64();
            }
        }
        moved
    }

    /// What was moved (bytes, seconds of work) in each window of so many seconds, per second; the
    /// last, which is not full, left out.
    fn windows(moved: &Moved, seconds: f64) -> Vec<(f64, f64)> {
        let end = moved.iter().map(|one| one.0).fold(0.0, f64::max);
        let mut begins = Vec::new();
        let mut begin = 0.0;
        while begin + seconds < end {
            begins.push(begin);
            begin += seconds / 7.0;
        }
        let sum = |begin: f64| {
            let within = moved.iter().filter(|one| (begin..begin + seconds).contains(&one.0));
            let all = within.fold((0.0, 0.0), |sum, one| (sum.0 + one.1 as f64, sum.1 + one.2));
            (all.0 / seconds, all.1 / seconds)
        };
        begins.into_iter().map(sum).collect()
    }

    fn near(rate: f64, limit: f64) -> bool {
        (rate / limit - 1.0).abs() < 0.1
    }

    const MIB: f64 = (1 << 20) as f64;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Ranks of a job, each with its share, at any buffer size, on storage that can do more.
        #[test]
        fn the_bandwidth_of_all_holds_in_every_window(
            limit in 1.0_f64..2000.0,
            shares in proptest::collection::vec(1.0_f64..4.0, 1..9),
            buffer_bits in 12_u32..25,
            late in 0.0_f64..0.02,
        ) {
            let (limit, sum) = (limit * MIB, shares.iter().sum::<f64>());
            let mut all = Moved::new();
            for share in shares.iter().map(|share| share / sum) {
                let throttle = Throttle::new(limit * share, 0.0);
                // Small buffers at high rates are many pieces; the storage sees the same.
                let buffer = (1_usize << buffer_bits).max((limit * share / 4000.0) as usize);
                let work = |bytes: u64, _| bytes as f64 / (3.0 * limit * share);
                all.extend(run(throttle, (8.0 * limit * share) as u64, buffer, work, late));
            }
            for (rate, _) in windows(&all, 3.0) {
                prop_assert!(near(rate, limit), "{} of {} MiB/s", rate / MIB, limit / MIB);
            }
        }

        #[test]
        fn the_share_of_time_holds_in_every_window(
            percent in 1.0_f64..60.0,
            millis in 0.05_f64..20.0,
            late in 0.0_f64..0.02,
        ) {
            let throttle = Throttle::new(0.0, percent);
            // Pieces take different times.
            let work = |_, clock: f64| millis / 1e3 * (1.0 + 0.9 * (clock * 10.0).sin());
            let seconds = 40.0 * percent / 100.0;
            let bytes = (seconds / (millis / 1e3)) as u64 * 4096;
            // A window holds many pieces, even of those that are followed by a long pause.
            let window = (millis / 1e3 / (percent / 100.0) * 50.0).max(3.0);
            for (_, share) in windows(&run(throttle, bytes, 4096, work, late), window) {
                prop_assert!(near(share, percent / 100.0), "{share} of {percent} %");
            }
        }
    }

    /// Storage that stands still for some seconds, and is then fast again.
    #[test]
    fn what_slow_storage_held_up_does_not_come_all_at_once() {
        let limit = 100.0 * MIB;
        let stalls = |bytes: u64, clock: f64| {
            let stall = if (3.0..3.2).contains(&clock) { 4.0 } else { 0.0 };
            stall + bytes as f64 / (5.0 * limit)
        };
        let moved = run(Throttle::new(limit, 0.0), (12.0 * limit) as u64, 1 << 20, stalls, 0.0);
        for (rate, _) in windows(&moved, 3.0) {
            assert!(rate < 1.1 * limit, "{} MiB/s", rate / MIB);
        }
        let after: Moved = moved.iter().filter(|one| one.0 > 8.0).copied().collect();
        let (begin, end) = (after[0].0, after[after.len() - 1].0);
        let rate = after[1..].iter().map(|one| one.1 as f64).sum::<f64>() / (end - begin);
        assert!(near(rate, limit), "{} MiB/s", rate / MIB);
    }

    #[test]
    fn short_pauses_add_up_to_one_that_is_worth_it() {
        let mut throttle = Throttle::new(0.0, 50.0);
        let millis = Duration::from_millis;
        let pauses = [1, 2, 3, 4, 6].map(|clock| {
            throttle.note(1, millis(if clock == 6 { 2 } else { 1 }), millis(clock));
            throttle.pause(millis(clock))
        });
        assert_eq!(pauses[..4], [Duration::ZERO; 4]);
        assert!(pauses[4] > millis(5) && pauses[4] < millis(7), "{pauses:?}");
    }

    #[test]
    fn no_limit_is_no_pause() {
        let mut throttle = Throttle::new(0.0, 100.0);
        throttle.note(1 << 40, Duration::from_secs(1), Duration::from_secs(1));
        assert_eq!(throttle.pause(Duration::ZERO), Duration::ZERO);
        assert_eq!(throttle.piece(1 << 20), 1 << 20);
        assert_eq!(Throttle::new(1e6, 0.0).piece(1 << 20), 50_000);
    }
}
