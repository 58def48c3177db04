//! What is whole in the cache, but cannot come to where its ranks run now: it goes to the prefix
//! from where it is, and from there to its ranks. No copy goes before another one is there.

use std::collections::BTreeMap;

use crate::cache::agree::agree;
use crate::cache::evict::discard;
use crate::cache::{RebuildReport, Withheld};
use crate::error::{Error, Result};
use crate::events::Event;
use crate::log;
use crate::params::keys;
use crate::records::DatasetRecord;
use crate::session::prefix::index::Index;
use crate::session::prefix::index::newest_left;
use crate::session::rank::runtime::Session;
use crate::session::rank::site::Links;
use crate::transfer::{Left, flush_shares, kept_by_newer};

impl Session {
    /// Publishes the newest of each series, if it is stranded and nothing newer can be had; its
    /// copies in the cache go, and the nodes have room again. Whether anything is on the prefix now
    /// that was not. Collective.
    ///
    /// # Errors
    /// Communication failed, or the cache cannot be changed.
    pub(in crate::session) fn publish_stranded(
        &self,
        links: &Links,
        report: &mut RebuildReport,
        known: &Index,
    ) -> Result<bool> {
        // A run that goes back to an older one has no use for it, and may need its room.
        if self.site.settings.get_optional(keys::CURRENT).is_some() {
            return Ok(false);
        }
        let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
        let counts = |one: &Withheld| one.stranded.is_some() && !self.is_left(known, one.id);
        for one in report.withheld.iter().filter(|one| counts(one)) {
            let id = newest.entry(&one.key.series).or_default();
            *id = one.id.max(*id);
        }
        newest.retain(|series, id| *id > newest_left(series, report, known));
        let ids: Vec<u64> = newest.into_values().collect();
        let (chosen, rest): (Vec<Withheld>, Vec<Withheld>) = std::mem::take(&mut report.withheld)
            .into_iter()
            .partition(|one| one.stranded.is_some() && ids.contains(&one.id));
        report.withheld = rest;
        let mut any = false;
        for one in chosen {
            match self.publish_one(links, &one, known) {
                Ok(left) => {
                    any = true;
                    self.log_left(&left);
                }
                Err(error @ Error::Comm(_)) => return Err(error),
                Err(error) => {
                    let reason = format!("{}; nor can it be published: {error}", one.reason);
                    report.withheld.push(Withheld { reason, ..one });
                    continue;
                }
            }
            let id = one.id;
            let chosen = |record: &DatasetRecord| record.dataset_id == id;
            agree(links.world.as_ref(), discard(&links.ctx(&self.site), &chosen, &|_| false))?;
        }
        Ok(any)
    }

    fn publish_one(&self, links: &Links, one: &Withheld, known: &Index) -> Result<Left> {
        let (ctx, stranded) = (links.ctx(&self.site), one.stranded.as_ref());
        let (Some(stranded), Some(kept)) =
            (stranded, kept_by_newer(&ctx, one.id, &one.key, known.restorable())?)
        else {
            return Err(Error::Other("a newer one has its names".into()));
        };
        let kept = |name: &str| kept.contains(name);
        let left = flush_shares(&ctx, &stranded.shares, self.site.size, &kept, (1, &|| ()))?;
        let key = self.machine_key(&one.key);
        let title = key.map_or_else(|| one.key.series.clone(), |key| self.title(&key));
        let note = "the nodes have no room to move it";
        self.event(|| Event::new("PUBLISHED").dataset(one.id, one.key.title()).note(note));
        if self.site.rank == 0 {
            log::warn(format_args!(
                "{title} (dataset {}) is written to {} before the program runs, which costs time: \
                 {}",
                one.id,
                self.site.prefix.display(),
                stranded.why
            ));
        }
        Ok(left)
    }
}
