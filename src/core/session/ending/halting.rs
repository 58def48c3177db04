//! A halt condition is due: everything is sealed and flushed, the reason recorded, and every rank
//! ends at the same sync point.

use crate::error::Result;
use crate::launch::site::Links;
use crate::machine::SyncKind;
use crate::params::keys;
use crate::session::ending::Ending;

impl Ending {
    /// Tests the conditions before the program goes on; what an earlier launch left is flushed
    /// first. Collective.
    pub fn halt_at_start(&self) {
        let Some(links) = self.rank.links() else { return };
        let mut due = String::new();
        if self.site.rank == 0 {
            self.halt.conditions.forget_own_reason();
            due = self.halt.conditions.due().unwrap_or_default();
        }
        let mut bytes = due.into_bytes();
        if links.world.broadcast(&mut bytes, 0).is_err() || bytes.is_empty() {
            return;
        }
        self.halt.ask(String::from_utf8_lossy(&bytes).into_owned());
        let confer = || match self.conference.confer(&links)? {
            true => self.end_here(&links),
            false => Ok(()),
        };
        if let Err(error) = self.site.host.inside(confer) {
            self.conference.stop_agreements(&error);
        }
    }

    /// Ends the run here if it is to; see `Conference::sync`.
    pub fn sync(&self, stream: usize, kind: SyncKind) {
        if self.conference.sync(stream, kind)
            && let Some(links) = self.rank.links()
            && let Err(error) = self.end_here(&links)
        {
            self.conference.stop_agreements(&error);
        }
    }

    /// Tells whether collective calls on files are sync points.
    pub fn counts_files(&self) -> bool {
        self.site.settings.get(keys::SHARED)
    }

    /// Agrees with the other ranks: all have just tried to open a file together, this one with that
    /// outcome. Tells whether all have it open, and collective calls on it are to count.
    pub fn sync_opened(&self, stream: usize, opened: bool) -> bool {
        self.node.state().machine.note_opening(opened);
        self.sync(stream, SyncKind::Constructor);
        self.node.state().machine.is_opened_by_all()
    }

    /// All is sealed and flushed. Collective.
    fn end_here(&self, links: &Links) -> Result<()> {
        links.world.barrier()?;
        self.finish();
        let status = self.site.settings.get(keys::HALT_STATUS).min(255) as i32;
        self.site.host.end_process(status)
    }
}
