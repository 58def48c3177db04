//! Which checkpoints on the prefix a start copies into the cache, and what is told of it.

use std::fmt::Display;
use std::path::Path;

use super::hiding::is_cached;
use super::index::{Index, Listed};
use crate::cache::RebuildReport;
use crate::error::Result;
use crate::kvtree::KvTree;
use crate::log;
use crate::params::keys;
use crate::session::rank::runtime::Session;
use crate::session::rank::site::Links;
use crate::transfer::{self, Fetched};

/// How a checkpoint is to be fetched.
pub(in crate::session) struct FetchPlan {
    store: String,
    descriptor: KvTree,
}

/// What became of it.
pub(in crate::session) enum Fetching {
    /// It is offered from the cache.
    Done,
    /// The program reads the prefix.
    InPlace,
    /// It cannot be had: why, one sentence.
    Fault(String),
}

impl Session {
    /// How to fetch a checkpoint that is on the prefix; `None` if it is to stay there: the user
    /// wants that, or the cache has it, or a newer one of its series. The same on all ranks.
    pub(in crate::session) fn fetch_plan(
        &self,
        one: &Listed,
        index: &Index,
        report: &RebuildReport,
    ) -> Option<FetchPlan> {
        let settings = &self.site.settings;
        if settings.get(keys::RESTART_REQUIRED) && self.lost_checkpoint(report, index).is_some() {
            return None; // The run ends before anybody reads it.
        }
        if settings.get(keys::FETCH_BYPASS) || settings.get(keys::GLOBAL_RESTART) {
            return None;
        }
        if is_cached(one, report) {
            return None;
        }
        let output = self.series.series().get(one.series?)?.output;
        let selected = self.site.descriptors.select(one.checkpoint?, output);
        if selected.bypass {
            return None;
        }
        let store = self.store_of_number(one.series?, one.checkpoint?);
        Some(FetchPlan { store, descriptor: selected.to_tree("", None) })
    }

    /// Copies a checkpoint into the cache; it is among those that `report` offers then. Collective.
    ///
    /// # Errors
    /// Communication failed, or the cache cannot be changed.
    pub(in crate::session) fn fetch(
        &self,
        links: &Links,
        one: &Listed,
        plan: &FetchPlan,
        report: &mut RebuildReport,
    ) -> Result<Fetching> {
        let ctx = links.ctx(&self.site);
        let capacity = self.site.layout.store(&plan.store).and_then(|one| self.capacity_of(one));
        let store = (plan.store.as_str(), capacity.unwrap_or(u64::MAX));
        let fetched = transfer::fetch(&ctx, one.id, store, &plan.descriptor)?;
        match fetched {
            Fetched::Fault(fault) => Ok(Fetching::Fault(fault)),
            Fetched::InPlace(why) => {
                self.mention(format_args!("{} is read where it is: {why}", one.name));
                Ok(Fetching::InPlace)
            }
            Fetched::Cached(offered) => {
                let (bytes, seconds) = (offered.catalog.cached_bytes(), offered.seconds);
                let from = self.site.prefix.display();
                self.mention(format_args!(
                    "{} is fetched from {from} into the cache: {bytes} bytes, {seconds:.2} s",
                    one.name
                ));
                // What the cache had of it has made room.
                let remains = report.withheld.iter_mut().filter(|withheld| withheld.id == one.id);
                remains.for_each(|withheld| withheld.deleted = true);
                let at = report.offered.partition_point(|other| other.id < one.id);
                report.offered.insert(at, *offered);
                Ok(Fetching::Done)
            }
        }
    }

    /// Rank 0 changes the index; that it cannot is told and stops nobody.
    pub(in crate::session) fn note_fetch(&self, note: fn(&Path, u64) -> Result<()>, id: u64) {
        if self.site.rank == 0
            && let Err(error) = note(&self.site.prefix, id)
        {
            log::warn_once("fetch", format_args!("the index does not tell of a fetch: {error}"));
        }
    }

    /// One line, by one rank, for those who want to know.
    pub(in crate::session) fn mention(&self, text: impl Display) {
        if self.site.rank == 0 {
            log::message(1, text);
        }
    }
}
