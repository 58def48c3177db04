//! `scr transfer`: brings flushes to their end that a run has left on this node.

use std::process::ExitCode;

use scr_core::session::{Finished, finish_transfers};
use scr_core::system::hostname;

/// Arguments of `scr transfer`.
#[derive(clap::Args)]
#[command(after_help = "\
A flush in the background (SCR_FLUSH_ASYNC=1) that was under way when the program ended goes on \
from the node's transfer file and cache. Run it once on each node of the job, in \
any order, at the same time or not, with the environment of the run; the last one enters the \
checkpoint into the index. No more than SCR_FLUSH_WIDTH nodes copy at a time, the others wait. A \
new start of the program does the same by itself, and stops an \
`scr transfer` that is still at work. Example, in a batch script after the program:\n
    srun --ntasks-per-node=1 scr transfer --prefix /pfs/me/run")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(long, value_name = "DIRECTORY")]
    prefix: Option<String>,
    /// Keep to SCR_FLUSH_ASYNC_BW and SCR_FLUSH_ASYNC_PERCENT of the run.
    #[arg(long)]
    limits: bool,
}

/// Runs the tool; fails if something could not be copied.
pub fn run(args: &Args) -> ExitCode {
    let holder = format!("host {}, process {}", hostname(), std::process::id());
    let outcome =
        super::load_settings(args.prefix.as_deref()).and_then(|(settings, environment)| {
            finish_transfers(&settings, &environment, args.limits, &holder)
        });
    match outcome {
        Err(error) => fail(&error.to_string()),
        Ok(Finished::Busy(holder)) => {
            fail(&format!("a live run uses this node ({holder}); it flushes by itself"))
        }
        Ok(Finished::Done { mut staged, completed }) => {
            let mut text = String::new();
            if staged.files > 0 {
                text += &format!("{} files copied from this node\n", staged.files);
            }
            match completed {
                Err(holder) => {
                    text += &format!("the index is left to whom uses the prefix ({holder})\n");
                }
                Ok(completed) => {
                    staged.troubles.extend(completed.troubles);
                    for name in completed.done {
                        text += &format!("{name} is on the prefix\n");
                    }
                    for (name, nodes) in completed.waiting {
                        text +=
                            &format!("{name} waits for {nodes} nodes: run scr transfer there\n");
                    }
                }
            }
            if staged.stopped {
                text += "stopped: a new run of the program goes on\n";
            }
            let printed = super::print(&text);
            if staged.troubles.is_empty() { printed } else { fail(&staged.troubles.join("\n")) }
        }
    }
}

fn fail(text: &str) -> ExitCode {
    eprintln!("scr transfer: {text}");
    ExitCode::FAILURE
}
