//! Work within limits: what a thread has worked is its time less what it has waited for a
//! processor. On a busy machine that wait is most of the time, and a share of it next to nothing.

use std::time::{Duration, Instant};

use super::throttle::Throttle;
use crate::error::Result;
use crate::system::waited_for_processor;

/// What is shorter is not looked at more closely.
const SHORT: Duration = Duration::from_millis(1);

/// A copy on its way.
pub(super) struct Work {
    throttle: Throttle,
    begun: Instant,
    lap: Lap,
}

impl Work {
    /// Begins it.
    pub fn begin(throttle: Throttle) -> Work {
        Work { throttle, begun: Instant::now(), lap: Lap::begin() }
    }

    /// Returns the bytes to move at a time, `most` if there is no limit.
    pub fn piece(&self, most: usize) -> usize {
        self.throttle.piece(most)
    }

    /// Notes that `bytes` were moved since the last call, and pauses until the limits hold, or no
    /// longer do.
    ///
    /// # Errors
    /// Those of `is_limited`.
    pub fn moved(
        &mut self,
        bytes: u64,
        mut is_limited: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        self.throttle.note(bytes, self.lap.worked(), self.begun.elapsed());
        let mut rested = false;
        while is_limited()? {
            let pause = self.throttle.pause(self.begun.elapsed());
            if pause.is_zero() {
                break;
            }
            std::thread::sleep(pause);
            rested = true;
        }
        self.lap.go_on(rested);
        Ok(())
    }
}

/// A piece of work.
struct Lap {
    begun: Instant,
    /// What the thread had waited when that was last looked at, at or before the begin.
    waited: Duration,
}

impl Lap {
    /// Begins one.
    fn begin() -> Lap {
        Lap { begun: Instant::now(), waited: waited_for_processor() }
    }

    /// Returns how long the thread has worked since the begin.
    fn worked(&mut self) -> Duration {
        let took = self.begun.elapsed();
        if took < SHORT {
            return took;
        }
        let before = std::mem::replace(&mut self.waited, waited_for_processor());
        took.saturating_sub(self.waited.saturating_sub(before))
    }

    /// Begins the next one; `rested`: the thread has slept since.
    fn go_on(&mut self, rested: bool) {
        if rested {
            self.waited = waited_for_processor();
        }
        self.begun = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::{bind_thread, processor_time, processors};

    /// Twice as many threads as processors are at work: half of the time each one waits.
    #[test]
    fn waiting_for_a_processor_is_no_work() {
        const THREADS: usize = 3;
        let work = || {
            let one = processors(0).unwrap().into_iter().take(1).collect();
            bind_thread(&one).unwrap();
            let (mut lap, begun, used) = (Lap::begin(), Instant::now(), processor_time(true));
            while processor_time(true) - used < Duration::from_millis(60) {
                std::hint::black_box(0);
            }
            let [worked, took] = [lap.worked(), begun.elapsed()].map(|time| time.as_secs_f64());
            (worked, took)
        };
        let all: Vec<_> = (0..THREADS).map(|_| std::thread::spawn(work)).collect();
        let all: Vec<(f64, f64)> = all.into_iter().map(|one| one.join().unwrap()).collect();
        // One of them at least has waited for the others.
        let (worked, took) = all.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        assert!(worked < 0.75 * took && worked > 0.05, "{worked} s of {took} s");
    }
}
