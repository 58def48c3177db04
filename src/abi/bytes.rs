//! The one reader and the one writer of messages and records that are bytes. Numbers are
//! big-endian, or *packed*: seven bits a byte, the lowest first. The reader takes any bytes: what
//! is not there is `None`, never a panic, and no length that is claimed costs memory.

use std::mem;

/// Writes fields one after the other.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Starts with nothing.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one byte.
    #[inline]
    pub fn byte(&mut self, byte: u8) -> &mut Self {
        self.0.push(byte);
        self
    }

    /// Adds up to eight flags as one byte, the first as its lowest bit.
    #[inline]
    pub fn flags(&mut self, flags: &[bool]) -> &mut Self {
        debug_assert!(flags.len() <= 8);
        let bits = flags.iter().enumerate().map(|(at, flag)| u8::from(*flag) << at);
        self.byte(bits.sum())
    }

    /// Adds two bytes.
    #[inline]
    pub fn word16(&mut self, word: u16) -> &mut Self {
        self.raw(&word.to_be_bytes())
    }

    /// Adds four bytes.
    #[inline]
    pub fn word32(&mut self, word: u32) -> &mut Self {
        self.raw(&word.to_be_bytes())
    }

    /// Adds eight bytes.
    #[inline]
    pub fn word(&mut self, word: u64) -> &mut Self {
        self.raw(&word.to_be_bytes())
    }

    /// Adds a packed number: one byte for a number below 128, at most ten.
    #[inline]
    pub fn packed(&mut self, mut number: u64) -> &mut Self {
        while number >= 0x80 {
            self.byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8)
    }

    /// Adds bytes without their length.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Adds bytes behind their number, a word.
    #[inline]
    pub fn counted(&mut self, bytes: &[u8]) -> &mut Self {
        self.word(bytes.len() as u64).raw(bytes)
    }

    /// Adds bytes behind their number, a packed one.
    #[inline]
    pub fn packed_counted(&mut self, bytes: &[u8]) -> &mut Self {
        self.packed(bytes.len() as u64).raw(bytes)
    }

    /// Adds the number of the elements, a word, and each of them by `put`.
    pub fn list<T>(&mut self, list: &[T], put: impl Fn(&mut Self, &T)) -> &mut Self {
        self.word(list.len() as u64);
        list.iter().for_each(|element| put(self, element));
        self
    }

    /// Returns the number of bytes so far.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether nothing has been written.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives what has been written, and starts with nothing again.
    #[must_use]
    #[inline]
    pub fn take(&mut self) -> Vec<u8> {
        mem::take(&mut self.0)
    }
}

/// Reads fields in the order in which they were written; `None` where the bytes do not have one.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Starts at the first of `bytes`.
    #[must_use]
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    /// Reads one byte.
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    /// Reads the byte of [`Writer::flags`]; those that were not written are not set.
    #[inline]
    pub fn flags<const N: usize>(&mut self) -> Option<[bool; N]> {
        let bits = self.byte()?;
        Some(std::array::from_fn(|at| bits >> at & 1 != 0))
    }

    /// Reads two bytes.
    #[inline]
    pub fn word16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads four bytes.
    #[inline]
    pub fn word32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads eight bytes.
    #[inline]
    pub fn word(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a word as a number of things in memory.
    #[inline]
    pub fn size(&mut self) -> Option<usize> {
        usize::try_from(self.word()?).ok()
    }

    /// Reads a packed number.
    #[inline]
    pub fn packed(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// Reads so many bytes.
    #[inline]
    pub fn raw(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Reads an array of bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    /// Reads bytes behind their number, a word.
    #[inline]
    pub fn counted(&mut self) -> Option<&'a [u8]> {
        let length = self.size()?;
        self.raw(length)
    }

    /// Reads a text behind its number of bytes, a word.
    pub fn text(&mut self) -> Option<String> {
        utf8(self.counted()?)
    }

    /// Reads bytes behind their number, a packed one.
    #[inline]
    pub fn packed_counted(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.packed()?).ok()?;
        self.raw(length)
    }

    /// Reads the elements behind their number, a word. The list grows as they are read; many lists
    /// of one element are read, as many as ranks, so there is no room for more in the end.
    pub fn list<T>(&mut self, element: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let length = self.word()?;
        let mut list = Vec::with_capacity(usize::from(length > 0));
        for _ in 0..length {
            list.push(element(self)?);
        }
        list.shrink_to_fit();
        Some(list)
    }

    /// Reads all that is left.
    #[inline]
    pub fn rest(&mut self) -> &'a [u8] {
        mem::take(&mut self.0)
    }

    /// Reads all that is left as a text.
    pub fn rest_text(&mut self) -> Option<String> {
        utf8(self.rest())
    }

    /// Returns whether all has been read.
    #[must_use]
    #[inline]
    pub fn is_done(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns what has been read if nothing is left.
    #[inline]
    pub fn whole<T>(&self, read: T) -> Option<T> {
        self.is_done().then_some(read)
    }
}

fn utf8(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

/// Makes a number for a name: the same on every rank, in every call and every launch.
#[must_use]
pub fn stable_number(name: &str) -> u64 {
    // FNV-1a: short, and independent of the process, unlike std's hashers.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash | 1 << 63
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_were_written() {
        let mut out = Writer::new();
        out.byte(7).flags(&[true, false, true]).word16(9).word32(258).word(u64::MAX);
        out.packed(127).packed(128).packed(u64::MAX);
        out.counted(b"a").packed_counted(b"bc").list(&[1, 2], |out, one| _ = out.byte(*one));
        out.raw(b"\xc3\xa4");
        let bytes = out.take();
        assert!(out.is_empty() && out.take().is_empty());
        let form =
            [&[7, 5, 0, 9, 0, 0, 1, 2][..], &[255; 8], &[127, 128, 1], &[255; 9], &[1]].concat();
        assert_eq!(bytes[..form.len()], form);
        let mut from = Reader::new(&bytes);
        assert_eq!((from.byte(), from.flags()), (Some(7), Some([true, false, true, false])));
        assert_eq!(
            (from.word16(), from.word32(), from.word()),
            (Some(9), Some(258), Some(u64::MAX))
        );
        assert_eq!([(); 3].map(|()| from.packed()), [Some(127), Some(128), Some(u64::MAX)]);
        assert_eq!((from.text().as_deref(), from.packed_counted()), (Some("a"), Some(&b"bc"[..])));
        assert_eq!(from.list(Reader::byte), Some(vec![1, 2]));
        assert_eq!((from.whole(()), from.rest_text().as_deref()), (None, Some("\u{e4}")));
        assert_eq!((from.whole(1), from.byte()), (Some(1), None));
    }

    #[test]
    fn what_is_cut_or_claims_too_much_is_refused() {
        let huge = [255; 20];
        assert_eq!(Reader::new(&huge).counted(), None);
        assert_eq!(Reader::new(&huge).packed(), None);
        assert_eq!(Reader::new(&huge).packed_counted(), None);
        assert_eq!(Reader::new(&huge).list(Reader::word), None);
        assert_eq!(Reader::new(&huge[..7]).word(), None);
        assert_eq!(Reader::new(&[128]).packed(), None);
        let text = [0, 0, 0, 0, 0, 0, 0, 1, 255];
        assert_eq!(Reader::new(&text).text(), None);
    }
}
