//! A halt condition is due: everything is sealed and flushed, the reason recorded, and every rank
//! ends at the same sync point.

use crate::machine::SyncKind;
use crate::session::{ending::Ending, halt::HALT};

use crate::error::Result;
use crate::launch::site::Links;
use crate::params::keys;
use crate::records::{HaltFile, Record};
use crate::system::unix_seconds;

impl Ending {
    /// Tests the conditions before the program goes on; what an earlier launch left is flushed
    /// first. Collective.
    pub fn halt_at_start(&self) {
        let Some(links) = self.rank.links() else { return };
        let mut due = String::new();
        if self.site.rank == 0 {
            let own = HaltFile::read(&self.halt.halt_path()).ok().flatten();
            if own.is_some_and(|mut file| file.forget_own_reason()) {
                self.halt.change_halt_file(|file| {
                    file.forget_own_reason();
                });
            }
            due = self.halt.halt_file().due(unix_seconds()).unwrap_or_default().to_string();
        }
        let mut bytes = due.into_bytes();
        if links.world.broadcast(&mut bytes, 0).is_err() || bytes.is_empty() {
            return;
        }
        let reason = String::from_utf8_lossy(&bytes).into_owned();
        *self.halt.halt_reason() = Some(reason);
        if self.site.rank == 0 {
            self.node.state().machine.request_halt(HALT);
        }
        let confer = || {
            if self.conference.confer(&links)? { self.halt(&links) } else { Ok(()) }
        };
        if let Err(error) = self.site.host.inside(confer) {
            self.conference.stop_agreements(&error);
        }
    }

    /// Agrees with the other ranks if that is due, see `Conference::sync`. The run may end here.
    pub fn sync(&self, stream: usize, kind: SyncKind) {
        if self.conference.sync(stream, kind)
            && let Some(links) = self.rank.links()
            && let Err(error) = self.halt(&links)
        {
            self.conference.stop_agreements(&error);
        }
    }

    /// Carries out the halt, when all is sealed and flushed: the launch ends here, on every rank,
    /// unless the program is to go on. Collective.
    fn halt(&self, links: &Links) -> Result<()> {
        if !self.halt.tell_and_record() {
            return Ok(());
        }
        links.world.barrier()?;
        self.finish();
        let status = self.site.settings.get(keys::HALT_STATUS).min(255) as i32;
        self.site.host.end_process(status)
    }
}
