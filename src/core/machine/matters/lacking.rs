//! Checkpoints that have less than the one before. A rank that could not write its file may have
//! deleted the rest of it and gone on; as likely the sets of files vary, so the checkpoint counts.
//! But the one before goes to the PFS before it leaves the cache, whatever else is due.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine::state::{DatasetState, LocalDataset, RunFacts, Status};
use crate::machine::terms::{DatasetKey, DatasetReport, Report};

/// Tells whether this rank has fewer files of some kind at `at` than in the newest complete dataset
/// before it. What the program itself calls complete is not asked.
pub fn lacks(facts: &RunFacts, series: usize, at: usize) -> bool {
    let datasets = &facts.series[series].datasets;
    let own = &datasets[at];
    if facts.config.series[series].is_explicit() || facts.is_floating(&own.key) {
        return false;
    }
    let joins = facts.config.series[series].joins_generations();
    let same = |one: &LocalDataset, key: &DatasetKey| {
        one.key == *key || (joins && one.key.same_group(key))
    };
    let older = datasets[..at].iter().rev().filter(|one| !same(one, &own.key));
    let mut complete = older.filter(|one| facts.status(&one.key) == Status::Confirmed);
    let Some(before) = complete.next() else { return false };
    let kinds = |key: &DatasetKey| {
        let parts = datasets[..=at].iter().filter(|one| same(one, key));
        let mut names: BTreeMap<&String, u64> = BTreeMap::new();
        names.extend(parts.flat_map(|one| &one.files).map(|(name, file)| (name, file.named.kind)));
        let mut kinds: BTreeMap<u64, usize> = BTreeMap::new();
        names.into_values().for_each(|kind| *kinds.entry(kind).or_default() += 1);
        kinds
    };
    let here = kinds(&own.key);
    kinds(&before.key).iter().any(|(kind, count)| here.get(kind).unwrap_or(&0) < count)
}

/// Equal on all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Lacking {
    /// Unconfirmed datasets to which some rank has written fewer files of a kind.
    datasets: BTreeSet<DatasetKey>,
}

impl Lacking {
    pub fn take_lacks(&mut self, facts: &RunFacts, reports: &[Report]) {
        for (index, series) in facts.shared.series.iter().enumerate() {
            if facts.config.series[index].is_explicit() {
                continue;
            }
            let waiting = series.datasets.iter().filter(|dataset| {
                matches!(dataset.state, DatasetState::Open | DatasetState::Provisional)
            });
            for dataset in waiting {
                let own = |one: &&DatasetReport| one.key == dataset.key;
                let lacks = reports.iter().any(|report| {
                    let told = report.datasets.iter().find(own);
                    told.map_or(!report.series[index].writes_nothing, |own| own.set.lacks)
                });
                match lacks {
                    true => _ = self.datasets.insert(dataset.key.clone()),
                    false => self.forget(&dataset.key),
                }
            }
        }
    }

    pub fn make_whole_one_due(&self, facts: &mut RunFacts, key: &DatasetKey) {
        if !self.datasets.contains(key) {
            return;
        }
        let datasets = &mut facts.shared.series[key.series].datasets;
        let own = datasets.iter().position(|dataset| dataset.key == *key);
        let mut older = datasets[..own.unwrap_or(0)].iter_mut().rev();
        let whole = older.find(|one| {
            one.state == DatasetState::Confirmed && (one.key.id.is_empty() || one.key.id != key.id)
        });
        if let Some(whole) = whole {
            whole.due = true;
        }
    }

    pub fn forget(&mut self, key: &DatasetKey) {
        self.datasets.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::state::testing::{facts, file, reports, share, write};
    use crate::machine::terms::SeriesReport;

    #[test]
    fn fewer_files_of_a_kind_than_before_are_less() {
        // The files of the second checkpoint; the first has two parts and a head.
        let rows: [(&[&str], bool); 4] = [
            (&["part.1", "part.2", "head"], false),
            (&["part.3", "part.4", "part.5", "head"], false),
            (&["part.3", "head"], true),
            (&["part.3", "part.4"], true),
        ];
        for (names, expected) in rows {
            let mut facts = facts(false);
            let keys = [0, 1].map(|generation| DatasetKey::new(0, "", generation));
            for (key, names) in keys.iter().zip([&["part.1", "part.2", "head"][..], names]) {
                names.iter().for_each(|name| write(&mut facts, key, &file("", name), 1));
            }
            share(&mut facts, &keys[0], DatasetState::Confirmed);
            assert_eq!(lacks(&facts, 0, 1), expected, "{names:?}");
        }
    }

    #[test]
    fn the_one_before_what_lacks_files_goes_to_the_prefix() {
        for writes_nothing in [false, true] {
            let (mut facts, mut lacking) = (facts(false), Lacking::default());
            let keys = [0, 1].map(|generation| DatasetKey::new(0, "", generation));
            share(&mut facts, &keys[0], DatasetState::Confirmed);
            share(&mut facts, &keys[1], DatasetState::Provisional);
            let news = SeriesReport { writes_nothing, ..SeriesReport::default() };
            let mut both = reports(news.clone());
            both[0].series = vec![news];
            lacking.take_lacks(&facts, &both); // neither has heard of it
            lacking.make_whole_one_due(&mut facts, &keys[1]);
            assert_eq!(facts.shared.series[0].datasets[0].due, !writes_nothing);
        }
    }
}
