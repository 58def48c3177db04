//! Whether a checkpoint is due, and whether the run is to stop.

use super::consent::no_communication;
use crate::cache::agree::any;
use crate::error::Result;
use crate::machine::NeedLimits;
use crate::params::keys;
use crate::session::program::Program;

impl Program {
    /// Decides by the settings; always says yes if they say nothing of it. Collective.
    pub fn is_checkpoint_due(&self) -> Result<bool> {
        let settings = &self.site.settings;
        let limits = NeedLimits {
            calls: settings.get(keys::CHECKPOINT_INTERVAL),
            since_last: settings.get(keys::CHECKPOINT_SECONDS),
            percent: settings.get(keys::CHECKPOINT_OVERHEAD),
        };
        let due = self.ending.need_checkpoint(&limits)?;
        Ok(due || limits == NeedLimits::default())
    }

    /// Tells whether a halt condition holds. Collective.
    pub fn should_exit(&self) -> Result<bool> {
        let links = self.rank.links().ok_or_else(no_communication)?;
        self.site.host.inside(|| {
            let own = self.site.rank == 0 && self.halt.conditions.is_pending();
            any(links.world.as_ref(), own)
        })
    }
}
