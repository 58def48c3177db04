//! Brings what a job that died has left in the caches of its nodes to its prefix.

mod after_launch;
pub mod copy;
pub mod rebuild;
pub mod saved;
pub mod scavenge;
pub mod transfer;
