//! What a start does on a prefix that the C implementation has left.

use crate::error::Result;
use crate::launch::host::Door;
use crate::launch::site::Site;
use crate::log::{self, messages};
use crate::patterns::SeriesSet;
use crate::records::RecordKey;
use crate::transfer::begin_beside;

/// Begins our index beside that one; under the shim its checkpoints are of the series whose pattern
/// their files match. Warns of what only its caches have. Returns the largest id of these; 0 on
/// other prefixes.
pub(super) fn begin(site: &Site, series: &SeriesSet) -> Result<u64> {
    let key_of = |name: &str| {
        let found = series.match_path(name).filter(|_| site.host.door() == Door::Files)?;
        let series = series.series()[found.series].name.clone();
        Some(RecordKey { series, id: found.id?, generation: 0 })
    };
    let cached = begin_beside(&site.prefix, key_of)?;
    if let Some((_, name)) = cached.last() {
        log::warn_once(
            messages::CACHE_OF_OTHERS,
            format_args!(
                "{name} is only in a cache that the C implementation of SCR has left; that is not \
                 touched, and it is not offered"
            ),
        );
    }
    Ok(cached.last().map_or(0, |(id, _)| *id))
}
