//! Without agreements: closed files go to the PFS by themselves, each rank's by its helper thread.
//!
//! Without us a file is on the PFS when it is closed. Here it comes there a constant time later
//! (`MachineConfig::unsealed_ms`), in the order in which the rank closed its files, so
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

use std::collections::BTreeMap;

use crate::machine::state::{
    DatasetState, LocalDataset, LocalFile, LocalSeries, OnPfs, Phase, RunFacts,
};
use crate::machine::terms::{DatasetKey, FileRef, Overdue};

/// What waits in a series.
#[derive(Debug, Clone, Default)]
struct WaitingFiles {
    /// When something was overdue first; `None` again after an agreement.
    unreachable_ms: Option<u64>,
    /// When files in cache were closed for the first time since the last agreement, by name: what
    /// is written anew all the time would never be overdue by its last close.
    unheard: BTreeMap<String, u64>,
}

/// The matter of files that wait for an agreement.
#[derive(Debug, Clone)]
pub struct Unsealed {
    series: Vec<WaitingFiles>,
}

impl Unsealed {
    pub fn new(series: usize) -> Self {
        Unsealed { series: vec![WaitingFiles::default(); series] }
    }

    /// Notes that there was an agreement.
    pub fn agreed(&mut self) {
        self.series.fill(WaitingFiles::default());
    }

    /// Notes that a file in cache was closed.
    pub fn note_closed(&mut self, series: usize, name: &str, now_ms: u64) {
        self.series[series].unheard.entry(name.to_string()).or_insert(now_ms);
    }

    /// Does what `Machine::outruns` does.
    pub fn outruns(&self, facts: &RunFacts, file: &FileRef) -> bool {
        let (series, count) = (&facts.series[file.series], facts.agreement.count);
        let begun =
            |dataset: &LocalDataset| dataset.begun && file.id.as_ref() == Some(&dataset.key.id);
        // With a sync point since, an agreement will come soon.
        let unheard = |dataset: &LocalDataset| {
            dataset.is_unsealed() && !dataset.files.values().any(|file| file.is_past(count))
        };
        file.id.is_some()
            && !facts.is_passive()
            && self.series[file.series].unreachable_ms.is_none()
            && !series.datasets.iter().any(begun)
            && (0..series.datasets.len())
                .any(|at| unheard(&series.datasets[at]) && patience_ms(facts, series, at, 1) == 0)
    }

    /// Does what `Machine::overdue_before` does.
    pub fn overdue_before(
        &mut self,
        facts: &mut RunFacts,
        coming: Option<usize>,
        now_ms: u64,
    ) -> Vec<Overdue> {
        facts.tick(now_ms);
        let mut overdue = Vec::new();
        for (index, series) in facts.series.iter().enumerate() {
            for (at, dataset) in series.datasets.iter().enumerate() {
                if !dataset.is_unsealed() {
                    continue;
                }
                let patience_ms =
                    patience_ms(facts, series, at, usize::from(coming == Some(index)));
                for (name, file) in dataset.files.iter().filter(|(_, file)| file.is_pending()) {
                    let last = file.named.bare && facts.config.series[index].has_id;
                    let first_ms =
                        self.series[index].unheard.get(name).copied().unwrap_or(file.closed_ms);
                    let (since_ms, waits_ms) = match last && !facts.ended {
                        false => (first_ms, patience_ms),
                        // However patient this rank is: others may take all their time.
                        true => (file.closed_ms, facts.config.unsealed_ms * 2),
                    };
                    if now_ms.saturating_sub(since_ms) >= waits_ms
                        && !facts.has_newer_on_prefix(&dataset.key, name)
                    {
                        let (key, name) = (dataset.key.clone(), name.clone());
                        overdue.push((file.closed_ms, Overdue { key, file: name, last }));
                    }
                }
            }
        }
        overdue.sort_by_key(|(closed_ms, one)| (one.last, *closed_ms));
        for (_, one) in &overdue {
            self.series[one.key.series].unreachable_ms.get_or_insert(facts.clock_ms);
        }
        let due = overdue.iter().filter(|(closed_ms, one)| {
            !one.last || facts.ended || has_all_before(facts, one.key.series, *closed_ms, &overdue)
        });
        due.map(|(_, one)| one.clone()).collect()
    }

    /// Tells whether new files of the dataset `key` go to the PFS, since no agreement is in sight.
    pub fn is_out_of_reach(&self, facts: &RunFacts, file: &FileRef, key: &DatasetKey) -> bool {
        if file.id.is_some() || !facts.config.series[file.series].has_id {
            return self.series.iter().any(|series| series.unreachable_ms.is_some());
        }
        // A pointer waits for its turn, unless all that it can point to was written in place, on
        // the other ranks too, which come to see how things are at about the same time: those that
        // write this series. One that had nothing left to copy when this rank saw it does so a
        // whole `unsealed_ms` after its next close.
        let Some(since_ms) = self.series[file.series].unreachable_ms else { return false };
        let own = facts.own(key).filter(|own| own.begun);
        own.is_some_and(|own| {
            own.begun_ms >= since_ms + facts.config.unsealed_ms * 2
                && own.files.values().all(|file| file.on_prefix.is_some())
        })
    }
}

