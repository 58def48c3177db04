//! What an earlier launch left comes into view, and is told in one line.

use std::time::Duration;

use super::offered::offer_of;
use super::staying::is_newest;
use crate::cache::{Offered, RebuildReport, Withheld, replicate_small};
use crate::error::{Error, Result, again};
use crate::kvtree::KvTree;
use crate::log;
use crate::records::{self, Turn};
use crate::session::machine::{DatasetKey, Rejected, Resumed};
use crate::session::namespace::{self as ns, Layer};
use crate::session::rank::runtime::Session;
use crate::session::rank::site::Links;
use crate::transfer::{
    JournalReport, Repaired, finish_returns, last_turn, list_in_cache, list_prefix, repair_prefix,
    returned_to,
};

/// What the index on the prefix says.
#[derive(Debug, Default)]
pub(in crate::session) struct Index {
    /// Largest id.
    last_id: u64,
    /// Datasets that are there, whole.
    pub flushed: Vec<u64>,
    /// Per series, the largest number in it.
    last_numbers: Vec<u64>,
    /// Of those that are not there any more, the ones that somebody has deleted.
    pub gone: Vec<u64>,
    /// All datasets, newest first.
    pub listed: Vec<Listed>,
    /// Id of the one that is marked as current.
    current: Option<u64>,
    /// Nothing is, since the run went back to this one, which only the cache had.
    pub returned_to: Option<u64>,
    /// The last time that the run went back.
    pub turn: Option<Turn>,
    /// Id and name of the complete ones that only the cache had, by what the last launch has left.
    pub in_cache: Vec<(u64, String)>,
}

impl Index {
    /// Id and key of all that is on the prefix, whole, newest first.
    pub fn restorable(&self) -> impl Iterator<Item = (u64, &records::DatasetKey)> {
        let whole = self.listed.iter().filter(|one| self.flushed.contains(&one.id));
        whole.map(|one| (one.id, &one.key))
    }

    /// Nothing of the dataset is to be written to the prefix any more: it is there, or it was, and
    /// a whole newer one has taken names of it. Written again, it would take them back.
    fn has_had(&self, id: u64) -> bool {
        let replaced = self.listed.iter().find(|one| one.id == id && one.replaced);
        self.flushed.contains(&id)
            || replaced.is_some_and(|old| {
                let same = |key: &records::DatasetKey| {
                    (&key.series, &key.id) == (&old.key.series, &old.key.id)
                };
                self.restorable().any(|(newer, key)| newer > id && same(key))
            })
    }

    /// What the cache should have and cannot give, but for what the prefix has, and for checkpoints
    /// that were being written when the run ended.
    pub fn lost<'a>(&self, report: &'a RebuildReport) -> impl Iterator<Item = &'a Withheld> {
        let known = report.withheld.iter().filter(|one| one.id > 0 || !one.deleted);
        known.filter(|one| !self.flushed.contains(&one.id))
    }

    /// The current one, if it is whole: a restart from the prefix begins there.
    pub fn current(&self) -> Option<&Listed> {
        let current = self.listed.iter().find(|one| Some(one.id) == self.current)?;
        self.flushed.contains(&current.id).then_some(current)
    }
}

/// A dataset in the index.
#[derive(Debug, Clone)]
pub(in crate::session) struct Listed {
    /// Its number.
    pub id: u64,
    /// Its series, if the patterns still have it.
    pub series: Option<usize>,
    /// Series, captured id, generation.
    pub key: records::DatasetKey,
    /// Name, such as `ckpt.20`.
    pub name: String,
    /// Its number in the series, if a program restarts from it.
    pub checkpoint: Option<u64>,
    /// It was complete, and no newer one has taken its files' names.
    pub holds_names: bool,
    /// It was complete, and a newer one has taken names of it.
    pub replaced: bool,
    /// So it was, and its files are kept beside.
    pub kept: bool,
    /// The run has left it, and this is the first that came to the prefix since.
    pub abandoned_by: Option<u64>,
}

impl Listed {
    /// Series, captured id and number, if the patterns still have the series.
    fn short(&self) -> Option<(usize, String, u64)> {
        Some((self.series?, self.key.id.clone(), self.id))
    }
}

