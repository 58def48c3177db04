//! `scr print`: what a file of SCR's holds.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use scr_core::kvtree::KvTree;
use scr_core::operations::{InspectedFile, inspect_file};
use serde_json::{Map, Value};

use crate::base::say;

#[derive(clap::Args)]
#[command(after_help = "\
Filemaps, index, summary, flush, halt and nodes file, and the redundancy files, of which the \
header is printed. The exit status is 0, or 1 if a file cannot be read or is none of these. \
Example:\n
    scr print .scr/index.scr")]
pub struct Args {
    /// One line a key with the values below it, as the manual prints it; else a key with one value
    /// is `KEY = VALUE`.
    #[arg(long, conflicts_with = "json")]
    indented: bool,
    /// As JSON: an object for each key.
    #[arg(long)]
    json: bool,
    /// The files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub fn run(args: &Args) -> ExitCode {
    let (mut text, mut failed) = (String::new(), false);
    for path in &args.files {
        match inspect_file(path) {
            Ok(found) => {
                if args.files.len() > 1 && !args.json {
                    let _ = writeln!(text, "{}:", path.display());
                }
                text += &shown(args, &found);
            }
            Err(error) => {
                say::complain("print", &error);
                failed = true;
            }
        }
    }
    let printed = say::print(&text);
    if failed { ExitCode::FAILURE } else { printed }
}

fn shown(args: &Args, found: &InspectedFile) -> String {
    if args.json {
        return format!("{:#}\n", json(&found.tree));
    }
    let tree = &found.tree;
    let mut text = if args.indented { tree.to_text(2) } else { tree.to_branches() };
    if found.data_bytes > 0 {
        let _ = writeln!(text, "and {} bytes of redundancy data", found.data_bytes);
    }
    text
}

fn json(tree: &KvTree) -> Value {
    let members = tree.iter().map(|(key, below)| (key.to_owned(), json(below)));
    Value::Object(members.collect::<Map<_, _>>())
}
