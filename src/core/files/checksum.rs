//! CRC32 (IEEE polynomial, as in zlib; check value of "123456789": cbf43926).

use std::io::Read;
use std::path::Path;

use super::read_own;
use crate::error::{Error, Result};
use crate::progress;

/// Bytes read at a time.
const BUFFER_BYTES: u64 = 1 << 20;

/// A CRC32 that is computed piece by piece.
#[derive(Debug, Clone, Default)]
pub struct Crc32(crc32fast::Hasher);

impl Crc32 {
    /// Starts with no bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds `count` zero bytes: a hole.
    pub fn update_zeros(&mut self, count: u64) {
        let zeros = !multiplied(!0, count);
        self.0.combine(&crc32fast::Hasher::new_with_initial_len(zeros, count));
    }

    /// Adds the bytes that `next` has seen, as if they had come here after the present ones.
    pub fn combine(&mut self, next: &Crc32) {
        self.0.combine(&next.0);
    }

    /// Returns the checksum of all bytes so far.
    #[must_use]
    pub fn value(&self) -> u32 {
        self.0.clone().finalize()
    }
}

/// Multiplies a checksum that begins with nothing and is left as it is at the end: what it is with
/// `zeros` more zero bytes behind.
#[must_use]
pub fn multiplied(crc32: u32, zeros: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(crc32);
    hasher.combine(&crc32fast::Hasher::new_with_initial_len(0, zeros));
    hasher.finalize()
}

/// Returns the checksum of `bytes`.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// Returns size and checksum of a file's content.
///
/// # Errors
/// If it cannot be read.
pub fn crc32_of_file(path: &Path) -> Result<(u64, u32)> {
    let unread = |error| Error::io("cannot read", path, error);
    let mut file = read_own(path).map_err(|error| Error::io("cannot open", path, error))?;
    // One more, to meet the end. To clear the memory for a large file takes longer than a small
    // one.
    let expected = file.metadata().map_err(unread)?.len().saturating_add(1);
    let mut buffer = vec![0; expected.min(BUFFER_BYTES) as usize];
    let (mut bytes, mut crc32) = (0, Crc32::new());
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok((bytes, crc32.value())),
            Ok(count) => {
                crc32.update(&buffer[..count]);
                bytes += count as u64;
                progress::add_bytes(count as u64);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unread(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_check_value() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let mut pieces = Crc32::new();
        pieces.update(b"12345");
        pieces.update(b"6789");
        assert_eq!(pieces.value(), 0xcbf4_3926);
    }

    #[test]
    fn combining_is_appending() {
        let (mut left, mut right) = (Crc32::new(), Crc32::new());
        left.update(b"1234");
        right.update(b"56789");
        left.combine(&right);
        assert_eq!(left.value(), 0xcbf4_3926);
    }

    #[test]
    fn a_hole_counts_as_zeros() {
        let mut hole = Crc32::new();
        hole.update(b"1234");
        hole.update_zeros(100_000);
        hole.update(b"5");
        let all = [b"1234".as_slice(), &[0; 100_000], b"5"].concat();
        assert_eq!(hole.value(), crc32(&all));
    }
}
