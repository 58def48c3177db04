//! Memory that processes of a node share.

pub(super) mod log_memory;
pub(super) mod shared_bytes;
pub(super) mod shared_log;
