//! What `scr run` is made of: when it starts a run again, on which nodes, by which command line.
//! The processes themselves are the command's.
//!
//! | file | job |
//! |---|---|
//! | `policy.rs` | when a run is started again: a pure machine |
//! | `manager.rs` | resource managers: nodes, end time, what is down |
//! | `hosts.rs` | nodes as they are written down |
//! | `nodes.rs` | which nodes are healthy |
//! | `command.rs` | command lines of launchers |
//! | `latest.rs` | the newest checkpoint, for programs that have to be told |
//! | `reach.rs` | commands on all nodes of a run |
//! | `commands.rs` | commands of others, run within a time |

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
