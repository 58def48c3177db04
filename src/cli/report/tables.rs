//! The tables of a report: the same on a terminal and on a page.

use std::cmp::Ordering::Equal;
use std::collections::BTreeMap;

use indicatif::HumanBytes;
use scr_core::operations::report::{Failure, Point, RunStory, RunsReport};
use scr_core::records::{RunPace, RunPassed};

use crate::base::words::{lasted, rate, show, speed};

/// A table whose columns from `words` on are numbers.
pub struct ReportTable {
    pub title: &'static str,
    pub headers: &'static [&'static str],
    pub words: usize,
    pub rows: Vec<Vec<String>>,
    pub keep: Keep,
}

/// Which rows are shown where there is no room for all.
#[derive(PartialEq, Eq)]
pub enum Keep {
    First,
    Last,
    All,
}

pub fn all(report: &RunsReport) -> [ReportTable; 6] {
    let table =
        |title, headers, words, rows, keep| ReportTable { title, headers, words, rows, keep };
    let passed = passed_of_all(report);
    let passed = passed.iter().map(|(reason, one)| passed_cells(reason, one)).collect();
    let troubles = report
        .runs
        .iter()
        .flat_map(|run| run.troubles.iter().map(|one| vec![show(run.started), one.clone()]))
        .collect();
    let points = report.points().map(|(_, one)| point_cells(one)).collect();
    let failures = report.failures.iter().map(failure_cells).collect();
    let runs = report.runs.iter().map(run_cells).collect();
    [
        table("Runs", &RUN_HEADERS, 4, runs, Keep::Last),
        table("Checkpoints", &POINT_HEADERS, 2, points, Keep::Last),
        table("Failures", &FAILURE_HEADERS, 3, failures, Keep::Last),
        table("Nodes, the slowest first", &NODE_HEADERS, 1, nodes(report), Keep::First),
        table("Straight to the prefix", &PASSED_HEADERS, 2, passed, Keep::All),
        table("Troubles", &["run of", "what"], 2, troubles, Keep::Last),
    ]
}

const RUN_HEADERS: [&str; 7] =
    ["began", "job", "went on from", "end", "ranks", "lasted", "checkpoints"];

fn run_cells(run: &RunStory) -> Vec<String> {
    let from = run.went_on_from.as_ref().map(|(_, name)| name.clone());
    let rebuilt = if run.rebuilt { " (rebuilt)" } else { "" };
    vec![
        show(run.started),
        run.job.clone(),
        from.map(|name| name + rebuilt).unwrap_or_default(),
        run.close.text().to_owned(),
        format!("{} on {}", run.ranks, run.nodes),
        lasted(run.seen.saturating_sub(run.started) as f64),
        run.points.len().to_string(),
    ]
}

const POINT_HEADERS: [&str; 10] = [
    "sealed",
    "name",
    "files",
    "bytes",
    "cost",
    "exposed",
    "seal",
    "seal rate",
    "flush",
    "flush rate",
];

fn point_cells(point: &Point) -> Vec<String> {
    let time = |seconds: Option<f64>| seconds.map(lasted).unwrap_or_default();
    let failed = point.failed.as_ref().map(|_| "failed".to_owned());
    vec![
        show(point.sealed),
        point.name.clone(),
        point.files.to_string(),
        HumanBytes(point.bytes).to_string(),
        time(point.cost_seconds),
        time(point.exposed_seconds),
        time(point.seal_seconds),
        speed(point.cached, point.seal_seconds),
        failed.unwrap_or_else(|| time(point.flush_seconds)),
        speed(point.bytes, point.flush_seconds),
    ]
}

const FAILURE_HEADERS: [&str; 5] = ["failed", "next run", "went on from", "lost", "saved"];

fn failure_cells(one: &Failure) -> Vec<String> {
    // What nobody has seen fail was alive at its last sign.
    let (after, more) = if one.exact { ("", "") } else { ("after ", " or more") };
    vec![
        format!("{after}{}", show(one.seen)),
        one.next.map(show).unwrap_or_default(),
        one.went_on_from.as_ref().map(|(_, name)| name.clone()).unwrap_or_default(),
        format!("{}{more}", lasted(one.lost_seconds as f64)),
        lasted(one.saved_seconds as f64),
    ]
}

const NODE_HEADERS: [&str; 5] = ["node", "sealed", "seal rate", "flushed", "flush rate"];

fn nodes(report: &RunsReport) -> Vec<Vec<String>> {
    let cells = |(host, [sealed, flushed]): &(&str, [RunPace; 2])| {
        let bytes = |pace: &RunPace| HumanBytes(pace.bytes).to_string();
        let speed = |pace: &RunPace| speed(pace.bytes, Some(pace.seconds()));
        vec![(*host).to_owned(), bytes(sealed), speed(sealed), bytes(flushed), speed(flushed)]
    };
    slowest_first(report).iter().map(cells).collect()
}

/// Sorts the nodes by the rate of their seals, then of their flushes.
pub fn slowest_first(report: &RunsReport) -> Vec<(&str, [RunPace; 2])> {
    let mut all: Vec<_> = report.paces().into_iter().collect();
    let rates = |paces: &[RunPace; 2]| paces.each_ref().map(|pace| pace_rate(pace).unwrap_or(0.0));
    all.sort_by(|(_, one), (_, other)| rates(one).partial_cmp(&rates(other)).unwrap_or(Equal));
    all
}

pub fn pace_rate(pace: &RunPace) -> Option<f64> {
    rate(pace.bytes, Some(pace.seconds()))
}

const PASSED_HEADERS: [&str; 4] = ["reason", "as", "files", "bytes"];

fn passed_cells(reason: &str, one: &RunPassed) -> Vec<String> {
    let bytes = HumanBytes(one.bytes).to_string();
    vec![reason.to_owned(), one.example.clone(), one.files.to_string(), bytes]
}

/// Sums up what went straight to the prefix in all runs, by reason.
pub fn passed_of_all(report: &RunsReport) -> BTreeMap<&str, RunPassed> {
    let mut sums: BTreeMap<&str, RunPassed> = BTreeMap::new();
    for (reason, one) in report.runs.iter().flat_map(|run| &run.passed) {
        let sum = sums.entry(reason).or_default();
        sum.files = sum.files.saturating_add(one.files);
        sum.bytes = sum.bytes.saturating_add(one.bytes);
        if sum.example.is_empty() {
            sum.example.clone_from(&one.example);
        }
    }
    sums
}
