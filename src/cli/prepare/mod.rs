//! What is read or called before a run.

pub mod config;
pub mod explain;
pub mod learn;
