//! Flushes of a run that is gone, brought to their end by `scr transfer` on each node.

use std::path::Path;
use std::time::Duration;

use crate::cache::Layout;
use crate::error::Result;
use crate::files::lease::{self, Taken};
use crate::launch::JobPlaces;
use crate::operations::prefix::{holder, state_dir};
use crate::params::{Environment, Settings};
use crate::records::{Record as _, TransferCommand, TransferFile};
use crate::transfer::{Completed, Options, Staged, complete, set_transfer_command, stage_node};

/// What [`finish_transfers`] found and did.
#[derive(Debug)]
pub enum Finished {
    /// A live process has this node's cache in use.
    Busy(String),
    /// This node's part is done as far as it can be.
    Done {
        /// What was copied from this node.
        staged: Staged,
        /// What is on the prefix now; the holder of the prefix, if somebody else is at work there.
        completed: std::result::Result<Completed, String>,
    },
}

/// Tells `scr transfer` on this node what to do; false if the job has no transfer file here.
pub fn command_transfers(
    settings: &Settings,
    environment: &Environment,
    command: TransferCommand,
) -> Result<bool> {
    let places = JobPlaces::new(settings, environment)?;
    set_transfer_command(&places.layout.control_dir, command)
}

/// Copies what an ended run had on its way from this node, and enters what all nodes have copied
/// into the index; with `limited` no faster than the run was to. To be run on each node.
pub fn finish_transfers(
    settings: &Settings,
    environment: &Environment,
    limited: bool,
) -> Result<Finished> {
    let JobPlaces { prefix, layout: Layout { control_dir, .. }, .. } =
        JobPlaces::new(settings, environment)?;
    let begin = || set_transfer_command(&control_dir, TransferCommand::Run).map(drop);
    finish(&prefix, &control_dir, &Options::new(settings), limited, &begin)
}

/// Brings flushes that a run has left on this node to their end, until COMMAND in the transfer file
/// is EXIT (one from before the begin is taken back); while it is STOP nothing is copied. What was
/// found is told once, and errors are tried again after `interval`.
pub fn serve_transfers(
    settings: &Settings,
    environment: &Environment,
    interval: Duration,
    tell: &mut dyn FnMut(std::result::Result<&Finished, &str>),
) -> Result<()> {
    let JobPlaces { prefix, layout: Layout { control_dir, .. }, .. } =
        JobPlaces::new(settings, environment)?;
    let path = control_dir.join(TransferFile::NAME);
    let options = Options::new(settings);
    if matches!(TransferFile::read(&path), Ok(Some(file)) if file.command == TransferCommand::Exit)
    {
        set_transfer_command(&control_dir, TransferCommand::Run)?;
    }
    let mut said = String::new();
    loop {
        let outcome = match TransferFile::read(&path) {
            Ok(Some(file)) if file.command == TransferCommand::Exit => return Ok(()),
            Ok(Some(file)) if file.command == TransferCommand::Run && !file.files.is_empty() => {
                Some(finish(&prefix, &control_dir, &options, true, &|| Ok(())))
            }
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        };
        let now = match &outcome {
            None => String::new(),
            Some(Ok(done)) => format!("{done:?}"),
            Some(Err(error)) => error.to_string(),
        };
        match outcome.filter(|_| now != said) {
            None => {}
            Some(Ok(done)) => tell(Ok(&done)),
            Some(Err(_)) => tell(Err(&now)),
        }
        said = now;
        std::thread::sleep(interval);
    }
}

/// `begin` is called once the node is ours.
fn finish(
    prefix: &Path,
    control_dir: &Path,
    options: &Options,
    limited: bool,
    begin: &dyn Fn() -> Result<()>,
) -> Result<Finished> {
    let take = |path: &Path, patience| lease::take(path, &holder(), patience, || {});
    let mut staged = Staged::default();
    let lease = match control_dir.is_dir() {
        true => Some(take(&control_dir.join("lease"), Duration::ZERO)?),
        false => None,
    };
    if let Some(Taken::Busy(other)) = lease {
        return Ok(Finished::Busy(other));
    }
    if lease.is_some() {
        begin()?;
        staged = stage_node(prefix, control_dir, options, limited)?;
    }
    let state = state_dir(prefix);
    if staged.stopped || !state.is_dir() {
        return Ok(Finished::Done { staged, completed: Ok(Completed::default()) });
    }
    let completed = match take(&state.join("lease"), lease::PATIENCE)? {
        Taken::Busy(other) => Err(other),
        Taken::Ours(_lease) => Ok(complete(prefix, control_dir, options)?),
    };
    Ok(Finished::Done { staged, completed })
}
