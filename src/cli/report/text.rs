//! The report for a terminal.

use std::fmt::Write as _;

use indicatif::HumanBytes;
use scr_core::operations::report::{Advice, Close, Failure, Point, RunStory, RunsReport, waste};

use super::tables::{self, Keep, ReportTable, passed_of_all};
use crate::base::words::{self, counted, lasted, show};

/// Rows that a table has at most; the newest are shown.
const ROWS: usize = 12;

/// Runs as short as that have no share of their time told: they are known to whole seconds.
const SHARE_SECONDS_MIN: u64 = 60;

pub fn of(report: &RunsReport) -> String {
    let mut text = String::new();
    for (name, sentence) in summary(report) {
        let _ = writeln!(text, "{name:<10}{sentence}"); // cannot fail
    }
    for ReportTable { title, headers, words, rows, keep } in tables::all(report) {
        let more = if keep == Keep::All { 0 } else { rows.len().saturating_sub(ROWS) };
        let shown = match keep {
            Keep::First => &rows[..rows.len() - more],
            _ => &rows[more..],
        };
        if !shown.is_empty() {
            let mut table = words::table(headers, words);
            table.add_rows(shown.iter().cloned());
            let more = if more > 0 { format!(" ... and {more} more\n") } else { String::new() };
            let _ = write!(text, "\n{title}\n{}\n{more}", table.trim_fmt()); // cannot fail
        }
    }
    text
}

pub fn summary(report: &RunsReport) -> Vec<(&'static str, String)> {
    let mut all = vec![("prefix", report.prefix.display().to_string())];
    let (Some(first), Some(last)) = (report.runs.first(), report.runs.last()) else {
        all.push(("runs", "none has been started here".to_owned()));
        return all;
    };
    all.push((
        "runs",
        format!(
            "{}, from {} to {}: {}; running time {}",
            report.runs.len(),
            show(first.started),
            show(last.seen),
            closes(&report.runs),
            lasted(report.running_seconds() as f64),
        ),
    ));
    if !report.has_log {
        let why = "SCR_LOG_ENABLE=0 switches it off";
        all.push(("log", format!("there is none ({why}), so this is the last run only")));
    }
    all.push(("written", written(report)));
    all.extend(flushed(report).map(|sentence| ("flushed", sentence)));
    all.extend(exposed(report).map(|sentence| ("exposed", sentence)));
    all.extend(survived(report).map(|sentence| ("failures", sentence)));
    all.extend(report.advice.iter().flat_map(interval).map(|one| ("interval", one)));
    all
}

fn closes(runs: &[RunStory]) -> String {
    let all = [Close::Ended, Close::Exited, Close::Halted, Close::Killed, Close::Runs];
    let count = |close: Close| runs.iter().filter(|run| run.close == close).count();
    let parts = all.into_iter().filter(|close| count(*close) > 0);
    let parts: Vec<String> =
        parts.map(|close| format!("{} {}", count(close), close.text())).collect();
    parts.join(", ")
}

fn written(report: &RunsReport) -> String {
    let datasets = report.points().count();
    let bytes: u64 = report.runs.iter().map(RunStory::bytes).sum();
    let cost: f64 = report.points().filter_map(|(_, point)| point.cost_seconds).sum();
    let (flushed, ran) =
        (report.points().filter(|(_, p)| p.flushed.is_some()).count(), report.running_seconds());
    let mut text = format!(
        "{datasets} checkpoints and outputs of {} were sealed, {flushed} of them flushed",
        HumanBytes(bytes)
    );
    if cost > 0.0 {
        text += &format!("; writing them took {}", lasted(cost));
    }
    if cost > 0.0 && ran >= SHARE_SECONDS_MIN {
        text += &format!(", {:.1} % of the time", 100.0 * cost / ran as f64);
    }
    let past: u64 = passed_of_all(report).values().map(|one| one.bytes).sum();
    if past > 0 {
        text += &format!("; {} went straight to the prefix", HumanBytes(past));
    }
    text
}

fn flushed(report: &RunsReport) -> Option<String> {
    let sum = |of: fn(&Point) -> bool| {
        let all = report.points().filter(|(_, point)| of(point)).map(|(_, point)| point.bytes);
        let all: Vec<u64> = all.collect();
        (all.len(), HumanBytes(all.iter().sum()))
    };
    let (flushed, bytes) = sum(|point| point.flush_seconds.is_some());
    let (spared, spared_bytes) = sum(|point| point.spared);
    if flushed + spared == 0 {
        return None;
    }
    let seconds = report.points().filter_map(|(_, point)| point.flush_seconds).sum();
    Some(format!(
        "{bytes} of {flushed} in {}; {spared_bytes} of {spared} were deleted or replaced by the \
         program before they had to be",
        lasted(seconds)
    ))
}

fn exposed(report: &RunsReport) -> Option<String> {
    let all = report.points().filter_map(|(_, point)| point.exposed_seconds);
    let mut all: Vec<f64> = all.collect();
    all.sort_by(f64::total_cmp);
    let (middle, most) = (all.get(all.len() / 2)?, all.last()?);
    Some(format!(
        "from the last close of a checkpoint to its seal, when a failure would have taken it: {} \
         as a rule, {} at most",
        lasted(*middle),
        lasted(*most)
    ))
}

fn survived(report: &RunsReport) -> Option<String> {
    let all = &report.failures;
    if all.is_empty() {
        return None;
    }
    let on = all.iter().filter(|one| one.went_on_from.is_some()).count();
    let sum = |of: fn(&Failure) -> u64| lasted(all.iter().map(of).sum::<u64>() as f64);
    let least = if all.iter().all(|one| one.exact) { "" } else { " at least" };
    Some(format!(
        "{} died; after {on} of them the next run went on from a checkpoint; lost work: \
         {}{least}; saved by the caches: {}",
        counted(all.len(), "run"),
        sum(|one| one.lost_seconds),
        sum(|one| one.saved_seconds),
    ))
}

/// Tells which interval is advised, and what that rests on.
pub fn interval(one: &Advice) -> Vec<String> {
    let costs = &one.costs;
    let what = if costs.whole { "" } else { " (its seal alone; the log would tell all of it)" };
    let base = match (costs.given, costs.failures) {
        (true, _) => format!("a failure every {}, as given", lasted(costs.mtbf_seconds)),
        (_, 0) => format!("no failure in {} yet", lasted(costs.mtbf_seconds)),
        (_, count) => format!("a failure every {} (seen: {count})", lasted(costs.mtbf_seconds)),
    };
    let least = if costs.failures == 0 && !costs.given { "at least " } else { "" };
    let mut all = vec![format!(
        "a checkpoint costs {}{what}; {base}: write one every {least}{} (Daly) or {} (Young)",
        lasted(costs.seconds),
        lasted(one.daly),
        lasted(one.young),
    )];
    if let Some(used) = one.used {
        let percent = |interval| 100.0 * waste(interval, costs).min(1.0);
        all.push(format!(
            "one every {} was written: {:.1} % of the time for checkpoints and lost work; {:.1} % \
             are to be had",
            lasted(used),
            percent(used),
            percent(one.daly),
        ));
    }
    all
}
