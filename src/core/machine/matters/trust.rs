//! Trust in what is sealed but not confirmed: a checkpoint left alone for longer than it took to
//! write is, by all likelihood, complete. Likelihood is not knowledge: nothing is evicted, flushed
//! or deleted because of it. But where nothing of the series is confirmed, a restart after the loss
//! of a node may offer it, rather than nothing. Where something is confirmed, that is offered
//! (without ids a part of a checkpoint would take its names), unless the new one has all names of
//! those before, as with a program that moves its last states to other names.

use std::collections::BTreeMap;

use crate::machine::state::{DatasetState, LocalDataset, RunFacts, SharedDataset, Status};
use crate::machine::terms::{DatasetKey, Report, Step};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct LastSeal {
    took_ms: u64,
    covers: bool,
    trusted: bool,
}

/// Equal on all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Trust {
    seals: BTreeMap<DatasetKey, LastSeal>,
}

impl Trust {
    pub fn note_seal(&mut self, key: &DatasetKey, took_ms: u64, covers: bool) {
        self.seals.insert(key.clone(), LastSeal { took_ms, covers, trusted: false });
    }

    pub fn forget(&mut self, key: &DatasetKey) {
        self.seals.remove(key);
    }

    /// The dataset of the series that may come to be trusted, and for how many milliseconds the
    /// series has to be left alone before.
    fn trustable<'a>(
        &self,
        facts: &'a RunFacts,
        series: usize,
    ) -> Option<(&'a SharedDataset, u64)> {
        let settle_ms = facts.shared.series[series].settle_ms;
        let datasets = &facts.shared.series[series].datasets;
        let is_open = |one: &SharedDataset| one.state == DatasetState::Open;
        let newest = datasets.last().filter(|_| !datasets.iter().any(is_open))?;
        let sealed = newest.state == DatasetState::Provisional && !newest.is_second_rate();
        let seal = self.seals.get(&newest.key)?;
        let wanted = sealed && seal.covers && !newest.on_prefix && !seal.trusted;
        wanted.then(|| (newest, seal.took_ms.max(settle_ms)))
    }

    /// Returns after how much agreed time without a conference one may find a dataset to be
    /// trusted.
    pub fn trust_due_ms(&self, facts: &RunFacts) -> Option<u64> {
        let due = (0..facts.shared.series.len()).filter_map(|series| self.trustable(facts, series));
        due.map(|(_, quiet_ms)| quiet_ms).min()
    }

    pub fn quiet_enough(&self, facts: &RunFacts, reports: &[Report]) -> Vec<DatasetKey> {
        let quiet = |series: usize| {
            let (dataset, quiet_ms) = self.trustable(facts, series)?;
            let all = reports.iter().all(|report| {
                let own = report.datasets.iter().find(|own| own.key == dataset.key);
                own.is_some_and(|own| own.sealed && own.quiet_ms >= quiet_ms)
            });
            all.then(|| dataset.key.clone())
        };
        (0..facts.shared.series.len()).filter_map(quiet).collect()
    }

    /// Trusts the next dataset of the series among those that are `quiet`.
    pub fn trust(
        &mut self,
        facts: &RunFacts,
        index: usize,
        quiet: &mut Vec<DatasetKey>,
    ) -> Option<Step> {
        let at = quiet.iter().position(|key| key.series == index)?;
        let key = quiet.remove(at);
        let dataset = facts.shared.find(&key)?;
        if dataset.state != DatasetState::Provisional {
            return None; // confirmed just now
        }
        // Once: a node that has no marker is no worse off than before, and others have theirs.
        self.seals.get_mut(&key)?.trusted = true;
        Some(Step::Trust { id: dataset.id, key })
    }
}

/// Tells whether this rank's part of a dataset has all names of the ones before it.
pub fn covers_last(facts: &RunFacts, dataset: &LocalDataset) -> bool {
    let series = dataset.key.series;
    let mut older = facts.series[series].datasets.iter().take_while(|one| one.key != dataset.key);
    let is_first =
        older.all(|one| facts.status(&one.key) == Status::Dropped || one.files.is_empty());
    is_first || (!facts.shared.series[series].rewrites && !facts.lacks_names(dataset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::state::testing::{facts, share};
    use crate::machine::terms::DatasetReport;

    #[test]
    fn what_all_have_left_alone_for_longer_than_it_took_is_trusted_once() {
        // How long it took, whether it has all names of those before, for how long the ranks have
        // left it alone; whether it is trusted.
        let rows = [
            (100, true, [100, 100], true),
            (100, true, [100, 99], false),
            (100, false, [100, 100], false),
            (1, true, [49, 49], false), // the settle time
            (1, true, [50, 50], true),
        ];
        for (took_ms, covers, quiet_ms, trusted) in rows {
            let (mut facts, mut trust) = (facts(false), Trust::default());
            let key = DatasetKey::new(0, "", 0);
            share(&mut facts, &key, DatasetState::Provisional);
            assert_eq!(trust.trust_due_ms(&facts), None, "nothing is known of its seal");
            trust.note_seal(&key, took_ms, covers);
            let of = |quiet_ms| {
                let (key, sealed) = (key.clone(), true);
                let own = DatasetReport { key, sealed, quiet_ms, ..DatasetReport::default() };
                Report { datasets: vec![own], ..Report::default() }
            };
            let mut quiet = trust.quiet_enough(&facts, &quiet_ms.map(of));
            assert_eq!(!quiet.is_empty(), trusted, "{took_ms} {covers} {quiet_ms:?}");
            assert_eq!(trust.trust(&facts, 0, &mut quiet).is_some(), trusted);
            assert_eq!(trust.trust_due_ms(&facts).is_some(), covers && !trusted);
        }
    }
}
