//! `scr learn`: a watched run, and the patterns that it suggests.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use indicatif::HumanBytes;
use scr_core::error::{Error, Result};
use scr_core::operations::learn::{Proposal, ProposedPattern, ProposedSeries, learn};
use serde_json::{Value, json};

use crate::base::process::exit_code;
use crate::base::say;
use crate::base::settings::prefix_or_default;
use crate::run::{preload, shim};

/// Where the shim writes down what it watches.
const VARIABLE: &str = "SCR_SHIM_WATCH";
/// Kinds of names that are told of as left alone.
const SKIPPED: usize = 12;

#[derive(clap::Args)]
#[command(after_help = "\
The program runs as without SCR, but its ranks write down which files below the prefix they write, \
rename and delete, in <prefix>/.scr/watch.<process>, which is deleted at the end. Let it write two \
checkpoints, better three. Files of processes that a rank starts are not seen. The proposal goes \
to standard output, after the program's own; --write adds it to <prefix>/.scrconf, unless that \
has patterns. Look at it: nobody can see whether a file is needed for a restart. The exit status \
is that of the program if it failed; 0: there is a proposal; 1: there is none, or the run could \
not be watched. Example:\n
    scr learn --write -- mpirun -n 4 ./app input.short")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(long, value_name = "DIRECTORY")]
    prefix: Option<PathBuf>,
    /// Add the proposal to `<prefix>/.scrconf`.
    #[arg(long)]
    write: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// The launcher, its options, the program and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub fn run(args: &Args) -> ExitCode {
    match watched(args) {
        Err(error) => say::fail("learn", &error, 1),
        Ok((0, proposal)) => show(args, &proposal),
        Ok((status, proposal)) => {
            show(args, &proposal);
            ExitCode::from(status)
        }
    }
}

fn watched(args: &Args) -> Result<(u8, Proposal)> {
    let prefix = prefix_or_default(args.prefix.as_deref());
    let prefix =
        std::fs::canonicalize(&prefix).map_err(|error| Error::io("cannot find", &prefix, error))?;
    let config = prefix.join(".scrconf");
    if args.write && has_patterns(&config) {
        let what =
            format!("{} has patterns; without --write the proposal is shown", config.display());
        return Err(Error::Refused(what));
    }
    let shim = shim()?;
    let directory = prefix.join(".scr").join(format!("watch.{}", std::process::id()));
    std::fs::create_dir_all(&directory)
        .map_err(|error| Error::io("cannot make", &directory, error))?;
    let status = launch(&args.command, &shim, &prefix, &directory);
    let proposal = status.and_then(|status| Ok((status, learn(&directory)?)));
    // What stays is small, and nothing reads it.
    let _ = std::fs::remove_dir_all(&directory);
    let (status, proposal) = proposal?;
    if args.write && !proposal.series.is_empty() {
        let written = OpenOptions::new().append(true).create(true).open(&config);
        let text = format!("# Proposed by scr learn.\n{}", proposal.config());
        written
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| Error::io("cannot write", &config, error))?;
        say::narrate("learn", &format!("{} has the proposal", config.display()));
    }
    Ok((status, proposal))
}

fn has_patterns(config: &Path) -> bool {
    let text = std::fs::read_to_string(config).unwrap_or_default();
    let starts = ["SCR_CHECKPOINT_PATTERN", "SCR_OUTPUT_PATTERN"];
    text.lines().any(|line| starts.iter().any(|name| line.trim_start().starts_with(name)))
}

fn launch(words: &[String], shim: &Path, prefix: &Path, directory: &Path) -> Result<u8> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Error::Refused("no command is given".to_owned()));
    };
    let others = std::env::var("LD_PRELOAD").unwrap_or_default();
    let status = Command::new(program)
        .args(arguments)
        .env("LD_PRELOAD", preload(shim, &others))
        .env("SCR_PREFIX", prefix)
        .env(VARIABLE, directory)
        .env_remove("SCR_ENABLE")
        .status()
        .map_err(|error| Error::io("cannot start", program, error))?;
    Ok(exit_code(status))
}

