//! `scr status`: how a run is doing, on one screen.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use comfy_table::Table;
use indicatif::HumanBytes;
use scr_core::operations::{Life, PrefixStatus, read_status, state_of};
use scr_core::records::{IndexEntry, RunDataset, RunRecord, Timestamp};
use scr_core::transfer::Progress;
use serde_json::{Map, Value, json};

use crate::base::say;
use crate::base::settings::{existing, prefix_or_default};
use crate::base::words::{iso, show, speed, table, took};
use crate::watch::halt::{self, describe};

const NODES_SHOWN: usize = 12;
const DATASETS_SHOWN: usize = 8;
const EVENTS_SHOWN: usize = 8;

#[derive(clap::Args)]
#[command(after_help = "\
Reads what the run has published in its prefix, from any node that sees it; the run does not \
notice. Bytes in caches are those of the program's files, without redundancy data. What went \
straight to the prefix is counted on all ranks at the end, on rank 0 before. --json prints an \
object with everything, times as ISO 8601 (UTC). The exit status is 0; 1 if no run has been \
started there; 2 if a record cannot be read. Example:\n
    watch scr status --prefix /pfs/me/run")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(long, alias = "dir", value_name = "DIRECTORY")]
    prefix: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> ExitCode {
    let prefix = prefix_or_default(args.prefix.as_deref());
    if let Err(error) = existing(&prefix) {
        say::complain("status", &error);
        return ExitCode::FAILURE;
    }
    let status = read_status(&prefix);
    status.unreadable.iter().for_each(|what| say::tell("status", what.id, &what.text));
    let printed = match args.json {
        true => say::print(&format!("{:#}\n", in_json(&prefix, &status))),
        false => say::print(&in_words(&prefix, &status)),
    };
    match (&status.run, status.unreadable.is_empty()) {
        (_, false) => ExitCode::from(2),
        (None, true) => ExitCode::FAILURE,
        (Some(_), true) => printed,
    }
}

fn in_words(prefix: &Path, status: &PrefixStatus) -> String {
    let mut text = String::new();
    let whole = std::path::absolute(prefix).unwrap_or_else(|_| prefix.to_path_buf());
    line(&mut text, "prefix", whole.display());
    match &status.run {
        None if status.unreadable.is_empty() => {
            line(&mut text, "run", "none has been started here");
        }
        None => line(&mut text, "run", "nothing is known of one: records cannot be read"),
        Some(run) => of_run(&mut text, run, status),
    }
    if let Some(refusal) = &status.refused {
        let text_of =
            format!("a launch at {} went without SCR: {}", show(refusal.time), refusal.why);
        line(&mut text, "warning", text_of);
    }
    line(&mut text, "restart", restart(status));
    for (id, name) in &status.only_in_caches {
        let of_run = status.run.as_ref().and_then(|run| run.datasets.get(id));
        let name = of_run.map_or(name, |one| &one.name);
        let what = format!("{name} (dataset {id}): scr scavenge brings it to the prefix");
        line(&mut text, "unsaved", format!("only the nodes' caches have {what}"));
    }
    line(&mut text, "halt", describe(&status.halt));
    if let Some(run) = &status.run {
        tables(&mut text, run, status);
    }
    text
}

fn line(text: &mut String, name: &str, what: impl std::fmt::Display) {
    let _ = writeln!(text, "{name:<9}{what}"); // cannot fail
}

fn of_run(text: &mut String, run: &RunRecord, status: &PrefixStatus) {
    line(text, "run", life(run, status));
    let mpi = if run.mpi.is_empty() { "" } else { ", " };
    let (nodes, job) = (run.nodes.len(), &run.job);
    line(
        text,
        "",
        format!(
            "{} ranks on {nodes} nodes{mpi}{}, SCR {}; job {job} of {}",
            run.ranks, run.mpi, run.version, run.user
        ),
    );
    let holds = status.holder.as_ref().filter(|_| status.life != Life::Runs);
    if let Some(holder) = holds {
        line(text, "", format!("the prefix is in use by another run or command ({holder})"));
    }
    match &*run.patterns {
        "" => line(text, "files", "the program says what it writes (SCR calls)"),
        patterns => line(text, "files", patterns),
    }
    run.protection.iter().for_each(|clause| line(text, "scheme", clause));
    run.warnings.iter().for_each(|warning| line(text, "warning", warning));
    if let Some(nearest) = &run.unmatched {
        let why = match &**nearest {
            "" => "the program wrote no file below the prefix".to_owned(),
            nearest => format!("no file matched a pattern; nearest: {nearest}"),
        };
        line(text, "warning", format!("no checkpoint was protected: {why} (see scr doctor)"));
    }
}

