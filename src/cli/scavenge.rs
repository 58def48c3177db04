//! `scr scavenge`: what a job that died has left in its nodes' caches, to the prefix.

use std::process::ExitCode;
use std::time::Duration;

use scr_core::error::{Error, Result};
use scr_core::operations::run::{Real, Shell, find};
use scr_core::operations::{HostList, Scavenge, Scavenged};
use scr_core::params::{Environment, Settings, keys};

use crate::after_launch;
use crate::job::shell;

/// How long a node may take to copy what it has.
pub const LIMIT: Duration = Duration::from_secs(3600);

/// Arguments of `scr scavenge`.
#[derive(Default, clap::Args)]
#[command(after_help = "\
The newest complete checkpoint of every series, and all complete output, come to the prefix; what \
a lost node had is rebuilt (PARTNER, XOR, RS). Nothing that was not complete does. It can be done \
again at any time. Needs the environment of the run: SCR_PREFIX, SCR_CONF_FILE and, outside the \
job, SCR_JOB_ID. Nodes are reached as scr run reaches them (SCR_REMOTE_SHELL). \
The exit status is 0 if the newest is on the prefix now or was there already, 1 if no node had \
anything, or the newest of a series is lost (scr index list shows it as incomplete). Example:\n
    scr scavenge --prefix /pfs/me/run --nodes 'node[1-4]'")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(short, long, value_name = "DIRECTORY")]
    prefix: Option<String>,
    /// Nodes that are asked; SCR_NODELIST, else those of the last run by default.
    #[arg(long, value_name = "HOSTS")]
    nodes: Option<String>,
    /// Nodes that are not asked.
    #[arg(long, alias = "down", value_name = "HOSTS")]
    exclude: Option<String>,
    /// Seconds that a node may take; 3600 by default.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// For the shim: look what a launch has left that began so many seconds after 1970.
    #[arg(long, hide = true)]
    after_launch: Option<u64>,
    /// For the shim: save it.
    #[arg(long, hide = true, conflicts_with = "after_launch")]
    save_launch: Option<u64>,
}

/// Runs the tool.
pub fn run(args: &Args) -> ExitCode {
    match (args.after_launch, args.save_launch) {
        (Some(begun), _) => after_launch::look(begun),
        (None, Some(_)) => after_launch::save(),
        (None, None) => exit("scavenge", outcome(args)),
    }
}

/// Prints what came of it, and says by the exit status whether the newest of everything is saved.
pub fn exit(tool: &str, outcome: Result<Scavenged>) -> ExitCode {
    let saved = outcome.as_ref().is_ok_and(is_saved);
    let text = outcome.map(|done| lines(&done).iter().map(|line| format!("{line}\n")).collect());
    let printed = crate::finish(tool, text);
    if saved { printed } else { ExitCode::FAILURE }
}

/// Scavenges what the arguments, the settings and the environment say.
pub fn outcome(args: &Args) -> Result<Scavenged> {
    let (settings, environment) = crate::load_settings(args.prefix.as_deref())?;
    let list = args.nodes.clone().or_else(|| settings.get_optional(keys::NODELIST));
    let nodes = HostList::expand(&list.unwrap_or_default())?;
    let nodes = nodes.minus(&HostList::expand(args.exclude.as_deref().unwrap_or_default())?);
    let shell = shell(&settings, &environment, &*find(&environment, None));
    let limit = args.timeout.map_or(LIMIT, Duration::from_secs);
    scavenge(&settings, &environment, nodes.hosts().to_vec(), &shell, limit)
}

/// Scavenges from `nodes`; from those of the last run if there are none.
pub fn scavenge(
    settings: &Settings,
    environment: &Environment,
    nodes: Vec<String>,
    shell: &Shell,
    limit: Duration,
) -> Result<Scavenged> {
    let program = std::env::current_exe()
        .map_err(|error| Error::io("cannot find", "this program's own file", error))?;
    let commands = &Real;
    let _shown = crate::progress::show("scavenge");
    Scavenge { settings, environment, nodes, shell, commands, program: &program, limit }.run()
}

/// Whether the newest of everything is on the prefix.
pub fn is_saved(done: &Scavenged) -> bool {
    done.lost.is_empty() && (!done.published.is_empty() || (done.had_cache && done.on_prefix))
}

/// What was done, for people.
pub fn lines(done: &Scavenged) -> Vec<String> {
    let mut lines = Vec::new();
    for (node, why) in &done.silent {
        lines.push(format!("nothing comes from {node}: {why}"));
    }
    lines.extend(done.published.iter().map(|name| format!("{name} is on the prefix now")));
    for (name, why) in &done.lost {
        lines.push(format!("{name} is lost: {why}"));
    }
    if done.published.is_empty() && done.lost.is_empty() {
        lines.push(match (done.had_cache, done.on_prefix) {
            (true, true) => "the prefix has all that is complete already".to_owned(),
            (true, false) => "the caches have no complete checkpoint".to_owned(),
            (false, _) => "no node has a cache of this job".to_owned(),
        });
    }
    lines
}
