//! `scr report`: what the runs of a prefix did, as text, as JSON, or as a page with charts.

mod charts;
mod json;
mod page;
mod plot;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use indicatif::HumanBytes;
use scr_core::error::Error;
use scr_core::operations::report::{RunsReport, read_report};
use scr_core::records::RunPace;

/// Arguments of `scr report`.
#[derive(clap::Args)]
#[command(after_help = "\
The log of events tells of every launch; without it (SCR_LOG_ENABLE=0) there is the last one only, \
by what it has published in its prefix. Work lost is counted up to the failure, if the launcher or \
scr run has seen it, else up to the last sign of life, so it is the least; work saved is what the \
run would have lost besides, had only the prefix kept checkpoints. A node's bandwidth is what its \
ranks moved in the time of the slowest of them. The advised interval is Young's and Daly's, from \
what checkpoints cost and from how often these runs died, or from --mtbf. The exit status is 0; 1 \
if no run has been started there, or the log cannot be read, or the page cannot be written; 2 if a \
record cannot be read. Example:\n
    scr report /pfs/me/run --html report.html")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(value_name = "PREFIX")]
    prefix: Option<PathBuf>,
    /// The same, as other commands take it.
    #[arg(long = "prefix", value_name = "DIRECTORY", conflicts_with = "prefix")]
    named: Option<PathBuf>,
    /// Only launches of this job.
    #[arg(short, long, value_name = "ID")]
    job: Option<String>,
    /// Mean time between failures of the whole job in hours, if you know it.
    #[arg(long, value_name = "HOURS", value_parser = hours)]
    mtbf: Option<f64>,
    /// As JSON.
    #[arg(long, conflicts_with = "html")]
    json: bool,
    /// Write a page with charts to FILE. It needs nothing from the network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn hours(text: &str) -> std::result::Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    let fits = number.filter(|one| one.is_finite() && *one > 0.0);
    fits.ok_or_else(|| "a number of hours is greater than 0".to_owned())
}

/// Runs the tool.
pub fn run(args: &Args) -> ExitCode {
    let named = args.prefix.as_deref().or(args.named.as_deref());
    let prefix = super::prefix_or_default(named);
    let prefix = std::path::absolute(&prefix).unwrap_or(prefix);
    let report = match super::existing(&prefix).and_then(|()| read(args, &prefix)) {
        Ok(report) => report,
        Err(error) => return super::finish("report", Err(error)),
    };
    report.unreadable.iter().for_each(|what| crate::tell("report", what.id, &what.text));
    let printed = match (&args.html, args.json) {
        (Some(file), _) => super::finish("report", write_page(file, &report)),
        (None, true) => super::print(&format!("{:#}\n", json::of(&report))),
        (None, false) => super::print(&text::of(&report)),
    };
    match (report.runs.is_empty(), report.unreadable.is_empty()) {
        (_, false) => ExitCode::from(2),
        (true, true) => ExitCode::FAILURE,
        (false, true) => printed,
    }
}

fn read(args: &Args, prefix: &Path) -> scr_core::error::Result<RunsReport> {
    let (settings, _) = super::load_settings(Some(&prefix.to_string_lossy()))?;
    let mtbf_seconds = args.mtbf.map(|hours| hours * 3600.0);
    read_report(&settings, prefix, args.job.as_deref(), mtbf_seconds)
}

fn write_page(file: &Path, report: &RunsReport) -> scr_core::error::Result<String> {
    std::fs::write(file, page::of(report).into_string())
        .map_err(|error| Error::io("cannot write", file, error))?;
    Ok(format!("{}\n", file.display()))
}

/// A time in words that fit its size.
fn lasted(seconds: f64) -> String {
    match seconds {
        0.0 => "0 s".to_owned(),
        s if s < 1.0 => format!("{:.0} ms", s * 1000.0),
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// Writes how fast a node is, as `1.20 GiB/s`; nothing if it has moved nothing.
pub fn speed(pace: &RunPace) -> String {
    let rate = rate(pace.bytes, Some(pace.seconds()));
    rate.map(|rate| format!("{}/s", HumanBytes(rate as u64))).unwrap_or_default()
}

/// Bytes in a second; `None` if the time is too short to tell.
fn rate(bytes: u64, seconds: Option<f64>) -> Option<f64> {
    seconds.filter(|seconds| *seconds > 0.0 && bytes > 0).map(|seconds| bytes as f64 / seconds)
}

/// Every `n`-th of a long list, its last one included, so that `most` are left.
fn thinned<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let step = all.len().div_ceil(most.max(1)).max(1);
    let last = all.len().saturating_sub(1);
    all.into_iter()
        .enumerate()
        .filter(|(at, _)| (last - at).is_multiple_of(step))
        .map(|(_, x)| x)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_thinned_and_keep_their_end() {
        assert_eq!(thinned(vec![1, 2, 3], 9), [1, 2, 3]);
        let few = thinned((0..1000).collect(), 10);
        assert_eq!((few.len(), few.last()), (10, Some(&999)));
        assert!(thinned(Vec::<u8>::new(), 3).is_empty());
    }

    #[test]
    fn times_are_told_in_units_that_fit() {
        for (seconds, text) in
            [(0.0, "0 s"), (0.25, "250 ms"), (2.5, "2.5 s"), (600.0, "10 min"), (7200.0, "2.0 h")]
        {
            assert_eq!(lasted(seconds), text);
        }
        assert_eq!((rate(10, Some(2.0)), rate(10, Some(0.0))), (Some(5.0), None));
    }
}
