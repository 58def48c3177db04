//! Halt conditions (000 section 9.5): tested at the start and after each checkpoint by rank 0; the
//! next agreement tells the others. Everything is sealed and flushed, the reason recorded, and
//! every rank ends at the same sync point.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::events::Event;
use crate::launch::Door;
use crate::launch::site::Links;
use crate::log::{self, messages};
use crate::params::{Source, keys};
use crate::records::{FINALIZE_CALLED, HaltFile, Record, update};
use crate::session::rank::runtime::Session;
use crate::system::unix_seconds;

/// Between two looks at the halt file on behalf of a program that asks.
const LOOK: Duration = Duration::from_secs(1);

/// A word of the agreement that asks for a halt.
const HALT: i64 = 1;

/// What a launch knows of its halt.
#[derive(Default)]
pub(in crate::session) struct Halt {
    /// Rank 0: why.
    reason: Mutex<Option<String>>,
    /// Rank 0: when the conditions were last tested for [`Session::need_checkpoint`].
    looked: Mutex<Option<Instant>>,
}

impl Session {
    fn halt_path(&self) -> PathBuf {
        self.site.state_dir().join(HaltFile::NAME)
    }

    /// The halt file with what the settings add to it.
    fn halt_file(&self) -> HaltFile {
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

    /// Tests the conditions before the program goes on; what an earlier launch left is flushed
    /// first. Collective.
    pub fn halt_at_start(&self) {
        let Some(links) = self.links() else { return };
        let mut due = String::new();
        if self.site.rank == 0 {
            let own = HaltFile::read(&self.halt_path()).ok().flatten();
            if own.is_some_and(|mut file| file.forget_own_reason()) {
                self.change_halt_file(|file| {
                    file.forget_own_reason();
                });
            }
            due = self.halt_file().due(unix_seconds()).unwrap_or_default().to_string();
        }
        let mut bytes = due.into_bytes();
        if links.world.broadcast(&mut bytes, 0).is_err() || bytes.is_empty() {
            return;
        }
        let reason = String::from_utf8_lossy(&bytes).into_owned();
        *self.halt_reason() = Some(reason);
        if self.site.rank == 0 {
            self.state().machine.request_halt(HALT);
        }
        if let Err(error) = self.site.host.inside(|| self.confer(&links)) {
            self.stop_agreements(&error);
        }
    }

    /// Notes that a dataset is confirmed, and asks for the halt if one is due. For rank 0.
    pub(in crate::session) fn check_halt(&self, is_checkpoint: bool) {
        if self.site.rank != 0 || self.finishing.load(Ordering::Relaxed) {
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
            self.state().machine.request_halt(HALT);
        }
    }

    /// Tells whether the run is to end at its next checkpoint. For rank 0.
    pub(in crate::session) fn is_halt_pending(&self) -> bool {
        if self.halt_reason().is_some() {
            return true;
        }
        let mut looked = self.halt.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.is_some_and(|when| when.elapsed() < LOOK) {
            return false;
        }
        let due = self.halt_file().due(unix_seconds()).is_some();
        // A condition that is due stays so.
        *looked = (!due).then(Instant::now);
        due
    }

    fn halt_reason(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.halt.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change_halt_file(&self, change: impl FnOnce(&mut HaltFile)) {
        let changed = update(&self.halt_path(), |file: &mut HaltFile| {
            change(file);
            Ok(())
        });
        if let Err(error) = changed {
            log::warn_once(messages::HALT_FILE, format_args!("{error}"));
        }
    }

    /// Whether a condition ends the process; SCR_HALT_EXIT=0 says that it is only to be flushed.
    fn halt_exits(&self) -> bool {
        let settings = &self.site.settings;
        let is_default = settings.source(keys::HALT_EXIT.param.name) == Source::Default;
        let by_calls = self.program.is_in_use() || self.site.host.door() == Door::Calls;
        (is_default && !by_calls) || settings.get(keys::HALT_EXIT)
    }

    /// Carries out the halt, when all is sealed and flushed: the launch ends here, on every rank,
    /// unless the program is to go on. Collective.
    ///
    /// # Errors
    /// Communication failed.
    pub(in crate::session) fn halt(&self, links: &Links) -> Result<()> {
        let exits = self.halt_exits() && !self.finishing.load(Ordering::Relaxed);
        if self.site.rank == 0 {
            let reason = self.halt_reason().clone().unwrap_or_default();
            let path = self.halt_path();
            let then = match exits {
                true => "the run ends here",
                false => "the program goes on (SCR_HALT_EXIT=0)",
            };
            let path_text = path.display();
            log::warn(
                messages::HALT,
                format_args!("halt condition {reason} (see {path_text}): {then}"),
            );
            self.event(|| Event::new("HALT").note(format!("{reason}: {then}")));
            self.change_halt_file(|file| file.carried_out(&reason));
            self.state().machine.request_halt(0);
        }
        if !exits {
            return Ok(());
        }
        links.world.barrier()?;
        self.finish();
        let status = self.site.settings.get(keys::HALT_STATUS).min(255) as i32;
        self.site.host.end_process(status)
    }

    /// Notes that the program has come to its end by itself: no relaunch in this allocation. For
    /// rank 0.
    pub(in crate::session) fn record_end(&self) {
        if self.site.rank == 0 && self.halt_reason().is_none() {
            self.change_halt_file(|file| file.carried_out(FINALIZE_CALLED));
        }
    }
}
