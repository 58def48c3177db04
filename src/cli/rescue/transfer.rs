//! `scr transfer`: brings flushes to their end that a run has left on this node, once or as a
//! process that waits for them (`scr_transfer` of manual 1.1, section 9.7).

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use scr_core::log::messages;
use scr_core::operations::{Finished, command_transfers, finish_transfers, serve_transfers};
use scr_core::records::TransferCommand;
use scr_core::transfer::{Completed, Staged};
use serde_json::{Value, json};

use crate::base::settings::load_settings_in;
use crate::base::{progress, say};

#[derive(clap::Args)]
#[command(after_help = "\
A flush in the background (SCR_FLUSH_ASYNC=1) that was under way when the program ended goes on \
from the node's transfer file and cache. Run it once on each node of the job, in \
any order, at the same time or not, with the environment of the run; the last one enters the \
checkpoint into the index. No more than SCR_FLUSH_WIDTH nodes copy at a time, the others wait. A \
new start of the program does the same by itself, and stops an \
`scr transfer` that is still at work. With --daemon it stays, and does so after each run, until \
`scr transfer --command exit` on the node. The exit status is 0, 1 if something could not be \
copied or a live run uses the node, 2 if an argument is wrong. Example, in a batch script after \
the program:\n
    srun --ntasks-per-node=1 scr transfer --prefix /pfs/me/run")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(long, value_name = "DIRECTORY")]
    prefix: Option<String>,
    /// Keep to SCR_FLUSH_ASYNC_BW and SCR_FLUSH_ASYNC_PERCENT of the run.
    #[arg(long)]
    limits: bool,
    /// Wait for flushes and bring each to its end, within the limits of the run.
    #[arg(long, conflicts_with = "limits")]
    daemon: bool,
    /// Seconds between two looks of --daemon.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    interval: f64,
    /// Tell the scr transfer that is at work on this node what to do.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["daemon", "limits"])]
    command: Option<Wish>,
    /// The job's control directory, in place of SCR_CNTL_BASE, SCR_USER_NAME and SCR_JOB_ID.
    #[arg(long, value_name = "DIRECTORY")]
    cntldir: Option<PathBuf>,
    /// As JSON; with --daemon one object a line.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Wish {
    /// Go on.
    Run,
    /// Copy nothing until it is told to go on.
    Stop,
    /// End.
    Exit,
}

fn interval(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    number.filter(|one| (0.01..=3600.0).contains(one)).ok_or_else(|| "0.01 to 3600".to_owned())
}

pub fn run(args: &Args) -> ExitCode {
    let loaded = load_settings_in(args.prefix.as_deref(), args.cntldir.as_deref(), &[]);
    let (settings, environment) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return fail(&error.to_string()),
    };
    if let Some(wish) = args.command {
        let command = match wish {
            Wish::Run => TransferCommand::Run,
            Wish::Stop => TransferCommand::Stop,
            Wish::Exit => TransferCommand::Exit,
        };
        return match command_transfers(&settings, &environment, command) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => fail("the job has no transfer file on this node"),
            Err(error) => fail(&error.to_string()),
        };
    }
    if args.daemon {
        let pause = Duration::from_secs_f64(args.interval);
        let mut tell = |outcome: Result<&Finished, &str>| match outcome {
            Ok(done) => drop(show(done, args.json, true)),
            Err(error) => drop(fail(error)),
        };
        let served = serve_transfers(&settings, &environment, pause, &mut tell);
        return served.map_or_else(|error| fail(&error.to_string()), |()| ExitCode::SUCCESS);
    }
    let shown = progress::show("transfer");
    let outcome = finish_transfers(&settings, &environment, args.limits);
    drop(shown);
    match outcome {
        Ok(done) => show(&done, args.json, false),
        Err(error) => fail(&error.to_string()),
    }
}

/// Prints what was done: for people, or `as_json`, on one line if there will be `more`.
fn show(done: &Finished, as_json: bool, more: bool) -> ExitCode {
    let (staged, completed) = match done {
        Finished::Busy(holder) => {
            return fail(&format!("a live run uses this node ({holder}); it flushes by itself"));
        }
        Finished::Done { staged, completed } => (staged, completed),
    };
    let mut troubles = staged.troubles.clone();
    if let Ok(completed) = completed {
        troubles.extend(completed.troubles.iter().cloned());
    }
    let text = match (as_json, more) {
        (true, true) => format!("{}\n", in_json(staged, completed.as_ref(), &troubles)),
        (true, false) => format!("{:#}\n", in_json(staged, completed.as_ref(), &troubles)),
        (false, _) => in_words(staged, completed.as_ref()),
    };
    let printed = say::print(&text);
    troubles.iter().fold(printed, |_, trouble| fail(trouble))
}

fn in_words(staged: &Staged, completed: Result<&Completed, &String>) -> String {
    let mut text = String::new();
    if staged.files > 0 {
        text += &format!("{} files copied from this node\n", staged.files);
    }
    match completed {
        Err(holder) => text += &format!("the index is left to whom uses the prefix ({holder})\n"),
        Ok(completed) => {
            for name in &completed.done {
                text += &format!("{name} is on the prefix\n");
            }
            for (name, nodes) in &completed.waiting {
                text += &format!("{name} waits for {nodes} nodes: run scr transfer there\n");
            }
        }
    }
    if staged.stopped {
        text += "stopped: it was told to, or a new run of the program goes on\n";
    }
    text
}

fn in_json(staged: &Staged, completed: Result<&Completed, &String>, troubles: &[String]) -> Value {
    let waiting = |one: &(String, usize)| json!({ "name": one.0, "nodes": one.1 });
    json!({
        "files": staged.files,
        "stopped": staged.stopped,
        "published": completed.map(|one| one.done.clone()).unwrap_or_default(),
        "waiting": completed
            .map(|one| one.waiting.iter().map(waiting).collect::<Vec<_>>())
            .unwrap_or_default(),
        "index_left_to": completed.err(),
        "troubles": troubles,
    })
}

fn fail(text: &str) -> ExitCode {
    say::tell("transfer", messages::NOT_TRANSFERRED, text);
    ExitCode::FAILURE
}
