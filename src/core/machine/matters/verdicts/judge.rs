//! Whether a file that several nodes write could be cached: each node would keep what its ranks
//! have written, and what a node has not got nobody could read there. Pure.
//!
//! The order of writes is that of their stamps, the sync points that their ranks had entered, and
//! the calls on a file of some of them. Of the ranks of one node the kernel keeps the order.

use std::collections::BTreeMap;

use scr_abi::accesses::{Access, Deed, Moment, Within, trait_bit};

use super::course::{Act, Course, by_stamp, order_of};
use crate::machine::terms::{Accesses, Hints, Why};

/// What memory is taken by.
const PAGE_BYTES: u64 = 4096;
/// The pages of all nodes may be so many quarters of the bytes: a little more than twice as much.
const PAGE_QUARTERS_MAX: u64 = 9;
/// So many are no matter: records of libraries lie in pages of their own.
const PAGES_FREE: u64 = 64;
/// Pieces of all nodes together.
const PIECES_MAX: usize = 1 << 20;

/// What a rank has done to the file.
#[derive(Debug, Clone, Copy)]
pub struct OfNode<'a> {
    pub node: usize,
    pub done: &'a Accesses,
}

/// Judges a file of which `all` is known: the first rule that it breaks, or that it could be
/// cached.
pub fn judge(all: &[OfNode<'_>]) -> Why {
    let order = order_of(all.iter().flat_map(|one| &one.done.all));
    let of = |one: &OfNode<'_>| {
        let stamped = |one: &Access| Access { stamp: order.place(one.stamp), ..*one };
        let act = |access| Act { node: one.node, access: stamped(access) };
        one.done.all.iter().map(act).collect::<Vec<_>>()
    };
    let mut acts: Vec<Act> = all.iter().flat_map(of).collect();
    let traits = all.iter().fold(0, |traits, one| traits | one.done.traits);
    let has = |bit: u64| traits & bit != 0;
    // Without hints MPI-IO may read between the pieces that it writes. One that does so in spite of
    // them would write back, from a cache, what other nodes have there.
    let writes_back = |act: &Act| act.access.within == Within::Sieve;
    if has(trait_bit::TRIED) && acts.iter().any(writes_back) {
        return Why::Readers;
    }
    // Where the end of all is no node knows.
    if has(trait_bit::UNSEEN | trait_bit::APPENDS) {
        return Why::Unseen;
    }
    if has(trait_bit::OVERFULL) || acts.len() > PIECES_MAX {
        return Why::TooFine;
    }
    if !has(trait_bit::MADE) {
        let Some(emptied) = emptied_first(&acts) else { return Why::InPlace };
        let no_cut = |one: &&OfNode| of(one).iter().all(|act| act.access.deed != Deed::Cut);
        let sees = |act: &Act| act.access.deed == Deed::Size && act.access.end == 0;
        let early = |act: &Act| act.access.stamp <= emptied && sees(act);
        if all.iter().filter(no_cut).any(|one| of(one).iter().any(early)) {
            return Why::Sizes; // it would still see the older one
        }
        // What was seen of that any rank can see.
        let of_older = |act: &Act| {
            act.access.stamp <= emptied && matches!(act.access.deed, Deed::Read | Deed::Size)
        };
        acts.retain(|act| !of_older(act));
    }
    let by_opening = acts.iter().any(|act| act.access.deed == Deed::Made);
    if (has(trait_bit::MADE) || by_opening) && is_found_unseen(&acts) {
        return Why::Sizes;
    }
    // After such a call no node knows what others have made of the file, until all ranks tell.
    let asks = |act: &Act| {
        act.access.within == Within::Nothing && matches!(act.access.deed, Deed::Read | Deed::Size)
    };
    if has(trait_bit::UNCOUNTED) && acts.iter().any(asks) {
        return Why::Sizes;
    }
    let mut course = Course::default();
    for acts in by_stamp(acts.clone()) {
        if let Some(why) = pass(&mut course, &acts) {
            return why;
        }
    }
    let closed = all.iter().map(|one| one.done.bytes).max().unwrap_or(0);
    match () {
        () if has(trait_bit::HOLES) => Why::Sizes,
        () if closed > course.size() => Why::Unseen, // somebody has written what nobody has seen
        () if has(trait_bit::GOES_ON) => Why::GoesOn,
        () => fineness(&acts),
    }
}

