//! Which checkpoints on the prefix a start copies into the cache, and what is told of it.

use std::path::Path;

use crate::cache::RebuildReport;
use crate::descriptors::RedundancyDesc;
use crate::error::Result;
use crate::launch::site::Links;
use crate::log::{self, messages};
use crate::params::keys;
use crate::restart::index::IndexedDataset;
use crate::session::prefix::Inspector;
use crate::transfer::{self, FetchStore, Fetched};

pub(crate) enum Fetching {
    Done,
    /// The program reads the prefix.
    InPlace,
    /// One sentence says why it cannot be had.
    Fault(String),
}

impl Inspector {
    /// Returns `None` if the settings want the checkpoint to stay where it is. The same on all
    /// ranks.
    pub(crate) fn fetched_as(&self, one: &IndexedDataset) -> Option<&RedundancyDesc> {
        let settings = &self.site.settings;
        if settings.get(keys::FETCH_BYPASS) || settings.get(keys::GLOBAL_RESTART) {
            return None;
        }
        let output = self.rank.series.series().get(one.series?)?.output;
        let selected = self.site.descriptors.select(one.checkpoint?, output);
        (!selected.bypass).then_some(selected)
    }

    /// Fetches a checkpoint into the cache, where `report` offers it then. Collective.
    pub(crate) fn fetch(
        &self,
        links: &Links,
        one: &IndexedDataset,
        report: &mut RebuildReport,
    ) -> Result<Fetching> {
        let (Some(descriptor), Some((series, number))) =
            (self.fetched_as(one), one.series.zip(one.checkpoint))
        else {
            return Ok(Fetching::InPlace);
        };
        let (ctx, store) = (links.ctx(&self.site), self.stores.store_of_number(series, number));
        let capacity = self.site.layout.store(&store).and_then(|one| self.stores.capacity_of(one));
        let store = FetchStore { name: &store, capacity: capacity.unwrap_or(u64::MAX) };
        match transfer::fetch(&ctx, one.id, store, &descriptor.to_tree("", None))? {
            Fetched::Fault(fault) => Ok(Fetching::Fault(fault)),
            Fetched::InPlace(why) => {
                self.rank.mention(format_args!("{} is read where it is: {why}", one.name));
                Ok(Fetching::InPlace)
            }
            Fetched::Cached(offered) => {
                let (bytes, seconds) = (offered.catalog.cached_bytes(), offered.seconds);
                let from = self.site.prefix.display();
                self.rank.mention(format_args!(
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

    /// Tells of an index that cannot be changed, which stops nobody.
    pub(crate) fn note_fetch(&self, note: impl FnOnce(&Path, u64) -> Result<()>, id: u64) {
        if self.site.rank == 0
            && let Err(error) = note(&self.site.prefix, id)
        {
            log::warn_once(
                messages::INDEX_NOT_UPDATED,
                format_args!("the index does not tell of a fetch: {error}"),
            );
        }
    }
}
