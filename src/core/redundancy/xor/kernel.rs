//! The inner loop.

/// `target ^= source`, in words of 64 bits, which the compiler turns into vector instructions.
///
/// # Panics
/// If the lengths differ: a defect of the caller.
pub fn xor_into(target: &mut [u8], source: &[u8]) {
    assert_eq!(target.len(), source.len(), "pieces of one step have one length");
    let (words, rest) = target.as_chunks_mut::<8>();
    let (source_words, source_rest) = source.as_chunks::<8>();
    for (word, other) in words.iter_mut().zip(source_words) {
        // Any byte order gives the same bytes.
        *word = (u64::from_ne_bytes(*word) ^ u64::from_ne_bytes(*other)).to_ne_bytes();
    }
    for (byte, other) in rest.iter_mut().zip(source_rest) {
        *byte ^= other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_alignment() {
        let source: Vec<u8> = (0..80_u8).map(|i| i * 3 + 1).collect();
        for start in 0..8 {
            for end in start..80 {
                let mut target: Vec<u8> = (0..80_u8).map(|i| i.wrapping_mul(7)).collect();
                let expected: Vec<u8> = (start..end).map(|i| target[i] ^ source[i]).collect();
                xor_into(&mut target[start..end], &source[start..end]);
                assert_eq!(target[start..end], expected);
            }
        }
    }
}
