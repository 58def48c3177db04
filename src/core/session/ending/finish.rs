//! The end inside MPI_Finalize; see `leaving.rs` for one without.

use std::sync::PoisonError;
use std::time::Instant;

use crate::account::tally::Count;
use crate::cache::{self, agree::any};
use crate::error::{Error, Result};
use crate::events::Event;
use crate::launch::site::Links;
use crate::log::{self, messages};
use crate::machine::{DatasetState, SharedDataset};
use crate::namespace::MoveNotes;
use crate::namespace::parent;
use crate::session::rank::stage::Milestone;
use crate::session::{ending::Ending, node::State, rank::lock};
use crate::system::{Planted, below_limit, monotonic_ms, planted};

impl Ending {
    /// Makes the last seals and flushes inside MPI_Finalize, where communication still works.
    /// Collective.
    pub fn finish(&self) {
        if self.rank.is_child() || self.rank.is_ended() {
            return;
        }
        let _below = below_limit();
        self.rank.reach(Milestone::Finishing);
        self.site.host.inside(|| self.handles.await_lent());
        if let Some(links) = self.rank.links()
            && let Err(error) = self.site.host.inside(|| self.finish_together(&links))
        {
            self.conference.stop_agreements(&error);
        }
        self.rank.reach(Milestone::Ended);
        self.site.host.inside(|| {
            self.handles.end_all_lent();
            self.report.compute_ended();
            self.flush.end_run("END");
            self.rank.end_log("END");
        });
        let links = self.rank.links.lock().unwrap_or_else(PoisonError::into_inner).take();
        let meetings = std::mem::take(&mut *self.conference.meetings());
        if links.is_none() {
            std::mem::forget(meetings); // as in `stop_agreements`
        }
    }

    fn finish_together(&self, links: &Links) -> Result<()> {
        let begin = Instant::now();
        self.node.state().machine.begin_end(monotonic_ms());
        self.updates.tell_moves(links)?;
        if planted(Planted::ClearEarly) {
            cache::finish(&links.ctx(&self.site))?;
        }
        self.conference.confer(links)?;
        if self.node.state().machine.ends_again() {
            self.conference.confer(links)?;
        }
        self.node.state().machine.end();
        self.contents.publish_all_private();
        self.settle_deletions();
        self.flush.complete_background(links)?;
        self.updates.sweep_wanted();
        self.unsealed.pulls.sweep();
        if self.node.state().moves.made > 0 {
            MoveNotes::forget(&self.site.state_dir(), self.site.rank);
        }
        if self.site.rank == 0 {
            self.halt.conditions.record_end();
        }
        self.conference.evicted.remove();
        self.site.layout.stores.iter().for_each(|store| self.stores.end_spares(store));
        self.clear_cache(links)?;
        self.flush.record_places();
        self.rank.tally.time(Count::EndNs, begin);
        let told = self.report.tell_unprotected(links)?;
        self.report.gather_passed(links, told)?;
        self.report.gather_paces(links)?;
        self.rank.tally.tell(links.world.as_ref())
    }

    /// What the program deleted goes for real now.
    fn settle_deletions(&self) {
        let names: Vec<String> = self.node.state().view.deleted().map(str::to_string).collect();
        for name in names {
            let removed = self.contents.remove_deleted(&mut self.node.state(), &name);
            self.rank.complain_if_failed(messages::DELETION_FAILED, removed.map(drop));
        }
        self.contents.remove_empty_dirs();
        // Only now: before, another rank may have made one anew, for files that are cached.
        for name in self.node.state().view.flushed_back().rev() {
            let _ = std::fs::remove_dir(self.site.on_prefix(name));
        }
    }

    /// Removes empty directories of checkpoints that were not due for a flush.
    fn remove_abandoned_dirs(&self) {
        let state = self.node.state();
        for (name, _) in state.view.evicted_names() {
            let mut dir = parent(name);
            while !dir.is_empty() && std::fs::remove_dir(self.site.on_prefix(dir)).is_ok() {
                dir = parent(dir);
            }
        }
    }

    /// All that matters is on the PFS: the next launch starts afresh. Where a file is still open,
    /// or something could not be written, the cache stays.
    fn clear_cache(&self, links: &Links) -> Result<()> {
        let mut state = self.node.state();
        let open = state.own.tokens.all().next().is_some();
        let unsaved = self.has_unsaved(&mut state);
        drop(state);
        if any(links.world.as_ref(), open || unsaved)? {
            return Ok(());
        }
        let mut state = self.node.state();
        let keys: Vec<_> = state.view.layers().iter().map(|layer| layer.key.clone()).collect();
        keys.iter().for_each(|key| drop(state.leave_evicted_names(key)));
        drop(state);
        match cache::finish(&links.ctx(&self.site)) {
            Err(error @ Error::Comm(_)) => return Err(error),
            Err(error) => log::message(1, format_args!("rank {}: {error}", self.site.rank)),
            Ok(()) if keys.is_empty() => {}
            Ok(()) => {
                self.rank.event(|| Event::new("CLEARED").note("the cache: the end of the run"))
            }
        }
        let mut state = self.node.state();
        keys.iter().for_each(|key| drop(state.view.remove(key)));
        drop(state);
        if self.site.rank == 0 {
            self.remove_abandoned_dirs();
        }
        Ok(())
    }

    fn has_unsaved(&self, state: &mut State) -> bool {
        if !state.machine.overdue(monotonic_ms()).is_empty() {
            return true;
        }
        let confirmed = |one: &&SharedDataset| one.state == DatasetState::Confirmed;
        (0..self.rank.series.series().len()).any(|at| {
            let all = state.machine.datasets(at);
            // The newest one is meant to be on the PFS, due or not.
            let newest = all.iter().rfind(confirmed).map(|one| one.id);
            let waits = |(series, id): &(usize, u64)| *series == at && newest < Some(*id);
            if lock(&self.out_of_reach).iter().any(waits) {
                return true;
            }
            all.iter().any(|one| {
                let matters = match one.state {
                    DatasetState::Confirmed => one.due || Some(one.id) == newest,
                    DatasetState::Provisional => true,
                    DatasetState::Open | DatasetState::Dropped => false,
                };
                matters && !one.flushed && !one.on_prefix
            })
        })
    }
}
