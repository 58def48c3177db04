//! Events as lines of a file (`<SCR_PREFIX>/.scr/log`), for people: times are local ones, with the
//! zone.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use super::{Event, EventSink, LoggedJob};
use crate::records::Zone;

/// A sink that adds lines to a file.
pub struct TextFile {
    path: PathBuf,
    zone: Zone,
    file: Option<File>,
}

impl TextFile {
    /// Makes a sink whose lines go to the end of `path`, which is made when the first one comes;
    /// their times are those of `zone`.
    pub fn new(path: PathBuf, zone: Zone) -> TextFile {
        TextFile { path, zone, file: None }
    }
}

impl EventSink for TextFile {
    fn name(&self) -> String {
        format!("the log {}", self.path.display())
    }

    fn write(&mut self, job: &LoggedJob, events: &[Event]) -> Result<(), String> {
        let line = |one: &Event| format!("{}: {}\n", self.zone.write(one.when()), one.line(job));
        let lines: String = events.iter().map(line).collect();
        if self.file.is_none() {
            let opened = OpenOptions::new().append(true).create(true).open(&self.path);
            self.file = Some(opened.map_err(|error| error.to_string())?);
        }
        // One write: lines of two launches do not mix.
        let written = self.file.as_mut().map(|file| file.write_all(lines.as_bytes()));
        written.unwrap_or(Ok(())).map_err(|error| error.to_string())
    }
}
