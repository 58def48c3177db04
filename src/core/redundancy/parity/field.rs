//! The field GF(2^8) and the Cauchy code over it.
//!
//! The field's elements are bytes; the sum is XOR, the product that of polynomials modulo
//! x^8 + x^4 + x^3 + x^2 + 1 (0x11d), in which 2 generates all others. With `k` parity pieces,
//! piece `j` is the sum of the data pieces `i` times
//!
//! ```text
//! c(j, i) = (0 + (k + i)) / (j + (k + i))      j < k,  k + i < 256,  + is XOR
//! ```
//! This is a Cauchy matrix 1 / (x_j + y_i) whose columns are scaled so that its first row is all
//! ones: parity 0 is the plain XOR. Every square part of it can be inverted, so any `k` pieces may
//! be lost.

use crate::system::NibbleTables;

/// Most members of a set: each needs an element of its own.
pub const MEMBERS_MAX: usize = 256;

const POLYNOMIAL: u16 = 0x11d;

/// Powers of the generator, twice over so that sums of two logarithms need no reduction.
struct Tables {
    exp: [u8; 510],
    log: [u8; 256],
}

static TABLES: Tables = {
    let mut tables = Tables { exp: [0; 510], log: [0; 256] };
    let (mut power, mut value) = (0, 1_u16);
    while power < 255 {
        tables.exp[power] = value as u8;
        tables.exp[power + 255] = value as u8;
        tables.log[value as usize] = power as u8;
        value <<= 1;
        if value & 0x100 != 0 {
            value ^= POLYNOMIAL;
        }
        power += 1;
    }
    tables
};

pub fn product(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    let log = |value: u8| usize::from(TABLES.log[usize::from(value)]);
    TABLES.exp[log(a) + log(b)]
}

/// 1 / `a`; that of 0, which nobody asks for, is 0.
fn inverse(a: u8) -> u8 {
    match a {
        0 => 0,
        _ => TABLES.exp[255 - usize::from(TABLES.log[usize::from(a)])],
    }
}

/// Returns the coefficient of data piece `data` in parity piece `parity` of `parities`.
pub fn coefficient(parities: usize, parity: usize, data: usize) -> u8 {
    debug_assert!(parity < parities && parities + data < MEMBERS_MAX);
    let (x, y) = (parity as u8, (parities + data) as u8);
    product(y, inverse(x ^ y))
}

pub fn invert(mut matrix: Vec<Vec<u8>>) -> Option<Vec<Vec<u8>>> {
    let size = matrix.len();
    for (row, elements) in matrix.iter_mut().enumerate() {
        elements.extend((0..size).map(|column| u8::from(column == row)));
    }
    for column in 0..size {
        let pivot = (column..size).find(|&row| matrix[row][column] != 0)?;
        matrix.swap(column, pivot);
        let scale = inverse(matrix[column][column]);
        matrix[column].iter_mut().for_each(|element| *element = product(*element, scale));
        let pivot = matrix[column].clone();
        for (row, elements) in matrix.iter_mut().enumerate().filter(|(row, _)| *row != column) {
            debug_assert_ne!(row, column);
            let factor = elements[column];
            for (element, other) in elements.iter_mut().zip(&pivot) {
                *element ^= product(factor, *other);
            }
        }
    }
    matrix.iter_mut().for_each(|row| drop(row.drain(..size)));
    Some(matrix)
}

pub struct Multiplier {
    constant: u8,
    tables: NibbleTables,
}

impl Multiplier {
    pub fn new(constant: u8) -> Self {
        Multiplier { constant, tables: NibbleTables::new(|byte| product(constant, byte)) }
    }

    /// Adds the products: `target += constant * source`, of one length.
    pub fn add_to(&self, target: &mut [u8], source: &[u8]) {
        match self.constant {
            0 => {}
            1 => xor_into(target, source),
            _ => self.tables.add_to(target, source),
        }
    }

