//! Datasets that are encoded beside the program, between two conferences: the first one begins it,
//! the second one seals what has come of it.
//!
//! What the program does to the dataset in between spoils that: it is let run to its end,
//! forgotten, and begun again in due time. What comes before the end (the next dataset of the
//! series, a halt, the end of the program, the end of the cache's use) makes all ranks wait for it.
//! One that fails is done again at once as part of a seal, with the program waiting.

use super::Machine;
use super::conference::{Conference, Vote};
use super::keys::DatasetKey;
use super::local::{LocalSeries, Status};
use super::outcome::Outcome;
use super::steps::{SealPlan, Step};

/// Encodings beside the program in a row that fail before no further one is tried.
const FAILURES_MAX: u32 = 2;

/// An encoding as all ranks know it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UnderWay {
    /// The seal that it is for.
    pub plan: SealPlan,
    /// Files of some rank were added since.
    pub spoiled: bool,
}

/// This rank's part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Encoding {
    pub ended: bool,
    /// Others may wait for it in vain.
    pub failed: bool,
    pub spoiled: bool,
}

/// How far all ranks together are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
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

impl Machine {
    /// Says whether this rank can encode beside the program from now on: it has a processor for it,
    /// or is to do so in slices.
    pub fn set_aside(&mut self, able: bool) {
        self.aside = able;
    }

    /// Notes that this rank's part of what [`Step::Encode`] has begun is over, `well` or not.
    pub fn encoded(&mut self, key: &DatasetKey, well: bool) {
        let own = self.series[key.series].find_mut(key);
        if let Some(encoding) = own.and_then(|own| own.encoding.as_mut()) {
            encoding.ended = true;
            encoding.failed = !well;
        }
    }

    /// Tells whether anything is being encoded beside the program; the same on all ranks.
    #[must_use]
    pub fn encodes(&self) -> bool {
        let mut all = self.shared.series.iter().flat_map(|series| series.open());
        all.any(|dataset| dataset.encoding.is_some())
    }

    pub(super) fn stage_of(&self, word: i64) -> Stage {
        match (self.encodes(), word) {
            (false, _) => Stage::Nothing,
            (true, GOES) => Stage::Goes,
            (true, _) => Stage::Ended,
        }
    }

    pub(super) fn encoding_word(&self) -> i64 {
        let word = |series: &LocalSeries| {
            let datasets = series.datasets.iter().enumerate();
            let encoding = datasets.filter_map(|(at, one)| Some((at, one.encoding?)));
            let one = |(at, encoding): (usize, Encoding)| {
                let followed = series.datasets[at + 1..].iter().any(|later| {
                    later.is_successor()
                        && !self.is_floating(&later.key)
                        && self.status(&later.key) == Status::Open
                });
                match encoding.ended {
                    _ if followed || encoding.failed => IS_WAITED_FOR,
                    false => GOES,
                    true => 0,
                }
            };
            encoding.map(one).max().unwrap_or(0)
        };
        self.series.iter().map(word).max().unwrap_or(0)
    }

    /// Encodes beside the program where that keeps it from waiting, else in the seal.
    pub(super) fn aside_if_it_pays(
        &mut self,
        plan: SealPlan,
        vote: &Vote,
        conference: &mut Conference,
    ) -> Step {
        let key = plan.key.clone();
        let is_large = self.config.aside_bytes.is_some_and(|least| vote.bytes >= least);
        let at = self.shared.series[key.series].datasets.iter().position(|one| one.key == key);
        let followed = vote.followed || at.is_some_and(|at| self.is_followed(key.series, at));
        let over = followed || conference.ending || conference.halt != 0 || self.shared.fallen_back;
        let failing = self.shared.encodings_failed >= FAILURES_MAX;
        let is_calm = conference.aside && !over && !failing;
        let fits = is_large && !plan.on_prefix && !self.config.series[key.series].explicit;
        let is_first = conference.encode_tried.insert(key.clone());
        if let Some(dataset) = self.shared.find_mut(&key)
            && (is_calm && fits && is_first && dataset.failures == 0)
        {
            dataset.encoding = Some(UnderWay { plan: plan.clone(), spoiled: false });
            return Step::Encode(plan);
        }
        conference.tried.insert(key);
        Step::Seal(plan)
    }

    pub(super) fn encode_done(&mut self, plan: &SealPlan, outcome: Outcome) {
        if outcome != Outcome::Done {
            self.end_encoding(&plan.key);
            self.note_encoding(true, outcome);
            return;
        }
        let dataset = self.local_mut(&plan.key);
        let spoiled = dataset.touched || dataset.open_files() > 0;
        dataset.encoding = Some(Encoding { spoiled, ..Encoding::default() });
    }

    /// Decides what follows on an encoding: `None` if it goes on.
    pub(super) fn after_encoding(
        &mut self,
        index: usize,
        at: usize,
        vote: &Vote,
        conference: &mut Conference,
    ) -> Option<Step> {
        let followed = vote.followed || self.is_followed(index, at);
        let waits = vote.failed
            || followed
            || conference.ending
            || conference.halt != 0
            || self.shared.fallen_back;
        let dataset = &mut self.shared.series[index].datasets[at];
        let under_way = dataset.encoding.as_mut()?;
        if conference.encode_tried.contains(&dataset.key) || (!vote.encoded && !waits) {
            return None; // of this conference, or not at its end
        }
        let key = dataset.key.clone();
        if vote.failed {
            conference.encode_tried.insert(key.clone()); // at once, with the program waiting
            return Some(Step::Discard { key, failed: true });
        }
        let spoiled = under_way.spoiled || vote.spoiled || vote.open > 0 || vote.invalid.is_some();
        if spoiled {
            return Some(Step::Discard { key, failed: false });
        }
        let is_over = followed || self.config.series[index].seals_once;
        under_way.plan.confirmed = Self::confirms(vote, conference, is_over);
        let plan = under_way.plan.clone();
        conference.tried.insert(key);
        Some(Step::Seal(plan))
    }

    pub(super) fn spoil_shared(&mut self, key: &DatasetKey) {
        let under_way = self.shared.find_mut(key).and_then(|dataset| dataset.encoding.as_mut());
        if let Some(under_way) = under_way {
            under_way.spoiled = true;
        }
    }

    /// Forgets the encoding; whether there was one.
    pub(super) fn end_encoding(&mut self, key: &DatasetKey) -> bool {
        if let Some(own) = self.series[key.series].find_mut(key) {
            own.encoding = None;
        }
        let shared = self.shared.find_mut(key);
        shared.is_some_and(|dataset| dataset.encoding.take().is_some())
    }

    /// Counts failures of what was encoded `aside`.
    pub(super) fn note_encoding(&mut self, aside: bool, outcome: Outcome) {
        match outcome {
            _ if !aside => {}
            Outcome::Done => self.shared.encodings_failed = 0,
            Outcome::Touched => {}
            Outcome::Failed => self.shared.encodings_failed += 1,
        }
    }
}
