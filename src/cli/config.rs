//! `scr config`: the parameters, their values and where these come from.

use std::process::ExitCode;

/// Arguments of `scr config`.
#[derive(clap::Args)]
pub struct Args {
    /// Print a config file with every parameter, commented, as `config/scr.conf`.
    #[arg(long)]
    template: bool,
    /// Show each value that is in force, its source, and what it overrode.
    #[arg(long, conflicts_with = "template")]
    explain: bool,
}

/// Runs the tool.
pub fn run(args: &Args) -> ExitCode {
    let _ = (args.template, args.explain);
    ExitCode::SUCCESS
}
