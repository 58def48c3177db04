//! How datasets leave the cache, and what cannot be cached.

pub(crate) mod evict;
pub(super) mod leftovers;
pub(super) mod setback;
pub(super) mod sweep;
