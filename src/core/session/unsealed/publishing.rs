//! Files that wait too long for an agreement are written to the PFS one by one.

use std::sync::atomic::Ordering;

use crate::account::tally::Count;
use crate::log::{self, messages};
use crate::machine::{FileRef, Gone, Overdue, Reason};
use crate::namespace as ns;
use crate::params::keys;
use crate::system::monotonic_ms;

use crate::session::unsealed::Unsealed;

impl Unsealed {
    /// Runs on the helper thread, when agreements end, and after the end at every close.
    pub(crate) fn publish_overdue(&self) {
        self.publish_closed(true);
        self.contents.publish_left_private();
        for gone in self.node.state().machine.overdue_deletions(monotonic_ms()) {
            self.remove_gone(&gone);
        }
    }

    /// Writes files that may name a checkpoint only if `pointers`. Returns those that
    /// are left.
    pub(crate) fn publish_closed(&self, pointers: bool) -> Vec<Overdue> {
        self.publish_before(None, pointers)
    }

    /// Publishes it before the program begins the second checkpoint after it with `file`.
    pub(crate) fn publish_outrun(&self, file: &FileRef) {
        if self.node.state_to_look().machine.outruns(file) {
            self.publish_before(Some(file.series), true);
        }
    }

    fn publish_before(&self, coming: Option<usize>, pointers: bool) -> Vec<Overdue> {
        let overdue = self.node.state().machine.overdue_before(coming, monotonic_ms());
        let (later, now): (Vec<_>, Vec<_>) =
            overdue.into_iter().partition(|one| one.last && !pointers);
        // Nothing may overtake one that cannot be written.
        now.iter().all(|one| self.publish_unsealed_file(one, Reason::NoAgreement));
        if !now.is_empty() {
            self.tell_unheard(coming.is_some());
        }
        later
    }

    /// Once: a program without agreements has no use of the cache. `outrun`: checkpoints come so
    /// fast.
    fn tell_unheard(&self, outrun: bool) {
        let unheard = outrun || self.node.state().machine.is_unheard(monotonic_ms());
        if !unheard || self.rank.is_ended() || self.rank.is_exiting() {
            return;
        }
        let since = match outrun {
            true => "while it wrote two checkpoints".to_string(),
            false => {
                let seconds = self.site.settings.get(keys::UNSEALED_SECONDS).as_secs_f64();
                format!("for {seconds} s")
            }
        };
        let why = match self.passed_by.load(Ordering::Relaxed) {
            false => "",
            true => {
                " by the thread that initialised MPI (those of others count from \
                 MPI_THREAD_SERIALIZED on)"
            }
        };
        log::warn_once(
            messages::NO_COLLECTIVE,
            format_args!(
                "the program has passed no blocking collective of all ranks{why} {since}, and \
                 checkpoints in the cache are complete at those only: their files are written to \
                 {} as they are, new ones too until there is one (SCR_UNSEALED_SECONDS)",
                self.site.prefix.display()
            ),
        );
    }

    pub fn note_passed_by(&self) {
        self.passed_by.store(true, Ordering::Relaxed);
    }

    /// Returns `false` if it cannot be written.
    pub(crate) fn publish_unsealed_file(&self, one: &Overdue, reason: Reason) -> bool {
        let state = self.node.state();
        if state.is_parted(&one.key, &one.file) {
            let is_sealed = state.own.parted.get(&one.key, &one.file).is_none();
            drop(state);
            // Here is a part of it at most.
            let has_come = is_sealed && self.has_come(&one.key);
            return has_come || self.leave_cache(&one.key, &one.file).is_ok();
        }
        let layer = state.view.layer(&one.key).map(|layer| layer.dir.join(&one.file));
        drop(state);
        let Some(source) = layer.filter(|source| source.exists()) else { return true };
        // Without the lock: the copy takes its time. The cached file stays what the program
        // sees; if it is opened again meanwhile, the machine has it copied once more.
        let target = self.rank.on_prefix_now(&one.file);
        let done = match reason {
            Reason::Wanted => self.rank.publish_awaited(&source, &target),
            _ => self.rank.publish(&source, &target, reason),
        };
        match done {
            Ok(()) => {
                self.rank.tally.one(Count::FellBack);
                self.node.state().machine.published(&one.key, &one.file);
                true
            }
            Err(error) => {
                self.rank.tell_unpublished(&one.file, &source, &error);
                false
            }
        }
    }

    fn remove_gone(&self, gone: &Gone) {
        let mut state = self.node.state();
        let cached = state.view.layer(&gone.key).map(|layer| layer.dir.join(&gone.file));
        let mut done = cached.map_or(Ok(()), |path| ns::remove(&path));
        // Made again meanwhile: that one stays.
        if gone.everywhere && state.view.is_deleted(&gone.file) {
            done = done.and(self.contents.remove_deleted(&mut state, &gone.file).map(drop));
        }
        self.rank.complain_if_failed(messages::DELETION_FAILED, done);
        state.leave_file(&gone.key, &gone.file);
        if gone.everywhere && state.view.place(&gone.file) == ns::Place::Deleted {
            state.view.settle(&gone.file);
            if state.view.place(&gone.file) != ns::Place::Prefix {
                state.view.delete(&gone.file); // an older dataset has one, too
            }
        }
    }
}
