//! Flushes of a run that is gone, brought to their end without starting the program again: what the
//! command `scr transfer` does on each node.

use std::path::Path;
use std::time::Duration;

use crate::error::Result;
use crate::params::{Environment, Settings};
use crate::session::launch::lease::{self, Taken};
use crate::session::launch::prepare::places;
use crate::session::namespace::STATE_FOLDER;
use crate::transfer::{Completed, Options, Staged, complete, stage_node};

/// What [`finish_transfers`] found and did.
#[derive(Debug)]
pub enum Finished {
    /// A live process has this node's cache in use; the text says which.
    Busy(String),
    /// This node's part is done as far as it can be.
    Done {
        /// What was copied from this node.
        staged: Staged,
        /// What is on the prefix now; the holder's text if somebody else is at work there, who
        /// will see to it.
        completed: std::result::Result<Completed, String>,
    },
}

/// Copies what an ended run had on its way from this node, and enters what all nodes have copied
/// into the index; with `limited` no faster than the run was to. Local; to be run on each node, in
/// any order. The environment names the job, as that of the run did; `holder` is who does it, for
/// whoever finds the locks taken.
///
/// # Errors
/// Prefix, transfer file or journal cannot be read or changed.
pub fn finish_transfers(
    settings: &Settings,
    environment: &Environment,
    limited: bool,
    holder: &str,
) -> Result<Finished> {
    let (prefix, control_dir) = places(settings, environment)?;
    let options = Options::new(settings);
    let take = |path: &Path, patience| lease::take(path, holder, patience, || {});
    let mut staged = Staged::default();
    let lease = match control_dir.is_dir() {
        true => Some(take(&control_dir.join("lease"), Duration::ZERO)?),
        false => None,
    };
    if let Some(Taken::Busy(other)) = lease {
        return Ok(Finished::Busy(other));
    }
    if lease.is_some() {
        staged = stage_node(&prefix, &control_dir, &options, limited)?;
    }
    let state = prefix.join(STATE_FOLDER);
    if staged.stopped || !state.is_dir() {
        return Ok(Finished::Done { staged, completed: Ok(Completed::default()) });
    }
    let completed = match take(&state.join("lease"), lease::PATIENCE)? {
        Taken::Busy(other) => Err(other),
        Taken::Ours(_lease) => Ok(complete(&prefix, &control_dir, &options)?),
    };
    Ok(Finished::Done { staged, completed })
}
