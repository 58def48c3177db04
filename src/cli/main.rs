//! The `scr` command: one file for each tool, and this dispatch.

/// As std's, which panics when nobody reads any more: a pipe or a terminal that is gone must not
/// end a command that looks after a job.
macro_rules! eprintln {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($part)*);
    }};
}

mod after_launch;
mod caches;
mod check_node;
mod classic;
mod cntl_dir;
mod config;
mod copy;
mod doctor;
mod down_nodes;
mod env;
mod explain;
mod flush_file;
mod halt;
mod hosts;
mod index;
mod job;
mod learn;
mod log;
mod manual;
mod nodes;
mod prerun;
mod print;
mod progress;
mod rebuild;
mod report;
mod retries_halt;
mod run;
mod scavenge;
mod sim;
mod status;
mod test_runtime;
mod top;
mod transfer;

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use scr_core::error::{Error, Result};
use scr_core::log::messages::{self, Id};
use scr_core::log::printable_lines;
use scr_core::params::{Environment, Inputs, SYSTEM_FILE, Settings, load, read_environment};
use scr_core::records::Zone;

/// Scalable Checkpoint/Restart: look at, set up and repair what runs leave behind.
#[derive(Parser)]
#[command(
    name = "scr",
    version,
    arg_required_else_help = true,
    after_help = "\
Before a run:    scr learn, scr doctor, scr config --explain\n\
A run:           scr run, scr status, scr top, scr halt\n\
Its files:       scr ls, scr cat, scr cp, scr exec, scr verify\n\
After a failure: scr explain JOB.out, scr doctor, scr scavenge, scr index list\n\
All runs:        scr report, scr log show"
)]
struct Cli {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand)]
enum Tool {
    /// Print files of a run, wherever they are: in the cache of a node, or on the prefix.
    Cat(caches::cat::Args),
    /// On a node: look whether the directories of a job are there, with enough room.
    CheckNode(check_node::Args),
    /// Print a job's control or cache directories on this node.
    CntlDir(cntl_dir::Args),
    /// List the parameters, explain their values, or write a template of the config file.
    Config(config::Args),
    /// On a node: copy what its cache has of a job that died to where scr scavenge finds it.
    Copy(copy::Args),
    /// Copy files of a run, wherever they are: from the cache of a node, or the prefix.
    Cp(caches::cp::Args),
    /// Find out why checkpoints are not protected, before a run, during it, and after it.
    Doctor(doctor::Args),
    /// Print which nodes of the allocation are no good.
    DownNodes(down_nodes::Args),
    /// Print what is known of the job that this is called in.
    Env(env::Args),
    /// Run a command that sees cached files under their names below the prefix.
    Exec(caches::exec::Args),
    /// Explain messages of SCR, by their ids or all in a job's output.
    Explain(explain::Args),
    /// Ask the flush file which datasets are in caches, on the prefix, on their way.
    FlushFile(flush_file::Args),
    /// Say when a run is to halt, or take that back.
    Halt(halt::Args),
    /// Count, expand, compress and subtract lists of hosts.
    Hosts(hosts::Args),
    /// Show and change what the prefix has and what the next run goes on from.
    Index(index::Args),
    /// Run a program without caching, watch what it writes, and propose patterns for it.
    Learn(learn::Args),
    /// Show the log of events, or write an event of your own.
    Log(log::Args),
    /// List files of a run's datasets, and where they are.
    Ls(caches::ls::Args),
    /// Write manual pages and completions.
    #[command(hide = true)]
    Manual(manual::Args),
    /// Print how many nodes the last run used.
    Nodes(nodes::Args),
    /// On a node: answer what scr verify, ls, cat, cp and exec ask.
    #[command(hide = true)]
    OnNode(caches::on_node::Args),
    /// Prepare the prefix at the beginning of an allocation.
    Prerun(prerun::Args),
    /// Print what a metadata or redundancy file holds.
    Print(print::Args),
    /// On the prefix: rebuild and publish what scr copy has brought from the nodes.
    Rebuild(rebuild::Args),
    /// Report what the runs of a prefix did, what checkpoints cost and saved, how often to write.
    Report(report::Args),
    /// Say whether a script may start the run again.
    RetriesHalt(retries_halt::Args),
    /// Run an MPI program under SCR; after a failure again, on healthy nodes.
    Run(run::Args),
    /// Bring to the prefix what a job that died has left in its nodes' caches.
    Scavenge(scavenge::Args),
    /// Make a cluster of virtual nodes on this machine, run programs on it, and let nodes die.
    #[command(after_help = "\
run and exec end with the exit status of what they have run; the others with 0, or 1 if something \
went wrong. No root is needed where ordinary users may make user namespaces. Example:\n
    scr sim start 4 && scr sim run -n 4 -- ./app; scr sim kill node3; scr sim stop")]
    Sim(sim::Sim),
    /// Show how a run is doing: its nodes, its datasets, what happened last.
    Status(status::Args),
    /// Look whether all is there that SCR needs on this machine.
    TestRuntime(test_runtime::Args),
    /// Watch a run on the terminal: what scr status shows, as it changes.
    Top(top::Args),
    /// On a node: bring flushes to their end that a run has left under way.
    Transfer(transfer::Args),
    /// Look whether caches and prefix hold what was sealed, and repair damaged caches.
    #[command(visible_alias = "scrub")]
    Verify(caches::verify::Args),
}

