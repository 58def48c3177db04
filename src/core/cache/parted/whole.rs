//! A file of several nodes, with what each rank says of it: who has written which byte last is
//! found out, and each node deals out what it has evenly to its ranks.

use std::collections::BTreeMap;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use scr_abi::accesses::trait_bit;

use super::unlogged::has_unlogged;
use crate::bytes::{Reader, Writer};
use crate::cache::node::agree::agree_and_ask;
use crate::comm::Comm;
use crate::error::{Error, Result};
use crate::parts::{Extents, NodeLog, PartHere, Resolved, resolve};
use crate::records::{FileMeta, FilePart, PART_MODE};

/// No rank's part is cut finer, bytes.
const UNIT_BYTES: u64 = 1 << 20;

/// What a rank says of a file.
#[derive(Debug, Default)]
pub struct RankTold {
    /// What it has done.
    pub log: NodeLog,
    /// What is said of all that it has done (`trait_bit`).
    pub traits: u64,
    /// Length and rights of the node's file.
    pub here: (u64, u32),
    /// The program has deleted it.
    pub is_gone: bool,
    /// The rank has written it on the PFS, where it found older content.
    pub is_outside: bool,
}

/// A file, with what each rank that has opened it says of it.
#[derive(Debug)]
pub struct PartedWhole {
    /// Its name.
    pub name: String,
    told: BTreeMap<usize, RankTold>,
    /// By node.
    logs: BTreeMap<usize, NodeLog>,
}

/// What a rank has of a file.
#[derive(Debug)]
pub struct Dealt {
    /// `None`: no byte.
    pub part: Option<FileMeta>,
    /// What its node has.
    pub here: PartHere,
}

impl PartedWhole {
    /// Gathers what all ranks say of the files of a dataset; `nodes` has the node of each rank.
    /// Collective.
    ///
    /// # Errors
    /// Those of the communication, and lists that cannot be read.
    pub fn gather(
        world: &dyn Comm,
        nodes: &[usize],
        own: &[(String, RankTold)],
    ) -> Result<Vec<Self>> {
        let put = |out: &mut Writer, (name, told): &(String, RankTold)| {
            out.counted(name.as_bytes()).word(told.traits).word(told.here.0);
            out.word32(told.here.1).flags(&[told.is_gone, told.is_outside]);
            out.counted(&told.log.to_bytes());
        };
        let take = |from: &mut Reader| {
            let (name, traits) = (from.text()?, from.word()?);
            let (here, [is_gone, is_outside]) = ((from.word()?, from.word32()?), from.flags()?);
            let log = NodeLog::from_bytes(from.counted()?)?;
            Some((name, RankTold { log, traits, here, is_gone, is_outside }))
        };
        let bytes = Writer::new().list(own, put).take();
        let mut files: BTreeMap<String, BTreeMap<usize, RankTold>> = BTreeMap::new();
        for (rank, bytes) in world.all_gather(&bytes)?.into_iter().enumerate() {
            let unreadable = || Error::Unreadable("a rank's list of writes cannot be read".into());
            for (name, told) in Reader::new(&bytes).list(take).ok_or_else(unreadable)? {
                files.entry(name).or_default().insert(rank, told);
            }
        }
        Ok(files.into_iter().map(|(name, told)| Self::of(name, told, nodes)).collect())
    }

    fn of(name: String, told: BTreeMap<usize, RankTold>, nodes: &[usize]) -> Self {
        let mut all: BTreeMap<usize, (Vec<NodeLog>, u64)> = BTreeMap::new();
        for (rank, one) in &told {
            let (logs, bytes) = all.entry(nodes[*rank]).or_default();
            logs.push(one.log.clone());
            *bytes = one.here.0;
        }
        let join = |(logs, bytes): (Vec<NodeLog>, u64)| NodeLog::joined(&logs, Some(bytes));
        let logs = all.into_iter().map(|(node, of)| (node, join(of))).collect();
        PartedWhole { name, told, logs }
    }

