//! Cached checkpoints whose files on the prefix are not as sealed (`cache/restart/on_prefix.rs`).

use crate::cache::{RebuildReport, Withheld, withhold_spoiled};
use crate::error::Result;
use crate::launch::site::Links;
use crate::log::messages;
use crate::restart::index::{Index, IndexedDataset, newest_left};
use crate::session::prefix::Inspector;
use crate::transfer::{Verified, names_on_prefix};

impl Inspector {
    /// Takes them out of what is offered. Files that no pattern matches any more, or that are never
    /// quiet, belong to no checkpoint. Collective.
    pub(crate) fn withhold_spoiled(
        &self,
        links: &Links,
        report: &mut RebuildReport,
        known: &mut Index,
    ) -> Result<()> {
        let counts = |name: &str| self.rank.match_name(name).is_some();
        let rewritten = withhold_spoiled(&links.ctx(&self.site), report, &counts)?;
        known.flushed.retain(|id| spoiled(report, *id).is_none());
        for (id, name) in rewritten {
            let Some(one) = report.offered.iter().find(|one| one.id == id) else { continue };
            if newest_left(&one.key.series, report, known) == id {
                self.rank.tell(messages::REWRITTEN, format_args!(
                    "{} (dataset {id}): {} was written to after the checkpoint was complete; if \
                     that was for a newer one, they do not fit together",
                    one.key.title(),
                    self.site.on_prefix(&name).display()
                ));
            }
        }
        Ok(())
    }

    /// Returns `None` if `one` is no such checkpoint. Collective.
    pub(crate) fn look_at_spoiled(
        &self,
        links: &Links,
        one: &IndexedDataset,
        report: &RebuildReport,
    ) -> Result<Option<Verified>> {
        let Some(withheld) = spoiled(report, one.id) else { return Ok(None) };
        let names = names_on_prefix(&links.ctx(&self.site), one.id)?;
        Ok(Some(Verified { names, fault: Some(withheld.reason.clone()), ..Verified::default() }))
    }

    /// Unless it is told of as withheld.
    pub(crate) fn tell_damaged(&self, one: &IndexedDataset, report: &RebuildReport, what: &str) {
        if spoiled(report, one.id).is_none() {
            self.rank.tell(
                messages::PREFIX_DAMAGED,
                format_args!("{} (dataset {}): {what}", one.name, one.id),
            );
        }
    }
}

fn spoiled(report: &RebuildReport, id: u64) -> Option<&Withheld> {
    report.withheld.iter().find(|one| one.id == id && one.spoiled)
}
