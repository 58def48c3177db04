//! `scr scavenge`: what a job that died has left in its nodes' caches, to the prefix.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use scr_core::error::{Error, Result};
use scr_core::log::messages::{self, Id};
use scr_core::operations::run::{Real, Shell, find};
use scr_core::operations::{HostList, Reach, Scavenge, Scavenged};
use scr_core::params::{Environment, Settings, keys};
use serde_json::{Value, json};

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
job, SCR_JOB_ID. Nodes are reached as scr run reaches them (SCR_REMOTE_SHELL). With SCR_ENABLE=0 \
it does nothing.

The exit status is 0 if the newest is on the prefix now or was there already; 1 if no node had \
anything, the newest of a series is lost (scr index list shows it as incomplete), or something \
cannot be read or written; 2 if an argument is wrong. Example:\n
    scr scavenge --prefix /pfs/me/run --nodes 'node[1-4]'")]
pub struct Args {
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(short, long, value_name = "DIRECTORY")]
    prefix: Option<String>,
    /// Nodes that are asked; SCR_NODELIST, else those of the last run by default.
    #[arg(long, alias = "jobset", value_name = "HOSTS")]
    nodes: Option<String>,
    /// Nodes that are not asked.
    #[arg(long, alias = "down", value_name = "HOSTS")]
    exclude: Option<String>,
    /// Seconds that a node may take; 3600 by default.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Only the dataset with this id, even if it is not the newest.
    #[arg(long, value_name = "ID")]
    id: Option<u64>,
    /// The job's control directory, in place of SCR_CNTL_BASE, SCR_USER_NAME and SCR_JOB_ID.
    #[arg(long, value_name = "DIRECTORY")]
    cntldir: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
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
        (None, None) => match outcome(args) {
            Ok(None) => crate::print("SCR_ENABLE=0: there is nothing to scavenge\n"),
            done => exit("scavenge", done.map(Option::unwrap_or_default), args.json),
        },
    }
}

/// Prints what came of it, and says by the exit status whether the newest of everything is saved.
pub fn exit(tool: &str, outcome: Result<Scavenged>, as_json: bool) -> ExitCode {
    let saved = outcome.as_ref().is_ok_and(is_saved);
    let text = outcome.map(|done| match as_json {
        true => format!("{:#}\n", in_json(&done)),
        false => lines(&done).iter().map(|line| format!("{}\n", line.closed())).collect(),
    });
    let printed = crate::finish(tool, text);
    if saved { printed } else { ExitCode::FAILURE }
}

fn in_json(done: &Scavenged) -> Value {
    let with_reason = |of: &[(String, String)], what: &str| -> Vec<Value> {
        of.iter().map(|(name, why)| json!({ what: name, "reason": why })).collect()
    };
    json!({
        "saved": is_saved(done),
        "published": done.published,
        "lost": with_reason(&done.lost, "name"),
        "silent": with_reason(&done.silent, "node"),
        "left_out": done.unknown,
        "had_cache": done.had_cache,
    })
}

/// Scavenges what the arguments, the settings and the environment say; `None` if SCR is off.
pub fn outcome(args: &Args) -> Result<Option<Scavenged>> {
    let (settings, environment) =
        crate::classic::load_settings_in(args.prefix.as_deref(), args.cntldir.as_deref(), &[])?;
    if !settings.get(keys::ENABLE) {
        return Ok(None);
    }
    let list = args.nodes.clone().or_else(|| settings.get_optional(keys::NODELIST));
    let nodes = HostList::expand(&list.unwrap_or_default())?;
    let nodes = nodes.minus(&HostList::expand(args.exclude.as_deref().unwrap_or_default())?);
    let shell = shell(&settings, &environment, &*find(&environment, None));
    let limit = args.timeout.map_or(LIMIT, Duration::from_secs);
    let nodes = nodes.hosts().to_vec();
    scavenge(&settings, &environment, nodes, args.id, &shell, limit).map(Some)
}

/// Scavenges from `nodes`, from those of the last run if there are none; only dataset `id`, if that
/// is given.
pub fn scavenge(
    settings: &Settings,
    environment: &Environment,
    nodes: Vec<String>,
    id: Option<u64>,
    shell: &Shell,
    limit: Duration,
) -> Result<Scavenged> {
    let program = std::env::current_exe()
        .map_err(|error| Error::io("cannot find", "this program's own file", error))?;
    let commands = &Real;
    let _shown = crate::progress::show("scavenge");
    let program = &program;
    let reach = Reach { settings, environment, nodes, shell, commands, program, limit };
    Scavenge { reach, id }.run()
}

/// Tells whether the newest of everything is on the prefix.
pub fn is_saved(done: &Scavenged) -> bool {
    let nothing_lost = done.lost.is_empty() && done.unknown.is_empty();
    nothing_lost && (!done.published.is_empty() || (done.had_cache && done.on_prefix))
}

/// What came of it in one respect.
pub struct Line {
    /// The message that explains it, if something went wrong.
    pub id: Option<Id>,
    /// A clause.
    pub text: String,
}

impl Line {
    fn closed(&self) -> String {
        self.id.map_or_else(|| self.text.clone(), |id| id.close(&self.text))
    }
}

/// Tells what was done, for people.
pub fn lines(done: &Scavenged) -> Vec<Line> {
    let good = |text: String| Line { id: None, text };
    let bad = |id: Id, text: String| Line { id: Some(id), text };
    let mut lines = Vec::new();
    for (node, why) in &done.silent {
        lines.push(bad(messages::NODE_SILENT, format!("nothing comes from {node}: {why}")));
    }
    lines.extend(done.published.iter().map(|name| good(format!("{name} is on the prefix now"))));
    for (name, why) in &done.lost {
        lines.push(bad(messages::NOT_RECOVERED, format!("{name} is lost: {why}")));
    }
    lines.extend(done.unknown.iter().map(|text| bad(messages::NOT_RECOVERED, text.clone())));
    if done.published.is_empty() && done.lost.is_empty() {
        let none = |text: &str| bad(messages::NOTHING_SAVED, text.to_owned());
        lines.push(match (done.had_cache, done.on_prefix) {
            (true, true) => good("the prefix has all that is complete already".to_owned()),
            (true, false) => none("the caches have no complete checkpoint"),
            (false, _) => none("no node has a cache of this run"),
        });
    }
    lines
}
