//! What a conference decides, from shared state and the votes alone.

pub mod adopt;
pub mod doubts;
pub mod entry;
pub mod evict;
pub mod flush;
pub mod seal;
pub mod votes;
