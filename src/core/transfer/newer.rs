//! What newer datasets have on the prefix already: a flush of an older one must not write over it.

use std::collections::BTreeSet;

use super::verify::names_on_prefix;
use crate::cache::Ctx;
use crate::error::Result;
use crate::records::DatasetKey;

/// Names that a flush of dataset `id` has to leave as they are, since a newer dataset of its series
/// has them on the prefix (a pointer file); `None` if a newer one has taken all its names. `there`
/// is what can be restored from the prefix, the same on all ranks. Collective.
///
/// # Errors
/// If communication fails.
pub fn kept_by_newer<'a>(
    ctx: &Ctx,
    id: u64,
    key: &DatasetKey,
    there: impl Iterator<Item = (u64, &'a DatasetKey)>,
) -> Result<Option<BTreeSet<String>>> {
    let newer = there.filter(|(other, of)| *other > id && of.series == key.series);
    let newer: Vec<(u64, &DatasetKey)> = newer.collect();
    if newer.iter().any(|(_, of)| of.id == key.id) {
        return Ok(None);
    }
    let mut names = BTreeSet::new();
    for (other, _) in newer {
        names.extend(names_on_prefix(ctx, other)?);
    }
    Ok(Some(names))
}
