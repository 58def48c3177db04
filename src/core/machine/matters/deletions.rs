//! Names that the program takes away (docs/internals/names.md, "Deletion"): at once out of a
//! dataset that is not sealed, out of a sealed one when a newer one is confirmed, since a restart
//! may need the file. The unlink of a file without id beside others (a flag, a pointer) amends the
//! newest sealed dataset that has it, which is sealed again without it, or, if it is confirmed,
//! goes on without it.

use std::collections::BTreeSet;

use crate::machine::state::{Deleted, LocalDataset, RunFacts, Status};
use crate::machine::terms::{DatasetKey, FileRef, Gone, SeriesReport};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    pub name: String,
    /// It becomes real when a dataset with an id above this one is confirmed.
    pub above: u64,
    pub holder: Option<DatasetKey>,
    /// When no agreement was in sight, and the newer dataset not known to be on the PFS.
    pub early_ms: Option<u64>,
}

#[derive(Debug, Clone, Default)]
struct SeriesDeletions {
    tombstones: Vec<Tombstone>,
    /// Since the last report; see [`SeriesReport`].
    unlinked: Vec<String>,
    amended: Vec<(String, u64)>,
}

#[derive(Debug, Clone)]
pub struct Deletions {
    series: Vec<SeriesDeletions>,
}

impl Deletions {
    pub fn new(series: usize) -> Self {
        Deletions { series: vec![SeriesDeletions::default(); series] }
    }

    pub fn report(&mut self, series: usize, report: &mut SeriesReport) {
        let own = &mut self.series[series];
        report.unlinked = std::mem::take(&mut own.unlinked);
        report.amended = std::mem::take(&mut own.amended);
    }

    pub fn bury(&mut self, series: usize, tombstone: Tombstone) {
        self.series[series].tombstones.push(tombstone);
    }

    pub fn revive(&mut self, series: usize, name: &str) {
        self.series[series].tombstones.retain(|tombstone| tombstone.name != name);
    }

    pub fn revive_name(&mut self, name: &str) {
        (0..self.series.len()).for_each(|series| self.revive(series, name));
    }

    pub fn published(&mut self, series: usize, files: &[String]) {
        self.series[series].tombstones.retain(|tombstone| !files.contains(&tombstone.name));
    }

    pub fn note_unlinked(&mut self, file: &FileRef) {
        self.series[file.series].unlinked.push(file.name.clone());
    }

    pub fn note_amended(&mut self, file: &FileRef, id: u64) {
        self.series[file.series].amended.push((file.name.clone(), id));
    }

    /// Undoes the amendment of a file that the program makes again before others have heard of it.
    pub fn take_back_amendment(&mut self, facts: &mut RunFacts, file: &FileRef) {
        let own = &mut self.series[file.series];
        own.unlinked.retain(|name| *name != file.name);
        if !own.amended.iter().any(|(name, _)| *name == file.name) {
            return;
        }
        own.amended.retain(|(name, _)| *name != file.name);
        let held = facts.series[file.series].held(&file.name);
        held.filter(|held| held.deleted == Deleted::Amended).for_each(|held| {
            held.deleted = Deleted::Yes;
        });
    }

    pub fn gone_before(&self, facts: &RunFacts, key: &DatasetKey) -> BTreeSet<String> {
        let (local, shared) =
            (&facts.series[key.series], &facts.shared.series[key.series].datasets);
        let place = |key: &DatasetKey| shared.iter().position(|one| one.key == *key);
        let Some(at) = place(key) else { return BTreeSet::new() };
        let is_older =
            |key: &DatasetKey| place(key).is_some_and(|older| older < at && shared[older].id > 0);
        let older = local.datasets.iter().filter(|one| is_older(&one.key));
        let deleted = older.flat_map(|one| &one.files).filter(|(_, held)| held.is_deleted());
        let waits = self.series[key.series].tombstones.iter();
        let waits = waits.filter(|one| one.holder.as_ref().is_none_or(is_older));
        deleted.map(|(name, _)| name).chain(waits.map(|one| &one.name)).cloned().collect()
    }

    pub fn passed(&self, facts: &RunFacts, index: usize, ending: bool) -> Vec<String> {
        let newest = facts.shared.newest_confirmed(index);
        let is_past = |holder: &DatasetKey| {
            facts.id_of(holder) < newest && facts.status(holder) != Status::Open
        };
        let passed = self.series[index].tombstones.iter().filter(|tombstone| {
            ending || (tombstone.above < newest && tombstone.holder.as_ref().is_none_or(is_past))
        });
        passed.map(|tombstone| tombstone.name.clone()).collect()
    }

