//! `scr scavenge`: brings what a job that died has left in its nodes' caches to the prefix.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use scr_core::error::Result;
use scr_core::operations::run::{Real, Shell, find};
use scr_core::operations::{Reach, Scavenge, Scavenged};
use scr_core::params::{Environment, Settings, keys};

use crate::base::job::{LIMIT, asked, shell};
use crate::base::process::own_path;
use crate::base::settings::load_settings_in;
use crate::base::{progress, say};
use crate::rescue::{after_launch, saved};

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

pub fn run(args: &Args) -> ExitCode {
    match (args.after_launch, args.save_launch) {
        (Some(begun), _) => after_launch::look(begun),
        (None, Some(_)) => after_launch::save(|| outcome(&Args::default())),
        (None, None) => match outcome(args) {
            Ok(None) => say::print("SCR_ENABLE=0: there is nothing to scavenge\n"),
            done => saved::exit("scavenge", done.map(Option::unwrap_or_default), args.json),
        },
    }
}

/// `None` if SCR is off.
fn outcome(args: &Args) -> Result<Option<Scavenged>> {
    let (settings, environment) =
        load_settings_in(args.prefix.as_deref(), args.cntldir.as_deref(), &[])?;
    if !settings.get(keys::ENABLE) {
        return Ok(None);
    }
    let nodes = asked(&settings, args.nodes.as_deref(), args.exclude.as_deref())?;
    let shell = shell(&settings, &environment, &*find(&environment, None));
    let limit = args.timeout.map_or(LIMIT, Duration::from_secs);
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
    let program = &own_path()?;
    let _shown = progress::show("scavenge");
    let reach = Reach { settings, environment, nodes, shell, commands: &Real, program, limit };
    Scavenge { reach, id }.run()
}
