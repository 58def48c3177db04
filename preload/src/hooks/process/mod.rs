//! The process: its children, its signals, its end.

mod children;
mod ending;
pub(super) mod environment;
pub(super) mod file_actions;
pub(super) mod programs;
mod signals;
