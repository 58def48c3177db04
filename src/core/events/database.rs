//! Events as rows of an SQLite database (`SCR_LOG_DB_NAME`, `<SCR_PREFIX>/.scr/log.sqlite`).
//!
//! ```sql
//! SELECT event, sum(seconds), sum(bytes) FROM events WHERE jobid = '4711' GROUP BY event;
//! ```

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params};

use super::query::KEYS;
use super::{Event, EventSink, Logged, LoggedJob, TextFile};
use crate::error::{Error, Result as Done};
use crate::log::{self, messages};

const VERSION: i64 = 1;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    unix REAL NOT NULL,
    launch TEXT NOT NULL,
    user TEXT NOT NULL,
    jobid TEXT NOT NULL,
    jobname TEXT NOT NULL,
    cluster TEXT NOT NULL,
    host TEXT NOT NULL,
    event TEXT NOT NULL,
    dataset INTEGER,
    name TEXT,
    seconds REAL,
    files INTEGER,
    bytes INTEGER,
    note TEXT NOT NULL
)";

const INSERT: &str = "INSERT INTO events (time, unix, launch, user, jobid, jobname, cluster, host,
    event, dataset, name, seconds, files, bytes, note)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";

const SELECT: &str = "SELECT time, user, jobid, jobname, cluster, host, event, dataset, name,
    seconds, files, bytes, note FROM events ORDER BY id";

/// A person's query may keep us from writing for so long.
const BUSY_WAIT: Duration = Duration::from_secs(2);

/// How what is written becomes durable. A journal of the old kind: one ahead of the database needs
/// memory that all who open it share, which no parallel file system has. It stays, emptied, so that
/// no name is made or removed for a few events, and a killed process leaves a good database. SQLite
/// itself would sync four times for each batch; one sync, when all of it is written, leaves a few
/// milliseconds in which the loss of this node could damage a log.
const DURABLE: &str = "PRAGMA journal_mode = PERSIST; PRAGMA synchronous = OFF";

/// The database is open only while something is written: the program may remove its directory, and
/// close descriptors that it does not know, without harm.
pub struct Database {
    path: PathBuf,
    is_made: bool,
    tells: bool,
    is_missed: bool,
    instead: Option<TextFile>,
    /// Events go to `instead`.
    failed: bool,
}

impl Database {
    /// Returns the file is made when the first event comes. `tells`: say what is done
    /// (SCR_LOG_DB_DEBUG); `instead` takes the place of a database that cannot be written to;
    /// `is_missed`: a person wants to hear that it does not work.
    pub fn new(path: PathBuf, tells: bool, instead: Option<TextFile>, is_missed: bool) -> Database {
        Database { path, is_made: false, tells, is_missed, instead, failed: false }
    }

    /// Returns all events in the order in which they were written. Nothing is made or changed.
    pub fn read(path: &Path) -> Done<Vec<Logged>> {
        let wrong = |error: rusqlite::Error| {
            Error::Unreadable(format!("cannot read the database {}: {error}", path.display()))
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(wrong)?;
        connection.busy_timeout(BUSY_WAIT).map_err(wrong)?;
        let mut statement = connection.prepare(SELECT).map_err(wrong)?;
        let rows = statement.query_map([], logged).map_err(wrong)?;
        rows.collect::<rusqlite::Result<_>>().map_err(wrong)
    }

    fn open(&mut self) -> rusqlite::Result<Connection> {
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(BUSY_WAIT)?;
        connection.execute_batch(DURABLE)?;
        if self.is_made {
            return Ok(connection);
        }
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if version == 0 {
            connection.execute(TABLE, [])?;
            connection.pragma_update(None, "user_version", VERSION)?;
        }
        self.is_made = true;
        if self.tells {
            log::warn(
                messages::DATABASE_DEBUG,
                format_args!("the database {} is open", self.path.display()),
            );
        }
        Ok(connection)
    }

    fn insert(&mut self, job: &LoggedJob, events: &[Event]) -> rusqlite::Result<()> {
        let mut connection = self.open()?;
        let transaction = connection.transaction()?;
        {
            let mut statement = transaction.prepare(INSERT)?;
            for event in events {
                let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
                statement.execute(params![
                    event.when().to_string(),
                    event.time,
                    job.launch,
                    job.user,
                    job.job_id,
                    job.job_name,
                    job.cluster,
                    job.host,
                    &*event.what,
                    event.dataset.as_ref().map(|(id, _)| signed(*id)),
                    event.dataset.as_ref().map(|(_, name)| name),
                    event.seconds,
                    event.size.map(|(files, _)| signed(files)),
                    event.size.map(|(_, bytes)| signed(bytes)),
                    event.note,
                ])?;
            }
        }
        transaction.commit()?;
        drop(connection);
        // Nothing rests on it; where there is no sync the kernel writes it in its time.
        let _ = File::open(&self.path).and_then(|file| file.sync_data());
        if self.tells {
            let (count, path) = (events.len(), self.path.display());
            log::warn(
                messages::DATABASE_DEBUG,
                format_args!("{count} events are in the database {path}"),
            );
        }
        Ok(())
    }
}

fn logged(row: &rusqlite::Row<'_>) -> rusqlite::Result<Logged> {
    let mut one = Logged { time: row.get(0)?, ..Logged::default() };
    for (at, key) in KEYS.into_iter().enumerate() {
        let text = match row.get(at + 1)? {
            Value::Integer(number) => number.to_string(),
            Value::Real(number) => format!("{number:.6}"),
            Value::Text(text) => text,
            Value::Null | Value::Blob(_) => String::new(),
        };
        if !text.is_empty() {
            one.fields.insert(key, text);
        }
    }
    Ok(one)
}

impl EventSink for Database {
    fn name(&self) -> String {
        format!("the database {}", self.path.display())
    }

    fn write(&mut self, job: &LoggedJob, events: &[Event]) -> Result<(), String> {
        if !self.failed {
            let Err(error) = self.insert(job, events) else { return Ok(()) };
            if self.instead.is_none() {
                return Err(error.to_string());
            }
            self.failed = true;
            let text = format!("{}: {error}; a text log takes its place", self.name());
            log::warn_if(self.is_missed, messages::LOG_FAILED, text);
        }
        self.instead.as_mut().map_or(Ok(()), |text| text.write(job, events))
    }

    fn is_missed(&self) -> bool {
        self.is_missed
    }
}
