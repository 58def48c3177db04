//! What a job has left in the caches of its nodes, brought to the prefix.

pub(super) mod rebuild;
pub(super) mod salvage;
pub(super) mod scavenge;
