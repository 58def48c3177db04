//! Without agreements: closed files go to the PFS by themselves, each rank's by its helper thread.
//!
//! Without us a file is on the PFS when it is closed. Here it comes there a constant time later
//! ([`super::MachineConfig::unsealed_ms`]), in the order in which the rank closed its files, so
//! that the PFS looks as it would have looked that long ago. (Of a file that is written again
//! before, the first close counts, and the newest content.) What depends on the files of *other*
//! ranks waits longer. Twice as long: a file without id beside files with one (a pointer to a
//! checkpoint, that rank 0 writes when it has heard of all files), until all older files of its
//! rank are there, too; three times as long: the deletion of a file while newer ones are on their
//! way.
//!
//! No more is possible without communication: if the copies of a rank take longer than that
//! time, or only that rank dies and the others live on for so long, a pointer comes to name a
//! checkpoint that is not whole. A marker *with* an id is not known as one; its rank alone orders
//! it after its own files.

use std::collections::BTreeSet;

use super::Machine;
use super::keys::{DatasetKey, FileRef};
use super::local::{LocalDataset, LocalFile, LocalSeries, Phase, Published};
use super::shared::DatasetState;
use super::steps::{Gone, Overdue};

impl LocalFile {
    /// Tells whether it is closed, and its content is in the cache alone.
    pub(super) fn is_pending(&self) -> bool {
        self.open == 0
            && self.on_prefix.is_none()
            && self.published == Published::No
            && (!self.deleted || self.deleted_early)
    }
}

impl LocalDataset {
    fn is_unsealed(&self) -> bool {
        self.phase == Phase::Open && self.begun
    }

    /// Takes out the files that were deleted early and are among `names`; then the pointers that
    /// `newer` datasets have, too, if they are all that is left.
    fn take_deleted(&mut self, names: &BTreeSet<String>, newer: &BTreeSet<String>) -> Vec<Gone> {
        let key = self.key.clone();
        let mut gone = Vec::new();
        self.files.retain(|name, file| {
            let deleted = file.deleted_early && names.contains(name);
            if deleted {
                self.abandoned.insert(name.clone());
                gone.push(Gone { key: key.clone(), file: name.clone(), everywhere: true });
            }
            !deleted
        });
        if !gone.is_empty() && self.files.values().all(|file| file.bare && file.open == 0) {
            self.files.retain(|name, _| {
                if newer.contains(name) {
                    gone.push(Gone { key: key.clone(), file: name.clone(), everywhere: false });
                }
                !newer.contains(name)
            });
        }
        gone
    }
}

impl Machine {
    /// Finds the closed files in cache that wait for a seal for too long, in the order in which
    /// they must reach the PFS: the helper thread copies each there under its own name, then calls
    /// [`Machine::published`]; after a failure it tries none of the others. Until the next
    /// agreement new files go to the PFS.
    pub fn overdue(&mut self, now_ms: u64) -> Vec<Overdue> {
        self.overdue_before(None, now_ms)
    }

    /// Tells whether the program is about to begin the second checkpoint after one since which it
    /// has passed no sync point. That one goes to the PFS before ([`Machine::overdue_before`]), and
    /// so do those that follow: a crash must not cost more than one.
    #[must_use]
    pub fn outruns(&self, file: &FileRef) -> bool {
        let (series, count) = (&self.series[file.series], self.agreement.count);
        let begun =
            |dataset: &LocalDataset| dataset.begun && file.id.as_ref() == Some(&dataset.key.id);
        // With a sync point since, an agreement will come soon.
        let unheard = |dataset: &LocalDataset| {
            dataset.is_unsealed() && !dataset.files.values().any(|file| file.is_past(count))
        };
        file.id.is_some()
            && !self.is_passive()
            && series.unreachable_ms.is_none()
            && !series.datasets.iter().any(begun)
            && (0..series.datasets.len())
                .any(|at| unheard(&series.datasets[at]) && self.patience_ms(series, at, 1) == 0)
    }

