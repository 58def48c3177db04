//! Files that ranks of several nodes have written together, at the seal: who has written which byte
//! last is found out, and each node deals out what it has evenly to its ranks.
//!
//! The part of a rank is a file of that rank from then on; its bytes lie in the node's file.

use std::collections::BTreeMap;
use std::fs::{File, Permissions, set_permissions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;

use scr_abi::accesses::trait_bit;

use crate::bytes::{Reader, Writer};
use crate::cache::agree::any;
use crate::comm::ranks::ranks_phrase;
use crate::error::{Error, Result};
use crate::handles::PartedFile;
use crate::launch::site::Links;
use crate::machine::{Contested, DatasetKey, FileRef, contested_reason};
use crate::namespace::Place;
use crate::parts::{Extent, Extents, NodeLog, Owners, resolve};
use crate::records::{FileMeta, FilePart};
use crate::session::conference::Conference;
use crate::system::next_data;

/// No rank's part is cut finer, bytes.
const UNIT_BYTES: u64 = 1 << 20;

/// What a rank says of a file.
#[derive(Debug, Default)]
struct Told {
    log: NodeLog,
    /// What it has made the file at least.
    grown: u64,
    traits: u64,
    /// Length and rights of the node's file; the whole gets the rights of the lowest rank's.
    here: (u64, u32),
    /// The program has deleted it.
    is_gone: bool,
}

/// A file, with what each rank that has opened it says of it.
struct Whole {
    name: String,
    told: BTreeMap<usize, Told>,
    /// By node.
    logs: BTreeMap<usize, NodeLog>,
}

impl Conference {
    /// Puts this rank's parts among its `files` of the dataset. Collective.
    ///
    /// # Errors
    /// On all ranks if nobody can know what such a file has to contain: the dataset is given up.
    pub(super) fn deal_out(
        &self,
        links: &Links,
        key: &DatasetKey,
        files: &mut Vec<FileMeta>,
    ) -> Result<()> {
        if !self.node.state().machine.knows_parted() {
            return Ok(());
        }
        self.unsealed.stand_still(links.world.as_ref())?;
        let wholes = self.wholes(links, key)?;
        files.extend(self.sealed_parts(key, &wholes));
        for whole in wholes {
            files.retain(|file| file.name != whole.name);
            if !whole.told.values().any(|one| one.is_gone) {
                files.extend(self.own_part(links, key, &whole)?);
            }
        }
        Ok(())
    }

    /// Returns this rank's parts of files that were complete at the seal before, and still are.
    fn sealed_parts(&self, key: &DatasetKey, now: &[Whole]) -> Vec<FileMeta> {
        let record = self.site.filemap.get(&self.rank.record_key(key));
        let mut parts = record.map_or_else(Vec::new, |record| record.files);
        let state = self.node.state();
        parts.retain(|file| {
            let Some(part) = &file.part else { return false };
            let is_there = matches!(state.view.place(&part.of), Place::Elsewhere(..));
            is_there && now.iter().all(|whole| whole.name != part.of)
        });
        parts
    }

    fn own_part(&self, links: &Links, key: &DatasetKey, whole: &Whole) -> Result<Option<FileMeta>> {
        let state = self.node.state();
        let here = state.machine.nodes()[self.site.rank];
        let place = state.view.layer(key).map(|layer| layer.dir.join(&whole.name));
        drop(state);
        let logs: Vec<NodeLog> = whole.logs.values().cloned().collect();
        let resolved = resolve(&logs);
        // Whoever cannot read it says so where all are asked.
        let unseen = match (whole.logs.get(&here), &place) {
            (Some(log), Some(place)) if self.site.leads_node => {
                has_unlogged(place, log).unwrap_or(true)
            }
            _ => false,
        };
        let unseen = any(links.world.as_ref(), unseen)?;
        let bits = trait_bit::UNSEEN | trait_bit::OVERFULL | trait_bit::HOLES;
        let strange = whole.told.values().any(|one| one.traits & bits != 0);
        if unseen || strange || !resolved.conflicts.is_empty() {
            return self.refuse(key, whole);
        }
        let owned = whole.logs.keys().zip(resolved.owned.iter()).find(|(node, _)| **node == here);
        let at = links.node_ranks.iter().position(|rank| *rank == self.site.rank);
        let owned = owned.map_or_else(Extents::default, |(_, all)| {
            all.dealt_out(links.node_ranks.len(), UNIT_BYTES).swap_remove(at.unwrap_or(0))
        });
        // A file without a byte is there, too.
        let first = whole.told.first_key_value();
        let is_first = first.is_some_and(|(rank, _)| *rank == self.site.rank);
        let names = is_first && resolved.owned.iter().all(Extents::is_empty);
        let Some(place) = place.filter(|_| !owned.is_empty() || names) else { return Ok(None) };
        set_mode(&place, first.map_or(0o600, |(_, one)| one.here.1))?;
        let last_cut = logs.iter().flat_map(|log| &log.cuts).map(|cut| cut.stamp).max();
        let grown = whole.told.values().map(|one| one.grown).max();
        let grown = grown.filter(|_| last_cut.is_none()).unwrap_or(0);
        let size = resolved.size.max(grown);
        Ok(Some(part(self.site.rank, &whole.name, owned, size)))
    }

    /// Gathers what the ranks say of the files of a dataset that several nodes have written.
    /// Collective.
    fn wholes(&self, links: &Links, key: &DatasetKey) -> Result<Vec<Whole>> {
        let own = self.tell(key);
        let put = |out: &mut Writer, (name, told): &(String, Told)| {
            out.counted(name.as_bytes()).word(told.grown).word(told.traits).word(told.here.0);
            out.word32(told.here.1).flags(&[told.is_gone]).counted(&told.log.to_bytes());
        };
        let take = |from: &mut Reader| {
            let (name, grown, traits) = (from.text()?, from.word()?, from.word()?);
            let (here, [is_gone]) = ((from.word()?, from.word32()?), from.flags()?);
            let log = NodeLog::from_bytes(from.counted()?)?;
            Some((name, Told { log, grown, traits, here, is_gone }))
        };
        let bytes = Writer::new().list(&own, put).take();
        let mut files: BTreeMap<String, BTreeMap<usize, Told>> = BTreeMap::new();
        for (rank, bytes) in links.world.all_gather(&bytes)?.into_iter().enumerate() {
            let unreadable = || Error::Unreadable("a rank's list of writes cannot be read".into());
            for (name, told) in Reader::new(&bytes).list(take).ok_or_else(unreadable)? {
                files.entry(name).or_default().insert(rank, told);
            }
        }
        let state = self.node.state();
        let whole = |(name, told): (String, BTreeMap<usize, Told>)| {
            let mut nodes: BTreeMap<usize, (Vec<NodeLog>, u64)> = BTreeMap::new();
            for (rank, one) in &told {
                let (logs, bytes) = nodes.entry(state.machine.nodes()[*rank]).or_default();
                logs.push(one.log.clone());
                *bytes = one.here.0;
            }
            let join = |(logs, bytes): (Vec<NodeLog>, u64)| NodeLog::joined(&logs, Some(bytes));
            let logs = nodes.into_iter().map(|(node, of)| (node, join(of))).collect();
            Whole { name, told, logs }
        };
        Ok(files.into_iter().map(whole).collect())
    }

    fn tell(&self, key: &DatasetKey) -> Vec<(String, Told)> {
        let state = self.node.state();
        let told = |name: String| {
            let file = state.own.parted.get(key, &name)?;
            let log = file.log?;
            let here = state.view.layer(key)?.dir.join(&name).metadata().ok();
            let here = here.map_or((0, 0o600), |it| (it.len(), it.permissions().mode() & 0o7777));
            let (grown, traits) = (PartedFile::grown(log), log.traits());
            let is_gone = state.view.place(&name) == Place::Deleted;
            Some((name, Told { log: PartedFile::node_log(log), grown, traits, here, is_gone }))
        };
        state.own.parted.names(key).into_iter().filter_map(told).collect()
    }

    /// Gives the dataset up: nobody knows who has written some byte of the file last, or bytes are
    /// there that no log tells of.
    fn refuse(&self, key: &DatasetKey, whole: &Whole) -> Result<Option<FileMeta>> {
        let ranks: Vec<usize> = whole.told.keys().copied().collect();
        let by_calls = || FileRef::explicit(key, &whole.name);
        let file = self.rank.file_ref(&whole.name).unwrap_or_else(by_calls);
        let why = contested_reason(&whole.name, &ranks_phrase(&ranks[1..]));
        let contested = Contested { file, ranks, spoiled: Some(why.clone()) };
        self.node.state().machine.settle_contested(key, &[contested]);
        Err(Error::Refused(why))
    }
}

fn part(rank: usize, of: &str, extents: Extents, whole: u64) -> FileMeta {
    let (name, size) = (FilePart::file_name(rank, of), extents.bytes());
    let part = FilePart { of: of.to_owned(), extents, whole, share: 0, live: true };
    FileMeta { name, size, part: Some(part.into()), ..FileMeta::default() }
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    let failed = |error| Error::io("cannot set the rights of", path, error);
    let found = path.metadata().map_err(failed)?.permissions();
    match found.mode() & 0o7777 == mode {
        true => Ok(()),
        false => set_permissions(path, Permissions::from_mode(mode)).map_err(failed),
    }
}

/// Tells whether the node's file has bytes that no log tells of: somebody has written them unseen.
fn has_unlogged(path: &Path, log: &NodeLog) -> Result<bool> {
    let failed = |error| Error::io("cannot read", path, error);
    let mut logged = Owners::default();
    log.writes.iter().for_each(|write| _ = logged.put(0, write.piece, 0));
    let file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let (mut at, mut bytes) = (0, vec![0; 64 << 10]);
    while let Some(data) = next_data(&file, at, size).map_err(failed)? {
        at = data.end;
        for gap in logged.gaps(1, Extent::new(data.start, data.end)) {
            for begin in (gap.begin..gap.end).step_by(bytes.len()) {
                let some = (gap.end - begin).min(bytes.len() as u64) as usize;
                file.read_exact_at(&mut bytes[..some], begin).map_err(failed)?;
                if bytes[..some].iter().any(|byte| *byte != 0) {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}
