//! What a start makes of the caches: which datasets count, who gets what, what is rebuilt.
//!
//! | file | job |
//! |---|---|
//! | `identity.rs` | which launch a cache belongs to (`launch.scr`) |
//! | `distribute.rs` | files to where their owners run |
//! | `recheck.rs` | what a start has not read is read after it |
//! | `recover.rs` | rebuild by the scheme |
//! | `protect_anew.rs` | protection for another placement |
//! | `decide.rs` | which datasets count at a restart: a pure function |
//! | `survey.rs` | what the records of all ranks say, judged once a node |
//! | `alike.rs` | lists that are much alike, in few bytes |
//! | `rebuild.rs` | the restart itself |
//! | `claims.rs` | what the records claim, and which decision each belongs to |
//! | `on_prefix.rs` | what a restart asks of files that the prefix has of a cached dataset |
//! | `replicate.rs` | small files of other nodes, copied to every node |

mod alike;
pub(super) mod claims;
pub(super) mod decide;
mod distribute;
pub(super) mod identity;
pub(super) mod on_prefix;
pub(super) mod protect_anew;
pub(crate) mod rebuild;
pub(super) mod recheck;
pub(super) mod recover;
pub(super) mod replicate;
pub(super) mod survey;