    /// Does what [`Machine::overdue`] does; of the series `coming` the next checkpoint is about to
    /// begin.
    pub fn overdue_before(&mut self, coming: Option<usize>, now_ms: u64) -> Vec<Overdue> {
        self.tick(now_ms);
        let mut overdue = Vec::new();
        for (index, series) in self.series.iter().enumerate() {
            for (at, dataset) in series.datasets.iter().enumerate() {
                if !dataset.is_unsealed() {
                    continue;
                }
                let patience_ms = self.patience_ms(series, at, usize::from(coming == Some(index)));
                for (name, file) in dataset.files.iter().filter(|(_, file)| file.is_pending()) {
                    let last = file.bare && self.config.series[index].has_id;
                    let first_ms = series.unheard.get(name).copied().unwrap_or(file.closed_ms);
                    let (since_ms, waits_ms) = match last && !self.ended {
                        false => (first_ms, patience_ms),
                        // However patient this rank is: others may take all their time.
                        true => (file.closed_ms, self.config.unsealed_ms * 2),
                    };
                    if now_ms.saturating_sub(since_ms) >= waits_ms
                        && !self.has_newer_on_prefix(&dataset.key, name)
                    {
                        let (key, name) = (dataset.key.clone(), name.clone());
                        overdue.push((file.closed_ms, Overdue { key, file: name, last }));
                    }
                }
            }
        }
        overdue.sort_by_key(|(closed_ms, one)| (one.last, *closed_ms));
        for (_, one) in &overdue {
            self.series[one.key.series].unreachable_ms.get_or_insert(self.clock_ms);
        }
        let due = overdue.iter().filter(|(closed_ms, one)| {
            !one.last || self.ended || self.has_all_before(one.key.series, *closed_ms, &overdue)
        });
        due.map(|(_, one)| one.clone()).collect()
    }

    /// Finds the closed files of the dataset `key`, not sealed, that a rank of another node waits
    /// for: as [`Machine::overdue`], at once. Pointer files come last.
    #[must_use]
    pub fn wanted(&self, key: &DatasetKey) -> Vec<Overdue> {
        let dataset = self.series[key.series].find(key).filter(|dataset| {
            dataset.begun && matches!(dataset.phase, Phase::Open | Phase::Dropped)
        });
        let files = dataset.into_iter().flat_map(|dataset| &dataset.files);
        let pending = files.filter(|(name, file)| {
            file.is_pending() && !file.deleted && !self.has_newer_on_prefix(key, name)
        });
        let has_id = self.config.series[key.series].has_id;
        let wanted = |(name, file): (&String, &LocalFile)| Overdue {
            key: key.clone(),
            file: name.clone(),
            last: file.bare && has_id,
        };
        let mut wanted: Vec<Overdue> = pending.map(wanted).collect();
        wanted.sort_by_key(|one| one.last);
        wanted
    }

