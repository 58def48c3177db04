//! Lists, bytes and checksums on their way to a neighbour, in all pairs of the ring at once.

use super::super::MemberList;
use super::super::ahead::Ahead;
use super::super::layout::LogicalFile;
use super::super::ring::{Deferred, Ring};
use crate::bytes::{Reader, Writer};
use crate::comm::Buffers;
use crate::error::{Error, Result};
use crate::kvtree::KvTree;

/// One direction around the ring, and how far at once.
#[derive(Clone, Copy)]
pub(super) struct Direction {
    pub to: usize,
    pub from: usize,
}

impl Direction {
    pub fn right(ring: &Ring, distance: usize) -> Self {
        Direction { to: ring.right_by(distance), from: ring.left_by(distance) }
    }

    pub fn left(ring: &Ring, distance: usize) -> Self {
        Direction { to: ring.left_by(distance), from: ring.right_by(distance) }
    }
}

/// Passes lists on: `out`, if this member sends, and the one that arrives here, if any does; it
/// must be that of member `of`. Gives the bytes of its files, which follow whatever becomes of the
/// list here; the inner error is this member's.
pub(super) fn swap_lists(
    ring: &Ring,
    way: Direction,
    id: u64,
    out: Option<&MemberList>,
    of: Option<usize>,
) -> Result<(u64, Result<Option<MemberList>>)> {
    let mut bytes = Writer::new().word(out.map_or(0, MemberList::total_bytes)).take();
    bytes.extend(out.iter().flat_map(|list| list.to_tree(id, ring.set.world_size).encode()));
    let arrived = ring.swap(&bytes, way.to, way.from)?;
    let mut reader = Reader::new(&arrived);
    let total = reader.word().ok_or_else(|| Error::Comm("a list has no length".into()))?;
    let tree = &arrived[size_of::<u64>()..];
    let parsed = of.map(|of| {
        let list = KvTree::decode(tree).ok().and_then(|tree| MemberList::from_tree(&tree));
        list.filter(|list| list.world_rank == ring.world_rank(of)).ok_or_else(|| {
            let rank = ring.world_rank(of);
            Error::Unrecoverable(format!("the file list of rank {rank} is damaged"))
        })
    });
    Ok((total, parsed.transpose()))
}

pub(super) struct Passing<'a> {
    pub out: Option<&'a mut LogicalFile>,
    pub into: Option<&'a mut LogicalFile>,
    /// Bytes that come to it.
    pub coming: u64,
    /// Bytes of the member that passes on most.
    pub longest: u64,
}

/// Passes all bytes on, and keeps those that come. Every member takes part in every step, so that
/// no order of sends and receives can lock the ring.
/// What fails here is in `failed`; zeros are sent from then on, and nothing is kept.
pub(super) fn stream(
    ring: &Ring,
    way: Direction,
    passing: Passing,
    failed: &mut Deferred,
) -> Result<()> {
    let Passing { mut out, mut into, coming, longest } = passing;
    let out_total = out.as_ref().map_or(0, |file| file.total());
    let piece_bytes = ring.piece_bytes(longest);
    let mut ahead = Ahead::new(ring.comm);
    let mut end_oldest = |ahead: &mut Ahead<u64>, failed: &mut Deferred| -> Result<()> {
        let (offset, bytes) = ahead.end_oldest()?;
        if let Some(into) = into.as_mut() {
            failed.act(|| into.write_padded(offset, &bytes));
        }
        ahead.give_back(bytes);
        Ok(())
    };
    for step in 0..longest.div_ceil(piece_bytes as u64) {
        if ahead.is_full() {
            end_oldest(&mut ahead, failed)?;
        }
        let offset = step * piece_bytes as u64;
        let length = |total: u64| total.saturating_sub(offset).min(piece_bytes as u64) as usize;
        let (mut sent, received) = (ahead.buffer(length(out_total)), ahead.buffer(length(coming)));
        if let Some(out) = out.as_mut()
            && !failed.act(|| out.read_padded(offset, &mut sent))
        {
            sent.fill(0);
        }
        ahead.begin(Buffers { out: sent, into: received }, way.to, way.from, offset)?;
    }
    while !ahead.is_over() {
        end_oldest(&mut ahead, failed)?;
    }
    Ok(())
}
