//! What was found out about names: 64-bit hashes with tags in a fixed table, without lock or
//! allocation. A hash contains the generation of all names, so one increment forgets everything,
//! and so does each turn that a rank of the node takes to change names. Whoever asks something
//! about a name takes the key *before* asking: an answer that has become wrong meanwhile is
//! remembered under a key that nobody will look for.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use super::turns;

/// The number is a power of two.
const SLOTS: usize = 8192;
const TAG_BITS: u64 = 7;

static MEMORY: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];
static GENERATION: AtomicU64 = AtomicU64::new(0);
static WORKING_DIRECTORY: AtomicU64 = AtomicU64::new(1);

/// The same text can be known in each way.
#[derive(Clone, Copy)]
pub(crate) enum NameKind {
    /// It is a directory's lexically normal name.
    Directory = 1,
    /// It is a file's canonical name.
    File = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameFact {
    Nothing,
    /// No call on the name, as the program writes it, concerns us.
    Foreign,
    /// No call on the name, as the program writes it, concerns us but an open for writing.
    Unwritten,
    Canonical,
    NoLink,
    /// The directory is, or was, below the prefix by another spelling.
    Below,
}

/// A key belongs to the generation of its making.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct NameKey(u64);

impl NameKey {
    #[inline]
    pub(crate) fn of(name: &[u8], about: NameKind) -> Self {
        Self(fingerprint(name, about as u64))
    }

    /// Takes an absolute name, or one relative to the working directory; `None` for others.
    #[inline]
    pub(crate) fn as_written(dirfd: c_int, name: &[u8]) -> Option<Self> {
        // The numbers of working directories are odd and those of `About` are small: no clash.
        const STEP: u64 = 0x5851_f42d_4c95_7f2d;
        if name.first() == Some(&b'/') {
            Some(Self(fingerprint(name, STEP)))
        } else if dirfd == libc::AT_FDCWD {
            let directory = WORKING_DIRECTORY.load(Ordering::Relaxed);
            Some(Self(fingerprint(name, STEP.wrapping_mul(directory.wrapping_add(2)))))
        } else {
            None
        }
    }

    #[inline]
    pub(crate) fn recall(self) -> NameFact {
        let known = self.slot().load(Ordering::Relaxed);
        if known & !TAG_BITS != self.0 {
            return NameFact::Nothing;
        }
        match known & TAG_BITS {
            1 => NameFact::Foreign,
            2 => NameFact::Canonical,
            3 => NameFact::NoLink,
            4 => NameFact::Below,
            5 => NameFact::Unwritten,
            _ => NameFact::Nothing,
        }
    }

    pub(crate) fn remember(self, known: NameFact) {
        let tag = match known {
            NameFact::Nothing => 0,
            NameFact::Foreign => 1,
            NameFact::Canonical => 2,
            NameFact::NoLink => 3,
            NameFact::Below => 4,
            NameFact::Unwritten => 5,
        };
        self.slot().store(self.0 | tag, Ordering::Relaxed);
    }

    #[inline]
    fn slot(self) -> &'static AtomicU64 {
        #[allow(clippy::cast_possible_truncation)] // the upper bits choose the slot
        &MEMORY[(self.0 >> 40) as usize % SLOTS]
    }
}

pub(crate) fn forget() {
    GENERATION.fetch_add(1, Ordering::SeqCst);
}

pub(crate) fn forget_relative() {
    WORKING_DIRECTORY.fetch_add(2, Ordering::SeqCst);
}

/// The tag bits of the result are clear.
#[inline]
fn fingerprint(name: &[u8], salt: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let fold = |hash: u64, word: u64| {
        let product = u128::from(word ^ hash) * u128::from(FACTOR);
        #[allow(clippy::cast_possible_truncation)] // the two halves are folded on purpose
        let folded = (product as u64) ^ ((product >> 64) as u64).rotate_left(23);
        folded
    };
    let generation = GENERATION.load(Ordering::Relaxed) ^ turns::taken().rotate_left(32);
    let start = generation ^ name.len() as u64 ^ FACTOR;
    let (words, rest) = name.as_chunks::<8>();
    let mut hash = fold(start, salt);
    for word in words {
        hash = fold(hash, u64::from_ne_bytes(*word));
    }
    // The last word overlaps the one before, as the length tells; short names are built bytewise.
    let last = match name.last_chunk::<8>() {
        Some(word) if !rest.is_empty() => u64::from_ne_bytes(*word),
        _ => rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    fold(hash, last) & !TAG_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart_and_forgotten_together() {
        let key = || NameKey::as_written(libc::AT_FDCWD, b"a/name/of/some/length").unwrap();
        assert_eq!(key().recall(), NameFact::Nothing);
        let old = key();
        key().remember(NameFact::Foreign);
        assert_eq!(key().recall(), NameFact::Foreign);
        for other in [&b"a/name/of/some/lengtH"[..], b"A/name/of/some/length", b"a/name/of/some/le"]
        {
            let other = NameKey::as_written(libc::AT_FDCWD, other).unwrap();
            assert_eq!(other.recall(), NameFact::Nothing);
        }
        assert!(NameKey::as_written(3, b"a").is_none() && NameKey::as_written(3, b"/a").is_some());
        assert_eq!(
            NameKey::of(b"a/name/of/some/length", NameKind::File).recall(),
            NameFact::Nothing
        );
        forget_relative();
        assert_eq!(key().recall(), NameFact::Nothing);
        key().remember(NameFact::Foreign);
        forget();
        assert_eq!(key().recall(), NameFact::Nothing);
        let known = [
            NameFact::Foreign,
            NameFact::Unwritten,
            NameFact::Canonical,
            NameFact::NoLink,
            NameFact::Below,
        ];
        for one in known {
            key().remember(one);
            assert_eq!(key().recall(), one);
        }
        forget();
        // An answer that comes late is of no use to anyone.
        old.remember(NameFact::Foreign);
        assert_eq!(key().recall(), NameFact::Nothing);
    }
}
