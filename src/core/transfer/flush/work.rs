//! LimitedWork within limits: what a thread has worked is its time less what it has waited for a
//! processor, which on a busy machine is most of it.

use std::time::{Duration, Instant};

use super::throttle::Throttle;
use crate::error::Result;
use crate::system::waited_for_processor;

const SHORT: Duration = Duration::from_millis(1);

pub(super) struct LimitedWork {
    throttle: Throttle,
    begun: Instant,
    lap: Lap,
}

impl LimitedWork {
    pub fn begin(throttle: Throttle) -> LimitedWork {
        LimitedWork { throttle, begun: Instant::now(), lap: Lap::begin() }
    }

    pub fn piece(&self, most: usize) -> usize {
        self.throttle.piece(most)
    }

    /// Notes that `bytes` were moved since the last call, and pauses until the limits hold, or no
    /// longer do.
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

struct Lap {
    begun: Instant,
    waited: Duration,
}

impl Lap {
    fn begin() -> Lap {
        Lap { begun: Instant::now(), waited: waited_for_processor() }
    }

    fn worked(&mut self) -> Duration {
        let took = self.begun.elapsed();
        if took < SHORT {
            return took;
        }
        let before = std::mem::replace(&mut self.waited, waited_for_processor());
        took.saturating_sub(self.waited.saturating_sub(before))
    }

    /// `rested`: the thread has slept since.
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
