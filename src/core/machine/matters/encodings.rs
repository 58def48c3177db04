//! Datasets that are encoded beside the program, between two conferences: the first one begins it,
//! the second one seals what has come of it.
//!
//! What the program does to the dataset in between spoils that: it is let run to its end,
//! forgotten, and begun again in due time. What comes before the end (the next dataset of the
//! series, a halt, the end of the program, the end of the cache's use) makes all ranks wait for it.
//! One that fails is done again at once as part of a seal, with the program waiting.

use std::collections::BTreeMap;

use crate::machine::state::dataset::LocalDataset;
use crate::machine::state::ledger::MachineLedger;
use crate::machine::terms::keys::DatasetKey;
use crate::machine::terms::report::EncodingReport;
use crate::machine::terms::steps::{Outcome, SealPlan};

/// Encodings beside the program in a row that fail before no further one is tried.
const FAILURES_MAX: u32 = 2;

/// An encoding as all ranks know it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PlannedSeal {
    /// The seal that it is for.
    pub plan: SealPlan,
    /// Files of some rank were added since.
    pub spoiled: bool,
}

/// This rank's part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OwnPart {
    /// How it went, if it is over; after a failure others may wait for it in vain.
    well: Option<bool>,
    /// The dataset's count of changes when it began; `None`: it was being changed.
    changes: Option<u64>,
}

/// How far all ranks together are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Nothing is being encoded.
    Nothing,
    /// Some rank's part goes on, and nobody waits for it.
    Goes,
    /// All parts have ended, or what comes next waits.
    Ended,
}

/// The words of an agreement, of which the largest holds.
const GOES: i64 = 1;

const IS_WAITED_FOR: i64 = 2;

/// What is equal on all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SharedEncodings {
    planned: BTreeMap<DatasetKey, PlannedSeal>,
    /// Those in a row that failed.
    failed: u32,
}

/// The matter of what is encoded beside the program.
#[derive(Debug, Clone, Default)]
pub struct Encodings {
    /// This rank has a processor for it, or is to do so in slices.
    pub able: bool,
    shared: SharedEncodings,
    own: BTreeMap<DatasetKey, OwnPart>,
}

impl Encodings {
    pub fn shared(&self) -> &SharedEncodings {
        &self.shared
    }

    /// Notes that this rank's part is over, `well` or not.
    pub fn encoded(&mut self, key: &DatasetKey, well: bool) {
        if let Some(own) = self.own.get_mut(key) {
            own.well = Some(well);
        }
    }

    /// Tells whether anything is being encoded; the same on all ranks.
    pub fn encodes(&self) -> bool {
        !self.shared.planned.is_empty()
    }

    /// Tells whether no further one is tried.
    pub fn is_failing(&self) -> bool {
        self.shared.failed >= FAILURES_MAX
    }

    /// Plans the encoding for a seal.
    pub fn plan(&mut self, plan: &SealPlan) {
        let planned = PlannedSeal { plan: plan.clone(), spoiled: false };
        self.shared.planned.insert(plan.key.clone(), planned);
    }

    pub fn planned(&self, key: &DatasetKey) -> Option<&PlannedSeal> {
        self.shared.planned.get(key)
    }

    /// Notes whether this rank's part has begun.
    pub fn encode_done(&mut self, ledger: &MachineLedger, key: &DatasetKey, outcome: Outcome) {
        if outcome != Outcome::Done {
            self.end_encoding(key);
            self.note_encoding(true, outcome);
            return;
        }
        let own = ledger.series[key.series].find(key);
        let still = |own: &LocalDataset| !own.touched && own.open_files() == 0;
        let changes = own.map_or(Some(0), |own| still(own).then_some(own.changes));
        self.own.insert(key.clone(), OwnPart { well: None, changes });
    }

    /// Returns what this rank says of it in a conference.
    pub fn report(&self, dataset: &LocalDataset) -> EncodingReport {
        let Some(own) = self.own.get(&dataset.key) else { return EncodingReport::default() };
        EncodingReport {
            encoded: own.well.is_some(),
            failed: own.well == Some(false),
            spoiled: own.changes != Some(dataset.changes),
        }
    }

    pub fn stage_of(&self, word: i64) -> Stage {
        match (self.encodes(), word) {
            (false, _) => Stage::Nothing,
            (true, GOES) => Stage::Goes,
            (true, _) => Stage::Ended,
        }
    }

    /// Returns this rank's word in an agreement.
    pub fn encoding_word(&self, ledger: &MachineLedger) -> i64 {
        let word = |(key, own): (&DatasetKey, &OwnPart)| match own.well {
            Some(false) => IS_WAITED_FOR,
            _ if ledger.has_successor(key) => IS_WAITED_FOR,
            None => GOES,
            Some(true) => 0,
        };
        self.own.iter().map(word).max().unwrap_or(0)
    }

    /// Notes that the dataset gets files that it had not when its encoding began.
    pub fn spoil_shared(&mut self, key: &DatasetKey) {
        if let Some(planned) = self.shared.planned.get_mut(key) {
            planned.spoiled = true;
        }
    }

    /// Forgets the encoding; whether there was one.
    pub fn end_encoding(&mut self, key: &DatasetKey) -> bool {
        self.own.remove(key);
        self.shared.planned.remove(key).is_some()
    }

    /// Counts failures of what was encoded `aside`.
    pub fn note_encoding(&mut self, aside: bool, outcome: Outcome) {
        match outcome {
            Outcome::Done if aside => self.shared.failed = 0,
            Outcome::Failed if aside => self.shared.failed += 1,
            _ => {}
        }
    }
}
