//! Rebuild: a reduction to the member that lost its files (000 7.3.3, figure 7; 001).
//!
//! The lost member is the root. Its right neighbour begins each piece, every member adds what it
//! has in that slot and passes it to the right, so the root gets from its left neighbour what it
//! had: in its own slot the chunk of its XOR file, in the others its files. What the files were, it
//! learns from the copy in its right neighbour's header.

use super::super::layout::LogicalFile;
use super::super::restore::Restore;
use super::super::ring::{Deferred, Ring};
use super::super::verify::compare_crcs;
use super::super::{
    MemberData, MemberList, PIECE_BYTES, Protection, RedundancySet, Survivor, XorHeader,
};
use super::encode::encode;
use super::part::{ChunkReader, Parity, ParityWriter};
use super::{chunk_offset, pieces, xor_into};
use crate::error::{Error, Result};
use crate::kvtree::KvTree;

/// What one member brings, as all others see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    id: u64,
    epoch: u64,
    /// Its files are there.
    data: bool,
    /// Chunk size of its XOR file, if that is there.
    chunk_bytes: Option<u64>,
}

/// What is to be done; the same on all members.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    /// Nothing is lost.
    Keep,
    /// All files are there; XOR files are missing (or do not fit together: then `all`).
    Encode { all: bool },
    /// One member gets everything back.
    Restore { root: usize, chunk_bytes: u64 },
}

/// Finds out what is lost and restores it.
pub(super) fn rebuild(set: &RedundancySet, own: &Survivor) -> Result<(MemberData, Protection)> {
    let ring = Ring::new(set);
    let data = own.valid_data();
    let parity = Parity::find(&ring, own);
    let state = State {
        id: own.id,
        epoch: own.epoch,
        data: data.is_some(),
        chunk_bytes: parity.as_ref().map(|parity| parity.header.chunk_bytes),
    };
    let mut states = Vec::with_capacity(ring.size);
    for bytes in ring.comm.all_gather(&state.to_bytes())? {
        states.push(State::from_bytes(&bytes)?);
    }
    let kept = own.protection.as_ref().filter(|_| parity.is_some());
    match (plan(&ring, &states)?, data, parity) {
        (Plan::Restore { root, chunk_bytes }, _, _) if root == ring.me => {
            restore(&ring, own, chunk_bytes)
        }
        (Plan::Restore { root, chunk_bytes }, Some(data), Some(parity)) => {
            contribute(&ring, root, chunk_bytes, data, &parity)?;
            Ok((data.clone(), kept.cloned().unwrap_or_default()))
        }
        (Plan::Encode { all }, Some(data), _) => {
            Ok((data.clone(), encode(set, data, kept.filter(|_| !all))?))
        }
        (Plan::Keep, Some(data), _) => Ok((data.clone(), kept.cloned().unwrap_or_default())),
        // The plan follows from the states, this member's among them.
        _ => Err(Error::Other("the members' states contradict one another".into())),
    }
}

/// Decides by what all members have.
fn plan(ring: &Ring, states: &[State]) -> Result<Plan> {
    let id = states[0].id;
    if states.iter().any(|state| (state.id, state.epoch) != (id, states[0].epoch)) {
        let what = "the members of a set look for different datasets or seals";
        return Err(Error::Unrecoverable(what.into()));
    }
    let which = |lost: &dyn Fn(&State) -> bool| -> Vec<usize> {
        (0..states.len()).filter(|&member| lost(&states[member])).collect()
    };
    let no_data = which(&|state| !state.data);
    let no_parity = which(&|state| state.chunk_bytes.is_none());
    let chunk_bytes = states.iter().find_map(|state| state.chunk_bytes);
    let torn = states.iter().any(|s| s.chunk_bytes.is_some() && s.chunk_bytes != chunk_bytes);
    let lost = match (&no_data[..], &no_parity[..], chunk_bytes) {
        ([], _, _) if torn => return Ok(Plan::Encode { all: true }),
        ([], [], _) => return Ok(Plan::Keep),
        ([], _, _) => return Ok(Plan::Encode { all: false }),
        (&[root], [], Some(chunk_bytes)) if !torn => {
            return Ok(Plan::Restore { root, chunk_bytes });
        }
        (&[root], &[other], Some(chunk_bytes)) if root == other && !torn => {
            return Ok(Plan::Restore { root, chunk_bytes });
        }
        ([_], [], _) => vec![],
        _ => which(&|state| !state.data || state.chunk_bytes.is_none()),
    };
    Err(Error::Unrecoverable(if lost.is_empty() {
        format!("the XOR files of dataset {id} do not fit together")
    } else {
        let (lost, members) = (ring.world_ranks(&lost), states.len());
        format!("dataset {id}: {lost} of one XOR set of {members} lost files; it can restore one")
    }))
}

