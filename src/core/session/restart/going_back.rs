//! A run goes back to an older checkpoint (SCR_CURRENT): newer ones are hidden, and stay so at
//! later starts, until the user chooses one of them or newer ones of the new course have taken
//! their place. The index knows which is current, and from which id to which the run has turned.

use std::collections::BTreeSet;

use crate::cache::agree::agree;
use crate::cache::{Ctx, RebuildReport};
use crate::error::Result;
use crate::events::Event;
use crate::launch::site::Links;
use crate::log::{self, messages};
use crate::machine::Rejected;
use crate::params::keys;
use crate::records::{CourseTurn, FileNames, RecordKey};
use crate::restart::index::Index;
use crate::restart::plan::Restart;
use crate::session::{prefix::hiding::Hidden, rank::lock, restart::Restorer};
use crate::transfer::{forget_datasets, note_turn};

impl Restorer {
    /// Tells whether an earlier start has left the dataset, and the user does not choose anew.
    pub(crate) fn is_left(&self, index: &Index, id: u64) -> bool {
        let chooses = self.site.settings.get_optional(keys::CURRENT).is_some();
        !chooses && index.turn.is_some_and(|turn| turn.leaves(id))
    }

    /// Gives files that were kept of the chosen one their names again. Collective.
    pub(crate) fn choose(
        &self,
        links: &Links,
        restart: &mut Restart,
        report: &RebuildReport,
        hidden: &mut Hidden,
    ) -> Result<()> {
        let Some(current) = self.site.settings.get_optional(keys::CURRENT) else {
            return Ok(());
        };
        let Some(limit) = self.find_current(&current, &restart.index, report) else {
            self.rank.tell(
                messages::CURRENT_UNKNOWN,
                format_args!(
                    "SCR_CURRENT={current} is neither in the cache nor in the index of {}: ignored",
                    self.site.prefix.display()
                ),
            );
            return Ok(());
        };
        self.turn_back(&mut restart.index, report, limit);
        self.forget_removal(&mut restart.index, limit);
        restart.wishes.chosen = Some(limit);
        for one in restart.kept_for_chosen() {
            self.bring_back(links, &one, &mut restart.index, false)?;
        }
        if self.site.settings.get(keys::DROP_AFTER_CURRENT) {
            // While it is known that they have written its pointer files anew.
            self.prefix.put_back(links, limit, hidden)?;
            self.forget_newer(&links.ctx(&self.site), limit)?;
        }
        restart.index.in_cache.retain(|(id, _)| *id <= limit);
        Ok(())
    }

    /// If the run goes back to one that was left before, nothing is left any more.
    fn turn_back(&self, index: &mut Index, report: &RebuildReport, limit: u64) {
        let listed = index.listed.iter().map(|one| one.id);
        let newest = listed.max().max(index.turn.map(|turn| turn.from)).unwrap_or(0);
        let newest = newest.max(report.highest_id);
        let turn = (newest > limit).then_some(CourseTurn { to: limit, from: newest });
        if turn == index.turn {
            return;
        }
        index.turn = turn;
        if self.site.rank == 0
            && let Err(error) = note_turn(&self.site.prefix, turn)
        {
            log::warn_once(
                messages::INDEX_NOT_UPDATED,
                format_args!("the index does not tell of SCR_CURRENT: {error}"),
            );
        }
    }

    /// Withholds what is of a course that the run has left; it goes once a newer one is confirmed.
    pub(crate) fn withhold_left(
        &self,
        restart: &mut Restart,
        report: &mut RebuildReport,
        hidden: &mut Hidden,
    ) {
        let Some(turn) = restart.index.turn else { return };
        restart.index.in_cache.retain(|(id, _)| !turn.leaves(*id));
        let (left, stay) = std::mem::take(&mut report.withheld)
            .into_iter()
            .partition(|one| turn.leaves(one.id) && self.rank.machine_key(&one.key).is_some());
        report.withheld = stay;
        for one in left.into_iter().filter(|one| !one.deleted) {
            let Some(key) = self.rank.machine_key(&one.key) else { continue };
            hidden.rejected.push(Rejected { key, id: one.id });
        }
    }

    /// Withholds what the program has refused before and the user does not choose; it goes once a
    /// newer one is confirmed.
    pub(crate) fn withhold_refused(
        &self,
        restart: &mut Restart,
        report: &mut RebuildReport,
        hidden: &mut Hidden,
    ) {
        let listed = restart.index.listed.iter().filter(|one| one.refused).map(|one| one.id);
        let refused: BTreeSet<u64> =
            listed.filter(|id| restart.wishes.chosen != Some(*id)).collect();
        restart.index.in_cache.retain(|(id, _)| !refused.contains(id));
        restart.cached.retain(|one| !refused.contains(&one.id));
        let (out, stay) = std::mem::take(&mut report.offered).into_iter().partition(|one| {
            refused.contains(&one.id) && self.rank.machine_key(&one.key).is_some()
        });
        report.offered = stay;
        for one in out {
            let Some(key) = self.rank.machine_key(&one.key) else { continue };
            let name = one.key.name();
            self.rank.tell(
                messages::REFUSED_BEFORE,
                format_args!(
                    "{name} is in the cache, but the program could not restart from it: it is not \
                 offered again. SCR_CURRENT={name} begins with it all the same"
                ),
            );
            let mut listed = restart.index.listed.iter().filter(|listed| listed.id == one.id);
            if !listed.any(|listed| listed.file_names == FileNames::Own) {
                lock(&self.ending.out_of_reach).push((key.series, one.id));
            }
            hidden.rejected.push(Rejected { key, id: one.id });
        }
    }

    /// `SCR_DROP_AFTER_CURRENT`. Collective.
    fn forget_newer(&self, ctx: &Ctx, limit: u64) -> Result<()> {
        let newer = match self.site.rank {
            0 => forget_datasets(ctx.prefix, &|id| id > limit),
            _ => Ok(Vec::new()),
        };
        for (id, key) in agree(ctx.world, newer)? {
            let note = "its files stay (SCR_DROP_AFTER_CURRENT)";
            self.rank.event(|| Event::new("FORGOTTEN").dataset(id, key.title()).note(note));
        }
        Ok(())
    }

    /// By its name (`<series>.<id>`), its directory in the index (`scr.dataset.<number>`), or the
    /// captured id alone.
    fn find_current(&self, wanted: &str, index: &Index, report: &RebuildReport) -> Option<u64> {
        let means = |id: u64, key: &RecordKey| {
            wanted == key.name()
                || wanted == format!("scr.dataset.{id}")
                || (!key.id.is_empty() && wanted == key.id)
        };
        let listed =
            index.listed.iter().filter(|one| wanted == one.name || means(one.id, &one.key));
        let cached = report.offered.iter().filter(|one| means(one.id, &one.key));
        listed.map(|one| one.id).chain(cached.map(|one| one.id)).max()
    }
}