    pub fn overdue_deletions(&mut self, facts: &mut RunFacts, now_ms: u64) -> Vec<Gone> {
        facts.tick(now_ms);
        if facts.ending {
            return Vec::new(); // the end's conference does it, when all else is written
        }
        let wait_ms = facts.config.unsealed_ms * 3;
        let agreed_ms = facts.agreement.agreed_ms;
        let mut gone = Vec::new();
        for (series, own) in facts.series.iter_mut().zip(&mut self.series) {
            let unsealed = series.datasets.iter().filter(|dataset| dataset.is_unsealed());
            let unsealed: BTreeSet<DatasetKey> =
                unsealed.map(|dataset| dataset.key.clone()).collect();
            let mut names = BTreeSet::new();
            own.tombstones.retain(|tombstone| {
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
                    gone.extend(take_deleted(dataset, &names, &newer));
                }
                newer.extend(held);
            }
        }
        gone
    }
}

/// Takes out the files deleted early that are among `names`; then, if only pointers are left, those
/// that `newer` datasets have, too.
fn take_deleted(
    dataset: &mut LocalDataset,
    names: &BTreeSet<String>,
    newer: &BTreeSet<String>,
) -> Vec<Gone> {
    let key = dataset.key.clone();
    let mut gone = Vec::new();
    dataset.files.retain(|name, file| {
        let deleted = file.deleted == Deleted::Early && names.contains(name);
        if deleted {
            dataset.abandoned.insert(name.clone());
            gone.push(Gone { key: key.clone(), file: name.clone(), everywhere: true });
        }
        !deleted
    });
    if !gone.is_empty() && dataset.files.values().all(|file| file.named.bare && file.open == 0) {
        dataset.files.retain(|name, _| {
            if newer.contains(name) {
                gone.push(Gone { key: key.clone(), file: name.clone(), everywhere: false });
            }
            !newer.contains(name)
        });
    }
    gone
}

/// Tells whether the deletion from an unsealed dataset is too early: a newer one may be only in the
/// ranks' caches, and be lost with them.
pub fn deletes_too_early(facts: &RunFacts, series: usize, at: usize, name: &str) -> bool {
    let datasets = &facts.series[series].datasets;
    let closed = datasets[at].files.get(name).is_some_and(|file| file.open == 0);
    let followed = datasets[at + 1..].iter().any(LocalDataset::is_successor);
    closed && !facts.is_passive() && followed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::state::DatasetState;
    use crate::machine::state::testing::{facts, file, share, write};

    #[test]
    fn a_deletion_is_real_once_something_newer_is_complete() {
        let key = |id: &str| DatasetKey::new(0, id, 0);
        let mut facts = facts(true);
        for (id, state) in [
            ("1", DatasetState::Confirmed),
            ("2", DatasetState::Confirmed),
            ("3", DatasetState::Provisional),
        ] {
            share(&mut facts, &key(id), state);
        }
        // The newest complete one is number 2. The dataset that has the file, the number that it
        // waits for; whether it is real.
        let rows = [
            (Some("1"), 0, true),
            (Some("2"), 0, false),
            (Some("3"), 0, false),
            (None, 1, true),
            (None, 2, false),
        ];
        for (holder, above, real) in rows {
            let mut deletions = Deletions::new(1);
            let (name, holder) = ("a".to_string(), holder.map(key));
            deletions.bury(0, Tombstone { name, above, holder, early_ms: None });
            assert_eq!(!deletions.passed(&facts, 0, false).is_empty(), real, "{deletions:?}");
            assert_eq!(deletions.passed(&facts, 0, true), ["a"], "at the end all are");
            deletions.revive(0, "a");
            assert!(deletions.passed(&facts, 0, true).is_empty(), "it is there again");
        }
    }

    #[test]
    fn what_is_made_again_was_not_taken_out_of_a_complete_dataset() {
        let (mut facts, mut deletions) = (facts(true), Deletions::new(1));
        let (key, flag) = (DatasetKey::new(0, "1", 0), file("", "flag"));
        write(&mut facts, &key, &flag, 1);
        facts.file_mut(&key, "flag").unwrap().deleted = Deleted::Amended;
        deletions.note_amended(&flag, 1);
        deletions.take_back_amendment(&mut facts, &flag);
        assert_eq!(facts.file(&key, "flag").unwrap().deleted, Deleted::Yes);
        let mut report = SeriesReport::default();
        deletions.report(0, &mut report);
        assert_eq!(report, SeriesReport::default(), "nobody is to hear of it");
    }
}
