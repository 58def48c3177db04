//! `scr nodes`: how many nodes the last run used (000 section 9.6).

use std::path::PathBuf;
use std::process::ExitCode;

use scr_core::operations::read_nodes;

/// Arguments of `scr nodes`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n\n    scr nodes --prefix /pfs/me/run")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(long, alias = "dir", value_name = "DIRECTORY")]
    prefix: Option<PathBuf>,
}

/// Prints the number; fails if no run has left one.
pub fn run(args: &Args) -> ExitCode {
    let prefix = super::prefix_or_default(args.prefix.as_deref());
    match read_nodes(&prefix) {
        Ok(Some(nodes)) => super::print(&format!("{nodes}\n")),
        Ok(None) => {
            eprintln!("scr nodes: no run has been started in {}", prefix.display());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("scr nodes: {error}");
            ExitCode::FAILURE
        }
    }
}