fn main() -> ExitCode {
    let words = classic::with_tool(std::env::args_os().collect());
    let found = Cli::from_arg_matches(&command().get_matches_from(words));
    match found.unwrap_or_else(|error| error.exit()).tool {
        Tool::Cat(args) => caches::cat::run(&args),
        Tool::CheckNode(args) => check_node::run(&args),
        Tool::CntlDir(args) => cntl_dir::run(&args),
        Tool::Config(args) => config::run(&args),
        Tool::Copy(args) => copy::run(&args),
        Tool::Cp(args) => caches::cp::run(&args),
        Tool::Doctor(args) => doctor::run(&args),
        Tool::DownNodes(args) => down_nodes::run(&args),
        Tool::Env(args) => env::run(&args),
        Tool::Exec(args) => caches::exec::run(&args),
        Tool::Explain(args) => explain::run(&args),
        Tool::FlushFile(args) => flush_file::run(&args),
        Tool::Halt(args) => halt::run(&args),
        Tool::Hosts(args) => hosts::run(&args),
        Tool::Index(args) => index::run(&args),
        Tool::Learn(args) => learn::run(&args),
        Tool::Log(args) => log::run(&args),
        Tool::Ls(args) => caches::ls::run(&args),
        Tool::Manual(args) => manual::run(&args, command(), &classic::NAMES),
        Tool::Nodes(args) => nodes::run(&args),
        Tool::OnNode(args) => caches::on_node::run(&args),
        Tool::Prerun(args) => prerun::run(&args),
        Tool::Print(args) => print::run(&args),
        Tool::Rebuild(args) => rebuild::run(&args),
        Tool::Report(args) => report::run(&args),
        Tool::RetriesHalt(args) => retries_halt::run(&args),
        Tool::Run(args) => run::run(&args),
        Tool::Scavenge(args) => scavenge::run(&args),
        Tool::Sim(args) => sim::run(&args),
        Tool::Status(args) => status::run(&args),
        Tool::TestRuntime(args) => test_runtime::run(&args),
        Tool::Top(args) => top::run(&args),
        Tool::Transfer(args) => transfer::run(&args),
        Tool::Verify(args) => caches::verify::run(&args),
    }
}

/// All commands; one below another that has no notes of its own has the other's: exit statuses and
/// examples are those of all of them.
fn command() -> clap::Command {
    Cli::command().mut_subcommands(|tool| {
        let notes = tool.get_after_help().cloned();
        tool.mut_subcommands(|action| match (action.get_after_help(), &notes) {
            (None, Some(notes)) => action.after_help(notes.clone()),
            _ => action,
        })
    })
}

/// The prefix directory that a tool works on.
fn prefix_or_default(given: Option<&Path>) -> PathBuf {
    let set = || std::env::var_os("SCR_PREFIX").filter(|value| !value.is_empty());
    given.map(Path::to_path_buf).or_else(|| set().map(PathBuf::from)).unwrap_or_else(|| ".".into())
}

/// Makes sure that a prefix is there: a name with a slip in it is not one that has had no run.
fn existing(prefix: &Path) -> Result<()> {
    let why = match std::fs::metadata(prefix) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => "it is no directory".to_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => "it is not there".to_owned(),
        Err(error) => return Err(Error::io("cannot look at the prefix", prefix, error)),
    };
    Err(Error::Missing(format!("cannot use the prefix {}: {why}", prefix.display())))
}

/// The settings of a run in `prefix`, SCR_PREFIX or the working directory, and the environment.
fn load_settings(prefix: Option<&str>) -> Result<(Settings, Environment)> {
    let (mut environment, mut problems) = read_environment(std::env::vars_os());
    if !problems.is_empty() {
        return Err(problems.swap_remove(0));
    }
    if let Some(prefix) = prefix {
        environment.insert("SCR_PREFIX".into(), prefix.to_owned());
    }
    Ok((settings_of(&environment)?, environment))
}

/// The time zone of whoever has called, for times in tables.
fn zone() -> Zone {
    Zone::new(&read_environment(std::env::vars_os()).0)
}

/// The settings that an environment, changed by a tool, has.
fn settings_of(environment: &Environment) -> Result<Settings> {
    let working_directory = std::env::current_dir()
        .map_err(|error| Error::io("cannot find", "the working directory", error))?;
    Ok(load(&Inputs {
        environment,
        working_directory: &working_directory,
        system_file: Path::new(SYSTEM_FILE),
        program: &[],
    })?)
}

/// Prints what a tool has found, or why it could not.
fn finish(tool: &str, outcome: scr_core::error::Result<String>) -> ExitCode {
    outcome.map_or_else(
        |error| {
            complain(tool, &error);
            ExitCode::FAILURE
        },
        |text| print(&text),
    )
}

/// Says what has failed, with the id of the message that explains it.
fn complain(tool: &str, error: &Error) {
    tell(tool, error.id(), &error.to_string());
}

/// Says `text`, which the message `id` explains.
fn tell(tool: &str, id: Id, text: &str) {
    eprintln!("scr {tool}: {}", printable_lines(&id.close(text)));
}

/// A line of a result that is no error, but that a person should know.
fn warned(id: Id, text: &str) -> String {
    format!("warning: {}\n", id.close(text))
}

/// Says what is no trouble, on standard error: standard output is the program's, or the result's.
fn narrate(tool: &str, text: &str) {
    eprintln!("scr {tool}: {}", printable_lines(text));
}

/// Prints a tool's result. Whoever stops reading (`scr config | head`) has what they wanted.
fn print(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(printable_lines(text).as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("scr: {}", messages::SYSTEM_REFUSED.close(&format!("cannot write: {error}")));
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_classic_name_stands_for_its_tool() {
        for (name, _) in classic::NAMES {
            let line = classic::with_tool(vec![name.into(), "--help".into()]);
            let shown = Cli::try_parse_from(line).err().expect("the help is shown");
            assert_eq!(shown.kind(), clap::error::ErrorKind::DisplayHelp, "{name}");
        }
    }
}