fn show(args: &Args, proposal: &Proposal) -> ExitCode {
    let printed = match args.json {
        true => say::print(&format!("{:#}\n", in_json(proposal))),
        false => say::print(&in_words(proposal)),
    };
    if proposal.series.is_empty() { ExitCode::FAILURE } else { printed }
}

fn in_words(proposal: &Proposal) -> String {
    let mut text = format!("\nWatched: {} ranks.\n", proposal.ranks);
    if proposal.cut {
        text += "A rank opened so many files that the rest of them was not watched.\n";
    }
    if proposal.syncs == 0 {
        text += "No blocking collective was seen on all ranks: SCR acts there, so each checkpoint \
                 would go to the prefix after SCR_UNSEALED_SECONDS.\n";
    }
    for (at, series) in proposal.series.iter().enumerate() {
        text += &series_in_words(at, series);
    }
    if proposal.series.is_empty() {
        text += "No file was written as checkpoints are: under a new number each time, or anew \
                 under the same name.\n";
    }
    if !proposal.skipped.is_empty() {
        text += "\nLeft alone\n";
    }
    for one in proposal.skipped.iter().take(SKIPPED) {
        let bytes = HumanBytes(one.bytes);
        let _ = writeln!(text, "  {} ({} files, {bytes}): {}", one.text, one.files, one.reason);
    }
    if let Some(more @ 1..) = proposal.skipped.len().checked_sub(SKIPPED) {
        let _ = writeln!(text, "  ... and {more} more kinds of names"); // cannot fail
    }
    if !proposal.series.is_empty() {
        text += "\nA series that nobody restarts from is output: call it SCR_OUTPUT_PATTERN.\n";
        let _ = write!(text, "\nFor .scrconf\n{}", proposal.config()); // cannot fail
    }
    text
}

fn series_in_words(at: usize, series: &ProposedSeries) -> String {
    let (bytes, cached) = (HumanBytes(series.bytes), HumanBytes(series.cached_bytes));
    let mut text = format!(
        "\nSeries {}: {} checkpoints, {bytes}, of which {cached} would be cached\n",
        at + 1,
        series.datasets
    );
    for one in &series.patterns {
        text += &pattern_in_words(one);
    }
    series.notes.iter().for_each(|note| text += &format!("  note: {note}\n"));
    text
}

fn pattern_in_words(one: &ProposedPattern) -> String {
    let temporary = one.temporary.as_ref().map(|name| format!(", written as {name} and renamed"));
    let pointer = if one.pointer { ", goes with each checkpoint" } else { "" };
    format!(
        "  {}: {} files, {}, as {}{}{pointer}\n",
        one.text,
        one.files,
        HumanBytes(one.bytes),
        one.example,
        temporary.unwrap_or_default()
    )
}

fn in_json(proposal: &Proposal) -> Value {
    let pattern = |one: &ProposedPattern| {
        json!({
            "pattern": one.text,
            "files": one.files,
            "bytes": one.bytes,
            "example": one.example,
            "temporary": one.temporary,
            "pointer": one.pointer,
        })
    };
    let series = |one: &ProposedSeries| {
        json!({
            "patterns": one.patterns.iter().map(pattern).collect::<Vec<_>>(),
            "datasets": one.datasets,
            "bytes": one.bytes,
            "cached_bytes": one.cached_bytes,
            "notes": one.notes,
        })
    };
    let skipped = proposal.skipped.iter().map(|one| {
        json!({ "names": one.text, "files": one.files, "bytes": one.bytes, "reason": one.reason })
    });
    json!({
        "ranks": proposal.ranks,
        "collectives": proposal.syncs,
        "cut": proposal.cut,
        "series": proposal.series.iter().map(series).collect::<Vec<_>>(),
        "skipped": skipped.collect::<Vec<_>>(),
        "config": proposal.config(),
    })
}
