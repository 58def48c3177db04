//! `scr sim`: a cluster of virtual nodes on this machine, to try things with and to test with.
//!
//! Each node has its own host name, `/dev/shm`, `/tmp`, processes and network, all made of kernel
//! namespaces, and can die as a whole. Everything else (programs, home, the parallel file system)
//! is shared. Nodes are reached by a remote shell of our own, with a clean environment. An ordinary
//! user's cluster lives in a user namespace, see [`ordinary`].

mod keeper;
mod launch;
pub mod namespace;
mod node;
mod ordinary;
mod places;
mod plan;
mod state;

use std::fmt::Write as _;
use std::os::fd::RawFd;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use scr_core::error::{Error, Result};

use launch::Mpi;
use plan::Plan;
use state::State;

use crate::base::say;

/// How long the end of a node may take: a process of it that waits for a busy disk ends only after
/// that, which has taken more than 20 s.
const END_SECONDS_MAX: u64 = 120;

#[derive(Debug, clap::Args)]
pub struct Sim {
    /// Which cluster, if there are several
    #[arg(long, default_value = "scr", env = "SCR_SIM", global = true)]
    name: String,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Start a cluster
    Start(Plan),
    /// Run an MPI program on the nodes that are up
    Run {
        /// The MPI that the program was built with
        #[arg(long, value_enum, default_value = "openmpi")]
        mpi: Mpi,
        /// Number of ranks
        #[arg(short, long)]
        n: usize,
        /// On these nodes, as in node1,node2
        #[arg(long, value_delimiter = ',')]
        nodes: Vec<String>,
        /// The program and its arguments
        #[arg(trailing_var_arg = true, required = true)]
        program: Vec<String>,
    },
    /// Run any command on the head, mpirun set up for the nodes; or on a node
    Exec {
        /// On this node, with a clean environment
        #[arg(long, value_name = "NODE")]
        on: Option<String>,
        /// The program and its arguments
        #[arg(trailing_var_arg = true, required = true)]
        program: Vec<String>,
    },
    /// Kill nodes: their processes and memory are gone at once
    Kill {
        /// As in node3
        #[arg(required = true)]
        nodes: Vec<String>,
    },
    /// List the nodes
    Status,
    /// End the cluster and remove all that it left
    Stop,
    /// What mpirun calls instead of ssh
    #[command(hide = true)]
    Agent {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    #[command(hide = true)]
    Keeper {
        #[command(flatten)]
        plan: Plan,
        #[arg(long)]
        owner_descriptor: Option<RawFd>,
    },
    #[command(hide = true)]
    Node {
        #[command(flatten)]
        plan: Plan,
        #[arg(long)]
        hostname: String,
    },
}

pub fn run(sim: &Sim) -> ExitCode {
    act(sim).unwrap_or_else(|error| say::fail("sim", &error, 1))
}

fn act(sim: &Sim) -> Result<ExitCode> {
    let state = State::named(&sim.name)?;
    if !matches!(
        sim.action,
        Action::Start(_) | Action::Stop | Action::Keeper { .. } | Action::Node { .. }
    ) {
        state.require_running()?;
        ordinary::enter(state.keeper()?)?;
    }
    let code = match &sim.action {
        Action::Start(plan) => start(&state, plan)?,
        Action::Run { mpi, n, nodes, program } => launch::run(&state, *mpi, *n, nodes, program)?,
        Action::Exec { on: Some(node), program } => launch::exec_on_node(&state, node, program)?,
        Action::Exec { on: None, program } => launch::exec_on_head(&state, program, &[])?,
        Action::Kill { nodes } => kill(&state, nodes)?,
        Action::Status => status(&state)?,
        Action::Stop => stop(&state)?,
        Action::Agent { words } => launch::agent(&state, words)?,
        Action::Keeper { plan, owner_descriptor } => {
            keeper::keep(&state, plan, *owner_descriptor).map(|()| 0)?
        }
        Action::Node { plan, hostname } => node::live(&state, plan, hostname).map(|()| 0)?,
    };
    Ok(ExitCode::from(code))
}

fn start(state: &State, plan: &Plan) -> Result<u8> {
    if plan.nodes == 0 || plan.nodes + plan.spare > state::MAX_NODES {
        return Err(Error::Refused(format!("1 to {} nodes", state::MAX_NODES)));
    }
    keeper::start(state, &plan.started_here()?)?;
    status(state)
}

fn status(state: &State) -> Result<u8> {
    let (mut text, wanted) = (String::new(), state.wanted()?);
    for (index, node) in state.nodes()?.iter().enumerate() {
        let spare = if index >= wanted { ", spare" } else { "" };
        let word = if node.alive { "up" } else { "dead" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:8} {:12} {word}{spare}", node.name, node.address);
    }
    let printed = say::print(&text);
    Ok(u8::from(printed != ExitCode::SUCCESS))
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(END_SECONDS_MAX);
    while !done() {
        if Instant::now() > deadline {
            return Err(Error::Refused(format!("{what}: not after {END_SECONDS_MAX} s")));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn kill_command(pids: &[u32]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "kill -9 \"$@\"", "kill"]).args(pids.iter().map(u32::to_string));
    command
}

fn kill(state: &State, names: &[String]) -> Result<u8> {
    let nodes = names.iter().map(|name| state.node(name)).collect::<Result<Vec<_>>>()?;
    let pids: Vec<u32> = nodes.iter().filter(|node| node.alive).map(|node| node.pid).collect();
    if !pids.is_empty() {
        launch::on_head(state, kill_command(&pids))?;
    }
    let dead = |name: &String| state.node(name).is_ok_and(|node| !node.alive);
    wait_until("a node does not die", || names.iter().all(dead))?;
    Ok(0)
}

fn stop(state: &State) -> Result<u8> {
    if state.is_running() {
        use std::os::fd::AsRawFd;
        let keeper = state.keeper()?;
        let end = namespace::watch(keeper)
            .map_err(|e| Error::io("cannot watch the process", keeper.to_string(), e))?;
        kill_command(&[keeper]).status().map_err(|e| Error::io("cannot run", "sh", e))?;
        // Its end is reported when all processes of the cluster are gone, not earlier.
        namespace::wait_for_end(end.as_raw_fd());
    }
    state.remove()?;
    Ok(0)
}
