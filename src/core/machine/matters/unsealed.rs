//! Without agreements each rank's helper thread copies its closed files to the PFS: a constant time
//! (`MachineConfig::unsealed_ms`) after their first close, in the order of the closes, so that the
//! PFS looks as it would have looked that long ago. What depends on files of *other* ranks waits
//! longer: a file without id beside files with one (a pointer, that rank 0 writes when it has heard
//! of all files) twice as long, and for all older files of its rank; a deletion while newer files
//! are on their way three times as long.
//!
//! No more is possible without communication: if the copies of a rank take longer than that, or
//! only that rank dies, a pointer comes to name a checkpoint that is not whole. A marker *with* an
//! id is not known as one; its rank alone orders it after its own files.

use std::collections::BTreeMap;

use crate::machine::state::{LocalDataset, LocalSeries, OnPfs, RunFacts};
use crate::machine::terms::{DatasetKey, FileRef, Overdue};

#[derive(Debug, Clone, Default)]
struct WaitingFiles {
    /// When something was overdue first; `None` again after an agreement.
    unreachable_ms: Option<u64>,
    /// When files in cache were first closed since the last agreement, by name: by its last close,
    /// what is written anew all the time would never be overdue.
    unheard: BTreeMap<String, u64>,
}

#[derive(Debug, Clone)]
pub struct UnsealedFiles {
    series: Vec<WaitingFiles>,
}

impl UnsealedFiles {
    pub fn new(series: usize) -> Self {
        UnsealedFiles { series: vec![WaitingFiles::default(); series] }
    }

    pub fn agreed(&mut self) {
        self.series.fill(WaitingFiles::default());
    }

    pub fn note_closed(&mut self, series: usize, name: &str, now_ms: u64) {
        self.series[series].unheard.entry(name.to_string()).or_insert(now_ms);
    }

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

/// How long the dataset's closed files wait for an agreement; so many newer ones are `coming`.
fn patience_ms(facts: &RunFacts, series: &LocalSeries, at: usize, coming: usize) -> u64 {
    let newer = series.datasets[at + 1..].iter();
    let newer = newer.filter(|dataset| dataset.is_unsealed() && dataset.is_successor());
    let newer = newer.count() + coming;
    let closed = series.datasets[at].files.values().map(|file| file.closed_ms).max();
    // An agreement since then is on its way to a seal.
    let unheard = closed.is_some_and(|closed_ms| closed_ms > facts.agreement.agreed_ms);
    let over = facts.agreement.disabled || facts.exiting || facts.ended;
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
            let (mut facts, mut unsealed) = (facts(true), UnsealedFiles::new(1));
            let key = DatasetKey::new(0, "1", 0);
            for one in [file("", "latest"), file("1", "s1")] {
                write(&mut facts, &key, &one, 0);
                unsealed.note_closed(0, &one.name, 0);
            }
            let overdue = unsealed.overdue_before(&mut facts, None, now_ms);
            let names: Vec<_> = overdue.iter().map(|one| one.file.as_str()).collect();
            assert_eq!(names, expected, "{now_ms}");
            let out =
                |unsealed: &UnsealedFiles| unsealed.is_out_of_reach(&facts, &file("2", "s2"), &key);
            assert_eq!(out(&unsealed), !expected.is_empty(), "new files go to the PFS");
            unsealed.agreed();
            assert!(!out(&unsealed));
        }
    }

    #[test]
    fn what_is_written_anew_all_the_time_waits_since_its_first_close() {
        let (mut facts, mut unsealed) = (facts(true), UnsealedFiles::new(1));
        let (key, one) = (DatasetKey::new(0, "1", 0), file("1", "s1"));
        for now_ms in [0, WAIT_MS - 1] {
            write(&mut facts, &key, &one, now_ms);
            unsealed.note_closed(0, &one.name, now_ms);
        }
        assert_eq!(unsealed.overdue_before(&mut facts, None, WAIT_MS).len(), 1);
    }
}
