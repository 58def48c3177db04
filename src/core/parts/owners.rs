//! Who has written which bytes of a file last, as the writes come in: never one with a lower stamp
//! than one before.

use std::collections::BTreeMap;

use scr_abi::accesses::Moment;

use super::extents::Extent;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owned {
    end: u64,
    stamp: Moment,
    /// `None`: several nodes have, and nobody knows which was last.
    node: Option<usize>,
}

/// The bytes that somebody has written.
#[derive(Debug, Clone, Default)]
pub struct Owners(BTreeMap<u64, Owned>);

impl Owners {
    /// Takes a write of a node. Returns whether another node has written some with that stamp.
    pub fn put(&mut self, node: usize, piece: Extent, stamp: Moment) -> bool {
        if piece.is_empty() {
            return false;
        }
        let mut older = self.take(piece);
        older.retain(|(_, one)| one.stamp == stamp && one.node != Some(node));
        self.0.insert(piece.begin, Owned { end: piece.end, stamp, node: Some(node) });
        for (begin, one) in &older {
            self.take(Extent::new(*begin, one.end));
            self.0.insert(*begin, Owned { node: None, ..*one });
        }
        !older.is_empty()
    }

    /// Forgets what lies behind a new end of the file.
    pub fn shorten(&mut self, end: u64) {
        self.take(Extent::new(end, u64::MAX));
    }

    /// Takes what a node has shortened with that stamp, after all writes of the stamp. Returns
    /// whether another node has written behind the new end with it.
    pub fn doubt(&mut self, node: usize, end: u64, stamp: Moment) -> bool {
        let mut behind = self.take(Extent::new(end, u64::MAX));
        let mut doubted = false;
        for (begin, one) in &mut behind {
            if one.stamp == stamp && one.node != Some(node) {
                (one.node, doubted) = (None, true);
            }
            self.0.insert(*begin, *one);
        }
        doubted
    }

    /// Gives the pieces of `piece` that no other node has written.
    #[must_use]
    pub fn gaps(&self, node: usize, piece: Extent) -> Vec<Extent> {
        let (mut found, mut at) = (Vec::new(), piece.begin);
        for (begin, one) in self.within(piece).filter(|(_, one)| one.node != Some(node)) {
            found.push(Extent::new(at, begin));
            at = at.max(one.end);
        }
        found.push(Extent::new(at, piece.end));
        found.retain(|gap| !gap.is_empty());
        found
    }

    /// Tells whether the node has written all of it last.
    #[must_use]
    pub fn has(&self, node: usize, piece: Extent) -> bool {
        let mut at = piece.begin;
        for (begin, one) in self.within(piece) {
            if begin > at || one.node != Some(node) {
                return false;
            }
            at = one.end;
        }
        at >= piece.end
    }

    /// Gives all pieces in order, with whose they are.
    pub fn iter(&self) -> impl Iterator<Item = (Extent, Option<usize>)> {
        self.0.iter().map(|(begin, one)| (Extent::new(*begin, one.end), one.node))
    }

    fn within(&self, piece: Extent) -> impl Iterator<Item = (u64, Owned)> {
        let before = self.0.range(..piece.begin).next_back();
        let before = before.filter(|(_, one)| one.end > piece.begin);
        before.into_iter().chain(self.0.range(piece.begin..piece.end)).map(|(at, one)| (*at, *one))
    }

    /// Takes out what lies in a piece; what reaches beyond it is cut.
    fn take(&mut self, piece: Extent) -> Vec<(u64, Owned)> {
        let mut taken: Vec<(u64, Owned)> = self.within(piece).collect();
        for (begin, one) in &mut taken {
            self.0.remove(begin);
            if *begin < piece.begin {
                self.0.insert(*begin, Owned { end: piece.begin, ..*one });
                *begin = piece.begin;
            }
            if one.end > piece.end {
                self.0.insert(piece.end, *one);
                one.end = piece.end;
            }
        }
        taken
    }
}
