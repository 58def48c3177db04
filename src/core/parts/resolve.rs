//! Who has which byte of a file that several nodes have written together.
//!
//! Writes and cuts carry the moment at which they were made (their stamp): of two the one with the
//! higher stamp came later, as [`Order`] has it; of two nodes with one stamp nobody knows which, so
//! that their bytes are in conflict. Within a node its file has the truth.

use std::collections::{BTreeMap, BTreeSet};

use scr_abi::accesses::Moment;

use super::extents::{Extent, Extents};
use super::node_log::{Cut, NodeLog, Write};
use super::order::Order;
use super::owners::Owners;

/// What all have done comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The bytes that each node answers for.
    pub owned: Vec<Extents>,
    /// Bytes of which nobody knows who wrote them last.
    pub conflicts: Extents,
    /// Size of the whole file; bytes that nobody owns are zero.
    pub size: u64,
}

/// What nodes have done between two sync points.
#[derive(Default)]
struct OfStamp {
    writes: Vec<(usize, Write)>,
    cuts: Vec<(usize, Cut)>,
}

/// Finds for each byte the node that wrote it last, whatever the order of `nodes`.
#[must_use]
pub fn resolve(nodes: &[NodeLog]) -> Resolved {
    of_placed(&placed(nodes))
}

fn placed(nodes: &[NodeLog]) -> Vec<NodeLog> {
    let order = Order::of(nodes.iter().flat_map(NodeLog::moments));
    nodes.iter().map(|log| log.moved(|stamp| order.place(stamp))).collect()
}

fn of_placed(nodes: &[NodeLog]) -> Resolved {
    let writes = nodes
        .iter()
        .enumerate()
        .flat_map(|(node, log)| log.writes.iter().map(move |write| (write.stamp, node, *write)));
    let cuts = nodes
        .iter()
        .enumerate()
        .flat_map(|(node, log)| log.cuts.iter().map(move |cut| (cut.stamp, node, *cut)));
    let mut stamps: BTreeMap<Moment, OfStamp> = BTreeMap::new();
    writes.for_each(|(stamp, node, one)| stamps.entry(stamp).or_default().writes.push((node, one)));
    cuts.for_each(|(stamp, node, one)| stamps.entry(stamp).or_default().cuts.push((node, one)));
    let (mut owners, mut last_cut) = (Owners::default(), None);
    for (stamp, OfStamp { writes, cuts }) in stamps {
        cuts.iter().for_each(|(_, cut)| owners.shorten(cut.length));
        writes.iter().for_each(|(node, write)| _ = owners.put(*node, write.piece, stamp));
        cuts.iter().for_each(|(node, cut)| _ = owners.doubt(*node, cut.length, stamp));
        last_cut = cuts.first().map(|_| stamp).or(last_cut);
    }
    let mut owned = vec![Vec::new(); nodes.len()];
    let lengths = last_lengths(nodes, last_cut);
    let (least, most) = lengths.first().copied().zip(lengths.last().copied()).unwrap_or((0, 0));
    let grows = nodes.iter().flat_map(|log| &log.grows).map(|one| (one.stamp, one.length));
    let writes = nodes.iter().flat_map(|log| &log.writes).map(|one| (one.stamp, one.piece.end));
    let since = grows.chain(writes).filter(|one| last_cut.is_none_or(|last| one.0 > last));
    // So long it is in the end, whichever of these cuts was the last.
    let known = since.map(|(_, end)| end).max().unwrap_or(0);
    let mut conflicts = vec![Extent::new(least.max(known), most)];
    let mut size = most.max(known);
    for (piece, node) in owners.iter() {
        size = size.max(piece.end);
        node.map_or(&mut conflicts, |node| &mut owned[node]).push(piece);
    }
    let owned = owned.into_iter().map(|pieces| pieces.into_iter().collect()).collect();
    Resolved { owned, conflicts: conflicts.into_iter().collect(), size }
}

/// The sizes that nodes have given the file with the last stamp of all cuts; if several, nobody
/// knows which was last.
fn last_lengths(nodes: &[NodeLog], last: Option<Moment>) -> BTreeSet<u64> {
    let at = |one: &&Cut| Some(one.stamp) == last;
    let cut = |log: &NodeLog| log.cuts.iter().rev().find(at).map(|cut| cut.length);
    let shortest = nodes.iter().filter_map(cut).min();
    let grows = |log: &NodeLog| log.grows.iter().filter(at).map(|one| one.length).max();
    let grown = |log: &NodeLog| grows(log).filter(|one| Some(*one) > shortest);
    nodes.iter().filter_map(|log| cut(log).max(grown(log))).collect()
}

