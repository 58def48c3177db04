//! What a run's prefix has: its index, its files, its log.

pub mod flush_file;
pub mod index;
pub mod log;
pub mod print;
