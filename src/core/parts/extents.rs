//! Sorted disjoint pieces of a file.
//!
//! In records they are runs of pieces of one length at one distance, each as `gap, length, stride,
//! count` in variable-length numbers (7 bits a byte, the lowest first), all in hexadecimal. The gap
//! counts from the end of the run before.

use std::fmt::Write as _;

/// As many as a record may have: more take longer to agree on than the file takes to write.
pub(super) const PIECES_MAX: usize = 1 << 20;

/// Offsets in a file are signed numbers for the system.
pub(super) const OFFSET_MAX: u64 = i64::MAX as u64;

/// A piece of a file, from `begin` up to `end`, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// Its first byte.
    pub begin: u64,
    /// The byte after its last one.
    pub end: u64,
}

impl Extent {
    /// Makes one; it is empty if it ends where it begins, or before.
    #[must_use]
    pub fn new(begin: u64, end: u64) -> Self {
        Extent { begin, end }
    }

    /// Returns its bytes.
    #[must_use]
    pub fn len(self) -> u64 {
        self.end - self.begin
    }

    /// Tells whether it has no byte.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.begin >= self.end
    }
}

/// Pieces of a file in order, none empty, none that touches the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extents {
    all: Vec<Extent>,
    /// Where each begins when they lie one after the other.
    packed: Vec<u64>,
}

/// What can be read on a node of a file that several nodes have written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartHere {
    /// The bytes.
    pub extents: Extents,
    /// Size of the whole file, bytes.
    pub whole: u64,
}

impl PartHere {
    /// Tells whether what the file has from `begin` to `end` is here. Behind its end is nothing.
    #[must_use]
    pub fn has(&self, begin: u64, end: u64) -> bool {
        let end = end.min(self.whole);
        begin >= end || self.extents.cover(Extent::new(begin, end))
    }
}

impl FromIterator<Extent> for Extents {
    /// Takes pieces in any order, which may overlap.
    fn from_iter<I: IntoIterator<Item = Extent>>(pieces: I) -> Self {
        let mut pieces: Vec<Extent> = pieces.into_iter().filter(|one| !one.is_empty()).collect();
        pieces.sort_unstable();
        let mut all = Extents::default();
        pieces.into_iter().for_each(|piece| all.push(piece));
        all
    }
}

impl Extents {
    /// Adds a piece that begins no earlier than the last one does.
    fn push(&mut self, piece: Extent) {
        match self.all.last_mut().filter(|last| last.end >= piece.begin) {
            Some(last) => last.end = last.end.max(piece.end),
            None => {
                self.packed.push(self.bytes());
                self.all.push(piece);
            }
        }
    }

    /// Gives the pieces in order.
    pub fn iter(&self) -> impl Iterator<Item = Extent> {
        self.all.iter().copied()
    }

    /// Tells whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the bytes of all together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let last = self.all.last().zip(self.packed.last());
        last.map_or(0, |(piece, packed)| packed + piece.len())
    }

    /// Returns where the last one ends.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.all.last().map_or(0, |last| last.end)
    }

    /// Tells whether every byte of `piece` is in one of them.
    #[must_use]
    pub fn cover(&self, piece: Extent) -> bool {
        let at = self.all.partition_point(|one| one.end <= piece.begin);
        piece.is_empty()
            || self.all.get(at).is_some_and(|one| one.begin <= piece.begin && piece.end <= one.end)
    }

    /// Gives the pieces in which `count` bytes from `packed` on lie, if all pieces are laid one
    /// after the other; fewer at the end.
    pub fn pieces(&self, packed: u64, count: u64) -> impl Iterator<Item = Extent> {
        let first = self.packed.partition_point(|begin| *begin <= packed).saturating_sub(1);
        let end = packed.saturating_add(count);
        let both = self.all.iter().zip(&self.packed).skip(first);
        both.take_while(move |(_, begin)| **begin < end).filter_map(move |(piece, begin)| {
            let skipped = packed.saturating_sub(*begin);
            let past = (begin + piece.len()).saturating_sub(end);
            let part = Extent::new(piece.begin + skipped, piece.end - past);
            (skipped < piece.len() && !part.is_empty()).then_some(part)
        })
    }

    /// Deals the bytes out to `owners`, evenly but for whole `unit`s.
    #[must_use]
    pub fn dealt_out(&self, owners: usize, unit: u64) -> Vec<Extents> {
        let units = self.bytes().div_ceil(unit);
        let bound = |owner: usize| units * owner as u64 / owners as u64 * unit;
        let of = |owner| self.pieces(bound(owner), bound(owner + 1) - bound(owner)).collect();
        (0..owners).map(of).collect()
    }

    /// Gives their text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let (mut bytes, mut end, mut at) = (Vec::new(), 0, 0);
        while let Some(first) = self.all.get(at) {
            let stride = self.all.get(at + 1).map_or(0, |next| next.begin - first.begin);
            let goes_on = |both: &[Extent]| {
                both[1].len() == first.len() && both[1].begin - both[0].begin == stride
            };
            let count = 1 + self.all[at..].windows(2).take_while(|both| goes_on(both)).count();
            let stride = if count > 1 { stride } else { 0 };
            for number in [first.begin - end, first.len(), stride, count as u64] {
                put_number(&mut bytes, number);
            }
            end = self.all[at + count - 1].end;
            at += count;
        }
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// Reads what [`Extents::to_text`] makes; `None` for what it does not make. Total.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let digits = text.as_bytes().chunks(2).map(|two| {
            let digit = |byte: &u8| char::from(*byte).to_digit(16);
            Some((digit(two.first()?)? << 4 | digit(two.get(1)?)?) as u8)
        });
        let bytes: Vec<u8> = digits.collect::<Option<_>>()?;
        let (mut rest, mut all) = (bytes.as_slice(), Extents::default());
        while !rest.is_empty() {
            let mut number = || take_number(&mut rest);
            let (gap, length, stride, count) = (number()?, number()?, number()?, number()?);
            let first = all.end().checked_add(gap)?;
            let touches = !all.is_empty() && gap == 0;
            let alone = count == 1 && stride == 0;
            if touches || length == 0 || !(alone || (count > 1 && stride > length)) {
                return None;
            }
            let room = (PIECES_MAX - all.all.len()) as u64;
            let last = first.checked_add(stride.checked_mul(count - 1)?)?;
            if count > room || last.checked_add(length)? > OFFSET_MAX {
                return None;
            }
            for piece in 0..count {
                let begin = first + piece * stride;
                all.push(Extent::new(begin, begin + length));
            }
        }
        // Of two texts for one thing the other one is damaged.
        (all.to_text() == text).then_some(all)
    }
}

fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..63).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn extents(pieces: &[(u64, u64)]) -> Extents {
        pieces.iter().map(|(begin, end)| Extent::new(*begin, *end)).collect()
    }

    fn any_pieces() -> impl Strategy<Value = Vec<(u64, u64)>> {
        prop::collection::vec((0_u64..400, 0_u64..40), 0..30)
    }

    #[test]
    fn pieces_at_one_distance_are_one_run() {
        let strided: Extents = (0..1000).map(|i| Extent::new(i * 4096, i * 4096 + 512)).collect();
        assert_eq!(strided.to_text(), "0080048020e807");
        assert_eq!(Extents::from_text("0080048020e807"), Some(strided));
        assert_eq!(extents(&[(0, 4), (4, 9), (20, 21)]).to_text(), "000900010b010001");
    }

    #[test]
    fn a_text_that_is_none_of_ours_is_refused() {
        let bad = [
            "0",
            "zz",
            "00",
            "000000",                     // cut off
            "00000001",                   // an empty piece
            "0001000100010001",           // two that touch
            "00010001",                   // that is one of ours, see below
            "00050303",                   // pieces that overlap
            "ffffffffffffffffff01010001", // beyond all files
            "00010201",                   // a distance for one piece
            "0001028080808080808001",     // too many
        ];
        for text in bad {
            assert_eq!(Extents::from_text(text).is_some(), text == "00010001", "{text}");
        }
    }

    proptest! {
        #[test]
        fn they_are_what_was_put_in(
            pieces in any_pieces(), packed in 0_u64..900, count in 0_u64..900,
        ) {
            let pieces: Vec<_> = pieces.iter().map(|(begin, len)| (*begin, begin + len)).collect();
            let all = extents(&pieces);
            let is_in = |byte: &u64| pieces.iter().any(|(begin, end)| (begin..end).contains(&byte));
            let bytes: Vec<u64> = (0..500).filter(is_in).collect();
            let each = |all: &Extents| -> Vec<u64> {
                all.iter().flat_map(|one| one.begin..one.end).collect()
            };
            prop_assert_eq!(each(&all), bytes.clone());
            prop_assert_eq!(all.bytes(), bytes.len() as u64);
            prop_assert_eq!(Extents::from_text(&all.to_text()), Some(all.clone()));
            let cut: Vec<u64> =
                all.pieces(packed, count).flat_map(|one| one.begin..one.end).collect();
            let expected: Vec<u64> =
                bytes.iter().copied().skip(packed as usize).take(count as usize).collect();
            prop_assert_eq!(cut, expected);
            let dealt = all.dealt_out(3, 16);
            prop_assert_eq!(dealt.iter().flat_map(each).collect::<Vec<_>>(), bytes);
            let most = dealt.iter().map(Extents::bytes).max().unwrap();
            prop_assert!(most <= all.bytes() / 3 + 32, "{} of {}", most, all.bytes());
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a-f]{0,40}") {
            if let Some(all) = Extents::from_text(&text) {
                prop_assert_eq!(all.to_text(), text);
            }
        }
    }
}
