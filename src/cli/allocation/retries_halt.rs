//! `scr retries-halt`: whether a script may start the run again (manual 1.1, section 11.3.4).

use std::path::PathBuf;
use std::process::ExitCode;

use scr_core::error::Result;
use scr_core::operations::run::{Real, find};
use scr_core::operations::{read_halt_file, read_nodes};
use scr_core::params::keys;
use scr_core::system::unix_seconds;
use serde_json::json;

use crate::allocation::down_nodes::down;
use crate::base::job::hosts;
use crate::base::say;
use crate::base::settings::{load_settings, prefix_or_default};

#[derive(clap::Args)]
#[command(after_help = "\
The exit status is 0 if the run is to halt, and the reason is printed; 1 if not; 2 if the halt \
file cannot be read. --json prints an object with halt (true or false) and reason. Example:\n
    until srun ./app || scr retries-halt; do sleep 60; done")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(short, long, alias = "dir", value_name = "DIRECTORY")]
    prefix: Option<PathBuf>,
    /// Also if the allocation has too few healthy nodes for a run, or too little time.
    #[arg(long)]
    allocation: bool,
    /// Nodes that are known to be down.
    #[arg(long, value_name = "HOSTS", requires = "allocation")]
    down: Option<String>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> ExitCode {
    match reason(args) {
        Ok(reason) => {
            let reason = reason.as_deref();
            let printed = match (args.json, reason) {
                (true, reason) => {
                    let answer = json!({ "halt": reason.is_some(), "reason": reason });
                    say::print(&format!("{answer:#}\n"))
                }
                (false, Some(reason)) => say::print(&format!("{reason}\n")),
                (false, None) => ExitCode::SUCCESS,
            };
            if reason.is_some() { printed } else { ExitCode::FAILURE }
        }
        Err(error) => say::fail("retries-halt", &error, 2),
    }
}

fn reason(args: &Args) -> Result<Option<String>> {
    let prefix = prefix_or_default(args.prefix.as_deref());
    let mut file = read_halt_file(&prefix)?;
    if !args.allocation {
        return Ok(file.due(unix_seconds()).map(str::to_owned));
    }
    let (settings, environment) = load_settings(prefix.to_str())?;
    let manager = find(&environment, None);
    let end = settings.get_optional(keys::END_TIME);
    let end = end.or_else(|| manager.end_time(&Real, unix_seconds()));
    file.add_settings(settings.get(keys::HALT_SECONDS).as_secs(), end);
    if let Some(reason) = file.due(unix_seconds()) {
        return Ok(Some(reason.to_owned()));
    }
    if manager.name() == "none" && settings.get_optional(keys::NODELIST).is_none() {
        return Ok(None);
    }
    let all = hosts(&settings, &*manager, None)?.len() as u64;
    let healthy = all.saturating_sub(down(args.down.clone())?.len() as u64);
    let needed = match settings.get_optional(keys::MIN_NODES) {
        Some(needed) => needed,
        None => read_nodes(&prefix)?.unwrap_or(all),
    };
    let why = || format!("{healthy} healthy nodes, and a run needs {needed} (SCR_MIN_NODES)");
    Ok((healthy < needed).then(why))
}
