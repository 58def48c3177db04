//! How fast bytes move.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes that were moved and the time that it took, added up by whichever thread does it.
#[derive(Debug, Default)]
pub struct Pace {
    bytes: AtomicU64,
    nanos: AtomicU64,
}

impl Pace {
    /// Adds `bytes` that have taken so long.
    pub fn note(&self, bytes: u64, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Returns the sums: bytes, nanoseconds.
    #[must_use]
    pub fn words(&self) -> [u64; 2] {
        [&self.bytes, &self.nanos].map(|word| word.load(Ordering::Relaxed))
    }
}
