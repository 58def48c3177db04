//! The report for a terminal.

use std::cmp::Ordering::Equal;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};
use indicatif::HumanBytes;
use scr_core::operations::report::{Advice, Close, Failure, Point, RunStory, RunsReport, waste};
use scr_core::records::{RunPace, RunPassed};

use super::{lasted, rate, speed};
use crate::halt::show;

/// Rows that a table has at most; the newest are shown.
const ROWS: usize = 12;

/// Runs as short as that have no share of their time told: they are known to whole seconds.
const SHARE_SECONDS_MIN: u64 = 60;

/// Writes the whole report as text.
pub fn of(report: &RunsReport) -> String {
    let mut text = String::new();
    for (name, sentence) in summary(report) {
        let _ = writeln!(text, "{name:<10}{sentence}"); // cannot fail
    }
    let mut add = |title: &str, table: Option<Table>, more: usize| {
        let Some(table) = table else { return };
        let more = if more > 0 { format!(" ... and {more} more\n") } else { String::new() };
        let _ = write!(text, "\n{title}\n{}\n{more}", table.trim_fmt()); // cannot fail
    };
    let older = |count: usize| count.saturating_sub(ROWS);
    add("Runs", runs(report), older(report.runs.len()));
    add("Checkpoints", points(report), older(report.points().count()));
    add("Failures", failures(report), older(report.failures.len()));
    let all = nodes(report);
    let faster = older(all.len());
    add("Nodes, the slowest first", table(NODE_HEADERS, 1, all.into_iter().take(ROWS)), faster);
    add("Straight to the prefix", passed(report), 0);
    add("Troubles", troubles(report), older(report.runs.iter().map(|r| r.troubles.len()).sum()));
    text
}

/// Tells the report in a few sentences, each with a word for what it is about.
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

/// What flushes cost, and what they were spared.
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

/// How long checkpoints were written and not protected yet.
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

/// Counts in words: `1 run`, `2 runs`.
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Tells what is advised, and what it rests on.
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

/// A table whose columns from `words` on are numbers; `None` without rows.
fn table<const N: usize>(
    headers: [&str; N],
    words: usize,
    rows: impl IntoIterator<Item = [String; N]>,
) -> Option<Table> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(headers);
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for row in rows {
        table.add_row(row);
    }
    (table.row_count() > 0).then_some(table)
}

/// The headers of [`run_cells`].
pub const RUN_HEADERS: [&str; 7] =
    ["began", "job", "went on from", "end", "ranks", "lasted", "checkpoints"];

/// Writes a run as a table's row.
pub fn run_cells(run: &RunStory) -> [String; 7] {
    let from = run.went_on_from.as_ref().map(|(_, name)| name.clone());
    let rebuilt = if run.rebuilt { " (rebuilt)" } else { "" };
    [
        show(run.started),
        run.job.clone(),
        from.map(|name| name + rebuilt).unwrap_or_default(),
        run.close.text().to_owned(),
        format!("{} on {}", run.ranks, run.nodes),
        lasted(run.seen.saturating_sub(run.started) as f64),
        run.points.len().to_string(),
    ]
}

fn runs(report: &RunsReport) -> Option<Table> {
    let skip = report.runs.len().saturating_sub(ROWS);
    table(RUN_HEADERS, 4, report.runs.iter().skip(skip).map(run_cells))
}

