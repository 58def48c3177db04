//! What was learned of how the program writes (`records/learned.rs`): told, and kept for the next
//! launch.

use crate::error::Result;
use crate::launch::site::Links;
use crate::log::{self, messages};
use crate::machine::{Knowledge, Why};
use crate::records::learned;
use crate::session::updates::Updates;

fn reason_and_help(why: Why) -> (String, String) {
    const NAMES: &str = "Names that differ from checkpoint to checkpoint, with {id} in the \
                         pattern, help; or leave that file out (SCR_IGNORE_PATTERN) if no restart \
                         needs it";
    match why {
        Why::GoesOn => (
            "is written anew at each checkpoint and goes on after a collective, so that nothing \
             tells where a checkpoint ends"
                .into(),
            "If the state after each collective can be restarted from, \":own\" behind each \
             pattern of the series has it cached"
                .into(),
        ),
        Why::Writers => ("has no {id} and is written by several ranks".into(), NAMES.into()),
        Why::Readers => {
            ("has no {id} and is read by ranks of other nodes in mid-run".into(), NAMES.into())
        }
        Why::Stays => (
            "has no {id} and cannot be moved into the cache when it gets its name".into(),
            NAMES.into(),
        ),
        _ => (format!("has no {{id}} and {}", why.text()), format!("{}. {NAMES}", why.help())),
    }
}

impl Updates {
    /// Says, once for each series that is kept out of the cache as a whole, why, and what helps.
    pub(crate) fn tell_uncached(&self) {
        let state = self.node.state();
        for (at, series) in self.rank.series.series().iter().enumerate() {
            let Some((why, name)) = state.machine.unprotected(at) else { continue };
            let (reason, help) = reason_and_help(why);
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
