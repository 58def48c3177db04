//! Linear maps of bytes, many bytes at a time: the inner loop of Reed-Solomon codes.
//!
//! Multiplication by a constant in GF(2^8) is linear over XOR, so the product of a byte is that of
//! its low half-byte XOR that of its high one. Two tables of 16 bytes fit into two vector
//! registers, where one instruction (`pshufb`) looks up 16 or 32 bytes at once. Without such
//! instructions a table of 256 bytes does the same, byte by byte.

/// Longest vector that the code uses, in bytes; what is left over goes byte by byte.
#[cfg(target_arch = "x86_64")]
const AVX2_BYTES: usize = 32;
#[cfg(target_arch = "x86_64")]
const SSSE3_BYTES: usize = 16;

/// A linear map of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NibbleTables {
    low: [u8; 16],
    high: [u8; 16],
}

/// How the bytes are mapped; all give the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Bytes,
    #[cfg(target_arch = "x86_64")]
    Ssse3,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl NibbleTables {
    /// Tables of `map`, which must be linear over XOR.
    #[must_use]
    pub fn new(map: impl Fn(u8) -> u8) -> Self {
        NibbleTables {
            low: std::array::from_fn(|nibble| map(nibble as u8)),
            high: std::array::from_fn(|nibble| map((nibble as u8) << 4)),
        }
    }

    /// The image of one byte.
    #[must_use]
    pub fn map(&self, byte: u8) -> u8 {
        self.low[usize::from(byte & 15)] ^ self.high[usize::from(byte >> 4)]
    }

    /// `target ^= map(source)`, byte by byte.
    ///
    /// # Panics
    /// If the lengths differ: a defect of the caller.
    pub fn add_to(&self, target: &mut [u8], source: &[u8]) {
        self.add_by(best(), target, source);
    }

    fn add_by(&self, way: Way, target: &mut [u8], source: &[u8]) {
        assert_eq!(target.len(), source.len(), "pieces of one step have one length");
        let done = match way {
            Way::Bytes => 0,
            #[cfg(target_arch = "x86_64")]
            Way::Ssse3 => {
                // SAFETY: `best` or the test has asked the processor for SSSE3.
                unsafe { self.add_ssse3(target, source) };
                target.len() / SSSE3_BYTES * SSSE3_BYTES
            }
            #[cfg(target_arch = "x86_64")]
            Way::Avx2 => {
                // SAFETY: `best` or the test has asked the processor for AVX2.
                unsafe { self.add_avx2(target, source) };
                target.len() / AVX2_BYTES * AVX2_BYTES
            }
        };
        if done < target.len() {
            self.add_bytes(&mut target[done..], &source[done..]);
        }
    }

    fn add_bytes(&self, target: &mut [u8], source: &[u8]) {
        // Worth its 256 look-ups only for long pieces.
        if target.len() < 1024 {
            target.iter_mut().zip(source).for_each(|(byte, other)| *byte ^= self.map(*other));
            return;
        }
        let whole: [u8; 256] = std::array::from_fn(|byte| self.map(byte as u8));
        for (byte, other) in target.iter_mut().zip(source) {
            *byte ^= whole[usize::from(*other)];
        }
    }

    /// All whole vectors of 16 bytes.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "ssse3")]
    fn add_ssse3(&self, target: &mut [u8], source: &[u8]) {
        use std::arch::x86_64::{
            __m128i, _mm_and_si128, _mm_loadu_si128, _mm_set1_epi8, _mm_shuffle_epi8,
            _mm_srli_epi16, _mm_storeu_si128, _mm_xor_si128,
        };
        // SAFETY: each table has the 16 bytes that are read; unaligned addresses are allowed.
        let (low, high) = unsafe {
            (_mm_loadu_si128(self.low.as_ptr().cast()), _mm_loadu_si128(self.high.as_ptr().cast()))
        };
        let nibble = _mm_set1_epi8(15);
        let (targets, _) = target.as_chunks_mut::<SSSE3_BYTES>();
        let (sources, _) = source.as_chunks::<SSSE3_BYTES>();
        for (target, source) in targets.iter_mut().zip(sources) {
            let address: *mut __m128i = target.as_mut_ptr().cast();
            // SAFETY: both chunks have 16 bytes; unaligned addresses are allowed.
            let (old, bytes) = unsafe {
                (_mm_loadu_si128(address), _mm_loadu_si128(source.as_ptr().cast::<__m128i>()))
            };
            let of_low = _mm_shuffle_epi8(low, _mm_and_si128(bytes, nibble));
            let of_high = _mm_shuffle_epi8(high, _mm_and_si128(_mm_srli_epi16::<4>(bytes), nibble));
            let new = _mm_xor_si128(old, _mm_xor_si128(of_low, of_high));
            // SAFETY: the chunk has the 16 bytes that are written.
            unsafe { _mm_storeu_si128(address, new) };
        }
    }

    /// All whole vectors of 32 bytes.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn add_avx2(&self, target: &mut [u8], source: &[u8]) {
        use std::arch::x86_64::{
            __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256,
            _mm256_loadu_si256, _mm256_set1_epi8, _mm256_shuffle_epi8, _mm256_srli_epi16,
            _mm256_storeu_si256, _mm256_xor_si256,
        };
        // SAFETY: each table has the 16 bytes that are read; unaligned addresses are allowed.
        let (low, high) = unsafe {
            (_mm_loadu_si128(self.low.as_ptr().cast()), _mm_loadu_si128(self.high.as_ptr().cast()))
        };
        let (low, high) = (_mm256_broadcastsi128_si256(low), _mm256_broadcastsi128_si256(high));
        let nibble = _mm256_set1_epi8(15);
        let (targets, _) = target.as_chunks_mut::<AVX2_BYTES>();
        let (sources, _) = source.as_chunks::<AVX2_BYTES>();
        for (target, source) in targets.iter_mut().zip(sources) {
            let address: *mut __m256i = target.as_mut_ptr().cast();
            // SAFETY: both chunks have 32 bytes; unaligned addresses are allowed.
            let (old, bytes) = unsafe {
                (_mm256_loadu_si256(address), _mm256_loadu_si256(source.as_ptr().cast::<__m256i>()))
            };
            let of_low = _mm256_shuffle_epi8(low, _mm256_and_si256(bytes, nibble));
            let of_high =
                _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), nibble));
            let new = _mm256_xor_si256(old, _mm256_xor_si256(of_low, of_high));
            // SAFETY: the chunk has the 32 bytes that are written.
            unsafe { _mm256_storeu_si256(address, new) };
        }
    }
}