/// Tells whether the run lives, since when, or how it ended.
pub fn life(run: &RunRecord, status: &PrefixStatus) -> String {
    let (began, seen) = (show(run.started), show(run.updated));
    match (status.life, &run.end) {
        (_, Some(end)) => {
            let how = match &*end.how {
                "END" => "came to its end",
                _ => "ended without MPI_Finalize",
            };
            format!("{how} at {}, after {}", show(end.time), lasted(run.started, end.time))
        }
        (Life::Runs, None) => {
            let now = Timestamp::now().unix_seconds();
            format!("running since {began} ({}); last news at {seen}", lasted(run.started, now))
        }
        (Life::Died, None) => {
            format!("it died: it began at {began}, and its last news is of {seen}")
        }
        (_, None) => format!("it began at {began}; nobody here can tell whether it runs"),
    }
}

fn lasted(from: u64, to: u64) -> String {
    let seconds = to.saturating_sub(from);
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest} s"),
        (0, _) => format!("{minutes} min {rest} s"),
        _ => format!("{hours} h {minutes} min"),
    }
}

/// Tells what a restart goes on from, with the caches and without them.
pub fn restart(status: &PrefixStatus) -> String {
    let on_prefix = match &status.newest {
        Some(entry) => from(entry),
        None if status.unreadable.is_empty() => {
            "the prefix has no checkpoint that a run could go on from".to_owned()
        }
        None => "nobody can tell from which checkpoint: records cannot be read".to_owned(),
    };
    let known = status.newest.as_ref().map_or(0, |entry| entry.id);
    let newer = status.run.iter().flat_map(|run| run.datasets.iter().rev());
    let is_known = |one: &RunDataset| one.complete && (one.in_cache || one.on_prefix);
    let newer = newer.filter(|(id, one)| **id > known && is_known(one));
    let mut newer = newer.map(|(id, one)| (*id, &one.name, one.in_cache));
    // Notes of the caches are made at once, the run's record now and then.
    let noted = status.only_in_caches.last().map(|(id, name)| (*id, name, true));
    let noted = noted.filter(|(id, ..)| *id > known);
    match newer.next().into_iter().chain(noted).max_by_key(|(id, ..)| *id) {
        Some((id, name, in_cache)) => {
            let of_run = status.run.as_ref().and_then(|run| run.datasets.get(&id));
            let name = of_run.map_or(name, |one| &one.name);
            let without = if known > 0 { "without these " } else { "" };
            let place = match in_cache {
                true => "in the caches",
                false => "on the prefix, as the caches tell",
            };
            let died = status.life == Life::Died;
            let or = if died { ", or a newer one of which there was no news yet" } else { "" };
            format!("from {name} (dataset {id}) {place}{or}; {without}{on_prefix}")
        }
        None => on_prefix,
    }
}

fn from(entry: &IndexEntry) -> String {
    // As the run's messages and record have it.
    let name = match &entry.dataset {
        Some(dataset) if dataset.key.series.is_empty() => dataset.name.clone(),
        Some(dataset) => dataset.key.title(),
        None => entry.dir.clone(),
    };
    let when =
        entry.flushed.map(|time| format!(", on the prefix since {}", show(time.unix_seconds())));
    format!("from {name} (dataset {}){}", entry.id, when.unwrap_or_default())
}