/// The root's part.
fn restore(ring: &Ring, own: &Survivor, chunk_bytes: u64) -> Result<(MemberData, Protection)> {
    let set = ring.set;
    let from_right = ring.comm.receive(ring.right)?;
    let from_left = ring.comm.receive(ring.left)?;
    let header = ring.agree(header_of_root(ring, own, chunk_bytes, &from_right, &from_left))?;
    let current = header.current.clone();
    let begun = Restore::begin(&own.dir, current).and_then(|restore| {
        Ok((restore, ParityWriter::create(&own.dir, XorHeader::file_name(set), &header)?))
    });
    let (mut files, mut parity) = ring.agree(begun)?;

    let mut failed = Deferred::default();
    for (offset, _) in pieces(chunk_bytes) {
        for slot in 0..ring.size {
            let piece = ring.comm.receive(ring.left)?;
            failed.act(|| match chunk_offset(ring.me, slot, chunk_bytes) {
                Some(start) => files.content.write_padded(start + offset, &piece),
                None => parity.append(&piece),
            });
        }
    }
    let checked = failed.outcome().and_then(|()| Ok((files.check()?, parity.finish(&header)?)));
    let (metas, parity_meta) = ring.agree(checked)?;
    ring.agree(files.publish().and_then(|()| parity.publish()))?;
    let file_crcs = metas.iter().map(|file| file.crc32).collect();
    let record = header.current.record;
    let (dir, id, epoch) = (own.dir.clone(), own.id, own.epoch);
    Ok((
        MemberData { dir, id, epoch, files: metas, record },
        Protection { files: vec![parity_meta], file_crcs },
    ))
}

/// The header that the root had, from what its neighbours know.
fn header_of_root(
    ring: &Ring,
    own: &Survivor,
    chunk_bytes: u64,
    from_right: &[u8],
    from_left: &[u8],
) -> Result<XorHeader> {
    let parse = |bytes: &[u8], of: usize| {
        let list = KvTree::decode(bytes).ok().and_then(|tree| MemberList::from_tree(&tree));
        list.filter(|list| list.world_rank == ring.world_rank(of)).ok_or_else(|| {
            let rank = ring.world_rank(of);
            Error::Unrecoverable(format!("the copy of the file list of rank {rank} is damaged"))
        })
    };
    let mut current = parse(from_right, ring.me)?;
    let partner = parse(from_left, ring.left)?;
    current.host = ring.set.hosts.get(ring.me).cloned().unwrap_or_default();
    if current.total_bytes().div_ceil(ring.size as u64 - 1) > chunk_bytes {
        let what = "the copy of its file list has more data than its XOR set";
        let rank = ring.world_rank(ring.me);
        return Err(Error::Unrecoverable(format!("rank {rank}: {what}")));
    }
    Ok(XorHeader {
        id: own.id,
        epoch: own.epoch,
        world_size: ring.set.world_size,
        group: ring.set.world_ranks.clone(),
        chunk_bytes,
        current,
        partner,
    })
}

/// A survivor's part. Its files and its XOR file are only read.
fn contribute(
    ring: &Ring,
    root: usize,
    chunk_bytes: u64,
    data: &MemberData,
    parity: &Parity,
) -> Result<()> {
    let list = |list: &MemberList| list.to_tree(data.id, ring.set.world_size).encode();
    if ring.left == root {
        ring.comm.send(&list(&parity.header.partner), root)?;
    }
    if ring.right == root {
        ring.comm.send(&list(&parity.header.current), root)?;
    }
    ring.agree(Ok(()))?;
    let opened =
        LogicalFile::open(&data.dir, &data.files).and_then(|files| Ok((files, parity.open()?)));
    let (mut files, chunk) = ring.agree(opened)?;
    let mut failed = reduce(ring, root, chunk_bytes, &mut files, &chunk)?;
    failed.act(|| compare_crcs(&data.dir, &parity.header.current.files, &files.crcs()));
    ring.agree(failed.outcome())?;
    ring.agree(Ok(()))
}

/// Adds this member's data to the pieces on their way to the root.
fn reduce(
    ring: &Ring,
    root: usize,
    chunk_bytes: u64,
    files: &mut LogicalFile,
    chunk: &ChunkReader,
) -> Result<Deferred> {
    let mut failed = Deferred::default();
    let mut own = vec![0; PIECE_BYTES];
    for (offset, length) in pieces(chunk_bytes) {
        let own = &mut own[..length];
        for slot in 0..ring.size {
            let read = failed.act(|| match chunk_offset(ring.me, slot, chunk_bytes) {
                Some(start) => files.read_padded(start + offset, own),
                None => chunk.read(offset, own),
            });
            if !read {
                own.fill(0);
            }
            if ring.left != root {
                let sum = ring.comm.receive(ring.left)?;
                if sum.len() != length {
                    return Err(Error::Comm("a piece of another length arrived".into()));
                }
                xor_into(own, &sum);
            }
            ring.comm.send(own, ring.right)?;
        }
    }
    Ok(failed)
}

impl State {
    fn to_bytes(self) -> Vec<u8> {
        let chunk_bytes = self.chunk_bytes.unwrap_or(0);
        let mut bytes = vec![u8::from(self.data), u8::from(self.chunk_bytes.is_some())];
        for word in [self.id, self.epoch, chunk_bytes] {
            bytes.extend(word.to_be_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let malformed = || Error::Comm("a member's state is malformed".into());
        let (&[data, parity], words) = bytes.split_first_chunk().ok_or_else(malformed)?;
        let (&[id, epoch, chunk_bytes], []) = words.as_chunks::<8>() else {
            return Err(malformed());
        };
        Ok(State {
            id: u64::from_be_bytes(id),
            epoch: u64::from_be_bytes(epoch),
            data: data != 0,
            chunk_bytes: (parity != 0).then(|| u64::from_be_bytes(chunk_bytes)),
        })
    }
}
