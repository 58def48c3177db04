//! What a rank does with files that another one wrote: it removes them, and that one may write them
//! again; it changes them. Told at the next conference; what a sync point puts in order keeps its
//! order.

use super::Machine;
use super::contested::contested_reason;
use super::keys::{DatasetKey, FileRef, Intent, Placement};
use super::knowledge::Why;
use super::knowledge::name_hash;
use super::local::Status;
use super::local::{LocalFile, Phase};
use super::reason::Reason;
use super::report::{DatasetReport, Report, SeriesReport};
use super::restless::Restless;
use super::shared::{DatasetState, SharedDataset};
use crate::comm::ranks::ranks_phrase;

/// What a conference has told this rank of other ranks' doings; the caller acts on it at once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Heard {
    /// Files of this rank that another rank deleted: to be deleted here as if the program had done
    /// it on this rank.
    pub deleted: Vec<String>,
    /// Those of them that were unlinked, and name no checkpoint.
    pub unlinked: Vec<String>,
    /// Files that complete datasets, of any rank, go on without.
    pub amended: Vec<(DatasetKey, String)>,
    /// Files that another rank has written again: there is nothing deleted about them any more.
    pub revived: Vec<String>,
    /// Files that another rank than their writer changes: the PFS has their newest content.
    pub taken: Vec<String>,
    /// Of those, this rank's copies in cache that belong to no dataset any more.
    pub dropped: Vec<(DatasetKey, String)>,
    /// Names that turn out to be never quiet; the same on all ranks.
    pub restless: Vec<Restless>,
}

/// A file has left a dataset in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withdrawn {
    /// The dataset.
    pub key: DatasetKey,
    /// Its durable record has to be revoked.
    pub revoke: bool,
}

impl Machine {
    /// Takes a change by the program of a file that another rank has written into the cached
    /// dataset `of`. Not in place, since that one answers for its content: the PFS has it (the
    /// caller sees to that), and takes the change and all later files of the name. The others hear
    /// of it.
    pub fn take_over(
        &mut self,
        file: &FileRef,
        of: &DatasetKey,
        intent: Intent,
        now_ms: u64,
    ) -> Placement {
        let count = self.agreement.count;
        let begun = &mut self.series[file.series].news.begun;
        if !begun.iter().any(|(name, _)| *name == file.name) {
            begun.push((file.name.clone(), count));
        }
        if self.is_passive() || (intent.rewrites() && self.target(file) != *of) {
            return self.write_open(file, intent, now_ms);
        }
        self.tick(now_ms);
        self.mark_unsafe(file, Why::Writers);
        self.series[file.series].news.taken.push((file.name.clone(), count));
        // Even while files are open: until it knows, the one that has written it reads its own
        // copy.
        self.agreement.changed(2);
        Placement::Dataset(self.place(file, Some(Reason::Shared)))
    }

    /// Notes that a private copy of this rank is on the PFS now, in the place of what was there.
    pub fn replaced_on_prefix(&mut self, key: &DatasetKey, name: &str) {
        let count = self.agreement.count;
        if let Some(dataset) = self.series[key.series].find_mut(key) {
            dataset.replaced.push((name.to_string(), count));
        }
    }

    /// Finds a file of `key` on the PFS that a private copy of a rank has replaced after one of
    /// another node had begun to write it, or no sync point was between: what that one has written
    /// is lost. The catalog cannot tell, since both have it on the PFS. (Ranks of a node do such
    /// things one after the other.)
    pub(super) fn overwritten(
        &self,
        key: &DatasetKey,
        reports: &[Report],
    ) -> Option<(usize, String)> {
        let nodes = &self.config.nodes;
        let of_key = |report: &&DatasetReport| report.key == *key;
        reports.iter().enumerate().find_map(|(rank, report)| {
            let replaced = &report.datasets.iter().find(of_key)?.replaced;
            replaced.iter().find_map(|(name, count)| {
                let lost = |(begun, before): &(String, u64)| begun == name && before <= count;
                let mut others = reports.iter().enumerate();
                let (writer, _) = others.find(|(other, report)| {
                    nodes[*other] != nodes[rank] && report.series[key.series].begun.iter().any(lost)
                })?;
                Some((rank, contested_reason(name, &ranks_phrase(&[writer]))))
            })
        })
    }