/// The fastest way that this processor has; asked once, then remembered by the standard library.
fn best() -> Way {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx2") {
            return Way::Avx2;
        }
        if std::arch::is_x86_feature_detected!("ssse3") {
            return Way::Ssse3;
        }
    }
    Way::Bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linear, and every bit of the byte matters.
    fn rotate(byte: u8) -> u8 {
        byte.rotate_left(3) ^ byte.rotate_left(6)
    }

    fn ways() -> Vec<Way> {
        let mut ways = vec![Way::Bytes];
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("ssse3") {
                ways.push(Way::Ssse3);
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                ways.push(Way::Avx2);
            }
        }
        ways
    }

    #[test]
    fn every_way_maps_every_byte_at_every_length_and_alignment() {
        let tables = NibbleTables::new(rotate);
        let source: Vec<u8> = (0..2000_u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for way in ways() {
            for (start, end) in [(0, 2000), (1, 1999), (3, 1030), (0, 1024)] {
                check(way, &tables, &source[start..end]);
            }
            (0..100).for_each(|end| check(way, &tables, &source[end / 3..end]));
        }
    }

    fn check(way: Way, tables: &NibbleTables, source: &[u8]) {
        let before: Vec<u8> = (0..source.len()).map(|i| (i * 11) as u8).collect();
        let mut target = before.clone();
        tables.add_by(way, &mut target, source);
        let right = |i: usize| target[i] == before[i] ^ rotate(source[i]);
        assert!((0..source.len()).all(right), "{way:?}, {} bytes", source.len());
    }
}
