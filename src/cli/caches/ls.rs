//! `scr ls`: files of a run's datasets under their names, and where they are.

use std::process::ExitCode;

use comfy_table::{CellAlignment, Table};
use scr_core::error::{Error, Result};
use scr_core::operations::{FilePlace, HostList, Listed, Listing};
use scr_core::records::{Timestamp, Zone};
use serde_json::{Value, json};

use super::reach::Run;
use crate::base::settings::zone;
use crate::base::{say, words};

#[derive(clap::Args)]
#[command(after_help = "\
A FILE is a dataset (id or name, as scr status shows them), a path, a directory, or a pattern in \
the grammar of SCR_CHECKPOINT_PATTERN; all files by default. A relative path is one below the \
working directory, if that is below the prefix, else one below the prefix. Of a name that several \
datasets have the newest complete one counts. -l says how many bytes, of which dataset, written by \
which rank, and where: \"prefix\", the node whose cache has it, or \"nowhere\" if no node that \
answers has it. A file that several nodes have written together is one file, of the lowest of \
their ranks, and is where its parts are; if one is missing, \"nowhere\", too. Nodes are reached as \
scr run reaches them (SCR_REMOTE_SHELL); a run that is under way does not notice. The job is that \
of the last run, unless SCR_JOB_ID names another. The exit status is 0; 1 if there is no such \
file, or nothing can be found out; 2 if an argument is wrong. Example:\n
    scr ls -l --prefix /pfs/me/run 'ckpt/step_*/rank_0.dat'")]
pub struct Args {
    #[command(flatten)]
    run: Run,
    /// Datasets, paths, patterns.
    #[arg(value_name = "FILE")]
    files: Vec<String>,
    /// Size, dataset, rank and place of each file.
    #[arg(short, long)]
    long: bool,
    /// Older files of the same names, too.
    #[arg(short, long)]
    all: bool,
    /// Datasets that are not complete, too.
    #[arg(long)]
    unsealed: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> ExitCode {
    let text = args.run.with_files("ls", args.unsealed, |_, listing| {
        let files = chosen(args, listing)?;
        Ok(match (args.json, args.long) {
            (true, _) => format!("{:#}\n", in_json(&files)),
            (false, true) => format!("{}\n", table(&files, &zone()).trim_fmt()),
            (false, false) => files.iter().map(|one| format!("{}\n", one.meta.name)).collect(),
        })
    });
    say::finish("ls", text)
}

fn chosen<'a>(args: &Args, listing: &'a Listing) -> Result<Vec<&'a Listed>> {
    let mut files: Vec<&Listed> = Vec::new();
    for word in &args.files {
        files.extend(listing.select(word, args.all)?);
    }
    if args.files.is_empty() {
        files.extend(listing.files.iter().filter(|one| args.all || one.newest));
    }
    if files.is_empty() {
        let prefix = listing.places.prefix.display();
        return Err(Error::Missing(format!("no run has left a complete dataset in {prefix}")));
    }
    Ok(files)
}

/// Where a file is, in a word.
fn place(one: &Listed) -> String {
    if one.place == FilePlace::Prefix {
        return "prefix".to_owned();
    }
    let nodes = HostList::of(one.place.nodes().into_iter().map(str::to_owned)).compress();
    let nowhere = (one.sealed && !one.place.is_there()).then_some("nowhere");
    let words = [Some(&*nodes).filter(|nodes| !nodes.is_empty()), nowhere];
    words.into_iter().flatten().collect::<Vec<_>>().join(",")
}

fn dataset(one: &Listed) -> String {
    match (one.sealed, one.id) {
        (true, _) => one.key.name(),
        (false, _) => format!("{} (not complete)", one.key.name()),
    }
}

fn time(one: &Listed) -> Timestamp {
    Timestamp::from_unix_seconds(u64::try_from(one.meta.mtime_seconds).unwrap_or(0))
}

fn table(files: &[&Listed], zone: &Zone) -> Table {
    let headers = ["bytes", "written", "dataset", "rank", "where", "file"];
    let mut table = words::table(&headers, headers.len());
    for one in files {
        table.add_row([
            one.meta.size.to_string(),
            zone.write(time(one)),
            dataset(one),
            one.rank.map_or_else(String::new, |rank| rank.to_string()),
            place(one),
            one.meta.name.clone(),
        ]);
    }
    for number in [0, 3] {
        if let Some(column) = table.column_mut(number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn in_json(files: &[&Listed]) -> Value {
    let file = |one: &&Listed| {
        json!({
            "file": one.meta.name,
            "bytes": one.meta.size,
            "written": time(one).in_utc(),
            "crc32": one.meta.crc32.map(|crc32| format!("{crc32:08x}")),
            "dataset": one.key.name(),
            "id": one.id,
            "complete": one.sealed,
            "newest": one.newest,
            "rank": one.rank,
            "where": place(one),
        })
    };
    Value::Array(files.iter().map(file).collect())
}
