//! What a rank may know, for tests of single matters.

use super::{DatasetState, Phase, RunFacts, SharedDataset};
use crate::machine::terms::{
    DatasetKey, FileRef, MachineConfig, Report, SeriesConfig, SeriesReport,
};

/// Returns what rank 0 of two on two nodes knows of a series that is cached.
pub fn facts(has_id: bool) -> RunFacts {
    let series = SeriesConfig { learn: false, ..SeriesConfig::new("state", has_id) };
    RunFacts::new(MachineConfig::new(0, vec![0, 1], vec![series]), &[], 0)
}

pub fn file(id: &str, name: &str) -> FileRef {
    let id = Some(id.to_string()).filter(|id| !id.is_empty());
    let masked = id.as_ref().map_or(name.to_string(), |id| name.replace(id, "{id}"));
    FileRef { series: 0, id, name: name.to_string(), masked, temporary: false }
}

pub fn write(facts: &mut RunFacts, key: &DatasetKey, file: &FileRef, now_ms: u64) {
    facts.tick(now_ms);
    let count = facts.agreement.count;
    let dataset = facts.local_mut(key);
    dataset.begun = true;
    dataset.open_file(file, None, 0);
    dataset.touch(now_ms);
    let Some(held) = dataset.files.get_mut(&file.name) else { return };
    (held.open, held.bytes, held.closed_ms, held.closed_before) = (0, 10, now_ms, Some(count + 1));
}

/// Lets all ranks know of the next dataset.
pub fn share(facts: &mut RunFacts, key: &DatasetKey, state: DatasetState) {
    let mut dataset = SharedDataset::new(key.clone());
    let all = &mut facts.shared.series[key.series].datasets;
    (dataset.state, dataset.id) = (state, all.len() as u64 + 1);
    dataset.seals.count = u32::from(state != DatasetState::Open);
    all.push(dataset);
    facts.local_mut(key).phase = match state {
        DatasetState::Open => Phase::Open,
        DatasetState::Dropped => Phase::Dropped,
        DatasetState::Provisional | DatasetState::Confirmed => Phase::Sealed,
    };
}

/// Reports of both ranks, with these news of rank 1.
pub fn reports(news: SeriesReport) -> Vec<Report> {
    let of = |news| Report { series: vec![news], ..Report::default() };
    vec![of(SeriesReport::default()), of(news)]
}
