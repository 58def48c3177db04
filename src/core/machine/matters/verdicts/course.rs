//! What is known of a file that several nodes write, as the run goes on: who has written which byte
//! last, and how long it is.

use std::collections::BTreeMap;

use scr_abi::accesses::{Access, Deed, Moment, Within};

use crate::parts::{Extent, Order, Owners};

/// One access, and whose it is.
#[derive(Debug, Clone, Copy)]
pub struct Act {
    pub node: usize,
    pub access: Access,
}

impl Act {
    pub fn piece(&self) -> Extent {
        Extent::new(self.access.start, self.access.end)
    }
}

/// Puts together what was done at one moment, as far as anybody can know, in their order.
pub fn by_stamp(acts: impl IntoIterator<Item = Act>) -> impl Iterator<Item = Vec<Act>> {
    let acts: Vec<Act> = acts.into_iter().collect();
    let order = order_of(acts.iter().map(|act| &act.access));
    let mut stamps: BTreeMap<Moment, Vec<Act>> = BTreeMap::new();
    for mut act in acts {
        act.access.stamp = order.place(act.access.stamp); // as two nodes that meet have it
        stamps.entry(act.access.stamp).or_default().push(act);
    }
    stamps.into_values()
}

/// Finds the order in which all of that was done, as far as anybody can know.
pub fn order_of<'a>(all: impl Iterator<Item = &'a Access>) -> Order {
    // Nothing depends on which opens were first.
    let opens = |one: &&Access| matches!(one.deed, Deed::Made | Deed::Found);
    Order::of(all.filter(|one| !opens(one)).map(|one| one.stamp))
}

/// What all know at a sync point.
#[derive(Debug, Clone, Default)]
pub struct Course {
    owners: Owners,
    size: u64,
    is_cut: bool,
}

impl Course {
    /// Takes in what was done at one moment of [`by_stamp`]. Returns whether two nodes have met.
    pub fn take(&mut self, acts: &[Act]) -> bool {
        let those = |deed: Deed| acts.iter().filter(move |act| act.access.deed == deed);
        if let Some(cut) = those(Deed::Cut).map(|act| act.access.end).min() {
            self.owners.shorten(cut);
            self.is_cut = true;
        }
        let sieves = |act: &&Act| act.access.within == Within::Sieve;
        let mut meet = false;
        for act in those(Deed::Write).filter(|act| !sieves(act)) {
            meet |= self.owners.put(act.node, act.piece(), act.access.stamp);
        }
        for act in those(Deed::Cut) {
            meet |= self.owners.doubt(act.node, act.access.end, act.access.stamp);
        }
        // What it has only written back stays whose it was.
        for act in those(Deed::Write).filter(sieves) {
            for gap in self.owners.gaps(act.node, act.piece()) {
                self.owners.put(act.node, gap, act.access.stamp);
            }
        }
        let ends = acts.iter().filter(|act| matches!(act.access.deed, Deed::Write | Deed::Grow));
        let ends = ends.map(|act| act.access.end);
        let longest_cut = those(Deed::Cut).map(|act| act.access.end).max();
        self.size = ends.chain([longest_cut.unwrap_or(self.size)]).max().unwrap_or(self.size);
        meet
    }

    /// Tells whether the node has written all of it last.
    pub fn has(&self, node: usize, piece: Extent) -> bool {
        self.owners.has(node, piece)
    }

    /// Returns how long the file is, bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Tells whether somebody has made it shorter, or emptied it.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the nodes have what both have written between two sync points, each after such a
    /// call.
    fn have(rounds: [u64; 2]) -> [bool; 2] {
        let act = |(node, round): (usize, u64)| {
            let stamp = Moment { points: 3, round };
            let (deed, within) = (Deed::Write, Within::Nothing);
            Act { node, access: Access { deed, within, stamp, start: 0, end: 8 } }
        };
        let mut course = Course::default();
        let acts = rounds.into_iter().enumerate().map(act);
        by_stamp(acts).for_each(|acts| _ = course.take(&acts));
        [0, 1].map(|node| course.has(node, Extent::new(0, 8)))
    }

    #[test]
    fn nobody_has_what_another_node_may_have_written_later() {
        let call = |group: u64, call: u64| group << 32 | call;
        assert_eq!(have([call(7, 1), call(7, 2)]), [false, true]);
        for rounds in [[call(7, 1), call(7, 1)], [call(7, 1), call(8, 2)], [0, call(7, 1)]] {
            assert_eq!(have(rounds), [false, false], "{rounds:?}");
        }
    }
}
