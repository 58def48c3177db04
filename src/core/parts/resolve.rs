//! Who has which byte of a file that several nodes have written together.
//!
//! Writes and cuts carry the count of sync points passed (their stamp): of two the one with the
//! higher stamp came later; of two nodes with one stamp nobody knows which, so that their bytes are
//! in conflict. Within a node its file has the truth.

use std::collections::BTreeSet;

use super::extents::{Extent, Extents};

/// Bytes that a node has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Which bytes.
    pub piece: Extent,
    /// Sync points that its rank had passed.
    pub stamp: u64,
}

/// A node has given the file this size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The size, bytes.
    pub length: u64,
    /// Sync points that its rank had passed.
    pub stamp: u64,
}

/// What a node has done to a file; a cut has shortened its own writes before already.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeLog {
    /// In any order; they may overlap.
    pub writes: Vec<Write>,
    /// In the order in which they were made.
    pub cuts: Vec<Cut>,
}

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

/// Finds for each byte the node that wrote it last, whatever the order of `nodes`.
#[must_use]
pub fn resolve(nodes: &[NodeLog]) -> Resolved {
    let (mut conflicts, mut size) = (Vec::new(), 0);
    let mut writes: Vec<(usize, Write)> = Vec::new();
    let last = nodes.iter().flat_map(|node| &node.cuts).map(|cut| cut.stamp).max();
    for (node, log) in nodes.iter().enumerate() {
        for write in &log.writes {
            let kept = shortened(nodes, node, *write, &mut conflicts);
            if !kept.piece.is_empty() {
                size = size.max(kept.piece.end);
                writes.push((node, kept));
            }
        }
        for cut in log.cuts.iter().filter(|cut| Some(cut.stamp) == last) {
            size = size.max(cut.length);
        }
    }
    conflicts.extend(parted_cuts(nodes, last));
    let mut owned = vec![Vec::new(); nodes.len()];
    for (piece, owners) in segments(&writes) {
        match owners.as_slice() {
            [owner] => owned[*owner].push(piece),
            _ => conflicts.push(piece),
        }
    }
    let owned = owned.into_iter().map(|pieces| pieces.into_iter().collect()).collect();
    Resolved { owned, conflicts: conflicts.into_iter().collect(), size }
}

/// What other nodes' cuts have left of a write. What lies beyond one of the same stamp is in
/// conflict.
fn shortened(nodes: &[NodeLog], node: usize, write: Write, conflicts: &mut Vec<Extent>) -> Write {
    let Write { mut piece, stamp } = write;
    let others = nodes.iter().enumerate().filter(|(other, _)| *other != node);
    for cut in others.flat_map(|(_, log)| &log.cuts) {
        match cut.stamp {
            _ if cut.length >= piece.end => {}
            later if later > stamp => piece.end = cut.length.max(piece.begin),
            same if same == stamp => {
                conflicts.push(Extent::new(piece.begin.max(cut.length), piece.end));
            }
            _ => {}
        }
    }
    Write { piece, stamp }
}

/// Two nodes have given the file different sizes with the last stamp of all cuts.
fn parted_cuts(nodes: &[NodeLog], last: Option<u64>) -> Option<Extent> {
    let of = |log: &NodeLog| {
        let cuts = log.cuts.iter().rev();
        cuts.clone().find(|cut| Some(cut.stamp) == last).map(|cut| cut.length)
    };
    let lengths: BTreeSet<u64> = nodes.iter().filter_map(of).collect();
    let (least, most) = (lengths.first()?, lengths.last()?);
    (least < most).then(|| Extent::new(*least, *most))
}

/// The pieces between all begins and ends, each with the nodes of the highest stamp there.
fn segments(writes: &[(usize, Write)]) -> Vec<(Extent, Vec<usize>)> {
    let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * writes.len());
    for (index, (_, write)) in writes.iter().enumerate() {
        events.push((write.piece.begin, true, index));
        events.push((write.piece.end, false, index));
    }
    events.sort_unstable();
    let mut found = Vec::new();
    let (mut open, mut from) = (BTreeSet::new(), 0);
    for (at, begins, index) in events {
        if from < at
            && let Some(&(highest, _, _)) = open.last()
        {
            let top = open.range((highest, 0, 0)..);
            let owners: BTreeSet<usize> = top.map(|(_, node, _)| *node).collect();
            found.push((Extent::new(from, at), owners.into_iter().collect()));
        }
        from = at;
        let (node, write) = &writes[index];
        let one = (write.stamp, *node, index);
        _ = if begins { open.insert(one) } else { open.remove(&one) };
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn write(begin: u64, end: u64, stamp: u64) -> Write {
        Write { piece: Extent::new(begin, end), stamp }
    }

    fn log(writes: &[Write], cuts: &[(u64, u64)]) -> NodeLog {
        let cuts = cuts.iter().map(|(length, stamp)| Cut { length: *length, stamp: *stamp });
        NodeLog { writes: writes.to_vec(), cuts: cuts.collect() }
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
        let nodes = [log(&[write(0, 100, 1)], &[(100, 1), (40, 3)]), log(&[write(10, 60, 2)], &[])];
        let found = resolve(&nodes);
        assert_eq!((found.owned[1].clone(), found.size), (extents(&[(10, 40)]), 100));
        let nodes = [log(&[], &[(70, 3)]), log(&[write(10, 60, 2)], &[])];
        assert_eq!(resolve(&nodes).size, 70, "it makes it longer, too");
        let nodes = [log(&[], &[(40, 2)]), log(&[write(10, 60, 2)], &[])];
        assert_eq!(resolve(&nodes).conflicts, extents(&[(40, 60)]), "nobody knows which was first");
        let nodes = [log(&[], &[(40, 2)]), log(&[], &[(50, 2)])];
        assert_eq!(resolve(&nodes).conflicts, extents(&[(40, 50)]));
    }

    const SIZE: usize = 64;

    /// A byte of the array: the highest stamp, and who wrote it with that.
    type Byte = (u64, BTreeSet<usize>);

    proptest! {
        #[test]
        fn it_is_what_an_array_of_stamps_says(
            all in prop::collection::vec((0_usize..4, 0_u64..64, 1_u64..30, 0_u64..5), 0..25),
            order in Just([0_usize, 1, 2, 3]).prop_shuffle(),
        ) {
            let mut nodes = vec![NodeLog::default(); 4];
            let mut bytes: Vec<Byte> = vec![Byte::default(); 2 * SIZE];
            for (node, begin, length, stamp) in all {
                nodes[order[node]].writes.push(write(begin, begin + length, stamp + 1));
                for byte in &mut bytes[begin as usize..(begin + length) as usize] {
                    if byte.0 < stamp + 1 {
                        *byte = (stamp + 1, BTreeSet::new());
                    }
                    if byte.0 == stamp + 1 {
                        byte.1.insert(order[node]);
                    }
                }
            }
            let found = resolve(&nodes);
            for (at, (_, owners)) in bytes.iter().enumerate() {
                let byte = Extent::new(at as u64, at as u64 + 1);
                for node in 0..4 {
                    let alone = owners.len() == 1 && owners.contains(&node);
                    let owned = found.owned[node].cover(byte);
                    prop_assert_eq!(owned, alone, "byte {} node {}", at, node);
                }
                prop_assert_eq!(found.conflicts.cover(byte), owners.len() > 1, "byte {}", at);
            }
            let end = bytes.iter().rposition(|(_, owners)| !owners.is_empty());
            prop_assert_eq!(found.size, end.map_or(0, |last| last as u64 + 1));
        }
    }
}