    /// Tells whether others write such files, too, or have begun to write this one, which this rank
    /// has in `of`: no private copy of it could be put together with what they write.
    #[must_use]
    pub fn is_shared(&self, file: &FileRef, of: &DatasetKey) -> bool {
        let (shared, local) = (&self.shared.series[file.series], &self.series[file.series]);
        let name = name_hash(&file.masked);
        let held = local.find(of).and_then(|dataset| dataset.files.get(&file.name));
        shared.unsafe_names.contains_key(&name)
            || local.mark_of(name).is_some()
            || held.is_some_and(|held| held.moved)
    }

    /// Notes that a child of this rank changes the file, which is not open on any, or makes it.
    /// Nobody knows when it will be done, so the PFS has the file and no dataset in progress; one
    /// that is complete keeps its version. The others hear of it.
    pub fn changed_by_child(&mut self, file: &FileRef, now_ms: u64) -> Vec<Withdrawn> {
        self.tick(now_ms);
        self.tell_revived(file);
        let count = self.agreement.count;
        let datasets = self.series[file.series].datasets.iter();
        let sealed: Vec<bool> =
            datasets.map(|dataset| self.status(&dataset.key) != Status::Open).collect();
        let series = &mut self.series[file.series];
        series.tombstones.retain(|tombstone| tombstone.name != file.name);
        let mut withdrawn = Vec::new();
        for (dataset, sealed) in series.datasets.iter_mut().zip(sealed) {
            let Some(held) = dataset.files.get_mut(&file.name) else { continue };
            if sealed {
                held.share();
                (held.deleted, held.deleted_early) = (false, false);
                continue;
            }
            if dataset.explicit.is_some() {
                continue; // the program says by calls what is in it
            }
            dataset.files.remove(&file.name);
            dataset.abandoned.remove(&file.name);
            dataset.touch(now_ms);
            let revoke = std::mem::take(&mut dataset.prepared);
            withdrawn.push(Withdrawn { key: dataset.key.clone(), revoke });
        }
        series.news.taken.retain(|(name, _)| *name != file.name);
        series.news.taken.push((file.name.clone(), count));
        self.agreement.changed(2);
        withdrawn
    }

    /// Takes a change of a file that another rank of this node has put into a dataset in progress:
    /// both write to it. That rank answers for it; here it is known while it is open.
    pub fn join(&mut self, file: &FileRef, of: &DatasetKey, now_ms: u64) -> Placement {
        if self.is_passive() || self.status(of) != Status::Open {
            return self.take_over(file, of, Intent::UPDATE, now_ms);
        }
        self.tick(now_ms);
        let mut placed = self.put(file, of.clone(), None);
        let held = self.series[file.series].find_mut(of);
        if let Some(held) = held.and_then(|held| held.files.get_mut(&file.name)) {
            held.joined = !placed.is_on_prefix();
            placed.joined = held.joined;
        }
        // Told, and acted on by all ranks together: until then the writers of the next such file
        // must find one another in the cache.
        let joined = &mut self.series[file.series].joined;
        joined.insert(name_hash(&file.masked), file.masked == file.name);
        self.agreement.changed(1);
        Placement::Dataset(placed)
    }

    /// Tells the others that this rank deletes a file that it does not hold: whoever holds it must
    /// know.
    pub(super) fn tell_deleted(&mut self, file: &FileRef) {
        let count = self.agreement.count;
        self.series[file.series].news.deleted.push((file.name.clone(), count));
        self.agreement.changed(2);
    }

