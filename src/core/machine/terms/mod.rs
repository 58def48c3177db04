//! The words that the machine and its callers have in common. Nothing here changes by itself.

pub mod answers;
pub mod config;
pub mod habit;
pub mod keys;
pub mod knowledge;
pub mod names;
pub mod reason;
pub mod report;
pub mod restart;
pub mod steps;
mod wire;
