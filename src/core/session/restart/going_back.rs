//! A run goes back to an older checkpoint (SCR_CURRENT): newer ones are hidden from the program,
//! and stay so at later starts, until the user chooses one of them or newer ones of the new course
//! have taken their place. Of those on the prefix the index knows which is current; of those that
//! only the cache has it knows the turn that the run took, as ids are never used again.

use std::collections::BTreeSet;

use crate::cache::agree::agree;
use crate::cache::{Ctx, Offered, RebuildReport};
use crate::error::Result;
use crate::events::Event;
use crate::log;
use crate::params::keys;
use crate::records::{DatasetKey, Turn};
use crate::session::machine::Rejected;
use crate::session::prefix::hiding::Hidden;
use crate::session::prefix::index::Index;
use crate::session::rank::runtime::Session;
use crate::session::rank::site::Links;
use crate::transfer::{Check, forget_datasets, names_on_prefix, note_turn, verify_on_prefix};

impl Session {
    /// An earlier start has left the dataset for an older one, and the user does not choose anew.
    pub(in crate::session) fn is_left(&self, index: &Index, id: u64) -> bool {
        let chooses = self.site.settings.get_optional(keys::CURRENT).is_some();
        !chooses && index.turn.is_some_and(|turn| turn.leaves(id))
    }

    /// Hides what is newer than SCR_CURRENT. Returns the id of the newest dataset that is offered.
    pub(in crate::session) fn hide_newer(
        &self,
        links: &Links,
        index: &mut Index,
        report: &mut RebuildReport,
        hidden: &mut Hidden,
    ) -> Result<Option<u64>> {
        let Some(current) = self.site.settings.get_optional(keys::CURRENT) else {
            return Ok(None);
        };
        let Some(limit) = self.find_current(&current, index, report) else {
            self.tell(format_args!(
                "SCR_CURRENT={current} is neither in the cache nor in the index of {}: ignored",
                self.site.prefix.display()
            ));
            return Ok(None);
        };
        self.turn_back(index, report, limit);
        self.bring_back_chosen(links, index, report, limit)?;
        if self.site.settings.get(keys::DROP_AFTER_CURRENT) {
            // While it is known that they have written its pointer files anew.
            self.put_back(links, limit, hidden)?;
            self.forget_newer(&links.ctx(&self.site), limit)?;
        }
        index.in_cache.retain(|(id, _)| *id <= limit);
        let mut told = BTreeSet::new();
        for one in index.listed.iter().filter(|one| one.id > limit && one.holds_names) {
            let ctx = links.ctx(&self.site);
            if one.key.id.is_empty() && verify_on_prefix(&ctx, one.id, Check::Sizes)?.anew {
                continue; // What has its names is the user's own.
            }
            hidden.names.extend(names_on_prefix(&ctx, one.id)?);
            told.insert(one.id);
        }
        let (stay, newer) = std::mem::take(&mut report.offered)
            .into_iter()
            .partition(|one| one.id <= limit || self.machine_key(&one.key).is_none());
        report.offered = stay;
        for one in newer {
            told.insert(one.id);
            self.reject(one, hidden);
        }
        if !told.is_empty() {
            let ids: Vec<String> = told.iter().map(ToString::to_string).collect();
            self.tell(format_args!(
                "datasets newer than SCR_CURRENT={current} are hidden from the program: {}",
                ids.join(", ")
            ));
        }
        Ok(Some(limit))
    }

    /// Notes that the run goes back to `limit`, if anything is newer; if it is one that was left
    /// before, nothing is any more.
    fn turn_back(&self, index: &mut Index, report: &RebuildReport, limit: u64) {
        let listed = index.listed.iter().map(|one| one.id);
        let newest = listed.max().max(index.turn.map(|turn| turn.from)).unwrap_or(0);
        let newest = newest.max(report.highest_id);
        let turn = (newest > limit).then_some(Turn { to: limit, from: newest });
        if turn == index.turn {
            return;
        }
        index.turn = turn;
        if self.site.rank == 0
            && let Err(error) = note_turn(&self.site.prefix, turn)
        {
            log::warn_once("turn", format_args!("the index does not tell of SCR_CURRENT: {error}"));
        }
    }

    /// Hides what the cache has of a course that the run has left at an earlier start. It goes once
    /// a newer one is confirmed.
    pub(in crate::session) fn hide_left_in_cache(
        &self,
        index: &mut Index,
        report: &mut RebuildReport,
        hidden: &mut Hidden,
    ) {
        let Some(turn) = index.turn else { return };
        index.in_cache.retain(|(id, _)| !turn.leaves(*id));
        let (left, stay) = std::mem::take(&mut report.withheld)
            .into_iter()
            .partition(|one| turn.leaves(one.id) && self.machine_key(&one.key).is_some());
        report.withheld = stay;
        for one in left.into_iter().filter(|one| !one.deleted) {
            let Some(key) = self.machine_key(&one.key) else { continue };
            hidden.rejected.push(Rejected { key, id: one.id });
        }
        let (left, stay): (Vec<Offered>, Vec<Offered>) = std::mem::take(&mut report.offered)
            .into_iter()
            .partition(|one| turn.leaves(one.id) && self.machine_key(&one.key).is_some());
        report.offered = stay;
        let on_prefix = index.listed.iter().filter(|one| index.flushed.contains(&one.id));
        let mut ids = on_prefix.map(|one| one.id).chain(report.offered.iter().map(|one| one.id));
        // Its names may be those of newer ones then.
        let went_on = ids.any(|id| id > turn.from);
        for one in left.into_iter().rev() {
            let there = index.listed.iter().any(|listed| listed.id == one.id && listed.holds_names);
            match (went_on, self.machine_key(&one.key)) {
                (false, _) => {
                    if !there {
                        hidden.after_current.push((one.key.name(), false));
                    }
                    self.reject(one, hidden);
                }
                (true, Some(key)) => hidden.rejected.push(Rejected { key, id: one.id }),
                (true, None) => (),
            }
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
            self.event(|| Event::new("FORGOTTEN").dataset(id, key.title()).note(note));
        }
        Ok(())
    }

    /// The id of the dataset that the user means: by its name (`<series>.<id>`), its directory in
    /// the index (`scr.dataset.<number>`), or the captured id alone.
    fn find_current(&self, wanted: &str, index: &Index, report: &RebuildReport) -> Option<u64> {
        let means = |id: u64, key: &DatasetKey| {
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
