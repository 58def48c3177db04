//! How datasets leave the cache, and what cannot be cached.
//!
//! | file | job |
//! |---|---|
//! | `evict.rs` | removal: data first, record after |
//! | `leftovers.rs` | what it has left in the store |
//! | `setback.rs` | why the cache could not take a file |
//! | `sweep.rs` | what no record names goes |

pub(crate) mod evict;
pub(super) mod leftovers;
pub(super) mod setback;
pub(super) mod sweep;
