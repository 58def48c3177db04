//! Encode: in each slot the keeper of parity 0 gets all data pieces, makes all parity pieces, and
//! sends each of the others to its keeper.
//!
//! Every file is read once, the parity file is written once. With XOR this moves as many bytes as a
//! reduce-scatter around the ring (manual 1.1, section 7.3.1) does, but no piece waits for sums of
//! other members.

use super::code::Code;
use super::header::ParityHeader;
use super::part::ParityWriter;
use super::pipeline::{Sides, run};
use super::schedule::SlotWork;
use super::shape::{Content, Shape};
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::redundancy::layout::LogicalFile;
use crate::redundancy::ring::{Deferred, Ring};
use crate::redundancy::verify::compare_crcs;
use crate::redundancy::{MemberData, MemberList, Protection, RedundancySet};

/// Computes the parity of the set. Each member has its own outcome.
pub fn encode(code: Code, set: &RedundancySet, data: Result<MemberData>) -> Result<Protection> {
    let ring = Ring::new(set);
    let shape = Shape::of(code, set)?;
    let opened = data.and_then(|data| Ok((LogicalFile::open(&data.dir, &data.files)?, data)));
    let ((mut source, data), longest) = ring.agree_and_max(opened, |(source, _)| source.total())?;
    let chunk_bytes = shape.chunk_bytes(longest);
    let header = exchange_header(&ring, code, shape, &data, chunk_bytes)?;
    let mut failed = Deferred::default();
    let mut begun = failed.take(header.and_then(|header| {
        let name = ParityHeader::file_name(code, set);
        Ok((ParityWriter::create(&data.dir, name, &header)?, header))
    }));

    let mut sides = Sides {
        shape,
        me: ring.me,
        chunk_bytes,
        files: Some(&mut source),
        parity: None,
        restored: None,
        writer: begun.as_mut().map(|(writer, _)| writer),
    };
    run(&ring, &works(shape)?, &mut sides, &mut failed)?;
    let crcs: Vec<_> =
        source.crcs().iter().zip(&data.files).map(|(found, file)| found.or(file.crc32)).collect();
    failed.act(|| compare_crcs(&data.dir, &data.files, &crcs));
    let mut of_left = Vec::new();
    for distance in 1..=shape.parities {
        of_left.push(ring.swap_crcs(&crcs, ring.right_by(distance), ring.left_by(distance))?);
    }
    failed.outcome()?;
    let (mut writer, mut header) =
        begun.ok_or_else(|| Error::Defect("an encode has no header".into()))?;
    header.current.set_crcs(&crcs);
    for (partner, theirs) in header.partners.iter_mut().zip(&of_left) {
        partner.set_crcs(theirs);
    }
    let file = writer.finish(&header)?;
    writer.publish()?;
    Ok(Protection { files: vec![file], file_crcs: crcs })
}

fn works(shape: Shape) -> Result<Vec<SlotWork>> {
    let has = |_, content| matches!(content, Content::Data(_));
    let work = |slot| {
        let recipe = shape.recipe(slot, &has)?;
        Some(SlotWork { slot, worker: slot, recipe })
    };
    let works: Option<_> = (0..shape.members).map(work).collect();
    works.ok_or_else(|| Error::Defect("parity cannot be computed".into()))
}

/// The inner error is this member's: a list of a left neighbour that cannot be read.
fn exchange_header(
    ring: &Ring,
    code: Code,
    shape: Shape,
    data: &MemberData,
    chunk_bytes: u64,
) -> Result<Result<ParityHeader>> {
    let set = ring.set;
    let current = MemberList::of(set, data);
    let own = current.to_tree(data.id, set.world_size).encode();
    let mut partners = Vec::new();
    for distance in 1..=shape.parities {
        let left = ring.left_by(distance);
        let theirs = ring.swap(&own, ring.right_by(distance), left)?;
        let list = KvTree::decode(&theirs).ok().and_then(|tree| MemberList::from_tree(&tree));
        partners.push(list.ok_or_else(|| {
            let left = ring.world_rank(left);
            Error::Unreadable(format!("the file list of rank {left} has a wrong name or size"))
        }));
    }
    let partners = partners.into_iter().collect::<Result<_>>();
    let header = ParityHeader::of(set, code, shape.parities, chunk_bytes, data.id, data.epoch);
    Ok(partners.map(|partners| ParityHeader { current, partners, ..header }))
}
