//! What the runs of a prefix did, what their checkpoints cost and saved, and how often to write
//! them.
//!
//! Two sources: the log of events, which has every launch unless it is switched off
//! (`SCR_LOG_ENABLE=0`), and the run record, which has the last launch in any case.

mod interval;
mod losses;
mod runs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use interval::{Advice, Costs, daly, waste, young};
pub use losses::Failure;
pub use runs::{Close, Point, RunStory};

use super::{Life, Unread, log::read_log, read_status};
use crate::error::Result;
use crate::events::Filter;
use crate::log::messages;
use crate::params::Settings;
use crate::records::RunPace;

/// What is known of all launches on a prefix.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// The prefix directory.
    pub prefix: PathBuf,
    /// The launches, oldest first.
    pub runs: Vec<RunStory>,
    /// Those that died, and what that cost.
    pub failures: Vec<Failure>,
    /// What measured costs and failures say of the interval between checkpoints; `None` if no
    /// checkpoint was measured.
    pub advice: Option<Advice>,
    /// There is a log of events.
    pub has_log: bool,
    /// What could not be read, in sentences.
    pub unreadable: Vec<Unread>,
}

impl Report {
    /// Sums the seconds during which launches ran.
    #[must_use]
    pub fn running_seconds(&self) -> u64 {
        self.runs.iter().map(|run| run.seen.saturating_sub(run.started)).sum()
    }

    /// Sums up how fast each node has sealed, and flushed, in all runs; by host.
    #[must_use]
    pub fn paces(&self) -> BTreeMap<&str, [RunPace; 2]> {
        let mut sums: BTreeMap<&str, [RunPace; 2]> = BTreeMap::new();
        for (host, paces) in self.runs.iter().flat_map(|run| &run.paces) {
            for (sum, pace) in sums.entry(host).or_default().iter_mut().zip(paces) {
                sum.bytes = sum.bytes.saturating_add(pace.bytes);
                sum.nanos = sum.nanos.saturating_add(pace.nanos);
            }
        }
        sums
    }

    /// Lists all checkpoints in the order of their seals, with the run of each, counted from 0.
    pub fn points(&self) -> impl Iterator<Item = (usize, &Point)> {
        self.runs.iter().enumerate().flat_map(|(at, run)| run.points.iter().map(move |p| (at, p)))
    }
}

/// Finds out what the launches on `prefix` did; those of the job `job` only, if one is given.
/// `mtbf_seconds`: the mean time between failures, if somebody knows it better than these runs do.
///
/// # Errors
/// If the log of events cannot be read.
pub fn read_report(
    settings: &Settings,
    prefix: &Path,
    job: Option<&str>,
    mtbf_seconds: Option<f64>,
) -> Result<Report> {
    let log = read_log(settings, prefix, &Filter::default(), false)?;
    let mut unreadable = Vec::new();
    if log.unreadable > 0 {
        let text = format!("{} lines of the log are no events", log.unreadable);
        unreadable.push(Unread { id: messages::FILE_DAMAGED, text });
    }
    let trouble = log.trouble.map(|text| Unread { id: messages::UNREADABLE, text });
    unreadable.extend(trouble);
    let has_log = !log.events.is_empty();
    let mut runs = runs::stories(&log.events);
    let status = read_status(prefix);
    unreadable.extend(status.unreadable);
    if let Some(record) = &status.run {
        runs::add_record(&mut runs, record, status.life == Life::Runs);
    }
    runs.retain(|run| job.is_none_or(|job| run.job == job));
    let failures = losses::failures(&runs);
    let mut report =
        Report { prefix: prefix.to_path_buf(), runs, failures, advice: None, has_log, unreadable };
    report.advice = interval::advice(&report, mtbf_seconds);
    Ok(report)
}
