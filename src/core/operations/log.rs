//! The log of events, as a command reads it and adds to it (`scr_log_event` of manual 1.1, section
//! 11.2.3).

use std::collections::BTreeSet;
use std::path::Path;

use crate::account::{log_database, log_sinks, log_text};
use crate::error::{Error, Result};
use crate::events::{Database, Event, Filter, Logged, LoggedJob, parse_line};
use crate::files::read_optional;
use crate::launch::JobPlaces;
use crate::params::{Environment, Settings, keys};
use crate::records::Zone;
use crate::system;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogEntries {
    pub events: Vec<Logged>,
    pub unreadable: usize,
    /// Why the events are those of the text log alone.
    pub trouble: Option<String>,
}

/// Reads the events of `prefix` that `filter` takes, from the database and, unless `from_database`,
/// what the text log has besides.
pub fn read_log(
    settings: &Settings,
    prefix: &Path,
    filter: &Filter,
    from_database: bool,
) -> Result<LogEntries> {
    let (text, database) = (log_text(prefix), log_database(settings, prefix));
    let mut found = LogEntries::default();
    let bytes = if from_database { None } else { read_optional(&text)? };
    if from_database || database.exists() {
        match Database::read(&database) {
            Ok(events) => found.events = events,
            Err(error) if bytes.is_some() => found.trouble = Some(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    // The text log has no control characters.
    let line = |one: &Logged| one.line().replace(|c: char| c.is_control(), " ");
    let known: BTreeSet<String> = found.events.iter().map(line).collect();
    for text in String::from_utf8_lossy(&bytes.unwrap_or_default()).lines() {
        match parse_line(text) {
            Some(one) if known.contains(&line(&one)) => {}
            Some(one) => found.events.push(one),
            None => found.unreadable += 1,
        }
    }
    if !known.is_empty() && found.events.len() > known.len() {
        // As they were written, as far as times of whole seconds tell.
        found.events.sort_by(|one, other| one.time.cmp(&other.time));
    }
    found.events.retain(|one| filter.takes(one));
    Ok(found)
}

/// Writes an event of the job to every place that the settings name; returns their number. An error
/// tells the first place that failed although somebody asked for it.
pub fn log_event(settings: &Settings, environment: &Environment, event: Event) -> Result<usize> {
    if !settings.get(keys::LOG_ENABLE) {
        return Ok(0);
    }
    let places = JobPlaces::new(settings, environment)?;
    let job = LoggedJob {
        user: places.address.user,
        job_id: places.address.job,
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
    for mut sink in log_sinks(settings, &places.prefix, &Zone::new(environment)) {
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
