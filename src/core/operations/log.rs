//! The log of events, as a command reads it and adds to it (`scr_log_event` of 000 section 11.2.3).

use std::path::Path;

use crate::error::{Error, Result};
use crate::events::{Database, Event, Filter, Job, Logged, parse_line};
use crate::files::read_optional;
use crate::params::{Environment, Settings, keys};
use crate::session::{JobPlaces, log_database, log_sinks, log_text};
use crate::system;

/// What a log has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogEntries {
    /// What was asked for, oldest first.
    pub events: Vec<Logged>,
    /// Lines that are no events.
    pub unreadable: usize,
}

/// Reads the events of `prefix` that `filter` takes: of the text log, of the database if there is
/// no text log or it is asked for by `from_database`. Without either there are none.
///
/// # Errors
/// If the log cannot be read, or the database is none.
pub fn read_log(
    settings: &Settings,
    prefix: &Path,
    filter: &Filter,
    from_database: bool,
) -> Result<LogEntries> {
    let (text, database) = (log_text(prefix), log_database(settings, prefix));
    let bytes = if from_database { None } else { read_optional(&text)? };
    let mut found = LogEntries::default();
    match bytes {
        Some(bytes) => {
            for line in String::from_utf8_lossy(&bytes).lines() {
                match parse_line(line) {
                    Some(one) => found.events.push(one),
                    None => found.unreadable += 1,
                }
            }
        }
        None if from_database || database.exists() => found.events = Database::read(&database)?,
        None => {}
    }
    found.events.retain(|one| filter.takes(one));
    Ok(found)
}

/// Writes an event of the job to every place that the settings name; returns to how many. None if
/// the log is off.
///
/// # Errors
/// The first place that could not be written to, if somebody asked for it; the others have it.
pub fn log_event(settings: &Settings, environment: &Environment, event: Event) -> Result<usize> {
    if !settings.get(keys::LOG_ENABLE) {
        return Ok(0);
    }
    let places = JobPlaces::new(settings, environment)?;
    let job = Job {
        user: places.user,
        job_id: places.job,
        job_name: settings.get_optional(keys::JOB_NAME).unwrap_or_default(),
        cluster: settings.get_optional(keys::CLUSTER_NAME).unwrap_or_default(),
        host: system::hostname(),
        launch: String::new(),
    };
    let state = log_text(&places.prefix);
    if let Some(folder) = state.parent() {
        crate::files::create_dirs(folder, 0o777)?;
    }
    let (mut written, mut failed) = (0, None);
    for mut sink in log_sinks(settings, &places.prefix) {
        match sink.write(&job, std::slice::from_ref(&event)) {
            Ok(()) => written += 1,
            Err(why) if sink.is_missed() => {
                failed.get_or_insert_with(|| format!("cannot write to {}: {why}", sink.name()));
            }
            Err(_) => {}
        }
    }
    failed.map_or(Ok(written), |what| Err(Error::Refused(what)))
}
