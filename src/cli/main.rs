//! The `scr` command: one file for each tool, and this dispatch.

mod config;

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
}

fn main() -> ExitCode {
    match Cli::parse().tool {
        Tool::Config(args) => config::run(&args),
    }
}
