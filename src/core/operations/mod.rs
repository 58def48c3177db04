//! What the commands do: without ranks, without a session, each usable by itself.

mod halt;
mod hosts;
mod inspect;

pub use halt::{HaltCondition, HaltWish, change_halt_file, read_halt_file};
pub use hosts::HostList;
pub use inspect::{Inspected, inspect_file};