impl Session {
    /// Brings what the cache holds into view, and says so. Collective.
    pub(in crate::session) fn offer(
        &self,
        report: &mut RebuildReport,
        left: &JournalReport,
        elapsed: Duration,
    ) -> Result<()> {
        let Some(links) = self.links() else { return Ok(()) };
        let mut known = self.read_index(&links)?;
        self.log_journal(left, &known);
        self.withhold_spoiled(&links, report, &mut known)?;
        if self.publish_stranded(&links, report, &known)? {
            known = self.read_index(&links)?;
        }
        self.arrange(&links, report, &mut known)?;
        let mut hidden = self.choose_hidden(&links, &mut known, report)?;
        let report = &*report;
        let lost = self.lost_checkpoint(report, &known);
        let numbers = self.numbers(&links, report)?;
        let mut resumed = Resumed {
            last_id: known.last_id,
            last_numbers: known.last_numbers.clone(),
            listed: known.listed.iter().filter_map(Listed::short).collect(),
            ..Resumed::default()
        };
        resumed.decision.last_id = report.highest_id;
        for (offered, (number, output)) in report.offered.iter().zip(numbers) {
            let Some(key) = self.machine_key(&offered.key) else { continue };
            let flushed = known.has_had(offered.id);
            self.show_offered(&key, offered, flushed);
            resumed.own.push(self.own_part(&key, offered));
            resumed.decision.offered.push(offer_of(key, offered, (number, output), flushed));
        }
        self.withhold(report, &known, &mut resumed.decision.rejected);
        resumed.decision.rejected.append(&mut hidden.rejected);
        self.hide_halves(&links, report, &known, &mut hidden)?;
        self.state().machine.resume(&resumed);
        if self.site.rank == 0 {
            self.remove_begun_dirs(report, hidden.in_place.as_ref());
        }
        self.hide(&links, &hidden, report)?;
        self.remake_directories(report);
        self.replicate(&links, report)?;
        if self.site.rank == 0 {
            self.tell_offers(report, &known, &hidden, elapsed);
        }
        self.require_restart(&links, lost)?;
        self.resume_flushes(&links, report, &left.unfinished, &known.flushed)?;
        if is_newest(report, &known) {
            self.flush_newest(&links, report, &known.flushed)?;
        }
        Ok(())
    }

    /// Checkpoints that this launch cannot have. Those that only the cache had may be had again.
    fn withhold(&self, report: &RebuildReport, known: &Index, rejected: &mut Vec<Rejected>) {
        for withheld in report.withheld.iter().filter(|one| !one.deleted) {
            let Some(key) = self.machine_key(&withheld.key) else { continue };
            if withheld.id > 0 && !known.flushed.contains(&withheld.id) {
                self.state().out_of_reach.push((key.series, withheld.id));
            }
            rejected.push(Rejected { key, id: withheld.id });
        }
    }

    /// A damaged index would refuse every flush of this run: it is made anew before anybody reads
    /// it.
    fn repair_prefix(&self) {
        match repair_prefix(&self.site.prefix) {
            Ok(repaired) => repaired.iter().for_each(|Repaired { path, what, instead, kept }| {
                let path = path.display();
                let aside = match kept {
                    true => format!("set aside as {path}.damaged and "),
                    false => String::new(),
                };
                log::warn(format_args!("{path} is damaged ({what}): {aside}{instead}"));
            }),
            Err(error) => log::warn(format_args!("a damaged file stays in the way: {error}")),
        }
        if let Err(error) = finish_returns(&self.site.prefix) {
            log::warn(format_args!("{error}; an older checkpoint is only partly back in place"));
        }
    }

    /// What the index on the prefix says; rank 0 reads, all get it.
    pub(in crate::session) fn read_index(&self, links: &Links) -> Result<Index> {
        let mut tree = KvTree::new();
        if self.site.rank == 0 {
            self.repair_prefix();
            let listed = list_prefix(&self.site.prefix).unwrap_or_else(|error| {
                log::warn(format_args!("{error}; the index is left as it is"));
                Vec::new()
            });
            if let Some(id) = returned_to(&self.site.prefix).ok().flatten() {
                tree.set_value("RETURNED", id);
            }
            if let Some(turn) = last_turn(&self.site.prefix).ok().flatten() {
                tree.set_value("TURN_TO", turn.to);
                tree.set_value("TURN_FROM", turn.from);
            }
            for one in &listed {
                let entry = tree.child_mut("ID").child_mut(one.id);
                entry.set_flag("WHOLE", one.restorable);
                entry.set_value("SERIES", &one.key.series);
                entry.set_value("CAPTURED", &one.key.id);
                entry.set_value("GENERATION", one.key.generation);
                entry.set_value("NAME", &one.name);
                entry.set_flag("NAMES", one.holds_names);
                entry.set_flag("REPLACED", one.replaced);
                entry.set_flag("KEPT", one.kept);
                if let Some(by) = one.abandoned_by {
                    entry.set_value("ABANDONED", by);
                }
                if let Some(number) = one.checkpoint_id {
                    entry.set_value("NUMBER", number);
                }
                if one.current {
                    tree.set_value("CURRENT", one.id);
                }
            }
        }
        if self.site.rank == 0 && !self.purges() {
            let cached = list_in_cache(&self.site.prefix).unwrap_or_else(|error| {
                log::warn(format_args!("{error}; a checkpoint that was lost may not be told of"));
                Vec::new()
            });
            for (id, name) in cached {
                tree.child_mut("CACHED").child_mut(id).set_value("NAME", name);
            }
        }
        let mut bytes = tree.encode();
        links.world.broadcast(&mut bytes, 0)?;
        Ok(self.index_from(&KvTree::decode(&bytes).unwrap_or_default()))
    }

