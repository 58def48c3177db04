//! What a run tells of itself without a session: counters, the places of its log, the run record.

pub(crate) mod calls;
pub(crate) mod deleted;
pub(crate) mod flush_file;
pub(crate) mod log_places;
pub(crate) mod paces;
pub(crate) mod passed;
pub(crate) mod run_book;
pub(crate) mod tally;
pub(crate) mod unmatched;
pub(crate) mod watchdog;

pub(crate) use log_places::{log_database, log_sinks, log_text};
