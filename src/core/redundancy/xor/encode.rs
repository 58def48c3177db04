//! Encode: a reduce-scatter around the ring, piece by piece (000 7.3.1, figure 6).
//!
//! In each phase, one piece of all slots, every member starts with the slot of its left neighbour
//! and passes it to the right; whoever gets a slot adds its own chunk and passes it on, until after
//! `n - 1` steps it arrives at the member that keeps it. Every file is read once, the XOR file is
//! written once, and data only ever comes from the left and goes to the right.

use super::super::layout::LogicalFile;
use super::super::ring::{Deferred, Ring, crcs_from_bytes, crcs_to_bytes};
use super::super::verify::compare_crcs;
use super::super::{MemberData, MemberList, PIECE_BYTES, Protection, RedundancySet, XorHeader};
use super::part::ParityWriter;
use super::{chunk_offset, pieces, xor_into};
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::system::test_pause;

/// Computes the parity of the set. A member that has its XOR file already (`existing`) takes part
/// but does not touch it: should this be cut off, it has lost nothing.
pub(super) fn encode(
    set: &RedundancySet,
    data: &MemberData,
    existing: Option<&Protection>,
) -> Result<Protection> {
    let ring = Ring::new(set);
    let mut source = ring.agree(LogicalFile::open(&data.dir, &data.files))?;
    let largest = ring.max(source.total())?;
    let chunk_bytes = largest.div_ceil(ring.size as u64 - 1);
    let mut header = exchange_header(&ring, data, chunk_bytes)?;
    let mut writer = ring.agree(match existing {
        Some(_) => Ok(None),
        None => ParityWriter::create(&data.dir, XorHeader::file_name(set), &header).map(Some),
    })?;

    let mut failed = reduce_scatter(&ring, &mut source, chunk_bytes, writer.as_mut())?;
    let crcs: Vec<_> =
        source.crcs().iter().zip(&data.files).map(|(found, file)| found.or(file.crc32)).collect();
    failed.act(|| compare_crcs(&data.dir, &data.files, &crcs));
    let of_left = ring.swap(&crcs_to_bytes(&crcs), ring.right, ring.left)?;
    header.current.set_crcs(&crcs);
    header.partner.set_crcs(&crcs_from_bytes(&of_left));

    let finished = failed
        .outcome()
        .and_then(|()| writer.as_mut().map(|writer| writer.finish(&header)).transpose());
    let file = ring.agree(finished)?;
    ring.agree(writer.map_or(Ok(()), ParityWriter::publish))?;
    let files = match (file, existing) {
        (Some(file), _) => vec![file],
        (None, existing) => existing.map(|e| e.files.clone()).unwrap_or_default(),
    };
    Ok(Protection { files, file_crcs: crcs })
}

/// Builds the header; the left neighbour's list comes from there, ours goes to the right.
fn exchange_header(ring: &Ring, data: &MemberData, chunk_bytes: u64) -> Result<XorHeader> {
    let set = ring.set;
    let current = MemberList::of(set, data);
    let own = current.to_tree(data.id, set.world_size).encode();
    let theirs = ring.swap(&own, ring.right, ring.left)?;
    let partner = KvTree::decode(&theirs).ok().and_then(|tree| MemberList::from_tree(&tree));
    let partner = ring.agree(partner.ok_or_else(|| {
        let left = ring.world_rank(ring.left);
        Error::Other(format!("the file list of rank {left} has a wrong name or size"))
    }))?;
    Ok(XorHeader {
        id: data.id,
        epoch: data.epoch,
        world_size: set.world_size,
        group: set.world_ranks.clone(),
        chunk_bytes,
        current,
        partner,
    })
}

/// All phases; the pieces of this member's slot go to `writer`. Local failures are in the result.
fn reduce_scatter(
    ring: &Ring,
    source: &mut LogicalFile,
    chunk_bytes: u64,
    mut writer: Option<&mut ParityWriter>,
) -> Result<Deferred> {
    let mut failed = Deferred::default();
    let (mut out, mut into) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    for (offset, length) in pieces(chunk_bytes) {
        let (out, into) = (&mut out[..length], &mut into[..length]);
        for step in (1..ring.size).rev() {
            let slot = (ring.me + step) % ring.size;
            // The own slot would be step 0.
            let start = chunk_offset(ring.me, slot, chunk_bytes).unwrap_or_default();
            if !failed.act(|| source.read_padded(start + offset, out)) {
                out.fill(0);
            }
            if step + 1 < ring.size {
                xor_into(out, into);
            }
            ring.comm.exchange(out, ring.right, into, ring.left)?;
            test_pause("encode.middle");
        }
        // What came last is the own slot, complete.
        if let Some(writer) = writer.as_mut() {
            failed.act(|| writer.append(into));
        }
    }
    Ok(failed)
}
