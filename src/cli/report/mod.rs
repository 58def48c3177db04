//! `scr report`: what the runs of a prefix did, as text, as JSON, or as a page with charts.

mod charts;
mod json;
mod page;
mod plot;
mod tables;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use scr_core::error::Error;
use scr_core::operations::report::{RunsReport, read_report};

use crate::base::say;
use crate::base::settings::{existing, load_settings, prefix_or_default};

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

pub fn run(args: &Args) -> ExitCode {
    let named = args.prefix.as_deref().or(args.named.as_deref());
    let prefix = prefix_or_default(named);
    let prefix = std::path::absolute(&prefix).unwrap_or(prefix);
    let report = match existing(&prefix).and_then(|()| read(args, &prefix)) {
        Ok(report) => report,
        Err(error) => return say::finish("report", Err(error)),
    };
    report.unreadable.iter().for_each(|what| say::tell("report", what.id, &what.text));
    let printed = match (&args.html, args.json) {
        (Some(file), _) => say::finish("report", write_page(file, &report)),
        (None, true) => say::print(&format!("{:#}\n", json::of(&report))),
        (None, false) => say::print(&text::of(&report)),
    };
    match (report.runs.is_empty(), report.unreadable.is_empty()) {
        (_, false) => ExitCode::from(2),
        (true, true) => ExitCode::FAILURE,
        (false, true) => printed,
    }
}

fn read(args: &Args, prefix: &Path) -> scr_core::error::Result<RunsReport> {
    let (settings, _) = load_settings(Some(&prefix.to_string_lossy()))?;
    let mtbf_seconds = args.mtbf.map(|hours| hours * 3600.0);
    read_report(&settings, prefix, args.job.as_deref(), mtbf_seconds)
}

fn write_page(file: &Path, report: &RunsReport) -> scr_core::error::Result<String> {
    std::fs::write(file, page::of(report).into_string())
        .map_err(|error| Error::io("cannot write", file, error))?;
    Ok(format!("{}\n", file.display()))
}
