//! What was learned of how the program writes (`records/learned.rs`): told, and kept for the next
//! launch.

use crate::error::Result;
use crate::launch::site::Links;
use crate::log::{self, messages};
use crate::machine::Knowledge;
use crate::records::learned;
use crate::session::updates::Updates;

impl Updates {
    /// Says, once for each series that is kept out of the cache as a whole, why, and what helps.
    pub(crate) fn tell_uncached(&self) {
        let state = self.node.state();
        for (at, series) in self.rank.series.series().iter().enumerate() {
            let Some((why, name)) = state.machine.unprotected(at) else { continue };
            let (reason, help) = why.keeps_series();
            log::warn_once_for(
                messages::NOT_CACHED,
                &series.name,
                format_args!(
                    "checkpoints of {} ({}) go straight to {}, in later runs too, and are not \
                     protected: {name} {reason}. {help}",
                    series.parameter,
                    series.text,
                    self.site.prefix.display(),
                ),
            );
        }
    }

    /// Lets rank 0 keep it. Collective.
    pub(crate) fn store_knowledge(&self, links: &Links) -> Result<()> {
        let known: Vec<Knowledge> = {
            let state = self.node.state();
            (0..self.rank.series.series().len()).map(|at| state.machine.knowledge(at)).collect()
        };
        let (dir, world) = (self.site.state_dir(), links.world.as_ref());
        learned::store(&dir, &self.rank.identity, &self.rank.series, &known, world)
    }
}
