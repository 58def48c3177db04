//! What an earlier launch left comes into view, and is told in one line.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::cache::{Offered, RebuildReport, replicate_small};
use crate::comm::trees;
use crate::error::{Error, Result, again};
use crate::kvtree::KvTree;
use crate::launch::site::Links;
use crate::log::messages;
use crate::machine::{DatasetKey, Offer, Rejected, RestoredFiles, Resumed};
use crate::namespace::{self as ns, Layer};
use crate::records::FileMeta;
use crate::restart::index::{Index, IndexedDataset};
use crate::restart::thrown::{LastWords, still_there};
use crate::session::{rank::lock, restart::Restorer};
use crate::system::monotonic_ms;
use crate::transfer::{JournalReport, bring_parts_together};

impl Restorer {
    /// Brings the datasets into view. Collective.
    pub(crate) fn offer(
        &self,
        report: &mut RebuildReport,
        left: &JournalReport,
        elapsed: Duration,
    ) -> Result<()> {
        let Some(links) = self.rank.links() else { return Ok(()) };
        let index = Index::read(links.world.as_ref(), &self.site, &self.rank.series, Some(report))?;
        self.log_journal(left, &index);
        let mut restart = self.restart_from(index, report);
        self.prefix.withhold_spoiled(&links, report, &mut restart.index)?;
        let mut removed = self.withhold_removed(&links, report, &mut restart.index)?;
        restart.cached = self.known_in_cache(report);
        self.publish_stranded(&links, report, &mut restart)?;
        self.arrange(&links, report, &mut restart.index)?;
        let mut hidden = self.do_plan(&links, &mut restart, report)?;
        let known = restart.index;
        self.heed_pointers(report, &known);
        let report = &*report;
        let lost = known.lost_checkpoint(report, |key| self.rank.title_of(key));
        let numbers = self.numbers(&links, report)?;
        let mut words = match numbers.iter().any(|one| one.2) {
            true => LastWords::gather(links.world.as_ref(), &report.offered)?,
            false => LastWords::default(),
        };
        let gone = words.heed(&report.offered);
        let mut resumed = Resumed {
            last_id: known.last_id,
            last_numbers: known.last_numbers.clone(),
            listed: known.listed.iter().filter_map(IndexedDataset::short).collect(),
            ..Resumed::default()
        };
        resumed.decision.last_id = report.highest_id;
        for (offered, (number, output, _)) in report.offered.iter().zip(numbers) {
            let Some(key) = self.rank.machine_key(&offered.key) else { continue };
            let flushed = known.has_had(offered.id);
            self.show_offered(&key, offered, flushed);
            resumed.own.push(self.own_part(&key, offered, words.left.get(&offered.id)));
            resumed.decision.offered.push(offer_of(key, offered, number, output, flushed));
        }
        self.withhold(report, &known, &mut resumed.decision.rejected);
        resumed.decision.rejected.append(&mut removed);
        resumed.decision.rejected.append(&mut hidden.rejected);
        self.prefix.hide_halves(&links, report, &known, &mut hidden)?;
        self.node.state().machine.resume(&resumed);
        if self.site.rank == 0 {
            self.prefix.remove_begun_dirs(report, hidden.in_place.as_ref());
        }
        self.prefix.hide(&links, &hidden, report)?;
        self.remake_directories(report);
        self.replicate(&links, report)?;
        self.show_left(&resumed);
        let done = |one: &&Offered| left.completed.contains(&one.id) || left.gone.contains(&one.id);
        let published: Vec<_> = report.offered.iter().filter(done).collect();
        self.take_away(&links, &gone, &published)?;
        if self.site.rank == 0 {
            self.tell_offers(report, &known, &hidden, elapsed);
        }
        self.require_restart(&links, lost)?;
        self.flush.resume_flushes(&links, report, &left.unfinished, &known.flushed)?;
        if known.newest_is_cached(report) {
            self.flush_newest(&links, report, &known.flushed)?;
        }
        Ok(())
    }

    /// Those that only the cache had may be had again, and so may those of another prefix.
    fn withhold(&self, report: &RebuildReport, known: &Index, rejected: &mut Vec<Rejected>) {
        for withheld in report.withheld.iter().filter(|one| !one.deleted) {
            let Some(key) = self.rank.machine_key(&withheld.key) else { continue };
            if withheld.id > 0 && !known.flushed.contains(&withheld.id) {
                lock(&self.ending.out_of_reach).push((key.series, withheld.id));
            }
            rejected.push(Rejected { key, id: withheld.id });
        }
        for (id, key) in &report.strange {
            let Some(key) = self.rank.machine_key(key) else { continue };
            lock(&self.ending.out_of_reach).push((key.series, *id));
            rejected.push(Rejected { key, id: *id });
        }
    }