/// The headers of [`point_cells`].
pub const POINT_HEADERS: [&str; 10] = [
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

/// Writes a checkpoint as a table's row.
pub fn point_cells(point: &Point) -> [String; 10] {
    let time = |seconds: Option<f64>| seconds.map(lasted).unwrap_or_default();
    let speed = |seconds| {
        let rate = rate(point.bytes, seconds);
        rate.map(|rate| format!("{}/s", HumanBytes(rate as u64))).unwrap_or_default()
    };
    let failed = point.failed.as_ref().map(|_| "failed".to_owned());
    [
        show(point.sealed),
        point.name.clone(),
        point.files.to_string(),
        HumanBytes(point.bytes).to_string(),
        time(point.cost_seconds),
        time(point.exposed_seconds),
        time(point.seal_seconds),
        speed(point.seal_seconds),
        failed.unwrap_or_else(|| time(point.flush_seconds)),
        speed(point.flush_seconds),
    ]
}

fn points(report: &RunsReport) -> Option<Table> {
    let skip = report.points().count().saturating_sub(ROWS);
    table(POINT_HEADERS, 2, report.points().skip(skip).map(|(_, point)| point_cells(point)))
}

/// The headers of [`failure_cells`].
pub const FAILURE_HEADERS: [&str; 5] = ["failed", "next run", "went on from", "lost", "saved"];

/// Writes a failure as a table's row.
pub fn failure_cells(one: &Failure) -> [String; 5] {
    // What nobody has seen fail was alive at its last sign.
    let (after, more) = if one.exact { ("", "") } else { ("after ", " or more") };
    [
        format!("{after}{}", show(one.seen)),
        one.next.map(show).unwrap_or_default(),
        one.went_on_from.as_ref().map(|(_, name)| name.clone()).unwrap_or_default(),
        format!("{}{more}", lasted(one.lost_seconds as f64)),
        lasted(one.saved_seconds as f64),
    ]
}

fn failures(report: &RunsReport) -> Option<Table> {
    let skip = report.failures.len().saturating_sub(ROWS);
    table(FAILURE_HEADERS, 3, report.failures.iter().skip(skip).map(failure_cells))
}

/// The headers of [`nodes`].
pub const NODE_HEADERS: [&str; 5] = ["node", "sealed", "seal rate", "flushed", "flush rate"];

/// Writes a row of a table for each node, the slowest to seal first.
pub fn nodes(report: &RunsReport) -> Vec<[String; 5]> {
    let cells = |(host, [sealed, flushed]): &(&str, [RunPace; 2])| {
        let bytes = |pace: &RunPace| HumanBytes(pace.bytes).to_string();
        [(*host).to_owned(), bytes(sealed), speed(sealed), bytes(flushed), speed(flushed)]
    };
    slowest_first(report).iter().map(cells).collect()
}

/// Sorts the nodes by the rate of their seals, then of their flushes, the slowest first.
pub fn slowest_first(report: &RunsReport) -> Vec<(&str, [RunPace; 2])> {
    let mut all: Vec<_> = report.paces().into_iter().collect();
    let rates = |paces: &[RunPace; 2]| paces.each_ref().map(|pace| pace_rate(pace).unwrap_or(0.0));
    all.sort_by(|(_, one), (_, other)| rates(one).partial_cmp(&rates(other)).unwrap_or(Equal));
    all
}

/// Returns the bytes in a second of a node.
pub fn pace_rate(pace: &RunPace) -> Option<f64> {
    rate(pace.bytes, Some(pace.seconds()))
}

/// The headers of [`passed_cells`].
pub const PASSED_HEADERS: [&str; 4] = ["reason", "as", "files", "bytes"];

/// Writes a reason as a table's row.
pub fn passed_cells((reason, one): (&str, &RunPassed)) -> [String; 4] {
    let bytes = HumanBytes(one.bytes).to_string();
    [reason.to_owned(), one.example.clone(), one.files.to_string(), bytes]
}

fn passed(report: &RunsReport) -> Option<Table> {
    let all = passed_of_all(report);
    table(PASSED_HEADERS, 2, all.iter().map(|(reason, one)| passed_cells((reason, one))))
}

fn troubles(report: &RunsReport) -> Option<Table> {
    let all: Vec<[String; 2]> = report
        .runs
        .iter()
        .flat_map(|run| run.troubles.iter().map(|one| [show(run.started), one.clone()]))
        .collect();
    let skip = all.len().saturating_sub(ROWS);
    table(["run of", "what"], 2, all.into_iter().skip(skip))
}
