//! From the votes of a conference to its steps, one at a time, since later ones depend on the
//! outcome of earlier ones. All of it rests on shared state alone.

use super::conference::doubts::Doubt;
use super::conference::votes::ConferenceState;
use super::conference::{adopt, evict, flush, seal};
use super::parts::Machine;
use super::state::{DatasetState, SharedDataset, SharedSeries};
use super::terms::Step;

impl Machine {
    /// Returns the conference's next step, equal on all ranks; `None` when it is over. Carry it out
    /// and call [`Machine::done`] before asking again.
    pub fn next_step(&mut self) -> Option<Step> {
        let mut conference = self.conference.take()?;
        let step = self.decide(&mut conference);
        if step.is_some() {
            self.conference = Some(conference);
        } else if self.facts.shared.series.iter().any(|series| series.open().next().is_some()) {
            // What could not be sealed now is looked at again; see the agreement's pace.
            self.facts.agreement.changed(u8::from(!conference.tried.is_empty()));
        }
        step
    }

    fn decide(&mut self, conference: &mut ConferenceState) -> Option<Step> {
        let series = 0..self.facts.config.series.len();
        self.take_in(conference)
            .or_else(|| {
                series.clone().find_map(|index| seal::confirm(&self.facts, index, conference))
            })
            .or_else(|| {
                let quiet = &mut conference.quiet;
                series.clone().find_map(|index| self.trust.trust(&self.facts, index, quiet))
            })
            .or_else(|| self.seal(conference))
            .or_else(|| series.clone().find_map(|index| self.learned(index)))
            .or_else(|| if self.ends_again() { None } else { self.clear_up(conference) })
    }

    fn take_in(&mut self, conference: &mut ConferenceState) -> Option<Step> {
        let (facts, mut series) = (&self.facts, 0..self.facts.config.series.len());
        let step = series
            .clone()
            .find_map(|index| adopt::take_back(facts, index, conference))
            .or_else(|| series.find_map(|index| adopt::adopt(facts, index, conference)))?;
        if let Step::Adopt { into, .. } = &step {
            self.encodings.spoil_shared(into);
        }
        Some(step)
    }

    /// The series with the oldest dataset in progress comes first: ids follow the order in which
    /// the program began.
    fn seal(&mut self, conference: &mut ConferenceState) -> Option<Step> {
        let mut in_turn: Vec<usize> = (0..self.facts.config.series.len()).collect();
        in_turn.sort_by_key(|index| self.facts.shared.series[*index].first_turn());
        let (facts, encodings) = (&mut self.facts, &mut self.encodings);
        let mut parts = seal::Sealing { facts, encodings, trust: &mut self.trust };
        in_turn.into_iter().find_map(|index| seal::seal_or_drop(&mut parts, index, conference))
    }

    fn learned(&mut self, index: usize) -> Option<Step> {
        std::mem::take(&mut self.facts.shared.series[index].learned)
            .then_some(Step::Learned { series: index })
    }

    fn clear_up(&mut self, conference: &mut ConferenceState) -> Option<Step> {
        let (facts, doubts) = (&mut self.facts, &mut self.doubts);
        let series = 0..facts.config.series.len();
        for index in series.clone() {
            self.keeping.make_kept_due(facts, index, conference.scarce);
        }
        let deletions = &self.deletions;
        series
            .clone()
            .find_map(|at| flush::publish(facts, deletions, at, false, conference))
            .or_else(|| {
                series.clone().find_map(|at| flush::flush(facts, &mut doubts[at], at, conference))
            })
            .or_else(|| {
                series.clone().find_map(|at| evict::evict(facts, &mut doubts[at], at, conference))
            })
            .or_else(|| series.clone().find_map(|at| flush::spill(facts, at, conference)))
            .or_else(|| {
                series.clone().find_map(|at| flush::publish(facts, deletions, at, true, conference))
            })
            .or_else(|| flush::halt(facts, conference))
    }

    /// Tells whether the end needs one more conference: only that one tells whether the program
    /// sees files of a checkpoint that was sealed just now and is not the newest, and is to be
    /// flushed, too; or what ranks of several nodes have done to one file.
    pub fn ends_again(&self) -> bool {
        let unsure = |series: &SharedSeries, doubt: &Doubt| {
            let sealed = series.datasets.iter().filter(|dataset| {
                !matches!(dataset.state, DatasetState::Open | DatasetState::Dropped)
            });
            let seen = |one: &SharedDataset| one.seals.fresh || (one.told.live && doubt.confirms);
            sealed.rev().skip(1).any(|one| seen(one) && !one.due && !one.flushed)
        };
        let mut all = self.facts.shared.series.iter().zip(&self.doubts);
        self.end_conferences == 1
            && (all.any(|(series, doubt)| unsure(series, doubt)) || self.verdicts.are_awaited())
    }
}
