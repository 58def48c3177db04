//! `scr nodes`: how many nodes the last run used (manual 1.1, section 9.6).

use std::path::PathBuf;
use std::process::ExitCode;

use scr_core::log::messages;
use scr_core::operations::read_nodes_file;
use serde_json::json;

use crate::base::say;
use crate::base::settings::prefix_or_default;

#[derive(clap::Args)]
#[command(after_help = "\
--json prints an object with nodes (their number), hosts (a list of names) and job. The exit \
status is 0; 1 if no run has been started there; 2 if the nodes file cannot be read. Example:\n
    scr nodes --prefix /pfs/me/run")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(long, alias = "dir", value_name = "DIRECTORY")]
    prefix: Option<PathBuf>,
    /// As JSON, with the names of the nodes.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> ExitCode {
    let prefix = prefix_or_default(args.prefix.as_deref());
    match read_nodes_file(&prefix) {
        Ok(Some(file)) if args.json => {
            let hosts: Vec<&String> = file.hosts.keys().collect();
            let job = Some(&file.job).filter(|job| !job.is_empty());
            let all = json!({ "nodes": file.nodes, "hosts": hosts, "job": job });
            say::print(&format!("{all:#}\n"))
        }
        Ok(Some(file)) => say::print(&format!("{}\n", file.nodes)),
        Ok(None) => {
            let text = format!("no run has been started in {}", prefix.display());
            say::tell("nodes", messages::NOT_THERE, &text);
            ExitCode::FAILURE
        }
        Err(error) => say::fail("nodes", &error, 2),
    }
}
