//! One thing that happened, and whose.

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::records::Timestamp;

/// Note of SEALED: the program has written the files to the prefix itself; if not all of them, the
/// number of their bytes follows.
pub const SEALED_ON_PREFIX: &str = "on the prefix";

/// Note of EVICTED: the program has deleted or overwritten the dataset before it had to be flushed.
pub const GIVEN_UP: &str = "given up by the program";

/// What all events of a launch share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the value of its key in a line")]
pub struct LoggedJob {
    pub user: String,
    pub job_id: String,
    pub job_name: String,
    pub cluster: String,
    /// The node that writes.
    pub host: String,
    /// Random, one for each launch, as 16 hexadecimal digits.
    pub launch: String,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Seconds since 1970.
    pub time: f64,
    /// In capitals, as `FLUSH_END`.
    pub what: Cow<'static, str>,
    /// The dataset's id and name.
    pub dataset: Option<(u64, String)>,
    /// How long it took.
    pub seconds: Option<f64>,
    /// Files, and their bytes.
    pub size: Option<(u64, u64)>,
    /// More, for people.
    pub note: String,
}

impl Event {
    /// Returns an event that happens now.
    pub fn new(what: impl Into<Cow<'static, str>>) -> Event {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = now.as_secs_f64();
        let what = what.into();
        Event { time, what, dataset: None, seconds: None, size: None, note: String::new() }
    }

    /// Returns the dataset's id and name.
    pub fn dataset(mut self, id: u64, name: impl Into<String>) -> Event {
        self.dataset = Some((id, name.into()));
        self
    }

    /// Adds how long it took.
    pub fn seconds(mut self, seconds: f64) -> Event {
        self.seconds = Some(seconds);
        self
    }

    /// Adds the number of files, and their bytes.
    pub fn size(mut self, files: u64, bytes: u64) -> Event {
        self.size = Some((files, bytes));
        self
    }

    /// Adds more, for people.
    pub fn note(mut self, note: impl Into<String>) -> Event {
        self.note = note.into();
        self
    }

    pub(crate) fn when(&self) -> Timestamp {
        Timestamp::from_unix_seconds(self.time as u64)
    }

    /// Returns one line without its end and the time; control characters are replaced.
    pub fn line(&self, job: &LoggedJob) -> String {
        let mut line = format!("user={}, jobid={}", job.user, job.job_id);
        for (key, value) in [("jobname", &job.job_name), ("cluster", &job.cluster)] {
            if !value.is_empty() {
                line.push_str(&format!(", {key}={value}"));
            }
        }
        line.push_str(&format!(", host={}, event={}", job.host, self.what));
        if let Some((id, name)) = &self.dataset {
            line.push_str(&format!(", dset={id}, name=\"{name}\""));
        }
        if let Some(seconds) = self.seconds {
            line.push_str(&format!(", secs={seconds:.6}"));
        }
        if let Some((files, bytes)) = self.size {
            line.push_str(&format!(", files={files}, bytes={bytes}"));
        }
        if !self.note.is_empty() {
            line.push_str(&format!(", note=\"{}\"", self.note));
        }
        line.replace(|c: char| c.is_control(), " ")
    }
}
