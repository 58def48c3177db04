//! `scr doctor`: why checkpoints are not protected, with the line to type for each finding.
//!
//! The rest is in `core/operations/doctor/`.

mod install;
mod program;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use scr_core::operations::doctor::{
    Finding, Level, LookedSettings, look_at_past, look_at_prefix, look_at_settings, look_at_stores,
};
use scr_core::operations::read_status;
use scr_core::params::{Environment, Inputs, SYSTEM_FILE, keys, read_environment};
use scr_core::records::Zone;
use serde_json::{Value, json};

use program::Command;

use crate::base::say;
use crate::base::settings::prefix_or_default;
use crate::base::words::counted;

#[derive(clap::Args)]
#[command(after_help = "\
Looks at the settings, the patterns, the prefix, this node's directories, the shim and the \
engine, the program if it is named, and at what the last run has recorded. Nothing is changed; \
the program is not run. Each finding is a fault, which is to be repaired, or advice, and has the \
line to type. --json prints an object with faults (their number) and findings: a list of objects \
with id, level, what and cure. The exit status is 0 if no fault was found; 1 if one was; 2 if an \
argument is wrong. Examples:\n
    scr doctor                               in the directory of the run
    scr doctor -- mpirun -n 4 ./app          before it is started")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(long, alias = "dir", value_name = "DIRECTORY")]
    prefix: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// How the program is started, or the program alone.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub fn run(args: &Args) -> ExitCode {
    let mut findings = findings(args);
    // Faults first; of each kind those that the others may follow from stand first already.
    findings.sort_by_key(|one| one.level);
    let faults = findings.iter().filter(|one| one.level == Level::Fault).count();
    let printed = match args.json {
        true => say::print(&format!("{:#}\n", in_json(&findings, faults))),
        false => say::print(&in_words(&findings, faults)),
    };
    if faults == 0 { printed } else { ExitCode::FAILURE }
}

fn findings(args: &Args) -> Vec<Finding> {
    let (environment, problems) = read_environment(std::env::vars_os());
    let mut found: Vec<Finding> = problems
        .iter()
        .map(|problem| Finding::fault("variable-not-text", problem, "env | grep -a SCR_"))
        .collect();
    let command = Command::new(&args.command);
    let program = command.look();
    found.extend(program.findings);
    found.extend(install::look(&environment, &command));
    found.extend(of_settings(args.prefix.as_deref(), environment, program.calls));
    found
}

fn of_settings(named: Option<&Path>, mut environment: Environment, calls: bool) -> Vec<Finding> {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    if let Some(named) = named {
        environment.insert("SCR_PREFIX".into(), named.to_string_lossy().into_owned());
    }
    let LookedSettings { mut findings, settings } = look_at_settings(
        &Inputs {
            environment: &environment,
            working_directory: &here,
            system_file: Path::new(SYSTEM_FILE),
            program: &[],
        },
        calls,
    );
    let prefix = match &settings {
        Some(settings) => settings.get(keys::PREFIX),
        None => here.join(prefix_or_default(named)),
    };
    findings.extend(look_at_prefix(&prefix));
    if let Some(settings) = &settings {
        findings.extend(look_at_stores(settings, &environment));
    }
    findings.extend(look_at_past(&prefix, &read_status(&prefix), &Zone::new(&environment)));
    findings
}

fn in_words(findings: &[Finding], faults: usize) -> String {
    let advice = findings.len() - faults;
    let mut text = match (faults, advice) {
        (0, 0) => return "nothing was found that is wrong\n".to_owned(),
        (_, 0) => format!("{}\n", counted(faults, "fault")),
        (_, _) => format!("{}, {}\n", counted(faults, "fault"), counted(advice, "hint")),
    };
    for one in findings {
        let Finding { id, level, what, cure } = one;
        text += &format!("\n{} ({id}): {what}\n    {cure}\n", level.text());
    }
    text
}

fn in_json(findings: &[Finding], faults: usize) -> Value {
    let one = |one: &Finding| {
        let level = one.level.text();
        json!({ "id": one.id, "level": level, "what": one.what, "cure": one.cure })
    };
    json!({ "faults": faults, "findings": findings.iter().map(one).collect::<Vec<_>>() })
}
