//! The machine of one rank: its parts, and how it begins.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::conference::doubts::Doubt;
use super::conference::votes::ConferenceState;
use super::matters::{
    Deletions, Encodings, Keeping, Lacking, Logs, NameWatch, NamesToTell, Others, Overheard,
    Rotations, Trust, UnsealedFiles, Verdicts,
};
use super::state::{
    DatasetState, LocalDataset, LocalFile, NameFacts, Phase, RunFacts, SharedDataset,
};
use super::terms::{DatasetKey, Knowledge, MachineConfig, Reason, RestoredFiles, Resumed};

#[derive(Debug, Clone)]
pub struct Machine {
    pub(super) facts: RunFacts,
    pub(super) deletions: Deletions,
    pub(super) encodings: Encodings,
    pub(super) keeping: Keeping,
    pub(super) lacking: Lacking,
    pub(super) logs: Logs,
    pub(super) others: Others,
    pub(super) rotations: Rotations,
    pub(super) telling: NamesToTell,
    pub(super) trust: Trust,
    pub(super) unsealed: UnsealedFiles,
    pub(super) verdicts: Verdicts,
    pub(super) watch: NameWatch,
    pub(super) doubts: Vec<Doubt>,
    pub(super) conference: Option<ConferenceState>,
    pub(super) heard: Overheard,
    /// The reason that this rank asks for; 0 for none.
    pub(super) halt: i64,
    /// This rank's store has no room for two more datasets like those in it.
    pub(super) scarce: bool,
    /// Conferences held since the program is in MPI_Finalize.
    pub(super) end_conferences: u32,
}

impl Machine {
    pub fn new(config: MachineConfig, knowledge: &[Knowledge], now_ms: u64) -> Self {
        let count = config.series.len();
        Machine {
            deletions: Deletions::new(count),
            encodings: Encodings::default(),
            keeping: Keeping::new(count, knowledge),
            lacking: Lacking::default(),
            logs: Logs::new(count, knowledge),
            others: Others::new(count),
            rotations: Rotations::new(count),
            telling: NamesToTell::default(),
            trust: Trust::default(),
            unsealed: UnsealedFiles::new(count),
            verdicts: Verdicts::new(count),
            watch: NameWatch::new(&config, knowledge),
            doubts: vec![Doubt::default(); count],
            conference: None,
            heard: Overheard::default(),
            halt: 0,
            scarce: false,
            end_conferences: 0,
            facts: RunFacts::new(config, knowledge, now_ms),
        }
    }

    /// Primes the machine with what the restart found, before any other event.
    pub fn resume(&mut self, resumed: &Resumed) {
        let decision = &resumed.decision;
        let last_id = decision.last_id.max(resumed.last_id);
        self.facts.shared.next_id = last_id + 1;
        for (series, number) in resumed.last_numbers.iter().enumerate() {
            self.facts.shared.series[series].next_number = number + 1;
        }
        for (series, id, number) in &resumed.listed {
            if self.facts.config.series[*series].has_id {
                self.facts.series[*series].left.note_left(id, *number);
            }
        }
        for rejected in &decision.rejected {
            let mut dataset = SharedDataset::new(rejected.key.clone());
            dataset.id = rejected.id;
            dataset.state = DatasetState::Dropped;
            dataset.restored = true;
            self.restore(dataset, Phase::Dropped, None);
        }
        for (index, offer) in decision.offered.iter().enumerate() {
            let mut dataset = SharedDataset::new(offer.key.clone());
            let series = &mut self.facts.shared.series[offer.key.series];
            series.next_number = series.next_number.max(offer.number + 1);
            let rule = &self.facts.config.series[offer.key.series];
            dataset.id = offer.id;
            dataset.number = offer.number;
            dataset.restored = true;
            dataset.flushed = offer.flushed || offer.on_prefix;
            // The newest may have files that other nodes need now. One that may not be complete
            // must not take the names of an older one.
            let newest = index + 1 == decision.offered.len() && (offer.confirmed || rule.has_id);
            let is_due = offer.output || rule.is_due(offer.number);
            dataset.word.output = offer.output;
            dataset.due = newest || (offer.confirmed && is_due);
            dataset.on_prefix = offer.on_prefix;
            dataset.seals.count = 1;
            dataset.state = match offer.confirmed {
                true => DatasetState::Confirmed,
                false => DatasetState::Provisional,
            };
            self.restore(dataset, Phase::Sealed, resumed.own.get(index));
        }
        for (series, local) in self.facts.shared.series.iter_mut().zip(&mut self.facts.series) {
            series.datasets.sort_by_key(|dataset| dataset.id);
            let floating = series.datasets.iter().filter(|dataset| dataset.key.id.is_empty());
            let last = floating.map(|dataset| dataset.key.generation + 1).max();
            local.floating = last.unwrap_or(0);
        }
        self.keeping.resume_course(resumed);
        for series in &mut self.facts.series {
            let order = &self.facts.shared.series;
            series.datasets.sort_by_key(|dataset| {
                let shared = &order[dataset.key.series].datasets;
                shared.iter().position(|other| other.key == dataset.key)
            });
        }
    }