/// Does what `Machine::wanted` does.
pub fn wanted(facts: &RunFacts, key: &DatasetKey) -> Vec<Overdue> {
    let dataset = facts
        .own(key)
        .filter(|dataset| dataset.begun && matches!(dataset.phase, Phase::Open | Phase::Dropped));
    let files = dataset.into_iter().flat_map(|dataset| &dataset.files);
    let pending = files.filter(|(name, file)| {
        file.is_pending() && !file.is_deleted() && !facts.has_newer_on_prefix(key, name)
    });
    let has_id = facts.config.series[key.series].has_id;
    let wanted = |(name, file): (&String, &LocalFile)| Overdue {
        key: key.clone(),
        file: name.clone(),
        last: file.named.bare && has_id,
    };
    let mut wanted: Vec<Overdue> = pending.map(wanted).collect();
    wanted.sort_by_key(|one| one.last);
    wanted
}

/// Does what `Machine::unsaved` does.
pub fn unsaved(facts: &RunFacts) -> Vec<DatasetKey> {
    let all = (0..facts.series.len()).flat_map(|series| {
        let newest = facts.shared.newest_confirmed(series);
        let keeps = facts.is_kept_series(series);
        facts.shared.series[series].datasets.iter().filter(move |one| {
            let sealed = matches!(one.state, DatasetState::Confirmed | DatasetState::Provisional);
            let wanted = one.id >= newest || (keeps && one.is_kept());
            sealed && wanted && !one.flushed && !one.on_prefix
        })
    });
    let mut all: Vec<_> = all.map(|one| (one.id, one.key.clone())).collect();
    all.sort_unstable();
    all.into_iter().map(|(_, key)| key).collect()
}

/// Does what `Machine::is_unheard` does.
pub fn is_unheard(facts: &RunFacts, now_ms: u64) -> bool {
    let agreed_ms = facts.agreement.agreed_ms();
    !facts.agreement.is_disabled() && now_ms.saturating_sub(agreed_ms) >= facts.config.unsealed_ms
}

/// How long the dataset's closed files wait for an agreement; so many newer ones are `coming`.
fn patience_ms(facts: &RunFacts, series: &LocalSeries, at: usize, coming: usize) -> u64 {
    let newer = series.datasets[at + 1..].iter();
    let newer = newer.filter(|dataset| dataset.is_unsealed() && dataset.is_successor());
    let newer = newer.count() + coming;
    let closed = series.datasets[at].files.values().map(|file| file.closed_ms).max();
    // An agreement since then is on its way to a seal.
    let unheard = closed.is_some_and(|closed_ms| closed_ms > facts.agreement.agreed_ms());
    let over = facts.agreement.is_disabled() || facts.exiting || facts.ended;
    match (newer >= 2 && unheard) || over {
        true => 0,
        false => facts.config.unsealed_ms,
    }
}

/// All files with ids that this rank wrote before are on the PFS, or sealed.
fn has_all_before(facts: &RunFacts, series: usize, closed_ms: u64, due: &[(u64, Overdue)]) -> bool {
    let unsealed = facts.series[series].datasets.iter().filter(|dataset| dataset.is_unsealed());
    let mut files = unsealed.flat_map(|dataset| {
        dataset.files.iter().map(move |(name, file)| (&dataset.key, name, file))
    });
    files.all(|(key, name, file)| {
        let goes_first = || due.iter().any(|(_, one)| one.key == *key && one.file == *name);
        let older = file.closed_ms <= closed_ms;
        file.named.bare || !older || (file.open == 0 && (!file.is_pending() || goes_first()))
    })
}

pub fn set_published(facts: &mut RunFacts, key: &DatasetKey, name: &str, how: OnPfs) {
    if let Some(file) = facts.file_mut(key, name) {
        file.published = if file.open == 0 { how } else { OnPfs::No };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::state::testing::{facts, file, write};

    const WAIT_MS: u64 = 60_000;

    #[test]
    fn a_file_waits_its_time_and_a_pointer_twice_that() {
        // Milliseconds since both were closed; what is overdue.
        let rows: [(u64, &[&str]); 4] = [
            (WAIT_MS - 1, &[]),
            (WAIT_MS, &["s1"]),
            (2 * WAIT_MS - 1, &["s1"]),
            (2 * WAIT_MS, &["s1", "latest"]),
        ];
        for (now_ms, expected) in rows {
            let (mut facts, mut unsealed) = (facts(true), Unsealed::new(1));
            let key = DatasetKey::new(0, "1", 0);
            for one in [file("", "latest"), file("1", "s1")] {
                write(&mut facts, &key, &one, 0);
                unsealed.note_closed(0, &one.name, 0);
            }
            let overdue = unsealed.overdue_before(&mut facts, None, now_ms);
            let names: Vec<_> = overdue.iter().map(|one| one.file.as_str()).collect();
            assert_eq!(names, expected, "{now_ms}");
            let out =
                |unsealed: &Unsealed| unsealed.is_out_of_reach(&facts, &file("2", "s2"), &key);
            assert_eq!(out(&unsealed), !expected.is_empty(), "new files go to the PFS");
            unsealed.agreed();
            assert!(!out(&unsealed));
        }
    }

    #[test]
    fn what_is_written_anew_all_the_time_waits_since_its_first_close() {
        let (mut facts, mut unsealed) = (facts(true), Unsealed::new(1));
        let (key, one) = (DatasetKey::new(0, "1", 0), file("1", "s1"));
        for now_ms in [0, WAIT_MS - 1] {
            write(&mut facts, &key, &one, now_ms);
            unsealed.note_closed(0, &one.name, now_ms);
        }
        assert_eq!(unsealed.overdue_before(&mut facts, None, WAIT_MS).len(), 1);
    }
}