fn tables(text: &mut String, run: &RunRecord, status: &PrefixStatus) {
    let mut add = |title: &str, table: &Table, more: usize| {
        let more = if more > 0 { format!(" ... and {more} more\n") } else { String::new() };
        let _ = write!(text, "\n{title}\n{}\n{more}", table.trim_fmt()); // cannot fail
    };
    let headers = ["node", "ranks", "files", "bytes in cache", "seal rate", "flush rate"];
    let mut nodes = table(&headers, 1);
    let mut all: Vec<_> = run.nodes.iter().collect();
    all.sort_by_key(|(_, node)| std::cmp::Reverse(node.bytes));
    for (host, node) in all.iter().take(NODES_SHOWN) {
        let bytes = HumanBytes(node.bytes).to_string();
        let (ranks, files) = (node.ranks.to_string(), node.files.to_string());
        let [seal, flush] =
            [node.sealed, node.flushed].map(|pace| speed(pace.bytes, Some(pace.seconds())));
        nodes.add_row([(*host).clone(), ranks, files, bytes, seal, flush]);
    }
    add("Nodes", &nodes, all.len().saturating_sub(NODES_SHOWN));
    if !run.datasets.is_empty() {
        let headers = ["dataset", "name", "state", "where", "files", "bytes", "seal", "flush"];
        let mut datasets = table(&headers, 4);
        for (id, one) in run.datasets.iter().rev().take(DATASETS_SHOWN) {
            datasets.add_row([
                id.to_string(),
                one.name.clone(),
                if one.complete { "complete" } else { "sealed" }.to_owned(),
                place(*id, one, status),
                one.files.to_string(),
                HumanBytes(one.bytes).to_string(),
                took(one.seal_seconds),
                took(one.flush.seconds),
            ]);
        }
        add("Datasets", &datasets, run.datasets.len().saturating_sub(DATASETS_SHOWN));
    }
    if !run.passed.is_empty() {
        let mut passed = table(&["reason", "as", "files", "bytes"], 2);
        for (reason, one) in &run.passed {
            let bytes = HumanBytes(one.bytes).to_string();
            passed.add_row([reason.clone(), one.example.clone(), one.files.to_string(), bytes]);
        }
        let of = if run.passed_of_all { "" } else { " (as rank 0 sees it)" };
        add(&format!("Straight to the prefix{of}"), &passed, 0);
    }
    let skipped = run.events.len().saturating_sub(EVENTS_SHOWN);
    let mut events = table(&["time", "event", "what"], 3);
    for event in &run.events[skipped..] {
        events.add_row([show(event.time as u64), event.what.clone(), event.text.clone()]);
    }
    if !run.events.is_empty() {
        add("Last events", &events, 0);
    }
}

pub fn place(id: u64, one: &RunDataset, status: &PrefixStatus) -> String {
    let cache = one.in_cache.then(|| match status.life {
        Life::Runs | Life::Unknown => "cache".to_owned(),
        _ => "cache when last seen".to_owned(),
    });
    let progress = status.flushes.get(&id).filter(|_| !one.on_prefix);
    let flush = match (progress, one.on_prefix, one.flush.under_way, &one.flush.failed) {
        (_, true, ..) => Some("prefix".to_owned()),
        (Some(flush), ..) => Some(flushing(flush)),
        (None, _, true, _) => Some("flushing".to_owned()),
        (None, _, false, Some(why)) => Some(format!("flush failed: {why}")),
        (None, _, false, None) => one.flush.due.then(|| "to be flushed".to_owned()),
    };
    let all: Vec<String> = cache.into_iter().chain(flush).collect();
    if all.is_empty() { "replaced by newer ones".to_owned() } else { all.join(", ") }
}

fn flushing(flush: &Progress) -> String {
    let Progress { nodes_done, nodes, bytes_done, bytes } = *flush;
    let percent = (100 * u128::from(bytes_done)).checked_div(u128::from(bytes));
    let percent = percent.map_or_else(String::new, |percent| format!("{percent} % of the bytes, "));
    format!("flushing: {percent}{nodes_done} of {nodes} nodes done")
}

/// Null for a time that is not known.
fn known(seconds: u64) -> Value {
    match seconds {
        0 => Value::Null,
        seconds => json!(iso(seconds)),
    }
}