    fn restore(&mut self, dataset: SharedDataset, phase: Phase, own: Option<&RestoredFiles>) {
        let series = dataset.key.series;
        if self.facts.shared.find(&dataset.key).is_some() {
            // Rejected in cache, but offered from the PFS: one entry, the offered one.
            self.facts.shared.series[series].datasets.retain(|other| other.key != dataset.key);
            self.facts.series[series].datasets.retain(|other| other.key != dataset.key);
        }
        let mut local = LocalDataset::new(dataset.key.clone(), self.facts.clock_ms);
        local.begun = true;
        local.phase = phase;
        local.prepared = phase == Phase::Sealed;
        let is_left = |name: &str| own.is_some_and(|own| own.left.contains(name));
        for (name, masked, bytes, on_prefix) in own.iter().flat_map(|own| &own.files) {
            let reason = match is_left(name) {
                true => Some(Reason::ChangedApart),
                false => on_prefix.then_some(Reason::Follows),
            };
            let file = LocalFile {
                keeps_copy: is_left(name) && !on_prefix,
                moved: is_left(name),
                bytes: *bytes,
                closed_ms: self.facts.clock_ms,
                closed_before: Some(0),
                ..LocalFile::new(NameFacts::of(name, masked, false), reason)
            };
            local.files.insert(name.clone(), file);
        }
        self.facts.series[series].datasets.push(local);
        self.facts.shared.series[series].datasets.push(dataset);
    }

    /// Asks that the job halts, on any rank; 0 withdraws.
    pub(crate) fn request_halt(&mut self, reason: i64) {
        self.halt = reason;
    }

    /// Notes that this rank cannot use the cache any more: its new files go to the PFS, and those
    /// of all ranks from the next agreement on.
    pub fn fall_back(&mut self) {
        if !std::mem::replace(&mut self.facts.falls_back, true) {
            self.facts.agreement.changed(2);
        }
    }

    pub(crate) fn set_scarce(&mut self, scarce: bool) {
        self.scarce = scarce;
    }

    pub fn has_fallen_back(&self) -> bool {
        self.facts.shared.fallen_back
    }

    /// Notes that the program is in MPI_Finalize: one conference follows, and a second one if
    /// [`Machine::ends_again`].
    pub fn begin_end(&mut self, now_ms: u64) {
        self.facts.tick(now_ms);
        self.facts.ending = true;
    }

    /// Notes that the process ends, perhaps without a conference: closed files wait for no
    /// agreement.
    pub(crate) fn begin_exit(&mut self) {
        self.facts.exiting = true;
    }

    pub fn end(&mut self) {
        self.facts.ended = true;
    }

    /// Takes what the conference that has just begun told of other ranks' doings.
    pub fn take_heard(&mut self) -> Overheard {
        std::mem::take(&mut self.heard)
    }

    pub fn called_by(&mut self, thread: u64) {
        self.facts.caller = thread;
    }

    pub fn set_aside(&mut self, able: bool) {
        self.encodings.able = able;
    }

    pub fn encoded(&mut self, key: &DatasetKey, well: bool) {
        self.encodings.encoded(key, well);
    }

    pub fn knowledge(&self, series: usize) -> Knowledge {
        let (shared, local) = (&self.facts.shared.series[series], &self.facts.series[series]);
        let mut knowledge = Knowledge {
            files: local.known,
            settle_ms: shared.settle_ms,
            clean_seals: shared.clean_seals,
            interval_ms: shared.interval_ms,
            rewrites: shared.rewrites,
            restless: self.logs.templates(series).clone(),
            temporaries: local.temporaries.clone(),
            sizes: local.sizes.clone(),
            habit: self.keeping.habits()[series],
            ..Knowledge::default()
        };
        self.watch.store(series, &mut knowledge);
        knowledge
    }

    /// Differs when anything differs that is to be equal on all ranks.
    pub(super) fn digest(&self) -> u64 {
        // DefaultHasher::new has fixed keys: equal states give equal digests on all ranks.
        let mut hasher = DefaultHasher::new();
        (&self.facts.shared, &self.lacking, &self.trust, &self.doubts).hash(&mut hasher);
        (self.encodings.shared(), self.keeping.habits(), self.watch.shared()).hash(&mut hasher);
        self.verdicts.shared().hash(&mut hasher);
        self.logs.shared().for_each(|templates| templates.hash(&mut hasher));
        hasher.finish()
    }
}
