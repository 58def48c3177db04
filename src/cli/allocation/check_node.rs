//! `scr check-node`: whether this node is fit for a job (manual 1.1, section 11.2.3).

use std::path::PathBuf;
use std::process::ExitCode;

use scr_core::operations::{Wanted, directory_fault, wanted_directories};
use scr_core::params::parse_bytes;
use serde_json::{Value, json};

use crate::base::say;
use crate::base::settings::load_settings;

#[derive(clap::Args)]
#[command(after_help = "\
Each directory has to be there, and a file has to fit into it. scr down-nodes runs this on each \
node. Prints \"PASS\", or a line \"FAIL: \" with the reason for each that is no good. The exit \
status is 0 if all are well, 1 if not, 2 if the arguments or settings are wrong. --json prints a \
list of objects with directory, and fault if it is no good. Example:\n
    scr check-node --free /dev/shm=4GB /ssd")]
pub struct Args {
    /// The capacity has to be free; by default the file system has to be so large.
    #[arg(long)]
    free: bool,
    /// Exit with 0 also if a directory is no good: what is printed tells.
    #[arg(long)]
    exit_zero: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// Directories, with the bytes that they have to have room for; the control and cache
    /// directories of the settings by default, with the capacity of their STORE lines.
    #[arg(value_name = "DIRECTORY[=BYTES]", value_parser = wanted)]
    directories: Vec<Wanted>,
}

fn wanted(text: &str) -> Result<Wanted, String> {
    let (path, capacity) = match text.rsplit_once('=') {
        Some((path, bytes)) => (path, Some(parse_bytes(bytes)?)),
        None => (text, None),
    };
    match path.starts_with('/') {
        true => Ok(Wanted { path: PathBuf::from(path), capacity_bytes: capacity }),
        false => Err("the path has to begin with /".to_owned()),
    }
}

pub fn run(args: &Args) -> ExitCode {
    let all = match args.directories.is_empty() {
        false => Ok(args.directories.clone()),
        true => load_settings(None).and_then(|(settings, _)| wanted_directories(&settings)),
    };
    let all = match all {
        Ok(all) => all,
        Err(error) => return say::fail("check-node", &error, 2),
    };
    let looks: Vec<(&Wanted, Option<String>)> =
        all.iter().map(|one| (one, directory_fault(one, args.free))).collect();
    let faults: String = looks
        .iter()
        .filter_map(|(_, fault)| Some(format!("FAIL: {}\n", fault.as_ref()?)))
        .collect();
    let text = match (args.json, &*faults) {
        (true, _) => {
            let one = |(wanted, fault): &(&Wanted, Option<String>)| {
                let directory = wanted.path.to_string_lossy();
                json!({ "directory": directory, "fault": fault })
            };
            format!("{:#}\n", Value::Array(looks.iter().map(one).collect()))
        }
        (false, "") => "PASS\n".to_owned(),
        (false, lines) => lines.to_owned(),
    };
    let printed = say::print(&text);
    if faults.is_empty() || args.exit_zero { printed } else { ExitCode::FAILURE }
}
