//! CRC32 of a file whose bytes pass in several interleaved sequences.
//!
//! XOR reads each chunk of a file front to back, but all chunks in turn. So each sequence is hashed
//! as a run of its own, and the runs are combined once they cover the file: the checksum costs no
//! second reading.

use std::collections::BTreeMap;

use crate::files::Crc32;

/// The runs seen so far. Every byte must pass at most once.
#[derive(Debug, Default)]
pub(super) struct RunningCrc {
    /// Start and checksum of each run, by the offset at which it would go on.
    runs: BTreeMap<u64, (u64, Crc32)>,
}

impl RunningCrc {
    /// Adds the bytes at `offset`.
    pub fn update(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let (start, mut crc32) = self.runs.remove(&offset).unwrap_or((offset, Crc32::new()));
        crc32.update(bytes);
        self.runs.insert(offset + bytes.len() as u64, (start, crc32));
    }

    /// The checksum of a file of `size` bytes; `None` if some of them have not passed.
    pub fn value(&self, size: u64) -> Option<u32> {
        self.whole(size).map(|whole| whole.value())
    }

    /// As [`RunningCrc::value`], to go on with.
    pub fn whole(&self, size: u64) -> Option<Crc32> {
        let (mut covered, mut whole) = (0, Crc32::new());
        // Runs do not overlap, so the order of their ends is that of their starts.
        for (&end, (start, crc32)) in &self.runs {
            if *start != covered {
                return None;
            }
            whole.combine(crc32);
            covered = end;
        }
        (covered == size).then_some(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::crc32;

    #[test]
    fn interleaved_runs_give_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..1000_u32).map(|i| (i * 7 % 251) as u8).collect();
        let mut running = RunningCrc::default();
        for step in 0..50 {
            for run in [700, 0, 350] {
                let at = run + step * 7;
                let end = (at + 7).min(1000).min(run + 350);
                running.update(at.min(end) as u64, &bytes[at.min(end)..end]);
            }
        }
        assert_eq!(running.value(1000), Some(crc32(&bytes)));
        assert_eq!(running.value(1001), None);
    }

    #[test]
    fn a_gap_has_no_checksum_and_an_empty_file_has_one() {
        let mut running = RunningCrc::default();
        assert_eq!(running.value(0), Some(0));
        running.update(3, b"abc");
        assert_eq!(running.value(6), None);
        running.update(0, b"xyz");
        assert_eq!(running.value(6), Some(crc32(b"xyzabc")));
    }
}
