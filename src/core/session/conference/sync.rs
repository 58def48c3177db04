//! Sync points: the agreement, and the conference when there is something to do.

use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Instant;

use crate::account::tally::Count;
use crate::comm::Comm;
use crate::error::{Error, Result};
use crate::events::Event;
use crate::launch::site::Links;
use crate::log::messages;
use crate::machine::{Next, Report, Step, SyncKind};
use crate::namespace as ns;
use crate::restart::removal::note_direct;
use crate::session::rank::stage::Milestone;
use crate::session::{conference::Conference, node::State, rank::lock};
use crate::streams::{Carries, WORLD};
use crate::system::{below_limit, monotonic_ms, random_u64};

impl Conference {
    /// Agrees with the other ranks if that is due: the program is about to make a blocking
    /// collective call that every rank makes. The only place in a run where the engine
    /// communicates. Returns whether the run is to end here.
    pub fn sync(&self, stream: usize, kind: SyncKind) -> bool {
        if self.rank.is_child() || self.rank.is_ended() {
            return false;
        }
        let mut state = self.handles.end_lent();
        if state.view.has_far_news() && !state.machine.note_deletions() {
            state.view.take_far_news(); // there is no other node
        }
        self.note_encoded(&mut state);
        if state.own.parted.has_news() {
            state.machine.note_parted();
        }
        let had_turn = state.machine.streams().has_turn(stream);
        let agreement = state.machine.pass(stream, kind, monotonic_ms());
        self.grant_idle(&state, stream);
        let deletes = state.view.take_thrown_away();
        drop(state);
        if deletes {
            self.contents.note_gone_of_older();
        }
        if agreement == Carries::Nothing {
            return false;
        }
        let Some(comm) = self.comm_of(stream) else { return false };
        let begin = Instant::now();
        let agreed = self.agree(stream, comm.as_ref(), agreement == Carries::Meeting);
        self.rank.tally.time(Count::AgreementNs, begin);
        if let Err(error) = &agreed {
            self.stop_agreements(error);
            if matches!(error, Error::Comm(_)) {
                self.forget_meeting(stream);
            }
        }
        let mut state = self.node.state();
        state.view.forget_coming();
        if !had_turn {
            state.machine.streams().end_turn(stream);
        }
        self.grant_idle(&state, stream);
        agreed.unwrap_or(false)
    }

    /// Only the thread that makes calls on MPI_COMM_WORLD counts them down.
    fn grant_idle(&self, state: &State, stream: usize) {
        let entered = state.machine.points_entered();
        match stream {
            WORLD => self.node.idle.grant(state.machine.idle_points(), entered),
            _ => self.node.idle.entered(entered),
        }
    }

    /// Holds how many sync points have been entered when those are passed that are counted down:
    /// the stamp of what is written until then.
    pub fn points(&self) -> &AtomicU64 {
        self.node.idle.points()
    }

    /// Counts the collectives and barriers on the world that need no call of [`Conference::sync`].
    pub fn idle_points(&self) -> &AtomicU32 {
        self.node.idle.left()
    }

    /// With `meets` other threads agree, too, and no rank may keep them from it while it waits
    /// here.
    fn agree(&self, stream: usize, comm: &dyn Comm, meets: bool) -> Result<bool> {
        self.rank.tally.one(Count::Agreements);
        if meets {
            comm.barrier()?;
        }
        let mut words = self.node.state().machine.words(stream);
        comm.all_max(&mut words)?;
        let next = self.node.state().machine.agreed(stream, words);
        let Some(links) = self.rank.links() else { return Ok(false) };
        match next {
            Next::Postponed => return Ok(false),
            Next::Ended => {
                return Err(Error::Refused("another rank agrees on nothing more".to_string()));
            }
            Next::Disabled { most, least } => {
                return Err(Error::Refused(format!(
                    "the ranks pass different numbers of collective calls ({least} to {most})"
                )));
            }
            Next::Continue | Next::Confer => {}
        }
        self.names.settle_noted();
        self.updates.tell_names(&links, true)?;
        let halts = next == Next::Confer && self.confer(&links)?;
        self.updates.tell_names(&links, false)?;
        let mut state = self.node.state();
        let now = state.machine.points_entered();
        state.own.parted.all_told(now);
        Ok(halts)
    }

