//! Sync points: the agreement, and the conference when there is something to do.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use crate::account::tally::Count;
use crate::error::{Error, Result};
use crate::events::Event;
use crate::launch::site::Links;
use crate::log::{self, messages};
use crate::machine::{Next, Report, SyncKind, WORDS};
use crate::namespace as ns;
use crate::session::rank::runtime::{Session, State};
use crate::system::{below_limit, monotonic_ms, random_u64};

impl Session {
    /// Agrees with the other ranks if that is due: the program is about to make a blocking
    /// collective call that every rank makes. The only place in a run where the engine
    /// communicates.
    pub fn sync(&self, kind: SyncKind) {
        if self.is_child() || self.ended.load(Ordering::Relaxed) {
            return;
        }
        let carries = self.carry_on();
        let mut state = self.end_lent();
        if state.view.has_far_news() && !state.machine.note_deletions() {
            state.view.take_far_news(); // there is no other node
        }
        self.note_encoded(&mut state);
        let words = state.machine.sync_point(kind, monotonic_ms());
        self.idle.grant(if carries { 0 } else { state.machine.idle_points() });
        drop(state);
        let Some(words) = words else { return };
        let Some(links) = self.links() else { return };
        let begin = Instant::now();
        let agreed = self.agree(&links, words);
        self.tally.time(Count::AgreementNs, begin);
        if let Err(error) = agreed {
            self.stop_agreements(&error);
        }
        let state = self.state();
        self.idle.grant(if carries { 0 } else { state.machine.idle_points() });
    }

    /// Returns what the door of the program counts down: so many collectives and barriers on the
    /// world need no call of [`Session::sync`]. One thread at a time passes them.
    pub fn idle_points(&self) -> &AtomicU32 {
        self.idle.left()
    }

    fn agree(&self, links: &Links, mut words: [i64; WORDS]) -> Result<()> {
        self.tally.one(Count::Agreements);
        links.world.all_max(&mut words)?;
        self.settle_noted();
        let next = self.state().machine.agreed(words);
        self.tell_names(links, true)?;
        match next {
            Next::Continue => {}
            Next::Confer => self.confer(links)?,
            Next::Disabled { most, least } => {
                return Err(Error::Refused(format!(
                    "the ranks pass different numbers of collective calls ({least} to {most})"
                )));
            }
        }
        self.tell_names(links, false)
    }

    /// Holds a conference: all ranks say what they know; all decide the same; all do it.
    pub(in crate::session) fn confer(&self, links: &Links) -> Result<()> {
        let _below = below_limit();
        self.tally.one(Count::Conferences);
        self.release_left_behind();
        self.state().machine.set_aside(self.spare.is_there());
        let report = self.state().machine.report(random_u64(), monotonic_ms());
        let gathered = links.world.all_gather(&self.with_paces(report.to_bytes()))?;
        self.settle_noted();
        let reports: Option<Vec<Report>> =
            self.take_paces(&gathered).into_iter().map(Report::from_bytes).collect();
        let unreadable = || Error::Unreadable("a rank's report is not readable".to_string());
        if !self.state().machine.confer(&reports.ok_or_else(unreadable)?) {
            return Err(Error::Unreadable(
                "the ranks differ in what they know of the run".to_string(),
            ));
        }
        self.hear();
        self.silence();
        loop {
            let step = self.state().machine.next_step();
            let Some(step) = step else { break };
            let outcome = self.perform(links, &step)?;
            self.state().machine.done(&step, outcome);
        }
        self.heed_fall_back();
        self.tell_stray();
        self.tell_uncached();
        Ok(())
    }

    /// Once: a crash would lose the file, and nobody would know why.
    fn tell_stray(&self) {
        let state = self.state();
        let Some((series, name)) = state.machine.stray() else { return };
        log::warn_once(
            messages::STRAY,
            format_args!(
                "rank {}: {name} matches {}, of which the program has written no checkpoint with \
                 an {{id}} yet, while those of other patterns are complete: it stays in the cache \
                 until then, and a crash loses it. List it beside the files that it belongs to",
                self.site.rank,
                self.series.series()[series].parameter,
            ),
        );
    }

    /// What a conference has told of other ranks' deletions and changes.
    fn hear(&self) {
        let mut state = self.state();
        let heard = state.machine.take_heard();
        self.tell_restless(&heard.restless);
        heard.revived.iter().for_each(|name| state.view.revive(name));
        for (key, name) in &heard.dropped {
            let copy = state.view.layer(key).map(|layer| layer.dir.join(name));
            if let Some(Err(error)) = copy.map(|copy| ns::remove(&copy)) {
                self.complain(messages::DELETION_FAILED, &error);
            }
        }
        for name in &heard.taken {
            let keys: Vec<_> = state.holdings.keys().cloned().collect();
            keys.iter().for_each(|key| state.leave_file(key, name));
            state.view.moved_to_prefix(name);
            self.note_left(&state, name);
        }
        for name in heard.deleted {
            let Some(file) = self.file_ref(&name) else { continue };
            state.view.forget_others(&name);
            let place = state.view.place(&name);
            let deletion = state.machine.deleted(&file, monotonic_ms());
            if let Err(error) = self.delete(&mut state, &name, &place, deletion) {
                self.complain(messages::DELETION_FAILED, &error);
            }
            state.tokens.orphan_readers(&name);
            let shadows = state.tokens.shadows_of(&name);
            self.forget_shadows(&mut state, &shadows);
        }
    }

    /// Stops the agreements on this rank for good: what is not sealed goes to the PFS by itself.
    pub(in crate::session) fn stop_agreements(&self, error: &Error) {
        // Not freed: that may wait for ranks that are gone.
        std::mem::forget(self.links.lock().unwrap_or_else(PoisonError::into_inner).take());
        let mut state = self.state();
        state.machine.disable();
        let State { view, holdings, .. } = &mut *state;
        let is_near = |rank| self.neighbours.ranks().contains(&rank);
        view.forget_far(is_near, |key| holdings.get(key).is_some_and(|holding| holding.id != 0));
        drop(state);
        // Before the program's own collective: what it writes afterwards goes straight to the PFS.
        self.publish_overdue();
        log::warn_once(
            messages::AGREEMENTS_ENDED,
            format_args!(
                "rank {}: {error}; no further checkpoint is cached, files go straight to {}",
                self.site.rank,
                self.site.prefix.display()
            ),
        );
        self.event(|| Event::new("FALLBACK").note(error.to_string()));
        self.routing.store(false, Ordering::Relaxed);
    }
}
