//! `scr index`: what the prefix has, and what the next run goes on from.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use comfy_table::{Table, presets};
use scr_core::error::Result;
use scr_core::operations::{build_index, drop_datasets, read_index, set_current};
use scr_core::records::IndexEntry;
use serde_json::{Value, json};

/// Arguments of `scr index`.
#[derive(clap::Args)]
#[command(after_help = "\
A DATASET is given by its id or its name, as `list` shows them. A run that is under way goes on as \
it is: what is changed here holds from its next start on. The exit status is 0, or 1 if the index \
cannot be read or changed, or has no such dataset. Example:\n
    scr index current checkpoint.20 --prefix /pfs/me/run")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(long, value_name = "DIRECTORY", global = true)]
    prefix: Option<PathBuf>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show every dataset, the newest first; `*` is the one that a restart begins with.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make the index anew from the summaries on the prefix, if it is lost or damaged; what was
    /// there stays as index.scr.damaged. No run may be under way.
    Build,
    /// Make this dataset the one that the next run goes on from.
    Current {
        #[arg(value_name = "DATASET")]
        dataset: String,
    },
    /// Take a dataset out of the index; its files stay, and no restart offers it.
    Drop {
        #[arg(value_name = "DATASET")]
        dataset: String,
    },
    /// Take all datasets out of the index that are newer than this one.
    DropAfter {
        #[arg(value_name = "DATASET")]
        dataset: String,
    },
}

/// Runs the tool; fails if the index cannot be read or changed, or has no such dataset.
pub fn run(args: &Args) -> ExitCode {
    let prefix = super::prefix_or_default(args.prefix.as_deref());
    let outcome = match &args.action {
        Action::List { json } => list(&prefix, *json),
        Action::Build => build_index(&prefix).map(|index| {
            let count = index.newest_first().count();
            format!("the index has {count} datasets\n")
        }),
        Action::Current { dataset } => set_current(&prefix, dataset)
            .map(|entry| format!("the next run goes on from {}\n", title(&entry))),
        Action::Drop { dataset } => dropped(drop_datasets(&prefix, dataset, false)),
        Action::DropAfter { dataset } => dropped(drop_datasets(&prefix, dataset, true)),
    };
    super::finish("index", outcome)
}

fn dropped(ids: Result<Vec<u64>>) -> Result<String> {
    let ids: Vec<String> = ids?.iter().map(u64::to_string).collect();
    Ok(match ids.len() {
        0 => "nothing is newer\n".to_string(),
        _ => format!("out of the index: dataset {}\n", ids.join(", ")),
    })
}

fn title(entry: &IndexEntry) -> String {
    match &entry.dataset {
        Some(dataset) => format!("{} (dataset {})", dataset.name, entry.id),
        None => format!("{} (dataset {})", entry.dir, entry.id),
    }
}

fn list(prefix: &Path, as_json: bool) -> Result<String> {
    let index = read_index(prefix)?;
    let current = index.current_entry().map(|entry| entry.id);
    let is_current = |entry: &IndexEntry| Some(entry.id) == current;
    if as_json {
        let all: Vec<Value> =
            index.newest_first().map(|entry| in_json(entry, is_current(entry))).collect();
        return Ok(format!("{:#}\n", Value::Array(all)));
    }
    if index.newest_first().next().is_none() {
        return Ok(format!("the index of {} has no dataset\n", prefix.display()));
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["", "dataset", "name", "state", "flushed", "files", "bytes"]);
    for entry in index.newest_first() {
        let number = |of: fn(&scr_core::records::Dataset) -> u64| {
            entry.dataset.as_ref().map_or_else(String::new, |one| of(one).to_string())
        };
        table.add_row([
            if is_current(entry) { "*".to_string() } else { String::new() },
            entry.id.to_string(),
            name(entry).to_string(),
            state(entry).to_string(),
            entry.flushed.map_or_else(String::new, |time| time.to_string()),
            number(|one| one.files),
            number(|one| one.bytes),
        ]);
    }
    Ok(format!("{}\n", table.trim_fmt()))
}

fn name(entry: &IndexEntry) -> &str {
    entry.dataset.as_ref().map_or(&entry.dir, |dataset| &dataset.name)
}

fn state(entry: &IndexEntry) -> &'static str {
    match entry {
        _ if entry.is_kept() => "kept",
        IndexEntry { complete: false, .. } => "incomplete",
        IndexEntry { replaced_by: Some(_), .. } => "written over",
        _ if !entry.is_restorable() => "failed",
        _ => "complete",
    }
}

fn in_json(entry: &IndexEntry, current: bool) -> Value {
    let times = |times: &std::collections::BTreeSet<scr_core::records::Timestamp>| {
        times.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    json!({
        "id": entry.id,
        "name": name(entry),
        "state": state(entry),
        "current": current,
        "flushed": entry.flushed.map(|time| time.to_string()),
        "fetched": times(&entry.fetched),
        "failed": times(&entry.failed),
        "files": entry.dataset.as_ref().map(|one| one.files),
        "bytes": entry.dataset.as_ref().map(|one| one.bytes),
        "checkpoint": entry.dataset.as_ref().and_then(|one| one.checkpoint_id),
        "output": entry.dataset.as_ref().is_some_and(|one| one.is_output),
    })
}
