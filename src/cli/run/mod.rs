//! `scr run`: runs an MPI program under SCR, and starts it again after a failure on the healthy
//! nodes of the allocation (`scr_run`, `scr_srun` of manual 1.1, section 11.3.1).
//!
//! | file | job |
//! |---|---|
//! | `setup.rs` | what is checked and found out before the first launch |
//! | `drive.rs` | the loop: asks the policy, does what it says |
//! | `step.rs` | one launch: its process, signals, the watchdog |

mod drive;
mod setup;
mod step;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use scr_core::log::messages::Id;

pub use setup::{preload, shim};

/// Arguments of `scr run`.
#[derive(clap::Args)]
#[command(after_help = "\
The exit status is that of the program: of its last launch, 128 and the signal's number if one \
killed it; 1 if there was no launch. SCR_RUNS, SCR_MIN_NODES, SCR_EXCLUDE_NODES, SCR_NODELIST, \
SCR_NODE_TESTS, SCR_RETRIES, SCR_REMOTE_SHELL and SCR_WATCHDOG_TIMEOUT count from the environment \
and from the configuration file. In the words of the program {latest} is replaced by the name of \
the newest checkpoint (checkpoint.20), {latest_id} by its id (20), {nodes} by the list of healthy \
nodes; SCR_LATEST_NAME and SCR_LATEST_PATH are in its environment. \
Examples:\n
    scr run -- mpirun -n 8 ./app                  once, under SCR
    scr run --runs 4 -- srun -N 4 -n 8 ./app      in an allocation of 5 nodes: one is a spare
    scr run --runs -1 --nodes 4 --hostfile hosts -- mpirun -n 8 ./app
    scr run --runs 3 --restart-command 'mpirun ./app --from {latest_id}' -- mpirun ./app")]
pub struct Args {
    /// Launches in all, the first included; -1: as many as it takes. SCR_RUNS by default.
    #[arg(short, long, value_name = "N", allow_hyphen_values = true)]
    runs: Option<i64>,
    /// Use so many nodes; the others of the allocation are spares. By default as many as the line
    /// of srun or flux run asks for (-N 4).
    #[arg(short = 'N', long, value_name = "N")]
    nodes: Option<usize>,
    /// Healthy nodes that a launch needs. By default SCR_MIN_NODES, else --nodes, else as many as
    /// the launch before had, else all of the allocation.
    #[arg(short, long, value_name = "N")]
    min_nodes: Option<usize>,
    /// Never use these nodes, as `node[3,7]`.
    #[arg(short = 'x', long, value_name = "HOSTS")]
    exclude: Option<String>,
    /// The nodes of the allocation, if no resource manager knows them.
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
    /// Seconds between the end of a launch and the next.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pause: Duration,
    /// The command for launches that have a checkpoint to go on from.
    #[arg(long, value_name = "COMMAND")]
    restart_command: Option<String>,
    /// Leave in the nodes' caches what only they have after the last run (see scr scavenge).
    #[arg(long)]
    no_scavenge: bool,
    /// The program calls SCR itself: leave the shim out.
    #[arg(long)]
    api: bool,
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(long, value_name = "DIRECTORY")]
    prefix: Option<String>,
    /// The launcher, its options, the program and its arguments.
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| format!("{text} is no number of seconds"))?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}

/// Runs the tool.
pub fn run(args: &Args) -> ExitCode {
    let outcome = setup::Setup::new(args).and_then(drive::drive);
    outcome.map_or_else(
        |error| {
            crate::complain("run", &error);
            ExitCode::FAILURE
        },
        ExitCode::from,
    )
}

/// A line about what went wrong, which the message `id` explains.
fn warn(id: Id, text: &str) {
    crate::tell("run", id, text);
}

/// A line for people. Standard output is the program's.
fn say(text: &str) {
    crate::narrate("run", text);
}
