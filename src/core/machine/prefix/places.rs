//! Which store a dataset goes to, by its number in its series, and how many are kept there.

use crate::machine::matters::encodings::Encodings;
use crate::machine::state::dataset::Phase;
use crate::machine::state::ledger::MachineLedger;
use crate::machine::state::shared::{DatasetState, SharedDataset};
use crate::machine::terms::keys::DatasetKey;
use crate::machine::terms::reason::Reason;

/// Does what `Machine::number_of` does.
pub fn number_of(ledger: &MachineLedger, encodings: &Encodings, key: &DatasetKey) -> u64 {
    let series = &ledger.shared.series[key.series];
    let joins = ledger.config.series[key.series].joins_generations();
    let numbered = |other: &&SharedDataset| {
        other.number > 0 && (other.key == *key || (joins && other.key.same_group(key)))
    };
    if let Some(numbered) = series.datasets.iter().find(numbered) {
        return numbered.number;
    }
    let waits = |other: &DatasetKey| {
        let shared = ledger.shared.find(other);
        let is_first =
            |found: &SharedDataset| found.number == 0 || encodings.planned(&found.key).is_some();
        let unsealed =
            shared.is_none_or(|found| is_first(found) && found.state == DatasetState::Open);
        unsealed && !ledger.is_floating(other) && !(joins && other.same_group(key))
    };
    let before = ledger.series[key.series].datasets.iter().take_while(|one| one.key != *key);
    let ahead = before.filter(|one| one.phase == Phase::Open && waits(&one.key));
    series.next_number + ahead.count() as u64
}

pub fn set_on_prefix(
    ledger: &mut MachineLedger,
    key: &DatasetKey,
    name: &str,
    on_prefix: Option<Reason>,
) {
    if let Some(dataset) = ledger.series[key.series].find_mut(key)
        && let Some(file) = dataset.files.get_mut(name)
    {
        (file.on_prefix, file.keeps_copy) = (on_prefix, false);
        file.joined &= on_prefix.is_none(); // this rank answers for what it has there
        dataset.spoil();
    }
}

/// Tells whether every place in the store of the series' next dataset is taken by ones that
/// wait for their flush.
pub fn is_overfull(ledger: &MachineLedger, series: usize) -> bool {
    let store = ledger.store_of(series, ledger.shared.series[series].next_number);
    let waiting = ledger.shared.series[series].datasets.iter().filter(|dataset| {
        dataset.due
            && !dataset.flushed
            && dataset.state == DatasetState::Confirmed
            && ledger.store_of(series, dataset.number) == store
    });
    waiting.count() > ledger.kept_in(series, store)
}

/// Returns the number in series; all generations of one id share it, so that they are due together.
pub fn number_at(ledger: &MachineLedger, index: usize, at: usize) -> u64 {
    let series = &ledger.shared.series[index];
    let key = &series.datasets[at].key;
    let joins = ledger.config.series[index].joins_generations();
    let same = |other: &&SharedDataset| {
        joins && other.number > 0 && other.seals.count > 0 && other.key.same_group(key)
    };
    series.datasets.iter().find(same).map_or(series.next_number, |other| other.number)
}
