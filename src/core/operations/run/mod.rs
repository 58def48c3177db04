//! What `scr run` is made of: when it starts a run again, on which nodes, by which command line.
//! The processes themselves are the command's.

mod command;
mod commands;
mod hosts;
mod latest;
mod manager;
mod nodes;
mod policy;
pub(super) mod reach;

pub use command::{Launcher, LauncherLine, slurm_variables};
pub use commands::{Commands, Real};
pub use hosts::{RunHost, hostfile};
pub use latest::{Latest, latest};
pub use manager::{Manager, Shell, find, quoted};
pub use nodes::{RunNodes, Test, is_same_host};
pub use policy::{Action, End, Limits, Policy, RunNews, Stop};
