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
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

pub use consent::Consent;
pub use writing::{FILENAME_MAX, Flags};

use candidates::Candidate;
use restarting::Reading;
use writing::Writing;

use crate::log::messages;
use crate::restart::candidates::Begin;
use crate::session::conference::Conference;
use crate::session::ending::Ending;
use crate::session::flush::Flusher;
use crate::session::halt::Halt;
use crate::session::node::Node;
use crate::session::prefix::Inspector;
use crate::session::rank::{Rank, lock};
use crate::session::report::Report;
use crate::session::stores::Stores;

/// A program that calls SCR.
pub struct Program {
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) report: Arc<Report>,
    pub(super) stores: Arc<Stores>,
    pub(super) flush: Arc<Flusher>,
    pub(super) halt: Arc<Halt>,
    pub(super) conference: Arc<Conference>,
    pub(super) ending: Arc<Ending>,
    pub(super) prefix: Arc<Inspector>,
    /// What goes on; no lock is held while a step communicates.
    pub(super) progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
pub(super) struct Progress {
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
        lock(&self.progress)
    }

    /// Notes that the program has called SCR_Init; `late` are its settings, if the session was
    /// there before.
    pub fn use_by_program(&self, late: Option<&[String]>) {
        self.rank.calls.in_use.store(true, Ordering::Relaxed);
        self.report.unmatched.matches();
        match late {
            Some([first, ..]) => self.rank.tell(messages::CONFIG_TOO_LATE, format_args!(
                "SCR_Config({first}) comes too late: under the shim settings are read in MPI_Init. \
                 They are to be in the config file or the environment"
            )),
            Some([]) => {}
            None => self.rank.calls.starts.store(true, Ordering::Relaxed),
        }
    }

    /// Ends the session that the program has started, since it has called SCR_Finalize. One of the
    /// shim goes on to MPI_Finalize.
    pub fn finish_program(&self) {
        if self.rank.calls.starts.load(Ordering::Relaxed) {
            self.ending.finish();
        }
    }

    /// Tells whether this rank speaks for all, where all have the same to say.
    pub fn speaks(&self) -> bool {
        self.rank.site.rank == 0
    }

    /// Returns this rank's number in the world.
    pub fn rank(&self) -> usize {
        self.rank.site.rank
    }

    /// Returns the settings in force.
    pub fn settings(&self) -> &crate::params::Settings {
        &self.rank.site.settings
    }
}