    /// Tells whether, as far as is known here, only the PFS has the file, as part of a dataset that
    /// is older than a complete one there: nothing keeps a deletion of it from being real at once.
    /// If it waited for a newer one to be complete, a crash would undo it. (While the newer one is
    /// in the cache only, this may be all that is left when the cache is lost, and what a pointer
    /// file there names.)
    #[must_use]
    pub fn is_left_behind(&self, file: &FileRef) -> bool {
        let Some(id) = &file.id else { return false };
        let (shared, local) = (&self.shared.series[file.series], &self.series[file.series]);
        let safe = |newer: &SharedDataset| {
            newer.state == DatasetState::Confirmed && newer.flushed && !newer.deleted_from
        };
        let newest = shared.datasets.iter().rfind(|newer| safe(newer)).map_or(0, |newer| newer.id);
        local.left.get(id).is_some_and(|number| *number < newest)
            && !shared.datasets.iter().any(|dataset| dataset.key.id == *id)
            && !local.datasets.iter().any(|dataset| dataset.key.id == *id)
    }

    /// Notes that a child of this rank opens a file, too, that is open on it in the dataset `of`:
    /// one more to be closed.
    pub fn lent(&mut self, of: &DatasetKey, name: &str) {
        let dataset = self.series[of.series].find_mut(of);
        let file = dataset.and_then(|dataset| dataset.files.get_mut(name));
        if let Some(file) = file.filter(|file| file.open > 0) {
            file.open += 1;
        }
    }

    /// Notes that another rank of the node has just deleted this file, whoever wrote it: it was
    /// written before, although no sync point says so.
    pub fn deleted_just_now(&mut self, file: &FileRef) {
        let datasets = self.series[file.series].datasets.iter_mut();
        let held = datasets.filter_map(|dataset| dataset.files.get_mut(&file.name));
        held.for_each(|file| file.outlived = true);
    }

    /// Notes that another rank of the node has just begun to write this file on the PFS: no flush
    /// of what this one has sealed of it may come after that, and what it writes to it again goes
    /// there. Gives the datasets in progress of which that is true.
    pub fn taken_just_now(&mut self, file: &FileRef) -> Vec<DatasetKey> {
        let mut in_progress = Vec::new();
        for dataset in &mut self.series[file.series].datasets {
            let Some(held) = dataset.files.get_mut(&file.name) else { continue };
            if dataset.phase != Phase::Open {
                held.moved = true;
            } else if held.open == 0 && dataset.explicit.is_none() {
                (held.on_prefix, held.keeps_copy) = (Some(Reason::Shared), false);
                in_progress.push(dataset.key.clone());
            }
        }
        in_progress
    }

    /// Notes that another rank of the node has just made this file: no deletion of it stands, nor
    /// is one told that nobody has heard of yet. What this rank has of it is one that the program
    /// has taken away before. The dataset that has the new one goes on with that, which the other
    /// rank answers for: its key is returned. Older ones keep what they have.
    pub fn made_just_now(&mut self, file: &FileRef) -> Option<DatasetKey> {
        const NAMES_MAX: usize = 4096;
        let into = file.id.is_some().then(|| self.target(file));
        let series = &mut self.series[file.series];
        series.tombstones.retain(|tombstone| tombstone.name != file.name);
        series.news.deleted.retain(|(name, _)| *name != file.name);
        if series.made_near.len() >= NAMES_MAX {
            series.made_near.clear();
        }
        series.made_near.insert(file.name.clone());
        let (into, mut given_away) = (into?, None);
        for dataset in series.datasets.iter_mut().filter(|one| one.explicit.is_none()) {
            let goes_on = dataset.key == into;
            if goes_on {
                dataset.abandoned.remove(&file.name);
            }
            let Some(held) = dataset.files.get_mut(&file.name) else { continue };
            if held.open > 0 || !(held.outlived || held.deleted) {
                continue;
            }
            if !goes_on {
                held.deleted = true;
                continue;
            }
            dataset.files.remove(&file.name);
            if dataset.phase == Phase::Sealed {
                dataset.phase = Phase::Open; // the other rank has opened it again
            }
            dataset.touch(self.clock_ms);
            self.agreement.changed(1);
            given_away = Some(into.clone());
        }
        given_away
    }

    /// Notes that a rank of another node has made this file since it heard that this one deleted
    /// it.
    pub fn made_elsewhere(&mut self, file: &FileRef) {
        let tombstones = &mut self.series[file.series].tombstones;
        tombstones.retain(|tombstone| tombstone.name != file.name);
    }

