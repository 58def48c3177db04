//! Removal from the cache: data first, record after.

use super::Ctx;
use crate::error::Result;
use crate::records::DatasetKey;

/// Removes dataset `id` from the cache: data first, records after. Collective over the *node*: all
/// ranks of a node call it; nodes need not wait for one another.
pub fn evict(ctx: &Ctx, id: u64) -> Result<()> {
    todo!()
}

/// The same for a dataset that was never sealed.
pub fn drop_open(ctx: &Ctx, key: &DatasetKey) -> Result<()> {
    todo!()
}