fn in_json(prefix: &Path, status: &PrefixStatus) -> Value {
    let newest = status.newest.as_ref().map(|entry| {
        let name = entry.dataset.as_ref().map_or(&entry.dir, |dataset| &dataset.name);
        let flushed = entry.flushed.map_or(Value::Null, |time| known(time.unix_seconds()));
        json!({ "id": entry.id, "name": name, "state": state_of(entry), "flushed": flushed })
    });
    let caches: Vec<Value> =
        status.only_in_caches.iter().map(|(id, name)| json!({ "id": id, "name": name })).collect();
    let refused = status.refused.as_ref();
    let refused = refused.map(|one| json!({ "time": known(one.time), "why": one.why }));
    json!({
        "prefix": prefix.to_string_lossy(),
        "state": status.life.text(),
        "holder": status.holder,
        "refused": refused,
        "run": status.run.as_ref().map(|run| run_in_json(run, status)),
        "restart": newest,
        "only_in_caches": caches,
        "halt": halt::in_json(&status.halt),
        "unreadable": status.unreadable.iter().map(|one| &one.text).collect::<Vec<_>>(),
    })
}

fn run_in_json(run: &RunRecord, status: &PrefixStatus) -> Value {
    let settings: Map<String, Value> = run
        .settings
        .iter()
        .map(|(name, (value, place))| (name.clone(), json!({ "value": value, "place": place })))
        .collect();
    let nodes: Map<String, Value> = run
        .nodes
        .iter()
        .map(|(host, node)| {
            let one = json!({
                "ranks": node.ranks,
                "files": node.files,
                "bytes": node.bytes,
                "sealed_bytes": node.sealed.bytes,
                "seal_seconds": node.sealed.seconds(),
                "flushed_bytes": node.flushed.bytes,
                "flush_seconds": node.flushed.seconds(),
            });
            (host.clone(), one)
        })
        .collect();
    let passed: Vec<Value> = run
        .passed
        .iter()
        .map(|(reason, one)| {
            json!({
                "reason": reason,
                "files": one.files,
                "bytes": one.bytes,
                "example": one.example,
            })
        })
        .collect();
    let events: Vec<Value> = run
        .events
        .iter()
        .map(|event| {
            json!({
                "time": known(event.time as u64), "event": event.what, "text": event.text
            })
        })
        .collect();
    let datasets: Vec<Value> =
        run.datasets.iter().map(|(id, one)| dataset_in_json(*id, one, status)).collect();
    json!({
        "launch": run.launch,
        "user": run.user,
        "job": run.job,
        "version": run.version,
        "mpi": run.mpi,
        "ranks": run.ranks,
        "started": known(run.started),
        "updated": known(run.updated),
        "ended": run.end.as_ref().map(|end| json!({ "how": end.how, "time": known(end.time) })),
        "config": run.config,
        "settings": settings,
        "patterns": run.patterns,
        "protection": run.protection,
        "warnings": run.warnings,
        "nodes": nodes,
        "datasets": datasets,
        "passed": passed,
        "passed_of_all_ranks": run.passed_of_all,
        "nearest_unmatched": run.unmatched,
        "events": events,
    })
}

fn dataset_in_json(id: u64, one: &RunDataset, status: &PrefixStatus) -> Value {
    let progress = status.flushes.get(&id);
    json!({
        "id": id,
        "name": one.name,
        "complete": one.complete,
        "in_cache": one.in_cache,
        "on_prefix": one.on_prefix,
        "flushing": one.flush.under_way,
        "flush_nodes": progress.map(|it| json!({ "done": it.nodes_done, "of": it.nodes })),
        "flush_bytes": progress.map(|it| json!({ "done": it.bytes_done, "of": it.bytes })),
        "due": one.flush.due,
        "files": one.files,
        "bytes": one.bytes,
        "cached_bytes": one.cached,
        "sealed": known(one.sealed),
        "seal_seconds": one.seal_seconds,
        "exposed_seconds": one.exposed_seconds,
        "flush_seconds": one.flush.seconds,
        "flush_failed": one.flush.failed,
    })
}
