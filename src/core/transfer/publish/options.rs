//! What the settings say of flush and fetch.

use std::time::Duration;

use crate::comm::Comm;
use crate::error::Result;
use crate::files::{CopyOptions, Pace};
use crate::params::{Settings, keys};

/// Bytes between two syncs of a file on its way by a thread: what is copied once more after a
/// crash.
pub(crate) const SYNC_BYTES: u64 = 128 << 20;

/// How files travel between cache and prefix; the same on all ranks.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Ranks that flush at the same time.
    pub flush_width: usize,
    /// Ranks that fetch at the same time.
    pub fetch_width: usize,
    /// Bytes of a piece.
    pub buffer_bytes: usize,
    /// Checksums are compared on the way.
    pub check_crc: bool,
    /// Checkpoints of a series kept on the prefix; 0: all.
    pub prefix_size: u64,
    /// Bytes per second of all flushes by threads together; 0: no limit.
    pub bytes_per_second: u64,
    /// Percent of the time that a flush by threads may work; 0: no limit.
    pub percent: f64,
    /// Between two looks at a flush by threads.
    pub pause: Duration,
    /// How fast the prefix has taken what this rank has copied, as long as the process lives.
    pub flushed: &'static Pace,
}

impl Options {
    /// Reads from the settings how the user wants it.
    pub fn new(settings: &Settings) -> Options {
        let width = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).max(1);
        Options {
            flush_width: width(settings.get(keys::FLUSH_WIDTH)),
            fetch_width: width(settings.get(keys::FETCH_WIDTH)),
            buffer_bytes: width(settings.get(keys::FILE_BUF_SIZE)),
            check_crc: settings.get(keys::CRC_ON_FLUSH),
            prefix_size: settings.get(keys::PREFIX_SIZE),
            bytes_per_second: settings.get(keys::FLUSH_ASYNC_BW),
            percent: settings.get(keys::FLUSH_ASYNC_PERCENT),
            pause: settings.get(keys::FLUSH_ASYNC_USLEEP),
            flushed: Box::leak(Box::default()),
        }
    }

    /// Makes the options of one copy.
    pub(crate) fn copy<'a>(&self) -> CopyOptions<'a> {
        CopyOptions {
            buffer_bytes: self.buffer_bytes,
            crc32: self.check_crc,
            pace: Some(self.flushed),
            ..CopyOptions::default()
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options::new(&Settings::default())
    }
}

/// Runs `work` on at most `width` ranks at a time. Collective; a failure on one rank keeps nobody
/// waiting.
pub(crate) fn in_turns<T>(
    comm: &dyn Comm,
    width: usize,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let (rank, size) = (comm.rank(), comm.size());
    if rank >= width {
        comm.receive(rank - width)?;
    }
    let outcome = work();
    if width < size && rank + width < size {
        comm.send(&[1], rank + width)?;
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::threads::run;
    use crate::error::Error;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn no_more_than_the_width_work_at_a_time_and_a_failure_stops_nobody() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let outcomes = run(7, |comm| {
            in_turns(&*comm, 2, || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                (0..200).for_each(|_| std::thread::yield_now());
                now.fetch_sub(1, Ordering::SeqCst);
                if comm.rank() == 1 { Err(Error::Defect("no".into())) } else { Ok(()) }
            })
            .is_ok()
        });
        assert_eq!(outcomes.iter().filter(|ok| !**ok).count(), 1);
        assert!(most.load(Ordering::SeqCst) <= 2);
    }
}
