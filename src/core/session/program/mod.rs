//! Programs that call SCR themselves (API manual): they say where a dataset begins and when it is
//! complete, and ask for what to restart from. Everything else is as under the shim.

mod asking;
mod candidates;
mod consent;
mod restarting;
mod writing;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::launch::site::Site;
use crate::log::messages;
use crate::machine::{Call, DatasetKey};
use crate::records;
use crate::restart::candidates::Begin;
use crate::session::{
    conference::Conference,
    ending::Ending,
    flush::Flusher,
    halt::Halt,
    node::Node,
    prefix::Inspector,
    rank::{Rank, lock},
    report::Reporter,
    stores::Stores,
};

/// What a dataset is (SCR_FLAG_CHECKPOINT, SCR_FLAG_OUTPUT).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags {
    /// The program can restart from it.
    pub checkpoint: bool,
    /// It is to reach the prefix.
    pub output: bool,
}

/// What a rank brings to a call of all ranks: an error, and arguments that are to be equal.
#[derive(Debug)]
pub struct Consent<'a> {
    /// What it calls.
    pub call: Call,
    /// Why it cannot.
    pub error: Option<String>,
    /// Are to be equal on all ranks.
    pub arguments: &'a [u8],
}

#[derive(Debug, Clone)]
struct DatasetWriting {
    pub key: DatasetKey,
    pub files: BTreeMap<String, PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownCheckpoint {
    pub id: u64,
    /// As the program has called it.
    pub name: String,
    pub key: records::RecordKey,
    pub cached: Option<DatasetKey>,
    pub on_prefix: bool,
}

#[derive(Debug, Clone)]
struct RestartReading {
    candidate: KnownCheckpoint,
    /// By name below the prefix: where to read it, and whether this rank has written it.
    files: BTreeMap<String, (PathBuf, bool)>,
}

/// A program that calls SCR.
pub struct Program {
    pub(super) site: Arc<Site>,
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) report: Arc<Reporter>,
    pub(super) stores: Arc<Stores>,
    pub(super) flush: Arc<Flusher>,
    pub(super) halt: Arc<Halt>,
    pub(super) conference: Arc<Conference>,
    pub(super) ending: Arc<Ending>,
    pub(super) prefix: Arc<Inspector>,
    /// What goes on; no lock is held while a step communicates.
    pub(super) progress: Mutex<CallProgress>,
}

#[derive(Debug, Default)]
pub(super) struct CallProgress {
    writing: Option<DatasetWriting>,
    offered: Option<KnownCheckpoint>,
    reading: Option<RestartReading>,
    /// Datasets that it could not restart from, or does not want.
    refused: BTreeSet<u64>,
    /// Where it has said that it begins.
    begin: Option<Begin>,
}

impl Program {
    fn progress(&self) -> MutexGuard<'_, CallProgress> {
        lock(&self.progress)
    }

    /// Answers SCR_Init; `late` are the program's settings, if the session was there before.
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

    /// Answers SCR_Finalize. A session of the shim goes on to MPI_Finalize.
    pub fn finish_program(&self) {
        if self.rank.calls.starts.load(Ordering::Relaxed) {
            self.ending.finish();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::alone::Alone;

    #[test]
    fn a_dataset_of_calls_is_offered_to_the_next_launch() {
        let one = Alone::new();
        let program = &one.session.program;
        program.use_by_program(Some(&[]));
        program.start_dataset(Some("mine"), Flags { checkpoint: true, output: false }).unwrap();
        let path = program.route_output(&one.prefix().join("data")).unwrap();
        std::fs::write(&path, "content").unwrap();
        assert!(program.complete_dataset(true).unwrap());
        let one = one.again();
        one.session.program.use_by_program(Some(&[]));
        assert_eq!(one.session.program.have_restart().unwrap().as_deref(), Some("mine"));
    }
}
