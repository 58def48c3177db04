//! `scr test-runtime`: whether what SCR needs is there (manual 1.1, section 11.3.2).

use std::path::Path;
use std::process::ExitCode;

use scr_core::error::Result;
use scr_core::operations::run::find;
use scr_core::operations::{directory_fault, wanted_directories};
use serde_json::json;

use crate::base::job::{can_run, shell};
use crate::base::say;
use crate::base::settings::load_settings;

#[derive(clap::Args)]
#[command(after_help = "\
Looks for the shim and the engine beside this program, the command that reaches other nodes \
(SCR_REMOTE_SHELL), and the directories of control and cache. The exit status is 0 if all are \
there, 1 if something is missing, 2 if the settings are wrong. Example:\n
    scr test-runtime || exit 1")]
pub struct Args {
    /// As JSON: a list of objects with what, and fault if something is wrong.
    #[arg(long)]
    json: bool,
}

type Look = (String, Option<String>);

pub fn run(args: &Args) -> ExitCode {
    let looks = match looks() {
        Ok(looks) => looks,
        Err(error) => return say::fail("test-runtime", &error, 2),
    };
    let line = |(what, fault): &Look| match fault {
        None => format!("{what}: there\n"),
        Some(fault) => format!("{what}: {fault}\n"),
    };
    let text = match args.json {
        true => {
            let all: Vec<_> =
                looks.iter().map(|(what, fault)| json!({ "what": what, "fault": fault })).collect();
            format!("{:#}\n", json!(all))
        }
        false => looks.iter().map(line).collect(),
    };
    let printed = say::print(&text);
    if looks.iter().all(|(_, fault)| fault.is_none()) { printed } else { ExitCode::FAILURE }
}

fn looks() -> Result<Vec<Look>> {
    let (settings, environment) = load_settings(None)?;
    let program = std::env::current_exe().unwrap_or_default();
    let lib = program.parent().unwrap_or(Path::new("/")).join("../lib");
    let missing = |path: &Path| (!path.is_file()).then(|| format!("{} is missing", path.display()));
    let mut looks = vec![("the shim".to_owned(), missing(&lib.join("libscr_preload.so")))];
    looks.push(("the engine".to_owned(), missing(&lib.join("libscr.so"))));
    let shell = shell(&settings, &environment, &*find(&environment, None));
    let words = shell.command("host", &["true".to_owned()]);
    let command = words.first().cloned().unwrap_or_default();
    let fault = (!can_run(&command)).then(|| "it cannot be run".to_owned());
    looks.push((format!("the command to other nodes ({command})"), fault));
    for wanted in wanted_directories(&settings)? {
        let what = format!("the directory {}", wanted.path.display());
        looks.push((what, directory_fault(&wanted, false)));
    }
    Ok(looks)
}