/// Tells whether a rank has found the file before it could hear that another node has made or
/// emptied it. It hears so at a barrier; any other collective may carry nothing. Where there was
/// none before, one that would have made it needs not hear so.
fn is_found_unseen(acts: &[Act]) -> bool {
    let those = |deed: Deed| acts.iter().filter(move |act| act.access.deed == deed);
    let knows = |found: &Act| {
        let near = those(Deed::Made).any(|made| made.node == found.node);
        near || those(Deed::Made).any(|made| made.access.end < found.access.end)
    };
    let emptied = those(Deed::Cut).any(|cut| cut.access.end == 0);
    let needs = |found: &&Act| emptied || found.access.start == 0;
    !those(Deed::Found).filter(needs).all(knows)
}

/// Returns when an older file was emptied, if that was before anybody wrote.
fn emptied_first(acts: &[Act]) -> Option<Moment> {
    let first = |which: fn(&Access) -> bool| {
        acts.iter().map(|act| act.access).filter(which).map(|access| access.stamp).min()
    };
    let emptied = first(|access| access.deed == Deed::Cut && access.end == 0)?;
    let written = first(|access| access.deed == Deed::Write);
    written.is_none_or(|written| emptied <= written).then_some(emptied)
}

/// Returns the rule that these acts, all between two sync points, break.
fn pass(course: &mut Course, acts: &[Act]) -> Option<Why> {
    let known = course.size();
    if course.take(acts) {
        return Some(Why::Writers);
    }
    let those = |deed: Deed| acts.iter().filter(move |act| act.access.deed == deed);
    let foreign = |act: &Act| {
        let reads = act.access.within == Within::Nothing;
        reads && !course.has(act.node, act.piece())
    };
    if those(Deed::Read).any(foreign) {
        return Some(Why::Readers);
    }
    let unknown = |act: &Act| {
        let within = act.access.within != Within::Nothing;
        !within && !is_known(acts, act, known)
    };
    those(Deed::Size).any(unknown).then_some(Why::Sizes)
}

/// Tells whether the node of `asked` could have known the size that it was told: what all had
/// written at the last sync point, or what its ranks have made of it since.
fn is_known(acts: &[Act], asked: &Act, known: u64) -> bool {
    let size = asked.access.end;
    let own = acts.iter().filter(|act| act.node == asked.node).map(|act| act.access);
    let mut makes = own.filter(|own| match own.deed {
        Deed::Write => own.start < size && size <= own.end, // pieces that touch are one
        Deed::Cut | Deed::Grow => own.end == size,
        Deed::Read | Deed::Size | Deed::Made | Deed::Found => false,
    });
    size == known || makes.next().is_some()
}

/// Tells whether the pieces are worth it, and what MPI-IO would have to be told. Pieces of
/// collective calls can be gathered; what a library writes beside them, as headers, is little.
fn fineness(acts: &[Act]) -> Why {
    let writes = || acts.iter().filter(|act| act.access.deed == Deed::Write);
    let single = |act: &&Act| !matches!(act.access.within, Within::WriteAll | Within::Sieve);
    match () {
        () if is_fine(writes().filter(single)) => Why::TooFine,
        () if writes().all(|act| act.access.within == Within::Nothing) => Why::OfNodes(Hints::None),
        () if is_fine(writes()) => Why::OfNodes(Hints::Gathered),
        () => Why::OfNodes(Hints::Apart),
    }
}

