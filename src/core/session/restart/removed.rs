//! Cached checkpoints that are not offered, since what was done to the prefix after the run counts:
//! somebody has removed older ones, or newer ones were written there under the same names.

use crate::cache::RebuildReport;
use crate::error::Result;
use crate::launch::site::Links;
use crate::log::{self, messages};
use crate::machine::Rejected;
use crate::params::keys;
use crate::records::CourseTurn;
use crate::restart::index::Index;
use crate::restart::removal::{CachedCheckpoint, overwritten};
use crate::session::restart::Restorer;
use crate::transfer::{mark_removed, note_removal};

impl Restorer {
    /// Unless the user says where to begin (SCR_CURRENT, SCR_CACHE_ADOPT). Collective.
    pub(crate) fn withhold_removed(
        &self,
        links: &Links,
        report: &mut RebuildReport,
        index: &mut Index,
    ) -> Result<Vec<Rejected>> {
        let mut rejected = Vec::new();
        for gone in std::mem::take(&mut index.gone_now) {
            // Without the mark the next start may take this for a removal that is new.
            let _ = mark_removed(&self.site.prefix, &gone.series, &gone.id);
        }
        let settings = &self.site.settings;
        if settings.get_optional(keys::CURRENT).is_some() || settings.get(keys::CACHE_ADOPT) {
            return Ok(rejected);
        }
        let written = overwritten(links.world.as_ref(), &self.site, report)?;
        for (at, series) in self.rank.series.series().iter().enumerate() {
            let of_series = report.offered.iter().filter(|one| one.key.series == series.name);
            let kept: Vec<CachedCheckpoint> = of_series
                .map(|one| CachedCheckpoint { id: one.id, written: one.written() })
                .collect();
            let was_written = written.contains(&series.name);
            let turn = if was_written { index.all_of(&kept) } else { index.removal(at, &kept) };
            let Some(turn) = turn else { continue };
            self.note_removal(index, at, Some(turn));
            let is_out = |id: u64, of: &str| of == series.name && turn.leaves(id);
            let mut out = Vec::new();
            report.offered.retain(|one| {
                let stays = !is_out(one.id, &one.key.series);
                out.extend((!stays).then(|| (one.id, one.key.clone())));
                stays
            });
            if let Some((_, newest)) = out.last() {
                self.tell_withheld(&newest.name(), was_written);
            }
            report.withheld.retain(|one| {
                let stays = !is_out(one.id, &one.key.series) || one.deleted;
                out.extend((!stays).then(|| (one.id, one.key.clone())));
                stays
            });
            let of = |name: &str| name.split_once('.').is_some_and(|(of, _)| of == series.name);
            index.in_cache.retain(|(id, name)| !of(name) || !turn.leaves(*id));
            let known = |(id, key)| Some(Rejected { key: self.rank.machine_key(&key)?, id });
            rejected.extend(out.into_iter().filter_map(known));
        }
        Ok(rejected)
    }

    /// Forgets the removal, as the user begins with `chosen` after all.
    pub(crate) fn forget_removal(&self, index: &mut Index, chosen: u64) {
        let left: Vec<usize> = index
            .removed
            .iter()
            .filter(|(_, turn)| turn.leaves(chosen))
            .map(|(series, _)| *series)
            .collect();
        left.into_iter().for_each(|series| self.note_removal(index, series, None));
    }

    fn note_removal(&self, index: &mut Index, series: usize, left: Option<CourseTurn>) {
        if index.removed.get(&series).copied() == left {
            return;
        }
        match left {
            Some(left) => drop(index.removed.insert(series, left)),
            None => drop(index.removed.remove(&series)),
        }
        let name = &self.rank.series.series()[series].name;
        if self.site.rank == 0
            && let Err(error) = note_removal(&self.site.prefix, name, left)
        {
            log::warn_once(
                messages::INDEX_NOT_UPDATED,
                format_args!("the index does not tell of what somebody has removed: {error}"),
            );
        }
    }

    fn tell_withheld(&self, name: &str, was_written: bool) {
        let prefix = self.site.prefix.display();
        if was_written {
            let text = format_args!(
                "{name} is in the cache and not offered: all its files on {prefix} were written \
                 since, not by that run. SCR_CURRENT={name} begins with it after all; it goes when \
                 this run has completed a newer one"
            );
            return self.rank.tell(messages::WRITTEN_WITHOUT_US, text);
        }
        self.rank.tell(
            messages::REMOVED,
            format_args!(
                "{name} is in the cache and not offered, nor what is as new: somebody has deleted \
                 checkpoints of the run from {prefix} since. SCR_CURRENT={name} begins with it \
                 after all; it goes when this run has completed a newer one"
            ),
        );
    }
}
