//! `scr index`: what the prefix has, and what the next run goes on from.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use scr_core::error::Result;
use scr_core::operations::{
    Condition, Scavenged, VerifiedDataset, VerifiedPrefix, add_dataset, add_older_directory,
    build_index, drop_datasets, has_summary, is_older_directory, publish_directories, read_index,
    set_current, state_of, verify_prefix,
};
use scr_core::records::IndexEntry;
use serde_json::{Value, json};

use crate::base::settings::{existing, load_settings, prefix_or_default, zone};
use crate::base::{progress, say, words};
use crate::rescue::saved;

#[derive(clap::Args)]
#[command(after_help = "\
A DATASET is given by its id or its name, as `list` shows them. A run that is under way goes on as \
it is: what is changed here holds from its next start on. The exit status is 0; 1 if the index \
cannot be read or changed, or has no such dataset; 2 if an argument is wrong. Example:\n
    scr index current checkpoint.20 --prefix /pfs/me/run")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(short, long, value_name = "DIRECTORY", global = true)]
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
    /// Enter a dataset: one that was dropped, or is in a directory.
    #[command(after_help = "\
WHAT is the id or name of a dataset of which the prefix has the summary, or the directory of that \
(.scr/scr.dataset.<id>): it is entered as its flush did, if its files are what the summary says. \
Or it is a directory with copies of nodes' caches, or of datasets in them: what is lost is rebuilt \
(XOR, PARTNER, RS), and all comes to the prefix with summary and index, as by scr rebuild. Or it \
is a checkpoint directory of version 1.1 below the prefix, with its sidecars and filemaps: each \
file is checked, a rank that lacks some is rebuilt by the XOR files, and it is entered as it lies \
there. What cannot be had is listed as incomplete. One that is listed already is left as it is.

The exit status is 0; 1 if something is incomplete, not there, or cannot be read or written; 2 if \
an argument is wrong. Example:\n
    scr index add checkpoint.20 --prefix /pfs/me/run
    scr index add /pfs/me/rescue --current")]
    Add {
        /// Dataset or directory.
        #[arg(value_name = "WHAT")]
        what: String,
        /// Make it the one that the next run goes on from.
        #[arg(long)]
        current: bool,
    },
    /// Compare the index with the summaries, and these with the files: presence, size, checksum.
    /// Nothing is changed.
    #[command(after_help = "\
