//! Halt conditions (manual 1.1, section 9.5): tested at the start and after each checkpoint by rank
//! 0; the next agreement tells the others. `ending/halting.rs` carries the halt out.

use crate::events::Event;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::launch::Door;
use crate::launch::site::Site;
use crate::log::{self, messages};
use crate::params::{Source, keys};
use crate::records::{FINALIZE_CALLED, HaltFile, Record, update};
use crate::session::{
    node::Node,
    rank::{Rank, lock},
};
use crate::system::unix_seconds;

/// Between two looks at the halt file on behalf of a program that asks.
const LOOK: Duration = Duration::from_secs(1);

/// A word of the agreement that asks for a halt.
pub(crate) const HALT: i64 = 1;

/// What a launch knows of its halt.
pub(crate) struct Halt {
    pub(super) site: Arc<Site>,
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    /// Rank 0: why.
    pub(super) reason: Mutex<Option<String>>,
    /// Rank 0: when the conditions were last tested for a program that asks.
    pub(super) looked: Mutex<Option<Instant>>,
}

impl Halt {
    pub(crate) fn halt_path(&self) -> PathBuf {
        self.site.state_dir().join(HaltFile::NAME)
    }

    /// Reads the halt file, with what the settings add to it.
    pub(crate) fn halt_file(&self) -> HaltFile {
        let settings = &self.site.settings;
        let mut file = HaltFile::read(&self.halt_path()).unwrap_or_else(|error| {
            log::warn_once(
                messages::HALT_FILE,
                format_args!("{error}; halt conditions are not tested"),
            );
            None
        });
        let file = file.get_or_insert_default();
        let end = settings.get_optional(keys::END_TIME).or(self.site.end_time);
        file.add_settings(settings.get(keys::HALT_SECONDS).as_secs(), end);
        file.clone()
    }

    /// Notes that a dataset is confirmed, and asks for the halt if one is due. For rank 0.
    pub(crate) fn check_halt(&self, is_checkpoint: bool) {
        if self.site.rank != 0 || self.rank.is_finishing() {
            return;
        }
        let counts = |file: &HaltFile| is_checkpoint && file.checkpoints_left.is_some();
        if HaltFile::read(&self.halt_path()).ok().flatten().is_some_and(|file| counts(&file)) {
            self.change_halt_file(|file| {
                file.checkpoints_left = file.checkpoints_left.map(|left| left.saturating_sub(1));
            });
        }
        let mut known = self.halt_reason();
        if known.is_some() {
            return; // Asked for, or told of and left alone (SCR_HALT_EXIT=0).
        }
        if let Some(reason) = self.halt_file().due(unix_seconds()) {
            *known = Some(reason.to_string());
            drop(known);
            self.node.state().machine.request_halt(HALT);
        }
    }

    /// Tells whether the run is to end at its next checkpoint. For rank 0.
    pub(crate) fn is_halt_pending(&self) -> bool {
        if self.halt_reason().is_some() {
            return true;
        }
        let mut looked = lock(&self.looked);
        if looked.is_some_and(|when| when.elapsed() < LOOK) {
            return false;
        }
        let due = self.halt_file().due(unix_seconds()).is_some();
        // A condition that is due stays so.
        *looked = (!due).then(Instant::now);
        due
    }

    pub(crate) fn halt_reason(&self) -> MutexGuard<'_, Option<String>> {
        lock(&self.reason)
    }

    pub(crate) fn change_halt_file(&self, change: impl FnOnce(&mut HaltFile)) {
        let changed = update(&self.halt_path(), |file: &mut HaltFile| {
            change(file);
            Ok(())
        });
        if let Err(error) = changed {
            log::warn_once(messages::HALT_FILE, format_args!("{error}"));
        }
    }

    /// Tells whether a condition ends the process; SCR_HALT_EXIT=0: all is only to be flushed.
    fn halt_exits(&self) -> bool {
        let settings = &self.site.settings;
        let is_default = settings.source(keys::HALT_EXIT.param.name) == Source::Default;
        let by_calls = self.rank.calls.is_in_use() || self.site.host.door() == Door::Calls;
        (is_default && !by_calls) || settings.get(keys::HALT_EXIT)
    }

    /// Tells, on rank 0, that a condition is met and everything is sealed and flushed, and notes it
    /// in the halt file. Returns whether the launch is to end here.
    pub(crate) fn tell_and_record(&self) -> bool {
        let exits = self.halt_exits() && !self.rank.is_finishing();
        if self.site.rank == 0 {
            let reason = self.halt_reason().clone().unwrap_or_default();
            let path = self.halt_path();
            let then = match exits {
                true => "the run ends here",
                false => "the program goes on (SCR_HALT_EXIT=0)",
            };
            let path = path.display();
            log::warn(messages::HALT, format_args!("halt condition {reason} (see {path}): {then}"));
            self.rank.event(|| Event::new("HALT").note(format!("{reason}: {then}")));
            self.change_halt_file(|file| file.carried_out(&reason));
            self.node.state().machine.request_halt(0);
        }
        exits
    }

    /// Notes that the program has come to its end by itself: no relaunch in this allocation. For
    /// rank 0.
    pub(crate) fn record_end(&self) {
        if self.site.rank == 0 && self.halt_reason().is_none() {
            self.change_halt_file(|file| file.carried_out(FINALIZE_CALLED));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::session::alone::Alone;

    #[test]
    fn checkpoints_are_counted_down_and_the_last_one_asks_for_the_halt() {
        let one = Alone::new();
        let halt = &one.session.conference.halt;
        halt.change_halt_file(|file| file.checkpoints_left = Some(2));
        halt.check_halt(false);
        halt.check_halt(true);
        assert!(!halt.is_halt_pending());
        halt.check_halt(true);
        assert!(halt.is_halt_pending());
    }
}
