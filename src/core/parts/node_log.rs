//! What a rank has done to a file that several write, or all ranks of a node.

use scr_abi::accesses::{Access, Deed, Moment};

use super::extents::{Extent, OFFSET_MAX, PIECES_MAX};
use super::order::Order;
use crate::bytes::{Reader, Writer};

/// Bytes that a node has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Which bytes.
    pub piece: Extent,
    /// When.
    pub stamp: Moment,
}

/// A node has given the file this size, or at least this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The size, bytes.
    pub length: u64,
    /// When.
    pub stamp: Moment,
}

/// What a node has done to a file; of one stamp, a cut has shortened its writes before already.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeLog {
    /// In any order; they may overlap.
    pub writes: Vec<Write>,
    /// In the order in which they were made.
    pub cuts: Vec<Cut>,
    /// At least so long it has made the file without writing, after the last cut of its own.
    pub grows: Vec<Cut>,
}

impl NodeLog {
    /// Makes the log of a rank out of all that it has done, in that order.
    #[must_use]
    pub fn of(done: impl IntoIterator<Item = Access>) -> Self {
        let mut log = NodeLog::default();
        for one in done {
            let (stamp, piece) = (one.stamp, Extent::new(one.start, one.end));
            match one.deed {
                Deed::Write if !piece.is_empty() => log.writes.push(Write { piece, stamp }),
                Deed::Cut => {
                    let cut = |write: &mut Write| write.piece.end = write.piece.end.min(one.end);
                    log.writes.iter_mut().for_each(cut);
                    log.writes.retain(|write| !write.piece.is_empty());
                    log.cuts.push(Cut { length: one.end, stamp });
                    log.grows.clear();
                }
                Deed::Grow => log.grows.push(Cut { length: one.end, stamp }),
                _ => {}
            }
        }
        log
    }

    /// Makes the log of a node out of those of its ranks; [`super::resolve()`] shortens what is
    /// older than a cut of another rank. Within one stamp nobody knows the order of two ranks:
    /// there the node's file has the truth, of which `container_bytes` is the length.
    #[must_use]
    pub fn joined(ranks: &[NodeLog], container_bytes: Option<u64>) -> Self {
        let whole = container_bytes.unwrap_or(u64::MAX);
        let order = Order::of(ranks.iter().flat_map(NodeLog::moments));
        let cuts = ranks.iter().flat_map(|log| &log.cuts);
        let cut = |one: &Cut| Cut { length: one.length.min(whole), stamp: order.place(one.stamp) };
        let mut cuts: Vec<Cut> = cuts.map(cut).collect();
        // The longest that the file still has was the last, or others have written behind the last.
        cuts.sort_by_key(|cut| (cut.stamp, container_bytes.map(|_| cut.length)));
        let writes = ranks.iter().flat_map(|log| &log.writes).map(|write| {
            let piece = Extent::new(write.piece.begin, write.piece.end.min(whole));
            Write { piece, stamp: order.place(write.stamp) }
        });
        let grows = ranks.iter().flat_map(|log| &log.grows);
        let grows = grows.map(cut).collect();
        NodeLog { writes: writes.filter(|write| !write.piece.is_empty()).collect(), cuts, grows }
    }

    /// Returns when all of that was done.
    pub fn moments(&self) -> impl Iterator<Item = Moment> {
        let sizes = self.cuts.iter().chain(&self.grows).map(|one| one.stamp);
        self.writes.iter().map(|one| one.stamp).chain(sizes)
    }

    /// Returns the same with other moments.
    #[must_use]
    pub fn moved(&self, to: impl Fn(Moment) -> Moment) -> Self {
        let cut = |one: &Cut| Cut { stamp: to(one.stamp), ..*one };
        let write = |one: &Write| Write { stamp: to(one.stamp), ..*one };
        NodeLog {
            writes: self.writes.iter().map(write).collect(),
            cuts: self.cuts.iter().map(cut).collect(),
            grows: self.grows.iter().map(cut).collect(),
        }
    }