    fn show_offered(&self, key: &DatasetKey, offered: &Offered, flushed: bool) {
        let mut state = self.node.state();
        state.view.put(Layer::new(key.clone(), offered.dir.clone()));
        let holding = state.own.holdings.entry(key.clone()).or_default();
        holding.store = offered.store.clone();
        holding.redundancy_bytes = offered.redundancy_bytes;
        holding.id = offered.id;
        holding.epoch = offered.epoch;
        holding.flushed = flushed;
        let own = offered.files.iter().filter(|file| file.part.is_none());
        holding.files = own.map(|file| file.name.clone()).collect();
        state.view.show(key, &offered.catalog);
    }

    /// What the program has changed since the seal is seen as the PFS has it, unless a later
    /// dataset has it. All ranks know all layers before.
    fn show_left(&self, resumed: &Resumed) {
        let mut state = self.node.state();
        for (offer, own) in resumed.decision.offered.iter().zip(&resumed.own) {
            for name in &own.left {
                if let Some(layer) = state.view.layer_mut(&offer.key) {
                    layer.set_on_prefix(name, true);
                }
                if !state.view.is_in_newer(&offer.key, name, |_| false) {
                    state.view.tell_on_prefix(name);
                }
            }
        }
    }

    /// See [`still_there`]. Collective.
    fn take_away(
        &self,
        links: &Links,
        gone: &BTreeMap<String, u64>,
        published: &[&Offered],
    ) -> Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        let there = match self.site.rank {
            0 => still_there(&self.site.prefix, gone, published),
            _ => KvTree::new(),
        };
        for name in trees::from_root(links.world.as_ref(), &there, 0)?.keys() {
            let mut state = self.node.state();
            match self.rank.file_ref(name).filter(|_| self.site.rank == 0) {
                Some(file) => {
                    let deletion = state.machine.deleted(&file, monotonic_ms());
                    self.contents.delete(&mut state, name, &ns::Place::Prefix, deletion)?;
                }
                None => state.view.delete(name),
            }
        }
        Ok(())
    }

    /// Those of cached files may have gone with an abandoned clean-up.
    fn remake_directories(&self, report: &RebuildReport) {
        for offered in &report.offered {
            for file in &offered.files {
                let dir = self.site.prefix.join(ns::parent(file.whole_name()));
                let failed = |error| Error::io("cannot create the directory", &dir, error);
                self.rank.complain_if_failed(
                    messages::DIRECTORY_NOT_MADE,
                    again(|| std::fs::create_dir_all(&dir).map_err(failed)),
                );
            }
        }
    }

    fn replicate(&self, links: &Links, report: &RebuildReport) -> Result<()> {
        for offered in &report.offered {
            let names = replicate_small(&links.ctx(&self.site), offered)?;
            let parts = bring_parts_together(&links.ctx(&self.site), offered)?;
            let Some(key) = self.rank.machine_key(&offered.key) else { continue };
            let mut state = self.node.state();
            parts.into_iter().for_each(|(name, here)| state.own.parted.keep(&key, name, here));
            if let Some(layer) = state.view.layer_mut(&key) {
                names.iter().for_each(|name| layer.drop_elsewhere(name));
            }
        }
        Ok(())
    }

    /// Ranks on other nodes can open files of the newest dataset when the prefix has it.
    /// Collective.
    fn flush_newest(&self, links: &Links, report: &RebuildReport, flushed: &[u64]) -> Result<()> {
        let Some(newest) = report.offered.last() else { return Ok(()) };
        let Some(key) = self.rank.machine_key(&newest.key) else { return Ok(()) };
        // One that may not be complete must not take the names of an older one.
        let safe = newest.confirmed || self.rank.series.series()[key.series].has_id;
        if !safe || flushed.contains(&newest.id) || self.flush.flushes().contains_key(&newest.id) {
            return Ok(());
        }
        match self.flush.begin_flush(links, &key, newest.id) {
            Err(error @ Error::Comm(_)) => Err(error),
            Err(error) => {
                self.rank.tell(
                    messages::FLUSH_DELAYED,
                    format_args!("{}: {error}; it is flushed later", self.rank.title(&key)),
                );
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn own_part(
        &self,
        key: &DatasetKey,
        offered: &Offered,
        left: Option<&BTreeSet<String>>,
    ) -> RestoredFiles {
        let explicit = self.rank.series.series()[key.series].is_explicit();
        let part = |file: &FileMeta| {
            if explicit {
                let masked = format!("{{id}}/{}", file.name);
                return (file.name.clone(), masked, file.size, file.on_prefix);
            }
            let matched = self.rank.series.match_path(&file.name);
            let masked = matched.map_or_else(|| file.name.clone(), |matched| matched.masked);
            (file.name.clone(), masked, file.size, file.on_prefix)
        };
        // What several nodes have written each of its writers has, as while it was written.
        let files = offered.files.iter().map(|file| part(&file.as_whole())).collect();
        RestoredFiles { files, left: left.cloned().unwrap_or_default() }
    }
}

fn offer_of(key: DatasetKey, offered: &Offered, number: u64, output: bool, flushed: bool) -> Offer {
    Offer {
        key,
        id: offered.id,
        number,
        epoch: offered.epoch,
        confirmed: offered.confirmed,
        output,
        on_prefix: offered.is_on_prefix(),
        flushed,
    }
}
