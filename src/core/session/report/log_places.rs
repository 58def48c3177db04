//! Where the log of events goes, as the settings say; the same for a run and for the commands.

use std::path::{Path, PathBuf};

use super::events::is_chosen;
use crate::events::{Database, Sink, Syslog, TextFile};
use crate::params::{Settings, keys};
use crate::session::namespace::STATE_FOLDER;

/// Returns where the text log of a prefix lies.
#[must_use]
pub fn log_text(prefix: &Path) -> PathBuf {
    prefix.join(STATE_FOLDER).join("log")
}

/// Returns where the database of a prefix lies.
#[must_use]
pub fn log_database(settings: &Settings, prefix: &Path) -> PathBuf {
    match settings.get_optional(keys::LOG_DB_NAME) {
        Some(name) => prefix.join(name),
        None => prefix.join(STATE_FOLDER).join("log.sqlite"),
    }
}

/// Makes a sink for each place that events are written to.
#[must_use]
pub fn log_sinks(settings: &Settings, prefix: &Path) -> Vec<Box<dyn Sink>> {
    let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
    if settings.get(keys::LOG_TXT_ENABLE) {
        sinks.push(Box::new(TextFile::new(log_text(prefix))));
    }
    if settings.get(keys::LOG_SYSLOG_ENABLE) {
        // It is on by default, and many a container has none.
        let chosen = is_chosen(settings, keys::LOG_SYSLOG_ENABLE.param.name);
        sinks.push(Box::new(Syslog::new(chosen)));
    }
    if settings.get(keys::LOG_DB_ENABLE) {
        let tells = settings.get(keys::LOG_DB_DEBUG) > 0;
        sinks.push(Box::new(Database::new(log_database(settings, prefix), tells)));
    }
    sinks
}
