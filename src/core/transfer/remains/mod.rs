//! What another job has left: its cache, what a person has copied, older prefixes.
//!
//! | file | job |
//! |---|---|
//! | `other_size.rs` | the cache of a run with another number of ranks |
//! | `gather.rs` | the same from directories that a person has copied |
//! | `older.rs` | directories of version 1.1, prefixes of the C implementation |

pub(super) mod gather;
pub(super) mod older;
pub(super) mod other_size;
pub(super) mod parts;