/// Finds an owner for each byte, where nobody knows which node was last as if the higher one was;
/// the conflicts are told all the same.
#[must_use]
pub fn settle(nodes: &[NodeLog]) -> Resolved {
    let (placed, count) = (placed(nodes), nodes.len() as u64);
    let later = |node: usize, stamp: Moment| {
        let call = u64::from(stamp.round as u32);
        Moment { round: call.saturating_mul(count).saturating_add(node as u64), ..stamp }
    };
    let of = |(node, log): (usize, &NodeLog)| log.moved(|stamp| later(node, stamp));
    let in_turn: Vec<NodeLog> = placed.iter().enumerate().map(of).collect();
    Resolved { conflicts: of_placed(&placed).conflicts, ..of_placed(&in_turn) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn write(begin: u64, end: u64, stamp: u64) -> Write {
        Write { piece: Extent::new(begin, end), stamp: Moment::at(stamp) }
    }

    fn log(writes: &[Write], cuts: &[(u64, u64)]) -> NodeLog {
        let cuts = cuts.iter().map(|(length, at)| Cut { length: *length, stamp: Moment::at(*at) });
        NodeLog { writes: writes.to_vec(), cuts: cuts.collect(), grows: vec![] }
    }

    fn extents(pieces: &[(u64, u64)]) -> Extents {
        pieces.iter().map(|(begin, end)| Extent::new(*begin, *end)).collect()
    }

    #[test]
    fn the_later_write_wins_and_of_two_with_one_stamp_none() {
        let nodes = [log(&[write(0, 10, 1)], &[]), log(&[write(5, 15, 2), write(20, 25, 1)], &[])];
        let found = resolve(&nodes);
        assert_eq!(found.owned, [extents(&[(0, 5)]), extents(&[(5, 15), (20, 25)])]);
        assert_eq!((found.conflicts, found.size), (extents(&[]), 25));
        let nodes = [log(&[write(0, 10, 1)], &[]), log(&[write(5, 15, 1)], &[])];
        assert_eq!(resolve(&nodes).conflicts, extents(&[(5, 10)]));
    }

    #[test]
    fn a_cut_shortens_what_others_wrote_before_and_gives_the_size() {
        // Preallocated by one, written by another, cut to size by the first.
        let nodes = [log(&[write(0, 40, 1)], &[(100, 1), (40, 3)]), log(&[write(10, 60, 2)], &[])];
        let found = resolve(&nodes);
        assert_eq!((found.owned[1].clone(), found.size), (extents(&[(10, 40)]), 40));
        let nodes = [log(&[], &[(70, 3)]), log(&[write(10, 60, 2)], &[])];
        assert_eq!(resolve(&nodes).size, 70, "it makes it longer, too");
        let nodes = [log(&[], &[(40, 2)]), log(&[write(10, 60, 2)], &[])];
        assert_eq!(resolve(&nodes).conflicts, extents(&[(40, 60)]), "nobody knows which was first");
        for (later, conflict) in [((0, 40), (40, 50)), ((0, 45), (45, 50)), ((60, 70), (0, 0))] {
            let nodes = [log(&[], &[(40, 2)]), log(&[write(later.0, later.1, 3)], &[(50, 2)])];
            assert_eq!(resolve(&nodes).conflicts, extents(&[conflict]), "{later:?}");
        }
        let nodes = [log(&[], &[(100, 2), (40, 2)]), log(&[], &[(40, 2)])];
        assert_eq!((resolve(&nodes).conflicts, resolve(&nodes).size), (extents(&[]), 40));
    }

    #[test]
    fn what_makes_it_longer_holds_until_a_later_cut() {
        let at = Moment::at;
        let grows = |length, stamp| NodeLog {
            grows: vec![Cut { length, stamp: at(stamp) }],
            ..log(&[], &[])
        };
        for (grown, size, conflict) in
            [(grows(90, 3), 90, (0, 0)), (grows(90, 1), 50, (0, 0)), (grows(90, 2), 90, (50, 90))]
        {
            let found = resolve(&[log(&[], &[(50, 2)]), grown]);
            assert_eq!((found.size, found.conflicts), (size, extents(&[conflict])));
        }
        assert_eq!(resolve(&[log(&[write(0, 10, 1)], &[]), grows(90, 1)]).size, 90);
        assert_eq!(resolve(&[log(&[], &[(50, 2)]), grows(40, 2)]).conflicts, extents(&[]));
        let both = NodeLog { cuts: vec![Cut { length: 50, stamp: at(2) }], ..grows(90, 2) };
        assert_eq!(resolve(&[both, grows(50, 2)]).conflicts, extents(&[]), "it is no longer");
    }

    const SIZE: usize = 128;

    /// With the calls of one group on the file between sync points.
    fn moment(number: u64) -> Moment {
        Moment { points: number / 3, round: 5 << 32 | number }
    }

    /// What a node does before the next sync point: it cuts, then it writes.
    #[derive(Debug, Clone, Copy)]
    struct Turn {
        node: usize,
        stamp: u64,
        cut: Option<u64>,
        piece: Extent,
    }

    fn turns() -> impl Strategy<Value = Vec<Turn>> {
        let turn =
            (0_usize..4, 1_u64..6, prop::option::weighted(0.2, 0_u64..90), 0_u64..64, 0_u64..30);
        let turn = turn.prop_map(|(node, stamp, cut, begin, length)| Turn {
            node,
            stamp,
            cut,
            piece: Extent::new(begin, begin + length),
        });
        let all = prop::collection::vec(turn, 0..25);
        all.prop_map(|mut turns| {
            turns.sort_by_key(|turn| (turn.stamp, turn.node));
            turns.dedup_by_key(|turn| (turn.stamp, turn.node));
            turns
        })
    }

    fn logs_of(turns: &[Turn], at: fn(u64) -> Moment) -> Vec<NodeLog> {
        let mut logs = vec![NodeLog::default(); 4];
        for turn in turns {
            let log = &mut logs[turn.node];
            if let Some(length) = turn.cut {
                let kept = |one: &Write| Extent::new(one.piece.begin, one.piece.end.min(length));
                log.writes.iter_mut().for_each(|one| one.piece = kept(one));
                log.writes.retain(|one| !one.piece.is_empty());
                log.cuts.push(Cut { length, stamp: at(turn.stamp) });
            }
            log.writes.push(Write { piece: turn.piece, stamp: at(turn.stamp) });
        }
        logs
    }

    /// Who may have written each byte last.
    fn bytes_of(turns: &[Turn]) -> Vec<BTreeSet<usize>> {
        let mut bytes = vec![BTreeSet::new(); SIZE];
        for now in turns.chunk_by(|one, next| one.stamp == next.stamp) {
            for (at, owners) in bytes.iter_mut().enumerate() {
                let cuts = now.iter().filter(|turn| turn.cut.is_some_and(|cut| cut <= at as u64));
                let writes = now
                    .iter()
                    .filter(|turn| (turn.piece.begin..turn.piece.end).contains(&(at as u64)));
                let writers: BTreeSet<usize> = writes.map(|turn| turn.node).collect();
                let cutters: BTreeSet<usize> = cuts.map(|turn| turn.node).collect();
                if !cutters.is_empty() {
                    owners.clear();
                }
                if !writers.is_empty() {
                    *owners = &writers | &cutters;
                }
            }
        }
        bytes
    }

    proptest! {
        #[test]
        fn it_is_what_an_array_of_bytes_says(turns in turns(), rounds in any::<bool>()) {
            let found = resolve(&logs_of(&turns, if rounds { moment } else { Moment::at }));
            for (at, owners) in bytes_of(&turns).iter().enumerate() {
                let byte = Extent::new(at as u64, at as u64 + 1);
                for node in 0..4 {
                    let alone = owners.len() == 1 && owners.contains(&node);
                    let owned = found.owned[node].cover(byte);
                    prop_assert_eq!(owned, alone, "byte {} node {}", at, node);
                }
                prop_assert!(owners.len() < 2 || found.conflicts.cover(byte), "byte {}", at);
                prop_assert!(owners.is_empty() || (at as u64) < found.size, "byte {}", at);
            }
        }
    }
}
