//! A session of one rank, in a directory of its own: tests of the owners build what they look at
//! with it, in some milliseconds.

use std::fs;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use crate::comm::solo::Solo;
use crate::error::Result;
use crate::launch::{Arrival, Door, Herald, Host, Surroundings};
use crate::log::set_sink;
use crate::machine::SyncKind;
use crate::namespace::Answer;
use crate::session::Session;
use crate::streams::WORLD;

/// Its rank, and what is on disk.
pub(crate) struct Alone {
    pub session: Session,
    dir: Arc<TempDir>,
}

struct Process;

impl Host for Process {
    fn door(&self) -> Door {
        Door::Files
    }

    fn end_process(&self, status: i32) -> ! {
        panic!("the run ends with status {status}")
    }
}

impl Herald for Process {
    fn tell(&self, _rank: usize) -> Result<()> {
        Ok(())
    }

    fn has_told(&self, _rank: usize) -> Result<bool> {
        Ok(false)
    }
}

impl Alone {
    /// Starts it, with checkpoint files `ck/{id}/file`.
    pub(crate) fn new() -> Alone {
        let dir = Arc::new(tempfile::tempdir_in("/dev/shm").unwrap());
        fs::create_dir_all(dir.path().join("prefix")).unwrap();
        fs::create_dir_all(dir.path().join("node/store")).unwrap();
        Alone { session: start(&dir), dir }
    }

    /// Kills it, and starts the next launch of the job.
    pub(crate) fn again(self) -> Alone {
        drop(self.session);
        Alone { session: start(&self.dir), dir: self.dir }
    }

    pub(crate) fn prefix(&self) -> PathBuf {
        self.dir.path().join("prefix")
    }

    /// Opens `name` as the program would, and writes it. Returns its token.
    pub(crate) fn write(&self, name: &str, text: &str) -> u64 {
        let path = self.prefix().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
        let (path, token) = match self.session.names.open(&path, flags) {
            Answer::Redirect { path, token } => (path, token),
            Answer::Pass { token } => (path, token),
            other => panic!("{other:?}"),
        };
        let mut file = fs::File::create(path).unwrap();
        assert!(token == 0 || self.session.handles.opened(token, file.as_raw_fd(), 0));
        file.write_all(text.as_bytes()).unwrap();
        token
    }

    /// Writes a checkpoint, and passes collectives until it is complete.
    pub(crate) fn checkpoint(&self, id: &str) {
        let token = self.write(&format!("ck/{id}/file"), id);
        assert!(self.session.handles.closed(token));
        (0..4).for_each(|_| self.session.ending.sync(WORLD, SyncKind::Collective));
    }

    /// Counts checkpoints that are sealed.
    pub(crate) fn sealed(&self) -> usize {
        let state = self.session.node.state();
        state.machine.datasets(0).iter().filter(|one| one.id > 0).count()
    }

    /// Finds `name` as the program does.
    pub(crate) fn find(&self, name: &str) -> Answer {
        self.session.names.lookup(&self.prefix().join(name))
    }
}

fn start(dir: &TempDir) -> Session {
    set_sink(Some(Arc::new(|_| {})));
    let prefix = dir.path().join("prefix");
    let settings = [
        ("SCR_PREFIX", prefix.to_str().unwrap()),
        ("SCR_CHECKPOINT_PATTERN", "ck/{id}/file"),
        ("SCR_CNTL_BASE", "/store"),
        ("SCR_CACHE_BASE", "/store"),
        ("SCR_LEARN", "0"),
        ("SCR_LOG_DB_ENABLE", "0"),
        ("SCR_SETTLE_MILLISECONDS", "0"),
        ("SCR_COPY_TYPE", "SINGLE"),
        ("SCR_FLUSH", "0"),
        ("SCR_JOB_ID", "1"),
        ("SCR_USER_NAME", "me"),
    ];
    let around = Surroundings {
        rank: 0,
        size: 1,
        variables: settings.map(|(name, value)| (name.into(), value.into())).into(),
        program: Vec::new(),
        working_directory: Ok(prefix),
        system_file: Path::new("/nowhere").into(),
        node_name: "node".to_string(),
        node_root: dir.path().join("node"),
        process: 1,
        host: Arc::new(Process),
    };
    let arrival = Arrival::new(around, &Process).expect("there is a pattern");
    Session::start(arrival, Box::new(Solo::new())).unwrap()
}
