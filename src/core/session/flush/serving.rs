//! Files that ranks of other nodes wait for (`updates/wanted.rs`) go to the prefix.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::cache::disk::names_in;
use crate::error::Result;
use crate::files::{create_dirs, remove_tree};
use crate::log::{self, messages};
use crate::machine::{DatasetKey, Reason};
use crate::records::{self, RecordedState};
use crate::session::{flush::Flusher, rank::lock};

/// Between two looks of a node at the prefix.
const LOOK: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct Served {
    /// Id and epoch of the datasets that this rank has begun to write.
    begun: BTreeSet<(u64, u64)>,
    looked: Option<Instant>,
    /// When files of a dataset that is not sealed were first asked for.
    asked: BTreeMap<DatasetKey, Instant>,
}

impl Flusher {
    pub(crate) fn serve_wanted(&self, served: &mut Served) {
        self.unsealed.serve_turn();
        if self.site.leads_node && served.looked.is_none_or(|last| last.elapsed() >= LOOK) {
            served.looked = Some(Instant::now());
            self.rank.mention_if_failed(self.repeat_wanted());
        }
        let names = names_in(&self.updates.wanted_here()).unwrap_or_default();
        let keys = names.iter().filter_map(|name| self.rank.key_of_directory(name));
        let mut ids: BTreeSet<u64> = names.iter().filter_map(|name| name.parse().ok()).collect();
        for key in keys {
            let id = self.node.state().own.holdings.get(&key).map_or(0, |holding| holding.id);
            match id {
                0 => self.publish_wanted(&key, served),
                id => drop(ids.insert(id)), // sealed since
            }
        }
        served.begun.retain(|(id, _)| ids.contains(id));
        if names.is_empty() {
            served.asked.clear();
        }
        for id in ids {
            if let Err(error) = self.begin_wanted(id, served) {
                let rank = self.site.rank;
                log::warn_once(
                    messages::REQUEST_FAILED,
                    format_args!("rank {rank}: dataset {id}: {error}"),
                );
            }
        }
    }

    /// Leaves pointer files until the other ranks have had the time to write theirs.
    pub(crate) fn publish_wanted(&self, key: &DatasetKey, served: &mut Served) {
        let asked = served.asked.entry(key.clone()).or_insert_with(Instant::now);
        let pointers = asked.elapsed() >= LOOK * 2;
        let wanted = self.node.state().machine.wanted(key);
        let mut now = wanted.iter().filter(|one| pointers || !one.last);
        now.all(|one| self.unsealed.publish_unsealed_file(one, Reason::Wanted));
    }

    pub(crate) fn repeat_wanted(&self) -> Result<()> {
        // A look at a folder that is not there is all that this costs, mostly.
        let there = names_in(&self.updates.wanted_folder())?;
        let here = self.updates.wanted_here();
        let known = names_in(&here)?;
        for name in there.iter().filter(|name| !known.contains(name)) {
            create_dirs(&here.join(name), 0o700)?;
        }
        for name in known.iter().filter(|name| !there.contains(name)) {
            remove_tree(&here.join(name))?;
        }
        if self.site.rank == 0 {
            there.iter().filter(|name| self.is_answered(name)).for_each(|name| {
                let _ = remove_tree(&self.updates.wanted_folder().join(name));
            });
        }
        Ok(())
    }

    pub(crate) fn is_answered(&self, request: &str) -> bool {
        let Some(key) = records::RecordKey::from_directory_name(request) else { return false };
        let Some(key) = self.rank.machine_key(&key) else { return true };
        let state = self.node.state();
        let sealed = state.own.holdings.get(&key).is_some_and(|holding| holding.id != 0);
        let known = state.machine.datasets(key.series).iter().any(|one| one.key == key);
        sealed || (state.view.layer(&key).is_none() && !known)
    }

    /// Does nothing if this rank has begun, or must wait for something else to end.
    pub(crate) fn begin_wanted(&self, id: u64, served: &mut Served) -> Result<()> {
        let Some(record) = self.site.filemap.get_id(id) else { return Ok(()) };
        let Some(key) = self.rank.machine_key(&record.key) else { return Ok(()) };
        if record.state != RecordedState::Prepared {
            self.publish_wanted(&key, served); // it was opened again
            return Ok(());
        }
        let (begun, seal) = (&mut served.begun, (id, record.epoch));
        if begun.contains(&seal) {
            return Ok(());
        }
        if let Some(flush) = self.flushes().get(&id) {
            flush.hurry();
            begun.insert(seal);
            return Ok(());
        }
        let mut running = self.background();
        let busy = running.as_ref().is_some_and(|(_, one)| !one.is_finished());
        if busy || *lock(&self.flushing) {
            return Ok(()); // the next look
        }
        if let Some((of, Err(error))) = running.take().map(|(of, ended)| (of, ended.finish())) {
            self.rank.complain(messages::REQUEST_FAILED, format_args!("dataset {of}: {error}"));
        }
        *running = Some((id, self.begin_background(record, &key)?));
        begun.insert(seal);
        Ok(())
    }
}