    /// Tells whether the program has deleted it.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.told.values().any(|one| one.is_gone)
    }

    /// Returns the ranks that have written it on the PFS.
    #[must_use]
    pub fn outsiders(&self) -> Vec<usize> {
        let outside = self.told.iter().filter(|(_, one)| one.is_outside);
        outside.map(|(rank, _)| *rank).collect()
    }

    /// Tells whether nobody has a part of it in a cache.
    #[must_use]
    pub fn is_outside(&self) -> bool {
        self.told.values().all(|one| one.is_outside)
    }

    /// Returns the ranks that have opened it.
    #[must_use]
    pub fn writers(&self) -> Vec<usize> {
        self.told.keys().copied().collect()
    }

    /// Finds this rank's part; its bytes lie in the node's file at `place`. `here` is the number of
    /// its `node`. `None`: nobody knows who has written some byte last, or bytes are there that no
    /// log tells of.
    /// Collective.
    ///
    /// # Errors
    /// On all ranks, if the file of a node cannot be read, or get its rights.
    pub fn deal(
        &self,
        world: &dyn Comm,
        node: &dyn Comm,
        here: usize,
        place: Option<&Path>,
    ) -> Result<Option<Dealt>> {
        let logs: Vec<NodeLog> = self.logs.values().cloned().collect();
        let resolved = resolve(&logs);
        let bits = trait_bit::UNSEEN | trait_bit::OVERFULL | trait_bit::HOLES;
        if self.told.values().any(|one| one.traits & bits != 0) || !resolved.conflicts.is_empty() {
            return Ok(None);
        }
        let owned = self.logs.keys().zip(&resolved.owned).find(|(node, _)| **node == here);
        let owned = owned.map_or_else(Extents::default, |(_, all)| all.clone());
        let own = || {
            let log = self.logs.get(&here).zip(place).filter(|_| node.rank() == 0);
            let is_unseen = log.map_or(Ok(false), |(log, place)| has_unlogged(place, log))?;
            let dealt = owned.dealt_out(node.size(), UNIT_BYTES).swap_remove(node.rank());
            Ok((is_unseen, self.part(world.rank(), dealt, &resolved, place)?))
        };
        let ((_, part), is_refused) = agree_and_ask(world, own(), |(is_unseen, _)| *is_unseen)?;
        let here = PartHere { extents: owned, whole: resolved.size };
        Ok((!is_refused).then_some(Dealt { part, here }))
    }

    /// Returns the rights that the program's own call gave it: on a node where none did the file
    /// has those of [`PART_MODE`].
    fn rights(&self) -> u32 {
        let mut modes = self.told.values().map(|one| one.here.1);
        modes.find(|mode| *mode != PART_MODE).unwrap_or(PART_MODE)
    }

    /// Makes the part of a rank that has `owned` of the file.
    fn part(
        &self,
        rank: usize,
        owned: Extents,
        resolved: &Resolved,
        place: Option<&Path>,
    ) -> Result<Option<FileMeta>> {
        // A file without a byte is there, too.
        let first = self.told.first_key_value();
        let is_first = first.is_some_and(|(one, _)| *one == rank);
        let names = is_first && resolved.owned.iter().all(Extents::is_empty);
        let Some(place) = place.filter(|_| !owned.is_empty() || names) else { return Ok(None) };
        set_mode(place, self.rights())?;
        let (name, size) = (FilePart::file_name(rank, &self.name), owned.bytes());
        let (of, whole) = (self.name.clone(), resolved.size);
        let part = FilePart { of, extents: owned, whole, share: None, live: true };
        Ok(Some(FileMeta { name, size, part: Some(part.into()), ..FileMeta::default() }))
    }
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    let failed = |error| Error::io("cannot set the rights of", path, error);
    let found = path.metadata().map_err(failed)?.permissions();
    match found.mode() & 0o7777 == mode {
        true => Ok(()),
        false => set_permissions(path, Permissions::from_mode(mode)).map_err(failed),
    }
}

#[cfg(test)]
mod tests {
    use scr_abi::accesses::Moment;

    use super::*;
    use crate::comm::solo::Solo;
    use crate::comm::threads::run;
    use crate::parts::{Extent, Write};

    #[test]
    fn a_file_that_one_node_cannot_read_ends_it_on_all() {
        let dir = tempfile::tempdir().unwrap();
        let place = |node: usize| dir.path().join(node.to_string());
        std::fs::write(place(0), [1; 8]).unwrap();
        let outcomes = run(2, |comm| {
            let rank = comm.rank();
            let piece = Extent::new(rank as u64 * 8, rank as u64 * 8 + 8);
            let writes = vec![Write { piece, stamp: Moment::at(1) }];
            let log = NodeLog { writes, ..NodeLog::default() };
            let told = RankTold { log, here: (piece.end, 0o600), ..RankTold::default() };
            let wholes =
                PartedWhole::gather(&*comm, &[0, 1], &[("all".to_string(), told)]).unwrap();
            let dealt = wholes[0].deal(&*comm, &Solo::new(), rank, Some(&place(rank)));
            comm.barrier().unwrap();
            dealt.map_err(|error| error.to_string())
        });
        for outcome in outcomes {
            let why = outcome.unwrap_err();
            assert!(why.contains("No such file"), "{why}");
        }
    }
}