    /// Forgets what the ranks of the node are known to have made: something that they have told was
    /// missed.
    pub fn forget_near(&mut self) {
        self.series.iter_mut().for_each(|series| series.made_near.clear());
    }

    /// Tells the others that this rank writes a file again, if another one has deleted it: that
    /// rank must know.
    pub(super) fn tell_revived(&mut self, file: &FileRef) {
        let series = &mut self.series[file.series];
        if series.deleted_elsewhere.remove(&file.name) {
            series.news.revived.push(file.name.clone());
            self.agreement.changed(2);
        }
    }

    /// Takes in what the others' reports say of this rank's files, and of those that it deleted.
    pub(super) fn listen(&mut self, reports: &[Report]) -> Heard {
        let mut heard = Heard { restless: self.listen_loud(reports), ..Heard::default() };
        heard.amended = self.listen_amended(reports);
        let own = self.config.rank;
        let others = reports.iter().enumerate().filter(|(rank, _)| *rank != own);
        let news = others.flat_map(|(rank, report)| {
            report.series.iter().enumerate().map(move |(index, news)| (rank, index, news))
        });
        for (rank, index, news) in news {
            let near = self.config.nodes[rank] == self.config.nodes[own];
            let local = &mut self.series[index];
            for name in &news.revived {
                if near && local.made_near.remove(name) {
                    continue; // known when it happened; it may have been deleted since
                }
                local.tombstones.retain(|tombstone| tombstone.name != *name);
                heard.revived.push(name.clone());
            }
            for (name, count) in &news.deleted {
                let mut holders = local.datasets.iter().rev();
                let Some(holder) = holders.find(|dataset| dataset.holds(name)) else { continue };
                let is_older = holder.files.get(name).is_some_and(|file| {
                    let before = file.closed_before.is_some_and(|sync| sync <= *count);
                    file.open == 0 && (before || file.outlived)
                });
                if is_older {
                    if news.moved.contains(name) {
                        local.note_moved(name);
                    }
                    local.deleted_elsewhere.insert(name.clone());
                    heard.deleted.push(name.clone());
                    if news.unlinked.contains(name) {
                        heard.unlinked.push(name.clone());
                    }
                } else {
                    // Written after that deletion, or at the same time.
                    local.news.revived.push(name.clone());
                    self.agreement.changed(2);
                }
            }
            self.give_away(index, news, &mut heard);
        }
        heard
    }

    fn listen_amended(&self, reports: &[Report]) -> Vec<(DatasetKey, String)> {
        let news = reports.iter().flat_map(|report| report.series.iter().enumerate());
        let all = news.flat_map(|(index, news)| news.amended.iter().map(move |one| (index, one)));
        let keyed = all.filter_map(|(index, (name, id))| {
            let dataset = self.shared.series[index].datasets.iter().find(|one| one.id == *id)?;
            Some((dataset.key.clone(), name.clone()))
        });
        keyed.collect()
    }

    /// What another rank has taken over. A dataset that is complete keeps its version of the file,
    /// for a restart from it; one in progress has it from that rank.
    fn give_away(&mut self, series: usize, news: &SeriesReport, heard: &mut Heard) {
        for (name, count) in &news.taken {
            let datasets = &mut self.series[series].datasets;
            let newer = |file: &LocalFile| {
                file.open > 0 || file.closed_before.is_some_and(|sync| sync > *count)
            };
            if datasets.iter().filter_map(|dataset| dataset.files.get(name)).any(newer) {
                continue; // written after that, or at the same time
            }
            heard.taken.push(name.clone());
            for dataset in datasets {
                let Some(file) = dataset.files.get_mut(name) else { continue };
                let shared = self.shared.find(&dataset.key).map(|shared| shared.state);
                let sealed = shared.is_some_and(|state| state != DatasetState::Open);
                if dataset.explicit.is_some() && !sealed {
                    continue; // the program says by calls what is in it
                }
                if sealed || dataset.phase != Phase::Open {
                    file.share();
                } else {
                    dataset.files.remove(name);
                    heard.dropped.push((dataset.key.clone(), name.clone()));
                }
            }
        }
    }
}
