//! The shim's few messages: one line on standard error, from one process per cause.

use std::io::Write;

use scr_abi::messages::Id;

const RANK_VARIABLES: [&str; 5] =
    ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MPIRUN_RANK", "SLURM_PROCID"];

/// Speaks only on rank 0, or in a process that knows no rank.
pub(crate) fn complain(id: Id, text: &str) {
    if rank().is_none_or(|rank| rank == "0") {
        say(id, text);
    }
}

pub(crate) fn rank() -> Option<String> {
    RANK_VARIABLES.iter().find_map(|name| std::env::var(name).ok())
}

pub(crate) fn say(id: Id, text: &str) {
    // As in the engine (`src/core/log`): names neither end the line nor command the terminal.
    let quoted = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    let line = format!("SCR: {}\n", id.close(text).chars().map(quoted).collect::<String>());
    // One write, so that lines of several processes do not mix. Nobody to tell if it fails.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
