//! Linear maps of bytes, many bytes at a time: the inner loop of Reed-Solomon codes.
//!
//! Multiplication by a constant in GF(2^8) is linear over XOR, so the product of a byte is that of
//! its low half-byte XOR that of its high one. Two tables of 16 bytes fit into two vector
//! registers, where one instruction (`pshufb`, on aarch64 `tbl`) looks up 16 or 32 bytes at once.
//! Newer processors have an instruction for any such map of 64 bytes (`gf2p8affineqb`), which takes
//! it as a matrix of bits. Without such instructions a table of 256 bytes does the same, byte by
//! byte.

/// Longest vector that each way uses, in bytes; what is left over goes byte by byte.
#[cfg(target_arch = "x86_64")]
const GFNI_BYTES: usize = 64;
#[cfg(target_arch = "x86_64")]
const AVX2_BYTES: usize = 32;
#[cfg(target_arch = "x86_64")]
const SSSE3_BYTES: usize = 16;
#[cfg(target_arch = "aarch64")]
const NEON_BYTES: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NibbleTables {
    low: [u8; 16],
    high: [u8; 16],
    /// Row `i` says which bits of a byte make up bit `i` of its image; row 0 is the highest byte.
    matrix: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instructions {
    Bytes,
    #[cfg(target_arch = "x86_64")]
    Ssse3,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Gfni,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl NibbleTables {
    /// Tables of `map`, which must be linear over XOR.
    #[must_use]
    pub fn new(map: impl Fn(u8) -> u8) -> Self {
        let row = |bit: usize| -> u8 {
            let column = |from: usize| (map(1 << from) >> bit & 1) << from;
            (0..8).map(column).sum()
        };
        NibbleTables {
            low: std::array::from_fn(|nibble| map(nibble as u8)),
            high: std::array::from_fn(|nibble| map((nibble as u8) << 4)),
            matrix: u64::from_be_bytes(std::array::from_fn(row)),
        }
    }

    fn map(&self, byte: u8) -> u8 {
        self.low[usize::from(byte & 15)] ^ self.high[usize::from(byte >> 4)]
    }

    /// Adds the image of `source` to `target`, byte by byte: `target ^= map(source)`.
    pub fn add_to(&self, target: &mut [u8], source: &[u8]) {
        self.by::<true>(best(), target, source);
    }

    pub fn put(&self, target: &mut [u8], source: &[u8]) {
        self.by::<false>(best(), target, source);
    }

    /// With `ADD` the images are added to the target, else they replace it.
    fn by<const ADD: bool>(&self, way: Instructions, target: &mut [u8], source: &[u8]) {
        assert_eq!(target.len(), source.len(), "pieces of one step have one length");
        let done = match way {
            Instructions::Bytes => 0,
            #[cfg(target_arch = "x86_64")]
            Instructions::Ssse3 => {
                // SAFETY: `best` or the test has asked the processor for SSSE3.
                unsafe { self.ssse3::<ADD>(target, source) };
                target.len() / SSSE3_BYTES * SSSE3_BYTES
            }
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => {
                // SAFETY: `best` or the test has asked the processor for AVX2.
                unsafe { self.avx2::<ADD>(target, source) };
                target.len() / AVX2_BYTES * AVX2_BYTES
            }
            #[cfg(target_arch = "x86_64")]
            Instructions::Gfni => {
                // SAFETY: `best` or the test has asked the processor for AVX-512F and GFNI.
                unsafe { self.gfni::<ADD>(target, source) };
                target.len() / GFNI_BYTES * GFNI_BYTES
            }
            #[cfg(target_arch = "aarch64")]
            Instructions::Neon => {
                // SAFETY: `best` has asked the processor for NEON; every one has it.
                unsafe { self.neon::<ADD>(target, source) };
                target.len() / NEON_BYTES * NEON_BYTES
            }
        };
        if done < target.len() {
            self.bytes::<ADD>(&mut target[done..], &source[done..]);
        }
    }

    fn bytes<const ADD: bool>(&self, target: &mut [u8], source: &[u8]) {
        let put = |byte: &mut u8, image: u8| *byte = if ADD { *byte ^ image } else { image };
        // Worth its 256 look-ups only for long pieces.
        if target.len() < 1024 {
            target.iter_mut().zip(source).for_each(|(byte, other)| put(byte, self.map(*other)));
            return;
        }
        let whole: [u8; 256] = std::array::from_fn(|byte| self.map(byte as u8));
        for (byte, other) in target.iter_mut().zip(source) {
            put(byte, whole[usize::from(*other)]);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,gfni")]
    fn gfni<const ADD: bool>(&self, target: &mut [u8], source: &[u8]) {
        use std::arch::x86_64::{
            __m512i, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_set1_epi64,
            _mm512_storeu_si512, _mm512_xor_si512,
        };
        let matrix = _mm512_set1_epi64(self.matrix.cast_signed());
        let (targets, _) = target.as_chunks_mut::<GFNI_BYTES>();
        let (sources, _) = source.as_chunks::<GFNI_BYTES>();
        for (target, source) in targets.iter_mut().zip(sources) {
            let address: *mut __m512i = target.as_mut_ptr().cast();
            // SAFETY: the chunk has 64 bytes; unaligned addresses are allowed.
            let bytes = unsafe { _mm512_loadu_si512(source.as_ptr().cast()) };
            let mut new = _mm512_gf2p8affine_epi64_epi8::<0>(bytes, matrix);
            if ADD {
                // SAFETY: as above.
                new = _mm512_xor_si512(new, unsafe { _mm512_loadu_si512(address) });
            }
            // SAFETY: the chunk has the 64 bytes that are written.
            unsafe { _mm512_storeu_si512(address, new) };
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "ssse3")]
    fn ssse3<const ADD: bool>(&self, target: &mut [u8], source: &[u8]) {
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
            // SAFETY: the chunk has 16 bytes; unaligned addresses are allowed.
            let bytes = unsafe { _mm_loadu_si128(source.as_ptr().cast::<__m128i>()) };
            let of_low = _mm_shuffle_epi8(low, _mm_and_si128(bytes, nibble));
            let of_high = _mm_shuffle_epi8(high, _mm_and_si128(_mm_srli_epi16::<4>(bytes), nibble));
            let mut new = _mm_xor_si128(of_low, of_high);
            if ADD {
                // SAFETY: as above.
                new = _mm_xor_si128(new, unsafe { _mm_loadu_si128(address) });
            }
            // SAFETY: the chunk has the 16 bytes that are written.
            unsafe { _mm_storeu_si128(address, new) };
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn avx2<const ADD: bool>(&self, target: &mut [u8], source: &[u8]) {
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
            // SAFETY: the chunk has 32 bytes; unaligned addresses are allowed.
            let bytes = unsafe { _mm256_loadu_si256(source.as_ptr().cast::<__m256i>()) };
            let of_low = _mm256_shuffle_epi8(low, _mm256_and_si256(bytes, nibble));
            let of_high =
                _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), nibble));
            let mut new = _mm256_xor_si256(of_low, of_high);
            if ADD {
                // SAFETY: as above.
                new = _mm256_xor_si256(new, unsafe { _mm256_loadu_si256(address) });
            }
            // SAFETY: the chunk has the 32 bytes that are written.
            unsafe { _mm256_storeu_si256(address, new) };
        }
    }

    #[cfg(target_arch = "aarch64")]
    #[target_feature(enable = "neon")]
    fn neon<const ADD: bool>(&self, target: &mut [u8], source: &[u8]) {
        use std::arch::aarch64::{
            vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vqtbl1q_u8, vshrq_n_u8, vst1q_u8,
        };
        // SAFETY: each table has the 16 bytes that are read.
        let (low, high) = unsafe { (vld1q_u8(self.low.as_ptr()), vld1q_u8(self.high.as_ptr())) };
        let nibble = vdupq_n_u8(15);
        let (targets, _) = target.as_chunks_mut::<NEON_BYTES>();
        let (sources, _) = source.as_chunks::<NEON_BYTES>();
        for (target, source) in targets.iter_mut().zip(sources) {
            // SAFETY: the chunk has 16 bytes.
            let bytes = unsafe { vld1q_u8(source.as_ptr()) };
            let of_low = vqtbl1q_u8(low, vandq_u8(bytes, nibble));
            let mut new = veorq_u8(of_low, vqtbl1q_u8(high, vshrq_n_u8::<4>(bytes)));
            if ADD {
                // SAFETY: as above.
                new = veorq_u8(new, unsafe { vld1q_u8(target.as_ptr()) });
            }
            // SAFETY: the chunk has the 16 bytes that are written.
            unsafe { vst1q_u8(target.as_mut_ptr(), new) };
        }
    }
}

/// The fastest way that this processor has; asked once, then remembered by the standard library.
fn best() -> Instructions {
    #[cfg(target_arch = "x86_64")]
    {
        if has_gfni() {
            return Instructions::Gfni;
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            return Instructions::Avx2;
        }
        if std::arch::is_x86_feature_detected!("ssse3") {
            return Instructions::Ssse3;
        }
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("neon") {
        return Instructions::Neon;
    }
    Instructions::Bytes
}

#[cfg(target_arch = "x86_64")]
fn has_gfni() -> bool {
    std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("gfni")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rotate(byte: u8) -> u8 {
        byte.rotate_left(3) ^ byte.rotate_left(6)
    }

    fn ways() -> Vec<Instructions> {
        let mut ways = vec![Instructions::Bytes];
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("ssse3") {
                ways.push(Instructions::Ssse3);
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                ways.push(Instructions::Avx2);
            }
            if has_gfni() {
                ways.push(Instructions::Gfni);
            }
        }
        #[cfg(target_arch = "aarch64")]
        ways.push(Instructions::Neon);
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

    fn check(way: Instructions, tables: &NibbleTables, source: &[u8]) {
        let before: Vec<u8> = (0..source.len()).map(|i| (i * 11) as u8).collect();
        let (mut sum, mut alone) = (before.clone(), before.clone());
        tables.by::<true>(way, &mut sum, source);
        tables.by::<false>(way, &mut alone, source);
        let right = |i: usize| {
            let image = rotate(source[i]);
            (sum[i], alone[i]) == (before[i] ^ image, image)
        };
        assert!((0..source.len()).all(right), "{way:?}, {} bytes", source.len());
    }

    #[test]
    fn every_map_is_the_same_in_every_way() {
        // Every bit to every bit: all linear maps are sums of these.
        let source: Vec<u8> = (0..=255).collect();
        for (from, to) in (0..8).flat_map(|from| (0..8).map(move |to| (from, to))) {
            let map = |byte: u8| (byte >> from & 1) << to;
            let tables = NibbleTables::new(map);
            for way in ways() {
                let mut images = vec![9; source.len()];
                tables.by::<false>(way, &mut images, &source);
                let right = source.iter().map(|byte| map(*byte));
                assert!(images.iter().copied().eq(right), "{way:?}, bit {from} to bit {to}");
            }
        }
    }
}
