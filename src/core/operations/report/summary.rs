//! All launches on a prefix, and the interval that they advise.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::losses::Failure;
use super::runs::{Point, RunStory};
use crate::operations::Unread;
use crate::records::RunPace;

/// What is known of all launches on a prefix.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunsReport {
    /// The prefix directory.
    pub prefix: PathBuf,
    /// The launches, oldest first.
    pub runs: Vec<RunStory>,
    /// Those that died, and what that cost.
    pub failures: Vec<Failure>,
    /// `None` if no checkpoint was measured.
    pub advice: Option<Advice>,
    /// There is a log of events.
    pub has_log: bool,
    /// What could not be read, in sentences.
    pub unreadable: Vec<Unread>,
}

impl RunsReport {
    /// Sums the seconds during which launches ran.
    pub fn running_seconds(&self) -> u64 {
        self.runs.iter().map(|run| run.seen.saturating_sub(run.started)).sum()
    }

    /// Returns for each host how fast it has sealed, and flushed, in all runs.
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

    /// Lists the checkpoints in the order of their seals, each with the index of its run.
    pub fn points(&self) -> impl Iterator<Item = (usize, &Point)> {
        self.runs.iter().enumerate().flat_map(|(at, run)| run.points.iter().map(move |p| (at, p)))
    }
}

/// What the interval was calculated from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// What one checkpoint takes of the program's time, in seconds: the median.
    pub seconds: f64,
    /// From the first file of a checkpoint to its seal; else the seal alone was logged.
    pub whole: bool,
    /// Mean time between failures, in seconds.
    pub mtbf_seconds: f64,
    /// Failures that it rests on; 0: none came, or the time was given.
    pub failures: usize,
    /// It was given, not measured.
    pub given: bool,
}

/// The interval that is advised, and the one in use; in seconds from seal to seal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Advice {
    /// What it rests on.
    pub costs: Costs,
    /// Young's interval.
    pub young: f64,
    /// Daly's interval.
    pub daly: f64,
    /// The mean of what was used.
    pub used: Option<f64>,
}
