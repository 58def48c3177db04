//! Halt conditions (manual 1.1, section 9.5): what the halt file and the settings say. Rank 0 asks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::site::Site;
use crate::launch::host::Door;
use crate::log::{self, messages};
use crate::params::{Source, keys};
use crate::records::{FINALIZE_CALLED, HaltFile, Record as _, update};
use crate::system::unix_seconds;

/// Between two looks at the halt file on behalf of a program that asks.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) struct HaltConditions {
    site: Arc<Site>,
    reason: Mutex<Option<String>>,
    /// When the conditions were last tested for a program that asks.
    looked: Mutex<Option<Instant>>,
}

impl HaltConditions {
    pub(crate) fn new(site: Arc<Site>) -> HaltConditions {
        HaltConditions { site, reason: Mutex::default(), looked: Mutex::default() }
    }

    pub(crate) fn reason(&self) -> MutexGuard<'_, Option<String>> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.site.state_dir().join(HaltFile::NAME)
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut HaltFile)) {
        let changed = update(&self.path(), |file: &mut HaltFile| {
            change(file);
            Ok(())
        });
        if let Err(error) = changed {
            log::warn_once(messages::HALT_FILE, format_args!("{error}"));
        }
    }

    /// Returns the reason that the halt file, with what the settings add to it, has to end now.
    pub(crate) fn due(&self) -> Option<String> {
        let settings = &self.site.settings;
        let file = HaltFile::read(&self.path()).unwrap_or_else(|error| {
            log::warn_once(
                messages::HALT_FILE,
                format_args!("{error}; halt conditions are not tested"),
            );
            None
        });
        let mut file = file.unwrap_or_default();
        let end = settings.get_optional(keys::END_TIME).or(self.site.end_time);
        file.add_settings(settings.get(keys::HALT_SECONDS).as_secs(), end);
        file.due(unix_seconds()).map(str::to_string)
    }

    /// Takes back what an earlier launch has noted as its own end.
    pub(crate) fn forget_own_reason(&self) {
        let own = HaltFile::read(&self.path()).ok().flatten();
        if own.is_some_and(|mut file| file.forget_own_reason()) {
            self.change(|file| _ = file.forget_own_reason());
        }
    }

    pub(crate) fn count_checkpoint(&self) {
        let own = HaltFile::read(&self.path()).ok().flatten();
        if own.is_some_and(|file| file.checkpoints_left.is_some()) {
            self.change(|file| {
                file.checkpoints_left = file.checkpoints_left.map(|left| left.saturating_sub(1));
            });
        }
    }

    /// Tells whether the run is to end at its next checkpoint.
    pub(crate) fn is_pending(&self) -> bool {
        if self.reason().is_some() {
            return true;
        }
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.is_some_and(|when| when.elapsed() < LOOK) {
            return false;
        }
        let due = self.due().is_some();
        // A condition that is due stays so.
        *looked = (!due).then(Instant::now);
        due
    }

    /// Tells whether a condition ends the process; SCR_HALT_EXIT=0: all is only to be flushed.
    pub(crate) fn exits(&self, by_calls: bool) -> bool {
        let settings = &self.site.settings;
        let is_default = settings.source(keys::HALT_EXIT.param.name) == Source::Default;
        let by_calls = by_calls || self.site.host.door() == Door::Calls;
        (is_default && !by_calls) || settings.get(keys::HALT_EXIT)
    }

    /// Notes that the program has come to its end by itself: no relaunch in this allocation.
    pub(crate) fn record_end(&self) {
        if self.reason().is_none() {
            self.change(|file| file.carried_out(FINALIZE_CALLED));
        }
    }
}
