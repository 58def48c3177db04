//! From the votes of a conference to its steps, one at a time, since later ones depend on the
//! outcome of earlier ones. Everything that is decided here rests on shared state alone.

use super::conference::doubts::Doubt;
use super::conference::votes::Conference;
use super::conference::{adopt, evict, flush, seal};
use super::parts::Machine;
use super::state::shared::{DatasetState, SharedDataset, SharedSeries};
use super::terms::steps::Step;

impl Machine {
    /// Returns the conference's next step, equal on all ranks; `None` when it is over. Carry the
    /// step out and call [`Machine::done`] before asking again.
    pub fn next_step(&mut self) -> Option<Step> {
        let mut conference = self.conference.take()?;
        let step = self.decide(&mut conference);
        if step.is_some() {
            self.conference = Some(conference);
        } else if self.ledger.shared.series.iter().any(|series| series.open().next().is_some()) {
            // What could not be sealed now is looked at again; see the agreement's pace.
            self.ledger.agreement.changed(u8::from(!conference.tried.is_empty()));
        }
        step
    }

    fn decide(&mut self, conference: &mut Conference) -> Option<Step> {
        let series = 0..self.ledger.config.series.len();
        self.take_in(conference)
            .or_else(|| {
                series.clone().find_map(|index| seal::confirm(&self.ledger, index, conference))
            })
            .or_else(|| {
                let quiet = &mut conference.quiet;
                series.clone().find_map(|index| self.trust.trust(&self.ledger, index, quiet))
            })
            .or_else(|| self.seal(conference))
            .or_else(|| series.clone().find_map(|index| self.learned(index)))
            .or_else(|| if self.ends_again() { None } else { self.clear_up(conference) })
    }

    /// Files go to the dataset that they belong to.
    fn take_in(&mut self, conference: &mut Conference) -> Option<Step> {
        let (ledger, mut series) = (&self.ledger, 0..self.ledger.config.series.len());
        let step = series
            .clone()
            .find_map(|index| adopt::take_back(ledger, index, conference))
            .or_else(|| series.find_map(|index| adopt::adopt(ledger, index, conference)))?;
        if let Step::Adopt { into, .. } = &step {
            self.encodings.spoil_shared(into);
        }
        Some(step)
    }

    /// Of the series that with the oldest dataset in progress comes first: ids follow the order in
    /// which the program began, as far as several can be sealed now.
    fn seal(&mut self, conference: &mut Conference) -> Option<Step> {
        let mut in_turn: Vec<usize> = (0..self.ledger.config.series.len()).collect();
        in_turn.sort_by_key(|index| self.ledger.shared.series[*index].first_turn());
        let (ledger, encodings) = (&mut self.ledger, &mut self.encodings);
        let mut parts = seal::Sealing { ledger, encodings, trust: &mut self.trust };
        in_turn.into_iter().find_map(|index| seal::seal_or_drop(&mut parts, index, conference))
    }

    fn learned(&mut self, index: usize) -> Option<Step> {
        std::mem::take(&mut self.ledger.shared.series[index].learned)
            .then_some(Step::Learned { series: index })
    }

    /// What follows once all is sealed that can be.
    fn clear_up(&mut self, conference: &mut Conference) -> Option<Step> {
        let (ledger, doubts) = (&mut self.ledger, &mut self.doubts);
        let series = 0..ledger.config.series.len();
        for index in series.clone() {
            self.keeping.make_kept_due(ledger, index, conference.scarce);
        }
        let deletions = &self.deletions;
        series
            .clone()
            .find_map(|at| flush::publish(ledger, deletions, at, false, conference))
            .or_else(|| {
                series.clone().find_map(|at| flush::flush(ledger, &mut doubts[at], at, conference))
            })
            .or_else(|| {
                series.clone().find_map(|at| evict::evict(ledger, &mut doubts[at], at, conference))
            })
            .or_else(|| series.clone().find_map(|at| flush::spill(ledger, at, conference)))
            .or_else(|| {
                series
                    .clone()
                    .find_map(|at| flush::publish(ledger, deletions, at, true, conference))
            })
            .or_else(|| flush::halt(ledger, conference))
    }

    /// Tells whether the end needs one more conference, which does all but the seals: it tells
    /// whether the program sees files of a checkpoint that was sealed just now and is not the
    /// newest; only then that one is flushed, too.
    #[must_use]
    pub fn ends_again(&self) -> bool {
        let unsure = |series: &SharedSeries, doubt: &Doubt| {
            let sealed = series.datasets.iter().filter(|dataset| {
                !matches!(dataset.state, DatasetState::Open | DatasetState::Dropped)
            });
            let seen = |one: &SharedDataset| one.seals.fresh || (one.told.live && doubt.confirms);
            sealed.rev().skip(1).any(|one| seen(one) && !one.due && !one.flushed)
        };
        let mut all = self.ledger.shared.series.iter().zip(&self.doubts);
        self.end_conferences == 1 && all.any(|(series, doubt)| unsure(series, doubt))
    }
}