    /// Finds the sealed datasets that the PFS does not have and that it is to have at the end,
    /// oldest first: of each series the newest confirmed one, and newer ones, and what the program
    /// keeps. The same on all ranks.
    #[must_use]
    pub fn unsaved(&self) -> Vec<DatasetKey> {
        let all = (0..self.series.len()).flat_map(|series| {
            let newest = self.shared.newest_confirmed(series);
            let keeps = self.is_kept_series(series);
            self.shared.series[series].datasets.iter().filter(move |one| {
                let sealed =
                    matches!(one.state, DatasetState::Confirmed | DatasetState::Provisional);
                let wanted = one.id >= newest || (keeps && one.is_kept());
                sealed && wanted && !one.flushed && !one.on_prefix
            })
        });
        let mut all: Vec<_> = all.map(|one| (one.id, one.key.clone())).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, key)| key).collect()
    }

    /// Tells whether there was no agreement for so long that files are overdue; later ones may
    /// still come.
    #[must_use]
    pub fn is_unheard(&self, now_ms: u64) -> bool {
        let agreed_ms = self.agreement.agreed_ms();
        !self.agreement.is_disabled() && now_ms.saturating_sub(agreed_ms) >= self.config.unsealed_ms
    }

    /// How long the dataset's closed files wait for an agreement; so many newer ones are `coming`.
    fn patience_ms(&self, series: &LocalSeries, at: usize, coming: usize) -> u64 {
        let newer = series.datasets[at + 1..].iter();
        let newer = newer.filter(|dataset| dataset.is_unsealed() && dataset.is_successor());
        let newer = newer.count() + coming;
        let closed = series.datasets[at].files.values().map(|file| file.closed_ms).max();
        // An agreement since then is on its way to a seal.
        let unheard = closed.is_some_and(|closed_ms| closed_ms > self.agreement.agreed_ms());
        let over = self.agreement.is_disabled() || self.exiting || self.ended;
        match (newer >= 2 && unheard) || over {
            true => 0,
            false => self.config.unsealed_ms,
        }
    }

    /// All files with ids that this rank wrote before are on the PFS, or sealed.
    fn has_all_before(&self, series: usize, closed_ms: u64, due: &[(u64, Overdue)]) -> bool {
        let unsealed = self.series[series].datasets.iter().filter(|dataset| dataset.is_unsealed());
        let mut files = unsealed.flat_map(|dataset| {
            dataset.files.iter().map(move |(name, file)| (&dataset.key, name, file))
        });
        files.all(|(key, name, file)| {
            let goes_first = || due.iter().any(|(_, one)| one.key == *key && one.file == *name);
            let older = file.closed_ms <= closed_ms;
            file.bare || !older || (file.open == 0 && (!file.is_pending() || goes_first()))
        })
    }

    /// Tells whether a newer dataset has the pointer file, too: that one has the last word.
    pub(super) fn is_older_pointer(&self, key: &DatasetKey, name: &str) -> bool {
        let datasets = &self.series[key.series].datasets;
        let mut newer = datasets.iter().skip_while(|dataset| dataset.key != *key);
        let bare = newer.next().and_then(|own| own.files.get(name)).is_some_and(|file| file.bare);
        bare && self.config.series[key.series].has_id
            && newer.any(|newer| newer.files.get(name).is_some_and(|file| file.open == 0))
    }

    /// Notes that an overdue file, or one that a thread flushes, is on the PFS (unless it was
    /// opened again meanwhile).
    pub fn published(&mut self, key: &DatasetKey, name: &str) {
        self.set_published(key, name, Published::There);
    }

    /// Notes that threads flush the dataset, after those of all whose flush has begun before. One
    /// that begins later must not bring an older content.
    pub fn flush_begun(&mut self, key: &DatasetKey) {
        for file in self.seal_files(key) {
            self.set_published(key, &file.name, Published::Coming);
        }
    }

    fn set_published(&mut self, key: &DatasetKey, name: &str, how: Published) {
        if let Some(dataset) = self.series[key.series].find_mut(key)
            && let Some(file) = dataset.files.get_mut(name)
        {
            file.published = if file.open == 0 { how } else { Published::No };
        }
    }

    /// Tells whether new files of the dataset `key` go to the PFS, since no agreement is in sight.
    pub(super) fn is_out_of_reach(&self, file: &FileRef, key: &DatasetKey) -> bool {
        if file.id.is_some() || !self.config.series[file.series].has_id {
            return self.series.iter().any(|series| series.unreachable_ms.is_some());
        }
        // A pointer waits for its turn, unless all that it can point to was written in place, on
        // the other ranks too, which come to see how things are at about the same time: those that
        // write this series. One that had nothing left to copy when this rank saw it does so a
        // whole `unsealed_ms` after its next close.
        let Some(since_ms) = self.series[file.series].unreachable_ms else { return false };
        let own = self.series[key.series].find(key).filter(|own| own.begun);
        own.is_some_and(|own| {
            own.begun_ms >= since_ms + self.config.unsealed_ms * 2
                && own.files.values().all(|file| file.on_prefix.is_some())
        })
    }

    /// Tells whether a file that the program deletes of the dataset at `at`, which is not sealed
    /// yet, goes too early: there is a newer one, which may be in the cache of the ranks still, and
    /// be lost with it.
    pub(super) fn deletes_too_early(&self, series: usize, at: usize, name: &str) -> bool {
        let datasets = &self.series[series].datasets;
        let closed = datasets[at].files.get(name).is_some_and(|file| file.open == 0);
        let followed = datasets[at + 1..].iter().any(LocalDataset::is_successor);
        closed && !self.is_passive() && followed
    }

    /// Deletions whose time has come: the helper thread carries them out. A pointer file goes with
    /// the last file of its checkpoint, if there is a newer one.
    pub fn overdue_deletions(&mut self, now_ms: u64) -> Vec<Gone> {
        self.tick(now_ms);
        if self.ending {
            return Vec::new(); // the end's conference does it, when all else is written
        }
        let wait_ms = self.config.unsealed_ms * 3;
        let agreed_ms = self.agreement.agreed_ms();
        let mut gone = Vec::new();
        for series in &mut self.series {
            let unsealed = series.datasets.iter().filter(|dataset| dataset.is_unsealed());
            let unsealed: BTreeSet<DatasetKey> =
                unsealed.map(|dataset| dataset.key.clone()).collect();
            let mut names = BTreeSet::new();
            series.tombstones.retain(|tombstone| {
                let waits = tombstone.holder.as_ref().is_some_and(|key| unsealed.contains(key));
                let early_ms = tombstone.early_ms.filter(|early_ms| *early_ms > agreed_ms);
                let late = waits && early_ms.is_some_and(|early_ms| now_ms >= early_ms + wait_ms);
                if late {
                    names.insert(tombstone.name.clone());
                }
                !late
            });
            if names.is_empty() {
                continue;
            }
            let mut newer: BTreeSet<String> = BTreeSet::new();
            for dataset in series.datasets.iter_mut().rev() {
                let held: BTreeSet<String> = dataset.files.keys().cloned().collect();
                if dataset.is_unsealed() {
                    gone.extend(dataset.take_deleted(&names, &newer));
                }
                newer.extend(held);
            }
        }
        gone
    }
}
