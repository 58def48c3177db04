//! Programs that call SCR themselves (004): they say where a dataset begins and when it is
//! complete, and ask for what to restart from. Everything else is as under the shim.
//!
//! | file | job |
//! |---|---|
//! | `consent.rs` | whether all ranks make the same call with the same arguments |
//! | `writing.rs` | a dataset from its begin to its seal |
//! | `names.rs` | names of datasets, and of files below the prefix |
//! | `candidates.rs` | what a restart may begin from |
//! | `restarting.rs` | one restart after the other until one is good |
//! | `asking.rs` | whether a checkpoint is due, and whether to stop |

mod asking;
mod candidates;
mod consent;
mod names;
mod restarting;
mod writing;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use consent::Consent;
pub use writing::{FILENAME_MAX, Flags};

use candidates::Candidate;
use restarting::Reading;
use writing::Writing;

use crate::log::messages;
use crate::restart::candidates::Begin;

/// What the program has told us.
#[derive(Debug, Default)]
pub(super) struct Program {
    /// It has called SCR_Init.
    in_use: AtomicBool,
    /// And that has started the session: there is no shim.
    starts: AtomicBool,
    /// What goes on; no lock is held while a step communicates.
    progress: Mutex<Progress>,
    /// Files below the prefix that it writes or has written through us: no pattern matches them.
    claimed: Mutex<BTreeSet<String>>,
}

#[derive(Debug, Default)]
struct Progress {
    writing: Option<Writing>,
    /// What SCR_Have_restart has offered.
    offered: Option<Candidate>,
    reading: Option<Reading>,
    /// Datasets that it could not restart from, or does not want.
    refused: BTreeSet<u64>,
    /// Where it has said that it begins.
    begin: Option<Begin>,
}

impl Program {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claimed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether the program has called SCR_Init.
    pub fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Tells whether the program has the say over this file; no pattern matches it.
    pub fn has_claimed(&self, name: &str) -> bool {
        self.is_in_use() && self.claimed().contains(name)
    }
}

impl super::Session {
    /// Notes that the program has called SCR_Init; `late` are its settings, if the session was
    /// there before.
    pub fn use_by_program(&self, late: Option<&[String]>) {
        self.program.in_use.store(true, Ordering::Relaxed);
        self.unmatched.matches();
        match late {
            Some([first, ..]) => self.tell(messages::CONFIG_TOO_LATE, format_args!(
                "SCR_Config({first}) comes too late: under the shim settings are read in MPI_Init. \
                 They are to be in the config file or the environment"
            )),
            Some([]) => {}
            None => self.program.starts.store(true, Ordering::Relaxed),
        }
    }

    /// Ends the session that the program has started, since it has called SCR_Finalize. One of the
    /// shim goes on to MPI_Finalize.
    pub fn finish_program(&self) {
        if self.program.starts.load(Ordering::Relaxed) {
            self.finish();
        }
    }

    /// Tells whether this rank speaks for all, where all have the same to say.
    pub fn speaks(&self) -> bool {
        self.site.rank == 0
    }

    /// Returns this rank's number in the world.
    pub fn rank(&self) -> usize {
        self.site.rank
    }

    /// Returns the settings in force.
    pub fn settings(&self) -> &crate::params::Settings {
        &self.site.settings
    }
}
