//! Events for the system's log. Straight to its socket: syslog(3) has one state a process, and that
//! is the program's.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use super::{Event, EventSink, LoggedJob};

const SOCKET: &str = "/dev/log";
const PRIORITY: u8 = 23 << 3 | 6;
const TAG: &str = "SCR";

/// A sink that writes to the system's log.
pub struct Syslog {
    path: PathBuf,
    socket: Option<UnixDatagram>,
    is_missed: bool,
}

impl Syslog {
    /// Makes a sink. `is_missed`: somebody has asked for it, and wants to hear that there is none.
    pub fn new(is_missed: bool) -> Syslog {
        Syslog { path: SOCKET.into(), socket: None, is_missed }
    }

    /// Makes a sink for another socket, for tests.
    pub fn at(path: PathBuf) -> Syslog {
        Syslog { path, socket: None, is_missed: true }
    }
}

impl EventSink for Syslog {
    fn name(&self) -> String {
        format!("syslog ({})", self.path.display())
    }

    fn write(&mut self, job: &LoggedJob, events: &[Event]) -> Result<(), String> {
        let text = |error: std::io::Error| error.to_string();
        if self.socket.is_none() {
            let socket = UnixDatagram::unbound().map_err(text)?;
            socket.connect(&self.path).map_err(text)?;
            self.socket = Some(socket);
        }
        let Some(socket) = &self.socket else { return Ok(()) };
        let pid = std::process::id();
        events.iter().try_for_each(|event| {
            let line = format!("<{PRIORITY}>{TAG}[{pid}]: {}", event.line(job));
            socket.send(line.as_bytes()).map(drop).map_err(text)
        })
    }

    fn is_missed(&self) -> bool {
        self.is_missed
    }
}