    /// Lets all ranks say what they know, decide the same, and do it. Returns whether the run is to
    /// end here.
    pub(crate) fn confer(&self, links: &Links) -> Result<bool> {
        let _below = below_limit();
        self.rank.tally.one(Count::Conferences);
        self.names.release_left_behind();
        let mut state = self.node.state();
        state.machine.set_aside(self.spare.is_there());
        let scarce = self.stores.is_scarce(&state);
        state.machine.set_scarce(scarce);
        let report = state.machine.report(random_u64(), monotonic_ms());
        drop(state);
        let gathered = links.world.all_gather(&self.report.with_paces(report.to_bytes()))?;
        self.names.settle_noted();
        let reports: Option<Vec<Report>> =
            self.report.take_paces(&gathered).into_iter().map(Report::from_bytes).collect();
        let unreadable = || Error::Unreadable("a rank's report is not readable".to_string());
        if !self.node.state().machine.confer(&reports.ok_or_else(unreadable)?) {
            return Err(Error::Unreadable(
                "the ranks differ in what they know of the run".to_string(),
            ));
        }
        self.hear();
        self.names.silence();
        let mut halts = false;
        loop {
            let step = self.node.state().machine.next_step();
            let Some(step) = step else { break };
            if matches!(step, Step::Halt { .. }) {
                halts |= self.halt.tell_and_record();
            }
            let outcome = self.perform(links, &step)?;
            self.node.state().machine.done(&step, outcome);
        }
        self.contents.note_gone_of_older();
        self.heed_fall_back();
        self.tell_stray();
        self.updates.tell_uncached();
        Ok(halts)
    }

    /// Once: a crash would lose the file, and nobody would know why.
    fn tell_stray(&self) {
        let state = self.node.state();
        let Some((series, name)) = state.machine.stray() else { return };
        self.rank.complain(
            messages::STRAY,
            format_args!(
                "{name} matches {}, of which the program has written no checkpoint with \
                 an {{id}} yet, while those of other patterns are complete: it stays in the cache \
                 until then, and a crash loses it. List it beside the files that it belongs to",
                self.rank.series.series()[series].parameter
            ),
        );
    }

    fn hear(&self) {
        let mut state = self.node.state();
        let heard = state.machine.take_heard();
        self.names.tell_restless(&heard.restless);
        heard.revived.iter().for_each(|name| state.view.revive(name));
        for (key, name) in &heard.dropped {
            let Some(layer) = state.view.layer(key) else { continue };
            let removed = ns::remove(&layer.dir.join(name));
            self.rank.complain_if_failed(messages::DELETION_FAILED, removed);
        }
        for name in &heard.taken {
            state.leave_all(name);
            state.view.moved_to_prefix(name);
            self.node.note_left(&state, name);
        }
        for (key, name) in &heard.amended {
            self.node.note_gone(&state, key, name);
        }
        for name in heard.deleted {
            let Some(file) = self.rank.file_ref(&name) else { continue };
            let deletion = match heard.unlinked.contains(&name) {
                true => state.machine.deleted(&file, monotonic_ms()),
                false => state.machine.renamed_out(&file, monotonic_ms()),
            };
            if state.own.parted.knows(&name) {
                continue; // each node will have its part of the next one
            }
            state.view.forget_others(&name);
            let place = state.view.place(&name);
            self.rank.complain_if_failed(
                messages::DELETION_FAILED,
                self.contents.delete(&mut state, &name, &place, deletion),
            );
            state.moves.elsewhere.passed_on.insert(name.clone());
            state.own.tokens.orphan_readers(&name);
            let shadows = state.own.tokens.shadows_of(&name);
            state.forget_shadows(&shadows);
        }
    }

    /// Stops the agreements on this rank for good: what is not sealed goes to the PFS by itself.
    pub(crate) fn stop_agreements(&self, error: &Error) {
        // Not freed: that may wait for ranks that are gone.
        std::mem::forget(lock(&self.rank.links).take());
        let mut state = self.node.state();
        note_direct(&self.site, state.machine.next_id());
        state.machine.disable();
        let State { view, own, .. } = &mut *state;
        let is_near = |rank| self.node.neighbours.ranks().contains(&rank);
        view.forget_far(is_near, |key| {
            own.holdings.get(key).is_some_and(|holding| holding.id != 0)
        });
        drop(state);
        // Before the program's own collective: what it writes afterwards goes straight to the PFS.
        self.unsealed.publish_overdue();
        self.rank.complain(
            messages::AGREEMENTS_ENDED,
            format_args!(
                "{error}; no further checkpoint is cached, files go straight to {}",
                self.site.prefix.display()
            ),
        );
        self.rank.event(|| Event::new("FALLBACK").note(error.to_string()));
        self.rank.reach(Milestone::OutOfCache);
    }
}
