//! CRC32 of a file whose bytes pass in several interleaved sequences.
//!
//! XOR reads each chunk of a file front to back, but all chunks in turn. So each sequence is hashed
//! as a run of its own, and the runs are combined once they cover the file: the checksum costs no
//! second reading.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::Result;
use crate::files::Crc32;

/// Bytes of what has not passed that are read at a time.
const READ_BYTES: u64 = 1 << 20;

/// The runs seen so far. Every byte must pass at most once.
#[derive(Debug, Default)]
pub(super) struct RunningCrc {
    /// Start and checksum of each run, by the offset at which it would go on.
    runs: BTreeMap<u64, (u64, Crc32)>,
}

impl RunningCrc {
    pub fn update(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let (start, mut crc32) = self.runs.remove(&offset).unwrap_or((offset, Crc32::new()));
        crc32.update(bytes);
        self.runs.insert(offset + bytes.len() as u64, (start, crc32));
    }

    pub fn value(&self, size: u64) -> Option<u32> {
        self.whole(size).map(|whole| whole.value())
    }

    /// Passes what has not passed of a file of `size` bytes; `read` fills a buffer from an offset
    /// on.
    pub fn complete(
        &mut self,
        size: u64,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let mut buffer = Vec::new();
        for gap in self.gaps(size) {
            let mut at = gap.start;
            while at < gap.end {
                buffer.resize((gap.end - at).min(READ_BYTES) as usize, 0);
                read(at, &mut buffer)?;
                self.update(at, &buffer);
                at += buffer.len() as u64;
            }
        }
        Ok(())
    }

    fn gaps(&self, size: u64) -> Vec<Range<u64>> {
        let (mut gaps, mut covered) = (Vec::new(), 0);
        for (&end, &(start, _)) in &self.runs {
            gaps.push(covered..start);
            covered = end;
        }
        gaps.push(covered..size);
        gaps.retain(|gap| !gap.is_empty());
        gaps
    }

    /// Returns the checksum of [`RunningCrc::value`], to go on with.
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

    #[test]
    fn what_has_not_passed_is_read_and_nothing_else() {
        let bytes: Vec<u8> = (0..3 * READ_BYTES).map(|at| (at * 7 % 251) as u8).collect();
        let size = bytes.len() as u64;
        let mut running = RunningCrc::default();
        running.update(10, &bytes[10..20]);
        running.update(50, &bytes[50..60]);
        let mut asked = Vec::new();
        let mut complete = |running: &mut RunningCrc| {
            running.complete(size, |at, into| {
                asked.push((at, into.len()));
                into.copy_from_slice(&bytes[at as usize..][..into.len()]);
                Ok(())
            })
        };
        complete(&mut running).unwrap();
        complete(&mut running).unwrap();
        assert_eq!(running.value(size), Some(crc32(&bytes)));
        let piece = READ_BYTES as usize;
        let last = 60 + 2 * READ_BYTES;
        let rest = (last, (size - last) as usize);
        let expected = [(0, 10), (20, 30), (60, piece), (60 + READ_BYTES, piece), rest];
        assert_eq!(asked, expected);
    }
}