    /// Makes its bytes. Pieces at equal distances and of one length, as most are, take few.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new();
        for sizes in [&self.cuts, &self.grows] {
            out.packed(sizes.len() as u64);
            for one in sizes {
                out.packed(one.stamp.points).packed(one.stamp.round).packed(one.length);
            }
        }
        let (mut last, mut rest) = (0, self.writes.as_slice());
        while let [first, ..] = rest {
            let step = |pair: &[Write]| pair[1].piece.begin.wrapping_sub(pair[0].piece.begin);
            let distance = rest.get(..2).map_or(0, step);
            let is_next = |pair: &&[Write]| {
                let alike = |one: &Write| (one.stamp, one.piece.len());
                alike(&pair[0]) == alike(&pair[1]) && step(pair) == distance
            };
            let count = 1 + rest.windows(2).take_while(is_next).count();
            out.packed(first.stamp.points).packed(first.stamp.round);
            out.packed(first.piece.begin.wrapping_sub(last));
            out.packed(first.piece.len()).packed(distance).packed(count as u64);
            last = rest[count - 1].piece.begin;
            rest = &rest[count..];
        }
        out.take()
    }

    /// Reads what [`NodeLog::to_bytes`] makes; `None` for what it cannot have made. Total.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (mut from, mut log) = (Reader::new(bytes), NodeLog::default());
        for sizes in [&mut log.cuts, &mut log.grows] {
            for _ in 0..from.packed()? {
                let stamp = moment(&mut from)?;
                let length = from.packed()?;
                sizes.push(Cut { stamp, length: (length <= OFFSET_MAX).then_some(length)? });
            }
        }
        let mut last = 0_u64;
        while !from.is_done() {
            let stamp = moment(&mut from)?;
            let (gap, length) = (from.packed()?, from.packed()?);
            let (distance, count) = (from.packed()?, from.packed()?);
            let room = (PIECES_MAX - log.writes.len()) as u64;
            if length == 0 || count == 0 || count > room {
                return None;
            }
            let mut begin = last.wrapping_add(gap);
            for _ in 0..count {
                let end = begin.checked_add(length).filter(|end| *end <= OFFSET_MAX)?;
                log.writes.push(Write { piece: Extent::new(begin, end), stamp });
                last = begin;
                begin = begin.wrapping_add(distance);
            }
        }
        Some(log)
    }
}

