//! Where the log of events goes, as the settings say; the same for a run and for the commands.

use std::path::{Path, PathBuf};

use crate::events::{Database, EventSink, Syslog, TextFile};
use crate::namespace::STATE_FOLDER;
use crate::params::{Settings, keys};
use crate::records::Zone;

pub fn log_text(prefix: &Path) -> PathBuf {
    prefix.join(STATE_FOLDER).join("log")
}

pub fn log_database(settings: &Settings, prefix: &Path) -> PathBuf {
    match settings.get_optional(keys::LOG_DB_NAME) {
        Some(name) => prefix.join(name),
        None => prefix.join(STATE_FOLDER).join("log.sqlite"),
    }
}

/// Returns a sink for each place that events are written to; `zone` is that of the people who read
/// them.
pub fn log_sinks(settings: &Settings, prefix: &Path, zone: &Zone) -> Vec<Box<dyn EventSink>> {
    let mut sinks: Vec<Box<dyn EventSink>> = Vec::new();
    if !settings.get(keys::LOG_ENABLE) {
        return sinks;
    }
    let set = |name| settings.is_chosen(keys::LOG_ENABLE.param.name) || settings.is_chosen(name);
    let has_text = settings.get(keys::LOG_TXT_ENABLE) && set(keys::LOG_TXT_ENABLE.param.name);
    if has_text {
        sinks.push(Box::new(TextFile::new(log_text(prefix), zone.clone())));
    }
    let syslog = keys::LOG_SYSLOG_ENABLE.param.name;
    if settings.get(keys::LOG_SYSLOG_ENABLE) && set(syslog) {
        // It is on by default, and many a container has none.
        let chosen = settings.is_chosen(syslog);
        sinks.push(Box::new(Syslog::new(chosen)));
    }
    if settings.get(keys::LOG_DB_ENABLE) {
        let tells = settings.get(keys::LOG_DB_DEBUG) > 0;
        // Not every parallel file system has the locks that a database needs.
        let may_stand_in = settings.get(keys::LOG_TXT_ENABLE) && !has_text;
        let instead = may_stand_in.then(|| TextFile::new(log_text(prefix), zone.clone()));
        let is_missed = settings.is_chosen(keys::LOG_DB_ENABLE.param.name);
        let path = log_database(settings, prefix);
        sinks.push(Box::new(Database::new(path, tells, instead, is_missed)));
    }
    sinks
}
