//! Waiting for what others do, by looking for it again and again.

use std::thread::sleep;
use std::time::Duration;

/// The first pause is so small a part of the longest; each is twice the one before. Ranks that have
/// as much to do end at about the same time.
const PARTS: u32 = 16;
const LEAST: Duration = Duration::from_millis(1);

/// Waits until `come`, with pauses of at most `pause`; `false` if it was `stopped`.
pub(super) fn wait(pause: Duration, stopped: impl Fn() -> bool, come: impl Fn() -> bool) -> bool {
    let mut next = pause / PARTS;
    while !come() {
        if stopped() {
            return false;
        }
        sleep(next.max(LEAST));
        next = (next.max(LEAST) * 2).min(pause);
    }
    true
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Instant;

    use super::*;

    #[test]
    fn looks_come_quickly_at_first_and_it_can_be_stopped() {
        let pause = Duration::from_secs(3600);
        let looked = Cell::new(0);
        let come = || {
            looked.set(looked.get() + 1);
            looked.get() > 2
        };
        let begun = Instant::now();
        assert!(wait(Duration::from_millis(64), || false, come));
        assert!(begun.elapsed() >= Duration::from_millis(4 + 8));
        assert!(!wait(pause, || true, || false));
        assert!(wait(pause, || true, || true));
    }
}
