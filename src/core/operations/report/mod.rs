//! What the runs of a prefix did, what their checkpoints cost and saved. The log of events has
//! every launch unless `SCR_LOG_ENABLE=0`, the run record the last one.

mod interval;
mod losses;
mod runs;
pub(super) mod status;
mod summary;

use std::path::Path;

pub use interval::{daly, waste, young};
pub use losses::Failure;
pub use runs::{Close, Point, RunStory};
pub use summary::{Advice, Costs, RunsReport};

use super::{Life, Unread, log::read_log, read_status};
use crate::error::Result;
use crate::events::Filter;
use crate::log::messages;
use crate::params::Settings;

/// Reads what the launches on `prefix`, or those of one `job`, did. `mtbf_seconds` replaces the
/// measured mean time between failures.
pub fn read_report(
    settings: &Settings,
    prefix: &Path,
    job: Option<&str>,
    mtbf_seconds: Option<f64>,
) -> Result<RunsReport> {
    let log = read_log(settings, prefix, &Filter::default(), false)?;
    let mut unreadable = Vec::new();
    if log.unreadable > 0 {
        let text = format!("{} lines of the log are no events", log.unreadable);
        unreadable.push(Unread { id: messages::FILE_DAMAGED, text });
    }
    unreadable.extend(log.trouble.map(|text| Unread { id: messages::UNREADABLE, text }));
    let has_log = !log.events.is_empty();
    let mut runs = runs::stories(&log.events);
    let status = read_status(prefix);
    unreadable.extend(status.unreadable);
    if let Some(record) = &status.run {
        runs::add_record(&mut runs, record, status.life == Life::Runs);
    }
    runs.retain(|run| job.is_none_or(|job| run.job == job));
    let failures = losses::failures(&runs);
    let prefix = prefix.to_path_buf();
    let mut report = RunsReport { prefix, runs, failures, advice: None, has_log, unreadable };
    report.advice = interval::advice(&report, mtbf_seconds);
    Ok(report)
}
