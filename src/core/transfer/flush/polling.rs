//! Waiting for what others do, by looking for it again and again.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::error::Result;

/// The first pause is so small a part of the longest; each is twice the one before.
const PARTS: u32 = 16;
const LEAST: Duration = Duration::from_millis(1);

/// A file system that is away for a moment is waited for.
const BLIND: Duration = Duration::from_secs(5);

/// Waits until `come`, with pauses of at most `pause`; `false` if it was `stopped`. An error of
/// `come` counts once looks have failed for seconds.
pub(in crate::transfer) fn wait(
    pause: Duration,
    stopped: impl Fn() -> bool,
    come: impl Fn() -> Result<bool>,
) -> Result<bool> {
    let mut next = pause / PARTS;
    let mut seen = Instant::now();
    loop {
        match come() {
            Ok(true) => return Ok(true),
            Ok(false) => seen = Instant::now(),
            Err(error) if seen.elapsed() >= BLIND => return Err(error),
            Err(_) => {}
        }
        if stopped() {
            return Ok(false);
        }
        sleep(next.max(LEAST));
        next = (next.max(LEAST) * 2).min(pause);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Instant;

    use super::*;
    use crate::error::Error;

    #[test]
    fn looks_come_quickly_at_first_and_it_can_be_stopped() {
        let pause = Duration::from_secs(3600);
        let looked = Cell::new(0);
        let come = || {
            looked.set(looked.get() + 1);
            Ok(looked.get() > 2)
        };
        let begun = Instant::now();
        assert!(wait(Duration::from_millis(64), || false, come).unwrap());
        assert!(begun.elapsed() >= Duration::from_millis(4 + 8));
        assert!(!wait(pause, || true, || Ok(false)).unwrap());
        assert!(wait(pause, || true, || Ok(true)).unwrap());
    }

    #[test]
    fn looks_that_fail_for_good_end_the_wait() {
        let failed = || Err(Error::Defect("cannot look".into()));
        assert!(wait(Duration::from_millis(64), || false, failed).is_err());
        // Once is not for good.
        let looked = Cell::new(0);
        let come = || {
            looked.set(looked.get() + 1);
            if looked.get() < 3 { failed() } else { Ok(true) }
        };
        assert!(wait(Duration::from_millis(64), || false, come).unwrap());
    }
}
