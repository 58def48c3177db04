//! `scr retries-halt`: whether a script may start the run again (000 section 11.3.4).

use std::path::PathBuf;
use std::process::ExitCode;

use scr_core::operations::read_halt_file;
use scr_core::system::unix_seconds;
use serde_json::json;

/// Arguments of `scr retries-halt`.
#[derive(clap::Args)]
#[command(after_help = "\
The exit status is 0 if the run is to halt, and the reason is printed; 1 if not; 2 if the halt \
file cannot be read. --json prints an object with halt (true or false) and reason. Example:\n
    until srun ./app || scr retries-halt; do sleep 60; done")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(long, alias = "dir", value_name = "DIRECTORY")]
    prefix: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the tool.
pub fn run(args: &Args) -> ExitCode {
    match read_halt_file(&crate::prefix_or_default(args.prefix.as_deref())) {
        Ok(file) => {
            let reason = file.due(unix_seconds());
            let printed = match (args.json, reason) {
                (true, reason) => {
                    let answer = json!({ "halt": reason.is_some(), "reason": reason });
                    crate::print(&format!("{answer:#}\n"))
                }
                (false, Some(reason)) => crate::print(&format!("{reason}\n")),
                (false, None) => ExitCode::SUCCESS,
            };
            if reason.is_some() { printed } else { ExitCode::FAILURE }
        }
        Err(error) => {
            crate::complain("retries-halt", &error);
            ExitCode::from(2)
        }
    }
}
