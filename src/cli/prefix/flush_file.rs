//! `scr flush-file`: where datasets are, as the flush file says (manual 1.1, sections 9.4 and
//! 11.2.2).

use std::path::PathBuf;
use std::process::ExitCode;

use scr_core::operations::read_flush_file;
use scr_core::records::Location;
use serde_json::{Value, json};

use crate::base::say;
use crate::base::settings::prefix_or_default;

#[derive(clap::Args)]
#[command(after_help = "\
The exit status is 0 for yes, or if there is what was asked for, 1 if not, 2 if the file cannot be \
read. --json prints a list with id, name and locations (CACHE, PFS, FLUSHING) of each dataset. \
Example:\n
    scr flush-file --need-flush 6 && echo dataset 6 is in caches only")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(long, alias = "dir", value_name = "DIRECTORY")]
    prefix: Option<PathBuf>,
    /// Print the id of the newest dataset that a cache has.
    #[arg(long, group = "question")]
    latest: bool,
    /// Is this dataset not on the prefix yet?
    #[arg(long, aliases = ["needflush", "id"], value_name = "ID", group = "question")]
    need_flush: Option<u64>,
    /// Print where this dataset is: CACHE, PFS, FLUSHING.
    #[arg(long, value_name = "ID", group = "question")]
    location: Option<u64>,
    /// Print the name of this dataset.
    #[arg(long, alias = "subdir", value_name = "ID", group = "question")]
    name: Option<u64>,
    /// All datasets, as JSON.
    #[arg(long, group = "question")]
    json: bool,
}

pub fn run(args: &Args) -> ExitCode {
    let file = match read_flush_file(&prefix_or_default(args.prefix.as_deref())) {
        Ok(file) => file,
        Err(error) => return say::fail("flush-file", &error, 2),
    };
    let places = |id| {
        let all = [
            (Location::Cache, "CACHE"),
            (Location::Prefix, "PFS"),
            (Location::Flushing, "FLUSHING"),
        ];
        let at = all.into_iter().filter(|(place, _)| file.is_at(id, *place));
        at.map(|(_, word)| word).collect::<Vec<_>>()
    };
    let text = if args.json {
        let one = |id| json!({ "id": id, "name": file.name(id), "locations": places(id) });
        Some(format!("{:#}", Value::Array(file.dataset_ids().map(one).collect())))
    } else if args.latest {
        file.at(Location::Cache).last().map(u64::to_string)
    } else if let Some(id) = args.need_flush {
        file.unflushed().any(|one| one == id).then(String::new)
    } else if let Some(id) = args.location {
        Some(places(id).join(" ")).filter(|text| !text.is_empty())
    } else if let Some(id) = args.name {
        file.name(id).map(str::to_owned)
    } else {
        let line = |id| format!("{id} {} {}", file.name(id).unwrap_or("-"), places(id).join(" "));
        Some(file.dataset_ids().map(line).collect::<Vec<_>>().join("\n"))
    };
    match text {
        None => ExitCode::FAILURE,
        Some(text) if text.is_empty() => ExitCode::SUCCESS,
        Some(text) => say::print(&format!("{text}\n")),
    }
}
