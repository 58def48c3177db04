//! What comes before the session, in the order of a start.
//!
//! | file | job |
//! |---|---|
//! | `prepare.rs` | settings, directories, launch check |
//! | `join.rs` | the ranks come together |
//! | `together.rs` | settings, locks and troubles of all ranks |
//! | `owner.rs` | which prefix this is, and so whose caches count |
//! | `earlier.rs` | purges, and the cache of a run with another number of ranks |
//! | `ineffective.rs` | settings that do nothing for want of another one |

pub(crate) mod earlier;
pub(crate) mod ineffective;
pub(crate) mod join;
mod owner;
pub(crate) mod prepare;
pub(crate) mod together;
