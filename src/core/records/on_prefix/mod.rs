//! What lies on the prefix of its datasets: the index, the flush file, a summary of each.

pub mod classic;
pub(super) mod flush_state;
pub(super) mod index_entry;
pub(super) mod prefix_index;
pub(super) mod summary;
