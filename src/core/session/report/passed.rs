//! What went straight to the prefix, and why (`account/passed.rs`): gathered once, at the end.

use crate::account::passed::{encode, merge, uncached};
use crate::account::tally::Count;
use crate::error::Result;
use crate::launch::site::Links;
use crate::log::{self, messages};
use crate::session::report::Reporter;

impl Reporter {
    /// Gathers from each node's ranks, and then from the leaders: a few hundred bytes for each
    /// node that has any. Says that nothing was cached, or no more, unless it was `told` why.
    /// Collective.
    pub(crate) fn gather_passed(&self, links: &Links, told: bool) -> Result<()> {
        let of_node = merge(&links.node.all_gather(&encode(&self.rank.tally.passed_here()))?);
        let Some(leaders) = &links.leaders else { return Ok(()) };
        let all = merge(&leaders.all_gather(&encode(&of_node))?);
        let count = |which| self.rank.tally.get(which);
        if self.site.rank == 0 && !told {
            let (seals, in_a_row) = (count(Count::Seals), count(Count::PassedSeals));
            let text = uncached(&all, seals, in_a_row, &self.site.prefix);
            text.iter().for_each(|text| log::warn(messages::NOTHING_CACHED, text));
        }
        self.rank.log_passed(&all);
        self.rank.events.run.change(|record| {
            record.passed = all;
            record.passed_of_all = true;
        });
        Ok(())
    }
}