    pub fn put(&self, target: &mut [u8], source: &[u8]) {
        match self.constant {
            0 => target.fill(0),
            1 => target.copy_from_slice(source),
            _ => self.tables.put(target, source),
        }
    }
}

/// `target ^= source`, in words of 64 bits, which the compiler turns into vector instructions.
fn xor_into(target: &mut [u8], source: &[u8]) {
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

    /// The definition: polynomials multiplied bit by bit and reduced.
    fn slow_product(a: u8, b: u8) -> u8 {
        let mut sum = 0_u16;
        for bit in 0..8 {
            if b >> bit & 1 == 1 {
                sum ^= u16::from(a) << bit;
            }
        }
        for bit in (8..16).rev() {
            if sum >> bit & 1 == 1 {
                sum ^= POLYNOMIAL << (bit - 8);
            }
        }
        sum as u8
    }

    #[test]
    fn products_are_those_of_the_definition() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(product(a, b), slow_product(a, b), "{a} * {b}");
            }
        }
    }

    #[test]
    fn it_is_a_field() {
        for a in 0..=255_u8 {
            assert_eq!((product(a, 1), product(1, a), product(a, 0)), (a, a, 0));
            assert!(a == 0 || product(a, inverse(a)) == 1, "inverse of {a}");
            for b in 0..=255 {
                assert_eq!(product(a, b), product(b, a));
                assert!(product(a, b) != 0 || a == 0 || b == 0, "{a} and {b} divide zero");
                for c in (0..=255).step_by(7) {
                    assert_eq!(product(a, product(b, c)), product(product(a, b), c));
                    assert_eq!(product(a, b ^ c), product(a, b) ^ product(a, c));
                }
            }
        }
    }

    #[test]
    fn the_first_parity_is_the_plain_xor_and_small_parts_can_be_inverted() {
        for parities in 1..=4_usize {
            let last = MEMBERS_MAX - parities;
            assert!((0..last).all(|data| coefficient(parities, 0, data) == 1));
            let columns = [0, 1, 2, 77, last - 1];
            for size in 1..=parities {
                for first in 0..=parities - size {
                    let row = |j: usize| {
                        columns[..size].iter().map(|&i| coefficient(parities, j, i)).collect()
                    };
                    let part: Vec<Vec<u8>> = (first..first + size).map(row).collect();
                    let inverse = invert(part.clone()).expect("a part of a Cauchy matrix");
                    assert_eq!(times(&part, &inverse), unit(size));
                }
            }
        }
        assert_eq!(invert(vec![vec![2, 4], vec![1, 2]]), None);
    }

    fn times(a: &[Vec<u8>], b: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let size = a.len();
        let element = |row: usize, column: usize| {
            (0..size).fold(0, |sum, i| sum ^ slow_product(a[row][i], b[i][column]))
        };
        (0..size).map(|row| (0..size).map(|column| element(row, column)).collect()).collect()
    }

    fn unit(size: usize) -> Vec<Vec<u8>> {
        (0..size).map(|row| (0..size).map(|column| u8::from(row == column)).collect()).collect()
    }

    #[test]
    fn pieces_are_multiplied_like_bytes() {
        let source: Vec<u8> = (0..300_u32).map(|i| (i * 3 + 1) as u8).collect();
        for constant in 0..=255 {
            let mut target: Vec<u8> = (0..300_u32).map(|i| (i * 7) as u8).collect();
            let expected: Vec<u8> =
                target.iter().zip(&source).map(|(t, s)| t ^ slow_product(constant, *s)).collect();
            Multiplier::new(constant).add_to(&mut target, &source);
            assert_eq!(target, expected, "times {constant}");
            Multiplier::new(constant).put(&mut target, &source);
            let alone = source.iter().map(|s| slow_product(constant, *s));
            assert!(target.iter().copied().eq(alone), "{constant} alone");
        }
    }

    #[test]
    fn every_length_and_alignment_of_a_sum() {
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