/// Tells whether these pieces would take far more pages of all nodes than they have bytes.
fn is_fine<'a>(writes: impl Iterator<Item = &'a Act>) -> bool {
    let mut nodes: BTreeMap<usize, Vec<Access>> = BTreeMap::new();
    for act in writes {
        nodes.entry(act.node).or_default().push(act.access);
    }
    let (mut bytes, mut pages) = (0, 0);
    for pieces in nodes.values_mut() {
        pieces.sort_by_key(|piece| piece.start);
        let (mut behind, mut next_page) = (0, 0);
        for piece in pieces {
            let start = piece.start.max(behind);
            if start < piece.end {
                let first = (start / PAGE_BYTES).max(next_page);
                next_page = next_page.max(piece.end.div_ceil(PAGE_BYTES));
                pages += next_page.saturating_sub(first);
                bytes += piece.end - start;
                behind = piece.end;
            }
        }
    }
    pages > PAGES_FREE && 4 * pages * PAGE_BYTES > PAGE_QUARTERS_MAX * bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN: [Within; 4] = [Within::Nothing, Within::Write, Within::WriteAll, Within::Sieve];

    /// An access as its letter, the call of MPI-IO, the stamp, and its bytes.
    type Letter = (char, usize, u64, u64, u64);

    /// A number of three digits: sync points, a group, and its calls.
    fn moment(number: u64) -> Moment {
        match number {
            0..100 => Moment::at(number),
            _ => Moment { points: number / 100, round: ((number / 10 % 10) << 32) | (number % 10) },
        }
    }

    /// Judges what was done by a rank a node.
    fn judged(traits: u64, ranks: &[&[Letter]]) -> Why {
        let access = |(deed, within, stamp, start, end): &(char, usize, u64, u64, u64)| Access {
            deed: match deed {
                'w' => Deed::Write,
                'r' => Deed::Read,
                's' => Deed::Size,
                'c' => Deed::Cut,
                'm' => Deed::Made,
                'f' => Deed::Found,
                _ => Deed::Grow,
            },
            within: IN[*within],
            stamp: moment(*stamp),
            start: *start,
            end: *end,
        };
        let done = |all: &&[_]| {
            let all: Vec<Access> = <[_]>::iter(all).map(access).collect();
            let written = all.iter().filter(|one| one.deed == Deed::Write);
            let bytes = written.map(|one| one.end).max().unwrap_or(0);
            Accesses { traits, bytes, all, ..Accesses::default() }
        };
        let all: Vec<Accesses> = ranks.iter().map(done).collect();
        let all = all.iter().enumerate().map(|(node, done)| OfNode { node, done });
        judge(&all.collect::<Vec<_>>())
    }

    const MADE: u64 = trait_bit::MADE;
    const PLAIN: Why = Why::OfNodes(Hints::None);

    #[test]
    fn each_rule_has_a_verdict() {
        let apart: [&[_]; 2] = [&[('w', 0, 1, 0, 50)], &[('w', 0, 1, 50, 90)]];
        assert_eq!(judged(MADE, &apart), PLAIN);
        assert_eq!(judged(0, &apart), Why::InPlace);
        assert_eq!(judged(MADE | trait_bit::UNSEEN, &apart), Why::Unseen);
        let sieves = [&[('w', 3, 1, 0, 4096)][..], &[('w', 1, 1, 4096, 8192)]];
        assert_eq!(judged(MADE, &sieves), Why::OfNodes(Hints::Apart));
        assert_eq!(judged(MADE | trait_bit::TRIED, &sieves), Why::Readers);
        assert_eq!(judged(MADE | trait_bit::APPENDS, &apart), Why::Unseen);
        assert_eq!(judged(MADE | trait_bit::OVERFULL, &apart), Why::TooFine);
        assert_eq!(judged(MADE | trait_bit::HOLES, &apart), Why::Sizes);
        let asked: &[&[Letter]] = &[&[('w', 0, 3, 0, 9), ('s', 0, 3, 0, 9)], &[('w', 0, 3, 9, 12)]];
        assert_eq!(judged(MADE, asked), PLAIN);
        assert_eq!(judged(MADE | trait_bit::UNCOUNTED, asked), Why::Sizes);
        assert_eq!(judged(MADE | trait_bit::GOES_ON, &apart), Why::GoesOn);
        let rest: &[_] = &[('w', 0, 3, 50, 90)];
        for (first, verdict) in [
            (&[('c', 0, 1, 0, 0), ('w', 0, 1, 0, 50)][..], PLAIN),
            (&[('w', 0, 1, 0, 50), ('c', 0, 2, 0, 0)], Why::InPlace),
        ] {
            assert_eq!(judged(0, &[first, rest]), verdict, "{first:?}");
        }
        for (second, verdict) in [
            // The same bytes: with a sync point between, and without.
            (&[('w', 0, 2, 10, 90)][..], PLAIN),
            (&[('w', 0, 1, 49, 90)], Why::Writers),
            (&[('c', 0, 1, 0, 10)], Why::Writers),
            (&[('c', 0, 2, 0, 10), ('w', 0, 2, 60, 90)], PLAIN),
            // Bytes of the other node, or of nobody; own ones; those of its own sieving.
            (&[('w', 0, 1, 50, 90), ('r', 0, 2, 40, 60)], Why::Readers),
            (&[('w', 0, 1, 60, 90), ('r', 0, 2, 50, 70)], Why::Readers),
            (&[('w', 0, 1, 50, 90), ('r', 0, 2, 50, 90)], PLAIN),
            (&[('r', 3, 1, 40, 90), ('w', 3, 1, 40, 90)], Why::OfNodes(Hints::Apart)),
            // It was made by the other before a barrier, before another collective, or by itself.
            (&[('f', 0, 1, 0, 8), ('w', 0, 2, 50, 90)], PLAIN),
            (&[('f', 0, 1, 0, 7), ('w', 0, 2, 50, 90)], Why::Sizes),
            (&[('m', 0, 0, 0, 7), ('f', 0, 0, 0, 7), ('w', 0, 2, 50, 90)], PLAIN),
            // What the other has written before the last sync point, and since.
            (&[('w', 0, 1, 50, 60), ('s', 0, 2, 0, 60)], PLAIN),
            (&[('s', 0, 1, 0, 50), ('w', 0, 1, 50, 90)], Why::Sizes),
            (&[('s', 0, 2, 0, 50), ('w', 0, 2, 50, 90)], PLAIN),
            (&[('g', 0, 2, 0, 90), ('s', 0, 2, 0, 90), ('w', 0, 3, 50, 90)], PLAIN),
        ] {
            let first: &[_] = &[('m', 0, 0, 0, 7), ('w', 0, 1, 0, 50)];
            assert_eq!(judged(MADE, &[first, second]), verdict, "{second:?}");
        }
    }

    #[test]
    fn ranks_that_open_a_file_by_themselves_order_what_they_do_by_their_calls_on_it() {
        let first: &[Letter] = &[('m', 0, 1, 0, 7), ('w', 0, 111, 0, 50)];
        for (second, verdict) in [
            // The same bytes: after a call, without one, and after one of others.
            (&[('w', 0, 112, 10, 90)][..], PLAIN),
            (&[('w', 0, 111, 10, 90)], Why::Writers),
            (&[('w', 0, 122, 10, 90)], Why::Writers),
            // The size: after the call by which it was heard of, and before it.
            (&[('s', 0, 112, 0, 50), ('w', 0, 112, 50, 90)], PLAIN),
            (&[('s', 0, 111, 0, 50), ('w', 0, 112, 50, 90)], Why::Sizes),
            (&[('w', 0, 112, 50, 90), ('s', 0, 122, 0, 50)], Why::Sizes),
            // A sync point of all orders them in any case.
            (&[('w', 0, 2, 10, 90)], PLAIN),
        ] {
            assert_eq!(judged(MADE, &[first, second]), verdict, "{second:?}");
        }
    }

    #[test]
    fn an_older_file_that_is_emptied_first_is_as_good_as_a_new_one() {
        let emptied: &[Letter] = &[('s', 0, 1, 0, 77), ('c', 0, 1, 0, 0), ('w', 0, 2, 0, 50)];
        let by_open: &[Letter] = &[('m', 0, 1, 0, 7), ('c', 0, 1, 0, 0), ('w', 0, 2, 0, 50)];
        let rows: [(_, &[Letter], _); 5] = [
            (emptied, &[('w', 0, 2, 50, 90)], PLAIN),
            // What it had before anybody can see; that it is empty only from a sync point on.
            (emptied, &[('r', 0, 1, 0, 77), ('w', 0, 2, 50, 90)], PLAIN),
            (emptied, &[('s', 0, 1, 0, 0), ('w', 0, 2, 50, 90)], Why::Sizes),
            // One that would have made it has to hear by a barrier that it was emptied.
            (by_open, &[('f', 0, 2, 1, 7), ('w', 0, 2, 50, 90)], Why::Sizes),
            (by_open, &[('f', 0, 2, 1, 8), ('w', 0, 2, 50, 90)], PLAIN),
        ];
        for (first, second, verdict) in rows {
            assert_eq!(judged(0, &[first, second]), verdict, "{second:?}");
        }
    }

    #[test]
    fn small_pieces_have_to_be_gathered() {
        let pieces = |within: usize, bytes: u64, rank: u64| {
            let piece = move |at: u64| {
                let start = (4 * at + rank) * bytes;
                ('w', within, 1, start, start + bytes)
            };
            (0..500).map(piece).collect::<Vec<_>>()
        };
        for (within, bytes, verdict) in [
            (0, 1000, Why::TooFine),
            (1, 1000, Why::TooFine),
            (2, 1000, Why::OfNodes(Hints::Gathered)),
            (2, 4000, Why::OfNodes(Hints::Apart)),
            (0, 40_000, PLAIN),
        ] {
            let ranks = [0, 1, 2, 3].map(|rank| pieces(within, bytes, rank));
            let ranks: Vec<&[_]> = ranks.iter().map(Vec::as_slice).collect();
            assert_eq!(judged(MADE, &ranks), verdict, "{bytes} bytes");
        }
        // A library writes its header by itself.
        let ranks = [0, 1, 2, 3].map(|rank| {
            let header = (rank == 0).then_some(('w', 1, 1, 3_000_000, 3_000_100));
            pieces(2, 1000, rank).into_iter().chain(header).collect::<Vec<_>>()
        });
        let ranks: Vec<&[_]> = ranks.iter().map(Vec::as_slice).collect();
        assert_eq!(judged(MADE, &ranks), Why::OfNodes(Hints::Gathered));
    }

    #[test]
    fn what_nobody_has_seen_is_missed() {
        let write =
            Access { deed: Deed::Write, within: IN[0], stamp: Moment::at(1), start: 0, end: 5 };
        let done = Accesses { traits: MADE, bytes: 6, all: vec![write], ..Accesses::default() };
        assert_eq!(judge(&[OfNode { node: 0, done: &done }]), Why::Unseen);
    }
}
