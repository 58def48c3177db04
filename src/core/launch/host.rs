//! What a session is built from: the door by which the program comes to it, and what it knows of
//! the process and the machine around it. Below `session` nothing else asks the process, so a test
//! runs any number of ranks on any number of nodes in one.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::params::{Environment, SYSTEM_FILE, read_environment};
use crate::system;

/// By which door the program comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// The shim: the program works with files, and patterns tell which of them are checkpoints.
    /// Without patterns there is nothing to do.
    Files,
    /// The SCR API: the program says itself what it writes. No pattern is needed.
    Calls,
}

/// What the door has to give to the session. The shim, the API and the tests are hosts.
///
/// A host hands each call of the program on to the [`Session`], on the thread that makes it, and
/// does what the [`Answer`] says. Only the end of the process has to be the host's own: all else
/// does nothing unless the host has hooks or a table of descriptors.
///
/// [`Session`]: crate::session::Session
/// [`Answer`]: crate::namespace::Answer
pub trait Host: Send + Sync {
    /// By which door the program comes.
    fn door(&self) -> Door;

    /// Ends the process in order at a halt condition: MPI first, if the others come to it in time.
    /// Every rank calls it.
    fn end_process(&self, status: i32) -> !;

    /// Ends the process at once, and with it the run: no handlers, no MPI.
    fn end_at_once(&self, status: i32) -> ! {
        system::exit_at_once(status)
    }

    /// The program may come by the other door yet: where there is nothing to do, nothing is said.
    fn may_be_called(&self) -> bool {
        false
    }

    /// The MPI of the ranks, as it calls itself; empty if that is not known.
    fn mpi(&self) -> String {
        String::new()
    }

    /// From now on the calling thread's own calls pass all hooks; nests. The first call of every
    /// thread that the session starts.
    fn enter_thread(&self) {}

    /// Undoes one `enter_thread`.
    fn leave_thread(&self) {}

    /// Names that were answered with `Answer::Foreign` may have become ours.
    fn names_changed(&self) {}

    /// Has the descriptors of a [`lazy`](crate::handles::TOKEN_LAZY) token replaced now. It calls
    /// `Names::evacuate`, so no lock may be held.
    fn wake(&self, _token: u64) {}

    /// Does so for all of them.
    fn wake_all(&self, tokens: Vec<u64>) {
        tokens.into_iter().for_each(|token| self.wake(token));
    }

    /// Has the file of a token moved to the PFS with all descriptors that are open on it, if that
    /// is possible. It calls `Names::evacuate`, too.
    fn move_out(&self, _token: u64) {}

    /// The process is this rank's alone: what it may use of the machine is the rank's.
    fn owns_process(&self) -> bool {
        false
    }

    /// The calling thread is about to wait for other ranks, no lock is held: see `outside`.
    fn step_out(&self) -> u32 {
        0
    }

    /// Undoes a `step_out`, which returned `before`.
    fn step_in(&self, _before: u32) {}
}

impl dyn Host {
    /// Runs `body` with the hooks off on this thread.
    pub fn inside<T>(&self, body: impl FnOnce() -> T) -> T {
        struct Leave<'a>(&'a dyn Host);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.leave_thread();
            }
        }
        self.enter_thread();
        let _leave = Leave(self);
        body()
    }

    /// Waits in `body` for other ranks, with no lock held: meanwhile the program's signal handlers
    /// run on this thread, and what they do with files is the program's doing.
    pub fn outside<T>(&self, body: impl FnOnce() -> T) -> T {
        let before = self.step_out();
        let result = body();
        self.step_in(before);
        result
    }
}

/// What a rank is, and what it finds around it when it starts.
pub struct Surroundings {
    /// World rank.
    pub rank: usize,
    /// Ranks in the world.
    pub size: usize,
    /// The environment, any bytes.
    pub variables: Vec<(OsString, OsString)>,
    /// What the program has said to SCR_Config, in order.
    pub program: Vec<String>,
    /// Where relative names begin; an error is told if they matter.
    pub working_directory: io::Result<PathBuf>,
    /// Settings of the system; need not be there.
    pub system_file: PathBuf,
    /// Name of the node: ranks with the same one share its directories.
    pub node_name: String,
    /// Where the files of the node begin that the settings name by control and store directories:
    /// `/`, unless several nodes live on one machine. The prefix is the same for all nodes.
    pub node_root: PathBuf,
    /// The process, for messages.
    pub process: u32,
    /// The door.
    pub host: Arc<dyn Host>,
}

impl Surroundings {
    /// Reads the surroundings of this process: environment, working directory, node name.
    pub fn of_process(rank: usize, size: usize, host: Arc<dyn Host>) -> Self {
        Surroundings {
            rank,
            size,
            variables: std::env::vars_os().collect(),
            program: Vec::new(),
            working_directory: std::env::current_dir(),
            system_file: SYSTEM_FILE.into(),
            node_name: system::hostname(),
            node_root: "/".into(),
            process: std::process::id(),
            host,
        }
    }

    pub(crate) fn here(&self) -> PathBuf {
        self.working_directory.as_ref().cloned().unwrap_or_default()
    }

    pub(crate) fn environment(&self) -> (Environment, Vec<crate::error::Error>) {
        read_environment(self.variables.iter().cloned())
    }
}
