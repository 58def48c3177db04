//! Datasets that are encoded beside the program: one conference begins it, a later one seals what
//! has come of it. If the program changes the dataset meanwhile, the encoding is forgotten at its
//! end, and begun again in due time. The next dataset of the series, a halt, or the end waits for
//! it. One that fails is done again at once in a seal, with the program waiting.

use std::collections::BTreeMap;

use crate::machine::state::{LocalDataset, RunFacts};
use crate::machine::terms::{DatasetKey, EncodingReport, Outcome, SealPlan};

/// After so many failures in a row no further encoding is tried.
const FAILURES_MAX: u32 = 2;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PlannedSeal {
    pub plan: SealPlan,
    /// Files of some rank were added since.
    pub spoiled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OwnPart {
    /// How it went, once it is over. After a failure others may wait for it in vain.
    well: Option<bool>,
    /// The dataset's count of changes at the begin; `None`: it was being changed.
    changes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Nothing,
    /// Some rank's part goes on, and nobody waits for it.
    Goes,
    /// All parts have ended, or what comes next waits.
    Ended,
}

/// The words of an agreement, of which the largest holds.
const GOES: i64 = 1;

const IS_WAITED_FOR: i64 = 2;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SharedEncodings {
    planned: BTreeMap<DatasetKey, PlannedSeal>,
    failed: u32,
}

#[derive(Debug, Clone, Default)]
pub struct Encodings {
    /// See `Report::aside`.
    pub able: bool,
    shared: SharedEncodings,
    own: BTreeMap<DatasetKey, OwnPart>,
}

impl Encodings {
    pub fn shared(&self) -> &SharedEncodings {
        &self.shared
    }

    pub fn encoded(&mut self, key: &DatasetKey, well: bool) {
        if let Some(own) = self.own.get_mut(key) {
            own.well = Some(well);
        }
    }

    pub fn encodes(&self) -> bool {
        !self.shared.planned.is_empty()
    }

    pub fn is_failing(&self) -> bool {
        self.shared.failed >= FAILURES_MAX
    }

    pub fn plan(&mut self, plan: &SealPlan) {
        let planned = PlannedSeal { plan: plan.clone(), spoiled: false };
        self.shared.planned.insert(plan.key.clone(), planned);
    }

    pub fn planned(&self, key: &DatasetKey) -> Option<&PlannedSeal> {
        self.shared.planned.get(key)
    }

    pub fn encode_done(&mut self, facts: &RunFacts, key: &DatasetKey, outcome: Outcome) {
        if outcome != Outcome::Done {
            self.end_encoding(key);
            self.note_encoding(true, outcome);
            return;
        }
        let own = facts.own(key);
        let still = |own: &LocalDataset| !own.touched && own.open_files() == 0;
        let changes = own.map_or(Some(0), |own| still(own).then_some(own.changes));
        self.own.insert(key.clone(), OwnPart { well: None, changes });
    }

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

    pub fn encoding_word(&self, facts: &RunFacts) -> i64 {
        let word = |(key, own): (&DatasetKey, &OwnPart)| match own.well {
            Some(false) => IS_WAITED_FOR,
            _ if facts.has_successor(key) => IS_WAITED_FOR,
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

    pub fn end_encoding(&mut self, key: &DatasetKey) -> bool {
        self.own.remove(key);
        self.shared.planned.remove(key).is_some()
    }

    pub fn note_encoding(&mut self, aside: bool, outcome: Outcome) {
        match outcome {
            Outcome::Done if aside => self.shared.failed = 0,
            Outcome::Failed if aside => self.shared.failed += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::state::DatasetState;
    use crate::machine::state::testing::{facts, file, share, write};

    #[test]
    fn a_rank_says_how_far_it_is() {
        // Whether the end went well, if it is over; whether the next dataset has begun; the word.
        let rows = [
            (None, false, GOES),
            (Some(true), false, 0),
            (Some(false), false, IS_WAITED_FOR),
            (None, true, IS_WAITED_FOR),
        ];
        for (well, followed, word) in rows {
            let (mut facts, mut encodings) = (facts(true), Encodings::default());
            let key = DatasetKey::new(0, "1", 0);
            write(&mut facts, &key, &file("1", "s1"), 1);
            facts.local_mut(&key).touched = false;
            share(&mut facts, &key, DatasetState::Open);
            encodings.encode_done(&facts, &key, Outcome::Done);
            well.into_iter().for_each(|well| encodings.encoded(&key, well));
            let own = |facts: &RunFacts, all: &Encodings| all.report(facts.own(&key).unwrap());
            let failed = well == Some(false);
            let expected = EncodingReport { encoded: well.is_some(), failed, spoiled: false };
            assert_eq!(own(&facts, &encodings), expected);
            if followed {
                write(&mut facts, &DatasetKey::new(0, "2", 0), &file("2", "s2"), 2);
            }
            assert_eq!(encodings.encoding_word(&facts), word, "{well:?} {followed}");
            write(&mut facts, &key, &file("1", "s1"), 3);
            assert!(own(&facts, &encodings).spoiled, "it was written to");
        }
    }

    #[test]
    fn none_is_tried_after_two_failures_in_a_row() {
        let mut encodings = Encodings::default();
        for (aside, outcome, failing) in [
            (true, Outcome::Failed, false),
            (true, Outcome::Done, false),
            (true, Outcome::Failed, false),
            (false, Outcome::Failed, false),
            (true, Outcome::Touched, false),
            (true, Outcome::Failed, true),
        ] {
            encodings.note_encoding(aside, outcome);
            assert_eq!(encodings.is_failing(), failing);
        }
    }
}
