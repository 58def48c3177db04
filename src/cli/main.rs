//! The `scr` command: a file or a folder for each tool, and this dispatch.

#[macro_use]
mod base;

mod allocation;
mod caches;
mod classic;
mod doctor;
mod manual;
mod prefix;
mod prepare;
mod report;
mod rescue;
mod run;
mod sim;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use allocation::{
    check_node, cntl_dir, down_nodes, env, hosts, nodes, prerun, retries_halt, test_runtime,
};
use caches::{cat, cp, exec, ls, on_node, verify};
use prefix::{flush_file, index, log, print};
use prepare::{config, explain, learn};
use rescue::{copy, rebuild, scavenge, transfer};
use watch::{halt, status, top};

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
    Cat(cat::Args),
    /// On a node: look whether the directories of a job are there, with enough room.
    CheckNode(check_node::Args),
    /// Print a job's control or cache directories on this node.
    CntlDir(cntl_dir::Args),
    /// List the parameters, explain their values, or write a template of the config file.
    Config(config::Args),
    /// On a node: copy what its cache has of a job that died to where scr scavenge finds it.
    Copy(copy::Args),
    /// Copy files of a run, wherever they are: from the cache of a node, or the prefix.
    Cp(cp::Args),
    /// Find out why checkpoints are not protected, before a run, during it, and after it.
    Doctor(doctor::Args),
    /// Print which nodes of the allocation are no good.
    DownNodes(down_nodes::Args),
    /// Print what is known of the job that this is called in.
    Env(env::Args),
    /// Run a command that sees cached files under their names below the prefix.
    Exec(exec::Args),
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
    Ls(ls::Args),
    /// Write manual pages and completions.
    #[command(hide = true)]
    Manual(manual::Args),
    /// Print how many nodes the last run used.
    Nodes(nodes::Args),
    /// On a node: answer what scr verify, ls, cat, cp and exec ask.
    #[command(hide = true)]
    OnNode(on_node::Args),
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
    Verify(verify::Args),
}

fn main() -> ExitCode {
    let words = classic::with_tool(std::env::args_os().collect());
    let found = Cli::from_arg_matches(&command().get_matches_from(words));
    match found.unwrap_or_else(|error| error.exit()).tool {
        Tool::Cat(args) => cat::run(&args),
        Tool::CheckNode(args) => check_node::run(&args),
        Tool::CntlDir(args) => cntl_dir::run(&args),
        Tool::Config(args) => config::run(&args),
        Tool::Copy(args) => copy::run(&args),
        Tool::Cp(args) => cp::run(&args),
        Tool::Doctor(args) => doctor::run(&args),
        Tool::DownNodes(args) => down_nodes::run(&args),
        Tool::Env(args) => env::run(&args),
        Tool::Exec(args) => exec::run(&args),
        Tool::Explain(args) => explain::run(&args),
        Tool::FlushFile(args) => flush_file::run(&args),
        Tool::Halt(args) => halt::run(&args),
        Tool::Hosts(args) => hosts::run(&args),
        Tool::Index(args) => index::run(&args),
        Tool::Learn(args) => learn::run(&args),
        Tool::Log(args) => log::run(&args),
        Tool::Ls(args) => ls::run(&args),
        Tool::Manual(args) => manual::run(&args, command(), &classic::NAMES),
        Tool::Nodes(args) => nodes::run(&args),
        Tool::OnNode(args) => on_node::run(&args),
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
        Tool::Verify(args) => verify::run(&args),
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
