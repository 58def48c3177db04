//! How fast each node seals and flushes (`account/paces.rs`): what a rank says of it, and hears.

use crate::account::paces::{Paces, split};
use crate::comm::words;
use crate::error::Result;
use crate::launch::site::Links;
use crate::session::report::Reporter;

impl Reporter {
    fn paces(&self) -> Paces {
        let ([seal_bytes, seal], [flush_bytes, flush]) =
            (self.rank.tally.sealed.words(), self.site.transfer.flushed.words());
        [seal_bytes, seal, flush_bytes, flush]
    }

    pub(crate) fn with_paces(&self, mut report: Vec<u8>) -> Vec<u8> {
        report.extend(self.paces().into_iter().flat_map(u64::to_be_bytes));
        report
    }

    pub(crate) fn take_paces<'a>(&self, gathered: &'a [Vec<u8>]) -> Vec<&'a [u8]> {
        let (reports, paces): (Vec<_>, Vec<Paces>) = gathered.iter().map(|all| split(all)).unzip();
        self.rank.events.run.move_at(&paces);
        reports
    }

    /// Includes the last flush. Collective.
    pub(crate) fn gather_paces(&self, links: &Links) -> Result<()> {
        self.rank.events.run.move_at(&words::all_gather(links.world.as_ref(), self.paces())?);
        Ok(())
    }
}
