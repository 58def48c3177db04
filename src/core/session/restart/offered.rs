//! What a restart offers from the cache, for the state machine.

use crate::cache::{Offered, RebuildReport};
use crate::error::Result;
use crate::records::FileMeta;
use crate::session::machine::{DatasetKey, Offer, RestoredFiles};
use crate::session::rank::runtime::Session;
use crate::session::rank::site::Links;
use crate::transfer::about;

/// A dataset of the cache with its number in its series, and whether it is output.
pub(in crate::session) fn offer_of(
    key: DatasetKey,
    offered: &Offered,
    (number, output): (u64, bool),
    flushed: bool,
) -> Offer {
    Offer {
        key,
        id: offered.id,
        number,
        epoch: offered.epoch,
        confirmed: offered.confirmed,
        output,
        on_prefix: offered.is_on_prefix(),
        flushed,
    }
}

impl Session {
    /// The number of each offered dataset in its series, and whether it is output, as any rank's
    /// record has it.
    pub(in crate::session) fn numbers(
        &self,
        links: &Links,
        report: &RebuildReport,
    ) -> Result<Vec<(u64, bool)>> {
        let own = |offered: &Offered| {
            let record = self.site.filemap.get_id(offered.id);
            let tag = |name: &str| {
                let tags = record.as_ref().map(|record| &record.tags);
                tags.and_then(|tags| tags.get(name)?.parse::<i64>().ok()).unwrap_or(0)
            };
            [tag(about::TAG_CHECKPOINT), tag(about::TAG_OUTPUT)]
        };
        let mut words: Vec<i64> = report.offered.iter().flat_map(own).collect();
        if !words.is_empty() {
            links.world.all_max(&mut words)?;
        }
        Ok(words.chunks(2).map(|pair| (pair[0].max(0) as u64, pair[1] > 0)).collect())
    }

    pub(in crate::session) fn own_part(
        &self,
        key: &DatasetKey,
        offered: &Offered,
    ) -> RestoredFiles {
        let explicit = self.series.series()[key.series].explicit;
        let part = |file: &FileMeta| {
            if explicit {
                let masked = format!("{{id}}/{}", file.name);
                return (file.name.clone(), masked, file.size, file.on_prefix);
            }
            let matched = self.series.match_path(&file.name);
            let masked = matched.map_or_else(|| file.name.clone(), |matched| matched.masked);
            (file.name.clone(), masked, file.size, file.on_prefix)
        };
        RestoredFiles { files: offered.files.iter().map(part).collect() }
    }
}
