//! `scr retries-halt`: whether a script may start the run again (000 section 11.3.4).

use std::path::PathBuf;
use std::process::ExitCode;

use scr_core::operations::read_halt_file;
use scr_core::system::unix_seconds;

/// Arguments of `scr retries-halt`.
#[derive(clap::Args)]
#[command(after_help = "\
The exit status is 0 if the run is to halt, and the reason is printed; 1 if not; 2 if the halt \
file cannot be read. Example:\n
    until srun ./app || scr retries-halt; do sleep 60; done")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(long, alias = "dir", value_name = "DIRECTORY")]
    prefix: Option<PathBuf>,
}

/// Runs the tool.
pub fn run(args: &Args) -> ExitCode {
    match read_halt_file(&crate::prefix_or_default(args.prefix.as_deref())) {
        Ok(file) => match file.due(unix_seconds()) {
            Some(reason) => crate::print(&format!("{reason}\n")),
            None => ExitCode::FAILURE,
        },
        Err(error) => {
            eprintln!("scr retries-halt: {error}");
            ExitCode::from(2)
        }
    }
}
