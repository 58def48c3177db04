//! What every tool uses.

#[macro_use]
pub mod say;

pub mod job;
pub mod process;
pub mod progress;
pub mod settings;
pub mod words;
