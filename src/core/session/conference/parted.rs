//! Files that ranks of several nodes have written together, at the seal: who has written which byte
//! last is found out, and each node deals out what it has evenly to its ranks.
//!
//! The part of a rank is a file of that rank from then on; its bytes lie in the node's file.

use std::os::unix::fs::PermissionsExt as _;

use crate::cache::{Dealt, PartedWhole, RankTold};
use crate::comm::ranks::ranks_phrase;
use crate::error::{Error, Result};
use crate::launch::site::Links;
use crate::machine::{Contested, DatasetKey, FileRef, contested_reason, unclear_reason};
use crate::namespace::Place;
use crate::parts::NodeLog;
use crate::records::FileMeta;
use crate::session::conference::Conference;

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
            // Such a name may stay on the PFS from now on; what is sealed of it is there as before.
            files.extend(self.sealed_parts(key, &[]));
            return Ok(());
        }
        self.unsealed.pulls.stand_still(links.world.as_ref())?;
        let own = self.tell(key);
        let nodes = self.node.state().machine.nodes().to_vec();
        let wholes = PartedWhole::gather(links.world.as_ref(), &nodes, &own)?;
        files.extend(self.sealed_parts(key, &wholes));
        for whole in wholes.into_iter().filter(|whole| !whole.is_outside()) {
            files.retain(|file| file.name != whole.name);
            if whole.is_gone() {
                continue;
            }
            let outside = whole.outsiders();
            if !outside.is_empty() {
                // What the caches have would replace it.
                let why = contested_reason(&whole.name, &ranks_phrase(&outside));
                return Err(self.refuse(key, &whole, why));
            }
            let state = self.node.state();
            let place = state.view.layer(key).map(|layer| layer.dir.join(&whole.name));
            drop(state);
            let here = nodes[self.site.rank];
            let dealt = whole.deal(&*links.world, &*links.node, here, place.as_deref())?;
            let Some(Dealt { part, here }) = dealt else {
                return Err(self.refuse(key, &whole, unclear_reason(&whole.name)));
            };
            files.extend(part);
            self.node.state().own.parted.entry(key, &whole.name).dealt = Some(here);
        }
        Ok(())
    }

    /// Returns this rank's parts of files that were complete at the seal before, and still are.
    fn sealed_parts(&self, key: &DatasetKey, now: &[PartedWhole]) -> Vec<FileMeta> {
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

    fn tell(&self, key: &DatasetKey) -> Vec<(String, RankTold)> {
        let state = self.node.state();
        let told = |name: String| {
            let file = state.own.parted.get(key, &name)?;
            let log = file.log?;
            let here = state.view.layer(key)?.dir.join(&name).metadata().ok();
            let here = here.map_or((0, 0o600), |it| (it.len(), it.permissions().mode() & 0o7777));
            let traits = log.traits();
            let is_gone = state.view.place(&name) == Place::Deleted;
            let log = NodeLog::of(log.all());
            Some((name, RankTold { log, traits, here, is_gone, is_outside: false }))
        };
        let file = |name: &str| self.rank.file_ref(name);
        let files = state.machine.seal_files(key).into_iter().map(|file| file.name);
        let outside = files.filter(|it| file(it).is_some_and(|it| state.wrote_outside(key, &it)));
        let outside = outside.map(|name| (name, RankTold { is_outside: true, ..<_>::default() }));
        state.own.parted.names(key).into_iter().filter_map(told).chain(outside).collect()
    }

    /// Gives the dataset up: it is not known what the file has to contain.
    fn refuse(&self, key: &DatasetKey, whole: &PartedWhole, why: String) -> Error {
        let ranks = whole.writers();
        let by_calls = || FileRef::explicit(key, &whole.name);
        let file = self.rank.file_ref(&whole.name).unwrap_or_else(by_calls);
        let contested = Contested { file, ranks, spoiled: Some(why.clone()) };
        self.node.state().machine.settle_contested(key, &[contested]);
        Error::Refused(why)
    }
}
