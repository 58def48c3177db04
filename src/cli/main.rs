//! The `scr` command: one file for each tool, and this dispatch.

mod config;
mod sim;
mod transfer;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Scalable Checkpoint/Restart: look at, set up and repair what runs leave behind.
#[derive(Parser)]
#[command(name = "scr", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand)]
enum Tool {
    /// List the parameters, explain their values, or write a template of the config file.
    Config(config::Args),
    /// Make a cluster of virtual nodes on this machine, run programs on it, and let nodes die.
    Sim(sim::Sim),
    /// On a node: bring flushes to their end that a run has left under way.
    Transfer(transfer::Args),
}

fn main() -> ExitCode {
    match Cli::parse().tool {
        Tool::Config(args) => config::run(&args),
        Tool::Sim(args) => sim::run(&args),
        Tool::Transfer(args) => transfer::run(&args),
    }
}

/// Prints a tool's result. Whoever stops reading (`scr config | head`) has what they wanted.
fn print(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("scr: cannot write: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