fn moment(from: &mut Reader<'_>) -> Option<Moment> {
    Some(Moment { points: from.packed()?, round: from.packed()? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use scr_abi::accesses::Within;

    use super::*;
    use crate::parts::{Resolved, settle};

    fn write(begin: u64, end: u64, stamp: u64) -> Write {
        Write { piece: Extent::new(begin, end), stamp: Moment { points: stamp, round: stamp / 4 } }
    }

    #[test]
    fn pieces_at_one_distance_take_few_bytes() {
        let mut writes: Vec<Write> =
            (0..1000).map(|at| write(at * 100, at * 100 + 40, 3)).collect();
        // Backwards, twice the same, and with another stamp.
        writes.extend((0..1000).rev().map(|at| write(at * 100, at * 100 + 40, 3)));
        writes.extend([write(7, 8, 4); 2]);
        let cuts = vec![Cut { length: i64::MAX as u64, stamp: Moment::at(u64::MAX) }];
        let log = NodeLog { writes, grows: cuts.clone(), cuts };
        let bytes = log.to_bytes();
        assert!(bytes.len() < 100, "{}", bytes.len());
        assert_eq!(NodeLog::from_bytes(&bytes), Some(log));
        (0..bytes.len()).for_each(|end| drop(NodeLog::from_bytes(&bytes[..end])));
    }

    #[test]
    fn bytes_that_claim_too_much_are_refused() {
        let bytes = |words: &[u64]| {
            let mut out = Writer::new();
            words.iter().for_each(|word| _ = out.packed(*word));
            out.take()
        };
        assert!(NodeLog::from_bytes(&bytes(&[0, 0, 1, 0, 5, 5, 9, 2])).is_some());
        let many = PIECES_MAX as u64 + 1;
        for bad in [
            &[0, 0, 1, 0, 5, 0, 9, 2][..],    // empty pieces
            &[0, 0, 1, 0, 5, 5, 9, 0],        // none
            &[0, 0, 1, 0, 5, 5, 0, many],     // too many
            &[0, 0, 1, 0, 1 << 63, 5, 0, 1],  // beyond all files
            &[0, 0, 1, 0, 5, u64::MAX, 0, 1], // longer than all files
            &[0, 0, 1, 0, 5, 5, 1 << 62, 4],  // the last of them
            &[1, 1, 0, 1 << 63, 0],           // a size that no file has
            &[u64::MAX, 1, 0, 1],             // more than there is
        ] {
            assert_eq!(NodeLog::from_bytes(&bytes(bad)), None, "{bad:?}");
        }
    }

    const BYTES: usize = 96;
    const RANKS: usize = 4;

    /// One call of a rank; between two sync points they come in the order of the list.
    #[derive(Debug, Clone, Copy)]
    struct Call {
        stamp: u64,
        rank: usize,
        /// `None`: it gives the file a size, which is `begin`.
        length: Option<u64>,
        begin: u64,
        /// At least that.
        grows: bool,
    }

    fn calls() -> impl Strategy<Value = Vec<Call>> {
        let length = prop::option::weighted(0.7, 1_u64..25);
        let call = (0_u64..5, 0..RANKS, length, 0_u64..70, any::<bool>());
        let call = call.prop_map(|(stamp, rank, length, begin, grows)| Call {
            stamp,
            rank,
            length,
            begin,
            grows,
        });
        prop::collection::vec(call, 0..20).prop_map(|mut calls| {
            calls.sort_by_key(|call| call.stamp);
            calls
        })
    }

    /// A file: which call wrote each byte last.
    #[derive(Debug, Clone, PartialEq)]
    struct Model(Vec<Option<usize>>);

    /// What a file is after `calls`.
    fn file_of<'a>(calls: impl Iterator<Item = (usize, &'a Call)>) -> Model {
        let mut file = Vec::new();
        for (number, call) in calls {
            let begin = call.begin as usize;
            match call.length {
                None if call.grows => file.resize(file.len().max(begin), None),
                None => file.resize(begin, None),
                Some(length) => {
                    let end = begin + length as usize;
                    file.resize(file.len().max(end), None);
                    file[begin..end].fill(Some(number));
                }
            }
        }
        Model(file)
    }

    fn log_of(calls: &[Call], rank: usize) -> NodeLog {
        NodeLog::of(calls.iter().filter(|call| call.rank == rank).map(|call| {
            let (within, start) = (Within::Nothing, call.begin);
            // Two calls of a group between two sync points.
            let stamp = Moment { points: call.stamp / 2, round: 9 << 32 | call.stamp };
            let (deed, end) = match call.length {
                Some(length) => (Deed::Write, start + length),
                None if call.grows => (Deed::Grow, start),
                None => (Deed::Cut, start),
            };
            Access { deed, within, stamp, start, end }
        }))
    }

    /// The files of the nodes, and what they come to.
    fn found(calls: &[Call], nodes: usize, clipped: bool) -> (Vec<Model>, Resolved) {
        let of = |node| {
            let ranks: Vec<_> = (0..RANKS).filter(|rank| rank % nodes == node).collect();
            let own = calls.iter().enumerate().filter(|(_, call)| call.rank % nodes == node);
            let file = file_of(own);
            let logs: Vec<NodeLog> = ranks.iter().map(|rank| log_of(calls, *rank)).collect();
            let log = NodeLog::joined(&logs, clipped.then_some(file.0.len() as u64));
            (file, log)
        };
        let (files, logs): (Vec<Model>, Vec<NodeLog>) = (0..nodes).map(of).unzip();
        (files, settle(&logs))
    }

    proptest! {
        #[test]
        fn the_log_of_a_node_says_what_its_file_has(calls in calls(), nodes in 1..=RANKS) {
            let (files, settled) = found(&calls, nodes, true);
            let numbered: Vec<(usize, &Call)> = calls.iter().enumerate().collect();
            let in_order = |node: &dyn Fn(usize) -> usize| {
                let mut calls = numbered.clone();
                calls.sort_by_key(|(_, call)| (call.stamp, node(call.rank % nodes)));
                file_of(calls.into_iter())
            };
            let (one, other) = (in_order(&|node| node), in_order(&|node| nodes - node));
            prop_assert_eq!(settled.size, one.0.len() as u64);
            let is_alone = numbered.iter().all(|(_, call)| {
                let node = call.rank % nodes;
                calls.iter().all(|other| other.stamp != call.stamp || other.rank % nodes == node)
            });
            prop_assert!(!is_alone || settled.conflicts.is_empty());
            for at in 0..BYTES {
                let byte = Extent::new(at as u64, at as u64 + 1);
                let owner = settled.owned.iter().position(|owned| owned.cover(byte));
                let got = owner.and_then(|node| files[node].0.get(at).copied().flatten());
                let last = |file: &Model| file.0.get(at).copied().flatten();
                prop_assert_eq!(got, last(&one), "byte {}", at);
                let told = settled.conflicts.cover(byte);
                prop_assert!(told || last(&one) == last(&other), "byte {}", at);
            }
        }

        /// What a node's file turns out to be too short for has no bytes, whoever answers for it.
        #[test]
        fn without_the_lengths_of_the_files_only_the_size_differs(
            calls in calls(), nodes in 1..=RANKS,
        ) {
            let (files, clipped) = found(&calls, nodes, true);
            let (_, other) = found(&calls, nodes, false);
            for at in 0..BYTES {
                let byte = Extent::new(at as u64, at as u64 + 1);
                let got = |found: &Resolved| {
                    let owner = found.owned.iter().position(|owned| owned.cover(byte))?;
                    files[owner].0.get(at).copied().flatten()
                };
                prop_assert_eq!(got(&clipped), got(&other), "byte {}", at);
            }
        }

        #[test]
        fn it_survives_its_bytes(calls in calls(), rank in 0..RANKS) {
            let log = log_of(&calls, rank);
            prop_assert_eq!(NodeLog::from_bytes(&log.to_bytes()), Some(log));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some(log) = NodeLog::from_bytes(&bytes) {
                prop_assert_eq!(NodeLog::from_bytes(&log.to_bytes()), Some(log));
            }
        }
    }
}