It looks at what a run could go on from; what the index says is incomplete, failed or written over \
is named only. Fit for cron: the exit status is 0 if all is right; 1 if something is wrong; 2 if \
it cannot be found out, or an argument is wrong. Example:\n
    scr index verify --sizes --prefix /pfs/me/run || mail -s 'checkpoint damaged' me")]
    Verify {
        /// Datasets; all by default.
        #[arg(value_name = "DATASET")]
        datasets: Vec<String>,
        /// Presence and size only: no file is read.
        #[arg(long)]
        sizes: bool,
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
    /// Take a dataset out of the index; its files stay, and no restart offers it. `add` takes that
    /// back.
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

pub fn run(args: &Args) -> ExitCode {
    let prefix = prefix_or_default(args.prefix.as_deref());
    let outcome = match &args.action {
        Action::List { json } => existing(&prefix).and_then(|()| list(&prefix, *json)),
        Action::Build => build_index(&prefix).map(|index| {
            let count = index.newest_first().count();
            format!("the index has {count} datasets\n")
        }),
        Action::Add { what, current } => return add(args, &prefix, what, *current),
        Action::Verify { datasets, sizes, json } => {
            return verify(&prefix, datasets, *sizes, *json);
        }
        Action::Current { dataset } => set_current(&prefix, dataset)
            .map(|entry| format!("the next run goes on from {}\n", title(&entry))),
        Action::Drop { dataset } => dropped(drop_datasets(&prefix, dataset, false)),
        Action::DropAfter { dataset } => dropped(drop_datasets(&prefix, dataset, true)),
    };
    say::finish("index", outcome)
}

fn dropped(ids: Result<Vec<u64>>) -> Result<String> {
    let ids: Vec<String> = ids?.iter().map(u64::to_string).collect();
    Ok(match ids.len() {
        0 => "nothing is newer\n".to_string(),
        _ => format!("out of the index: dataset {}\n", ids.join(", ")),
    })
}

/// Enters a dataset by its summary, or what is in a directory.
fn add(args: &Args, prefix: &Path, what: &str, current: bool) -> ExitCode {
    let below = prefix.join(what);
    let dir = if Path::new(what).is_dir() { Path::new(what) } else { &below };
    if !has_summary(prefix, what) && dir.is_dir() {
        if is_older_directory(dir) {
            return add_older(prefix, dir, current);
        }
        return saved::exit("index", add_directory(args, prefix, dir, current), false);
    }
    let added = add_dataset(prefix, what).and_then(|entry| {
        if current {
            set_current(prefix, &entry.id.to_string())?;
        }
        Ok(format!("the index has {}\n", title(&entry)))
    });
    say::finish("index", added)
}

/// A checkpoint directory of version 1.1, where it lies.
fn add_older(prefix: &Path, dir: &Path, current: bool) -> ExitCode {
    let added = add_older_directory(prefix, dir).and_then(|added| {
        if current && added.lost.is_none() {
            set_current(prefix, &added.entry.id.to_string())?;
        }
        Ok(added)
    });
    let whole = added.as_ref().is_ok_and(|added| added.lost.is_none());
    let text = added.map(|added| {
        let mut lines = added.refused.clone();
        let ranks: Vec<String> = added.rebuilt.iter().map(ToString::to_string).collect();
        if !ranks.is_empty() {
            lines.push(format!("rebuilt: the files of rank {}", ranks.join(", ")));
        }
        if added.unchecked > 0 {
            lines.push(format!(
                "{} of the files that they were rebuilt from have no checksum in their .scr files: \
                 nobody can tell whether those are as they were written",
                added.unchecked
            ));
        }
        let title = title(&added.entry);
        lines.push(match added.lost {
            None => format!("the index has {title}"),
            Some(why) => format!("{title} is incomplete: {why}"),
        });
        format!("{}\n", lines.join("\n"))
    });
    let printed = say::finish("index", text);
    if whole { printed } else { ExitCode::FAILURE }
}

fn add_directory(args: &Args, prefix: &Path, dir: &Path, current: bool) -> Result<Scavenged> {
    let named = args.prefix.as_ref().map(|prefix| prefix.display().to_string());
    let (settings, environment) = load_settings(named.as_deref())?;
    let shown = progress::show("index");
    let done = publish_directories(&settings, &environment, &[dir.into()], None)?;
    drop(shown);
    if let Some(newest) = done.published.last().filter(|_| current) {
        set_current(prefix, newest)?;
    }
    Ok(done)
}

fn verify(prefix: &Path, wanted: &[String], sizes: bool, as_json: bool) -> ExitCode {
    let found = match verify_prefix(prefix, wanted, !sizes) {
        Ok(found) => found,
        Err(error) => return say::fail("index", &error, 2),
    };
    let text = match as_json {
        true => format!("{:#}\n", verified_in_json(&found)),
        false => verified_in_words(&found, prefix),
    };
    let printed = say::print(&text);
    if found.is_right() { printed } else { ExitCode::FAILURE }
}

pub fn verified_in_words(found: &VerifiedPrefix, prefix: &Path) -> String {
    let mut text = String::new();
    let mut tell = |line: String| text += &format!("{line}\n");
    for one in &found.datasets {
        let name = title(&one.entry);
        match &one.condition {
            Condition::Right if one.unchecked > 0 => {
                tell(format!("{name}: right; {} files have no checksum", one.unchecked));
            }
            Condition::Right => tell(format!("{name}: right")),
            Condition::Wrong(faults) => {
                tell(format!("{name}: wrong"));
                faults.iter().for_each(|fault| tell(format!("    {fault}")));
            }
            Condition::Gone => tell(format!("{name}: its files were deleted or written anew")),
            Condition::NotOffered(state) => tell(format!("{name}: {state}, not looked at")),
        }
        one.remark.iter().for_each(|remark| tell(format!("    {remark}")));
    }
    if found.no_index {
        tell("there is no index: scr index build makes it from the summaries".to_owned());
    }
    for id in &found.not_listed {
        tell(format!("dataset {id} is not in the index: scr index add {id} enters it"));
    }
    if text.is_empty() {
        return format!("the index of {} has no dataset\n", prefix.display());
    }
    text
}

pub fn verified_in_json(found: &VerifiedPrefix) -> Value {
    let dataset = |one: &VerifiedDataset| {
        let (condition, faults) = match &one.condition {
            Condition::Right => ("right", &[][..]),
            Condition::Wrong(faults) => ("wrong", &faults[..]),
            Condition::Gone => ("gone", &[][..]),
            Condition::NotOffered(state) => (*state, &[][..]),
        };
        json!({
            "id": one.entry.id,
            "name": name(&one.entry),
            "condition": condition,
            "faults": faults,
            "remark": one.remark,
            "without_checksum": one.unchecked,
        })
    };
    json!({
        "right": found.is_right(),
        "datasets": found.datasets.iter().map(dataset).collect::<Vec<_>>(),
        "not_listed": found.not_listed,
        "no_index": found.no_index,
    })
}

fn title(entry: &IndexEntry) -> String {
    format!("{} (dataset {})", name(entry), entry.id)
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
    let headers = ["", "dataset", "name", "state", "flushed", "files", "bytes"];
    let mut table = words::table(&headers, headers.len());
    let zone = zone();
    for entry in index.newest_first() {
        let number = |of: fn(&scr_core::records::Dataset) -> u64| {
            entry.dataset.as_ref().map_or_else(String::new, |one| of(one).to_string())
        };
        table.add_row([
            if is_current(entry) { "*".to_string() } else { String::new() },
            entry.id.to_string(),
            name(entry).to_string(),
            state_of(entry).to_string(),
            entry.flushed.map_or_else(String::new, |time| zone.write(time)),
            number(|one| one.files),
            number(|one| one.bytes),
        ]);
    }
    Ok(format!("{}\n", table.trim_fmt()))
}

/// Returns the name of a dataset, or of its directory if nothing else is known.
pub fn name(entry: &IndexEntry) -> &str {
    entry.dataset.as_ref().map_or(&entry.dir, |dataset| &dataset.name)
}

fn in_json(entry: &IndexEntry, current: bool) -> Value {
    let times = |times: &std::collections::BTreeSet<scr_core::records::Timestamp>| {
        times.iter().map(|time| time.in_utc()).collect::<Vec<_>>()
    };
    json!({
        "id": entry.id,
        "name": name(entry),
        "state": state_of(entry),
        "current": current,
        "flushed": entry.flushed.map(|time| time.in_utc()),
        "fetched": times(&entry.fetched),
        "failed": times(&entry.failed),
        "files": entry.dataset.as_ref().map(|one| one.files),
        "bytes": entry.dataset.as_ref().map(|one| one.bytes),
        "checkpoint": entry.dataset.as_ref().and_then(|one| one.checkpoint_id),
        "output": entry.dataset.as_ref().is_some_and(|one| one.is_output),
    })
}