    /// What rank 0 has sent.
    fn index_from(&self, tree: &KvTree) -> Index {
        let series = self.series.series();
        let named = |(id, entry): (&str, &KvTree)| {
            Some((id.parse::<u64>().ok()?, entry.get_value("NAME")?.to_string()))
        };
        let turn = tree.get_u64("TURN_TO").zip(tree.get_u64("TURN_FROM"));
        let turn = turn.map(|(to, from)| Turn { to, from });
        let mut index = Index {
            // No id is used again, though no record of it may be left.
            last_id: turn.map_or(0, |turn| turn.from),
            turn,
            in_cache: tree.child("CACHED").iter().filter_map(named).collect(),
            last_numbers: vec![0; series.len()],
            current: tree.get_u64("CURRENT"),
            returned_to: tree.get_u64("RETURNED"),
            ..Index::default()
        };
        for (id, entry) in tree.child("ID").iter() {
            let Ok(id) = id.parse::<u64>() else { continue };
            index.last_id = index.last_id.max(id);
            if entry.get_flag("WHOLE") {
                index.flushed.push(id);
            }
            let text = |key: &str| entry.get_value(key).unwrap_or_default().to_string();
            let at = entry.get_value("SERIES").and_then(|name| self.series.series_index(name));
            index.listed.push(Listed {
                id,
                series: at,
                key: records::DatasetKey {
                    series: text("SERIES"),
                    id: text("CAPTURED"),
                    generation: entry.get_u64("GENERATION").unwrap_or(0),
                },
                name: text("NAME"),
                checkpoint: entry.get_u64("NUMBER"),
                holds_names: entry.get_flag("NAMES"),
                replaced: entry.get_flag("REPLACED"),
                kept: entry.get_flag("KEPT"),
                abandoned_by: entry.get_u64("ABANDONED"),
            });
            if let (Some(at), Some(number)) = (at, entry.get_u64("NUMBER")) {
                index.last_numbers[at] = index.last_numbers[at].max(number);
            }
        }
        index.listed.sort_by_key(|one| std::cmp::Reverse(one.id));
        index
    }

    fn show_offered(&self, key: &DatasetKey, offered: &Offered, flushed: bool) {
        let mut state = self.state();
        state.view.put(Layer::new(key.clone(), offered.dir.clone()));
        let book = state.books.entry(key.clone()).or_default();
        book.store = offered.store.clone();
        book.redundancy_bytes = offered.redundancy_bytes;
        book.id = offered.id;
        book.epoch = offered.epoch;
        book.flushed = flushed;
        book.files = offered.files.iter().map(|file| (file.name.clone(), file.on_prefix)).collect();
        state.view.show(key, &offered.catalog);
    }

    /// Directories are real: those of the cached files may have gone with an abandoned clean-up.
    fn remake_directories(&self, report: &RebuildReport) {
        for offered in &report.offered {
            for file in &offered.files {
                let dir = self.site.prefix.join(ns::parent(&file.name));
                let failed = |error| Error::io("cannot create the directory", &dir, error);
                if let Err(error) = again(|| std::fs::create_dir_all(&dir).map_err(failed)) {
                    log::warn_once("mkdir", format_args!("rank {}: {error}", self.site.rank));
                }
            }
        }
    }

    fn replicate(&self, links: &Links, report: &RebuildReport) -> Result<()> {
        for offered in &report.offered {
            let names = replicate_small(&links.ctx(&self.site), offered)?;
            let Some(key) = self.machine_key(&offered.key) else { continue };
            if let Some(layer) = self.state().view.layer_mut(&key) {
                names.iter().for_each(|name| layer.drop_elsewhere(name));
            }
        }
        Ok(())
    }

    /// The newest dataset that the prefix does not have is written there in the background, so that
    /// ranks on other nodes can open its files. Collective.
    fn flush_newest(&self, links: &Links, report: &RebuildReport, flushed: &[u64]) -> Result<()> {
        let Some(newest) = report.offered.last() else { return Ok(()) };
        let Some(key) = self.machine_key(&newest.key) else { return Ok(()) };
        // One that may not be complete must not take the names of an older one.
        let safe = newest.confirmed || self.series.series()[key.series].has_id;
        if !safe || flushed.contains(&newest.id) || self.flushes().contains_key(&newest.id) {
            return Ok(());
        }
        match self.begin_flush(links, &key, newest.id) {
            Err(error @ Error::Comm(_)) => Err(error),
            Err(error) => {
                self.tell(format_args!("{}: {error}; it is flushed later", self.title(&key)));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_newer_one_has_replaced_is_not_written_again() {
        let listed = |id: u64, captured: &str, replaced: bool| Listed {
            id,
            series: Some(0),
            key: records::DatasetKey {
                series: "state".into(),
                id: captured.into(),
                generation: id,
            },
            name: String::new(),
            checkpoint: Some(id),
            holds_names: !replaced,
            replaced,
            kept: false,
            abandoned_by: None,
        };
        let all = vec![listed(4, "", false), listed(3, "", true), listed(2, "7", true)];
        let mut index = Index { flushed: vec![4], listed: all, ..Index::default() };
        let had = |index: &Index| [1, 2, 3, 4].map(|id| index.has_had(id));
        assert_eq!(had(&index), [false, false, true, true]);
        // The newer one is damaged: the older ones are all there is.
        index.flushed.clear();
        assert_eq!(had(&index), [false; 4]);
    }
}
