//! What is checked and found out before the first launch.

use std::path::{Path, PathBuf};
use std::time::Duration;

use scr_core::error::{Error, Result};
use scr_core::operations::HostList;
use scr_core::operations::run::{
    Commands as _, Launcher, LauncherLine, Limits, Manager, Real, RunHost, Shell, Test, find,
    hostfile,
};
use scr_core::params::{Environment, Settings, keys, words};
use scr_core::system::{may_write, unix_seconds};

use super::step::WatchdogLimits;
use crate::base::job::{can_run, hosts, shell, tests};
use crate::base::process::own_path;
use crate::base::settings::load_settings;

/// The shim, seen from the directory of this program.
const SHIM: &str = "../lib/libscr_preload.so";
/// How long a launcher may take to say its version.
const VERSION_MAX: Duration = Duration::from_secs(20);

pub struct Setup {
    pub prefix: PathBuf,
    pub limits: Limits,
    pub watchdog: Option<WatchdogLimits>,
    /// Of `line` and `restart` the latter is for launches that have a checkpoint.
    pub line: LauncherLine,
    pub restart: Option<LauncherLine>,
    pub variables: Environment,
    pub manager: Box<dyn Manager>,
    /// False: nothing is known of any node but this one, and the line is left alone.
    pub has_nodes: bool,
    pub hosts: Vec<RunHost>,
    pub excluded: Vec<String>,
    pub nodes: Option<usize>,
    pub min_nodes: Option<usize>,
    pub shell: Shell,
    pub tests: Vec<Test>,
    pub tries: u64,
    pub patterns: Vec<String>,
    /// SCR is switched off: the command is run as it is, once.
    pub is_off: bool,
    pub no_scavenge: bool,
    /// The program calls SCR, and the shim is not there to bring SCR's variables to other nodes.
    pub by_calls: bool,
    pub settings: Settings,
    pub environment: Environment,
}

#[derive(clap::Args)]
#[command(after_help = "\
The exit status is that of the program: of its last launch, 128 and the signal's number if one \
killed it; 1 if there was no launch. SCR_RUNS, SCR_MIN_NODES, SCR_EXCLUDE_NODES, SCR_NODELIST, \
SCR_NODE_TESTS, SCR_RETRIES, SCR_REMOTE_SHELL and SCR_WATCHDOG_TIMEOUT count from the environment \
and from the configuration file. In the words of the program {latest} is replaced by the name of \
the newest checkpoint (checkpoint.20), {latest_id} by its id (20), {nodes} by the list of healthy \
nodes; SCR_LATEST_NAME and SCR_LATEST_PATH are in its environment. \
Examples:\n
    scr run -- mpirun -n 8 ./app                  once, under SCR
    scr run --runs 4 -- srun -N 4 -n 8 ./app      in an allocation of 5 nodes: one is a spare
    scr run --runs -1 --nodes 4 --hostfile hosts -- mpirun -n 8 ./app
    scr run --runs 3 --restart-command 'mpirun ./app --from {latest_id}' -- mpirun ./app")]
pub struct Args {
    /// Launches in all, the first included; -1: as many as it takes. SCR_RUNS by default.
    #[arg(short, long, value_name = "N", allow_hyphen_values = true)]
    runs: Option<i64>,
    /// Use so many nodes; the others of the allocation are spares. By default as many as the line
    /// of srun or flux run asks for (-N 4).
    #[arg(short = 'N', long, value_name = "N")]
    nodes: Option<usize>,
    /// Healthy nodes that a launch needs. By default SCR_MIN_NODES, else --nodes, else as many as
    /// the launch before had, else all of the allocation.
    #[arg(short, long, value_name = "N")]
    min_nodes: Option<usize>,
    /// Never use these nodes, as `node[3,7]`.
    #[arg(short = 'x', long, value_name = "HOSTS")]
    exclude: Option<String>,
    /// The nodes of the allocation, if no resource manager knows them.
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
    /// Seconds between the end of a launch and the next.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pause: Duration,
    /// The command for launches that have a checkpoint to go on from.
    #[arg(long, value_name = "COMMAND")]
    restart_command: Option<String>,
    /// Leave in the nodes' caches what only they have after the last run (see scr scavenge).
    #[arg(long)]
    no_scavenge: bool,
    /// The program calls SCR itself: leave the shim out.
    #[arg(long)]
    api: bool,
    /// The run's prefix directory; SCR_PREFIX or the working directory by default.
    #[arg(long, value_name = "DIRECTORY")]
    prefix: Option<String>,
    /// The launcher, its options, the program and its arguments.
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| format!("{text} is no number of seconds"))?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}

impl Setup {
    // Nothing has been started or changed yet.
    pub fn new(args: &Args) -> Result<Setup> {
        let (settings, environment) = load_settings(args.prefix.as_deref())?;
        let prefix = checked_prefix(&settings)?;
        let is_off = !settings.get(keys::ENABLE);
        let line = parse(&args.command)?;
        let restart = args.restart_command.as_deref().map(|text| restart_line(text, &environment));
        let restart = restart.transpose()?;
        let (manager, named) = manager(args, &environment, &line);
        let has_nodes = manager.name() != "none" || settings.get_optional(keys::NODELIST).is_some();
        let hosts = hosts(&settings, &*manager, named)?;
        let excluded = args.exclude.clone().or_else(|| settings.get_optional(keys::EXCLUDE_NODES));
        let excluded = HostList::expand(&excluded.unwrap_or_default())?.hosts().to_vec();
        let mut variables = Environment::new();
        if !is_off {
            variables.insert("SCR_PREFIX".into(), prefix.display().to_string());
            if has_nodes {
                let all = HostList::of(hosts.iter().map(|host| host.name.clone()));
                variables.insert("SCR_NODELIST".into(), all.compress());
            }
            if settings.get_optional(keys::END_TIME).is_none()
                && let Some(end) = manager.end_time(&Real, unix_seconds())
            {
                variables.insert("SCR_END_TIME".into(), end.to_string());
            }
            // The shim in the launcher leaves what a launch has left to us.
            variables.insert("SCR_LAUNCH_RUN".into(), "1".into());
            if !args.api {
                let before = environment.get("LD_PRELOAD").map(String::as_str).unwrap_or_default();
                variables.insert("LD_PRELOAD".into(), preload(&shim()?, before));
            }
        }
        let runs = args.runs.unwrap_or_else(|| settings.get(keys::RUNS));
        if runs == 0 || runs < -1 {
            return Err(Error::Refused(format!("--runs {runs}: 1 or more, or -1 for no limit")));
        }
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(Setup {
            limits: Limits { runs: u64::try_from(runs).ok(), pause: args.pause },
            watchdog: WatchdogLimits::of(&settings),
            shell: shell(&settings, &environment, &*manager),
            tests: tests(&settings),
            tries: settings.get(keys::RETRIES).saturating_add(1),
            min_nodes: args.min_nodes.or(settings.get_optional(keys::MIN_NODES).map(count)),
            nodes: args.nodes.or_else(|| line.own_nodes()),
            patterns: settings
                .family(keys::CHECKPOINT_PATTERN)
                .into_iter()
                .map(|(_, text)| text)
                .collect(),
            prefix,
            line,
            restart,
            variables,
            manager,
            has_nodes,
            hosts,
            excluded,
            is_off,
            no_scavenge: args.no_scavenge,
            by_calls: args.api && !is_off,
            settings,
            environment,
        })
    }
}

fn checked_prefix(settings: &Settings) -> Result<PathBuf> {
    let prefix = settings.get(keys::PREFIX);
    let found = std::fs::canonicalize(&prefix)
        .map_err(|error| Error::io("cannot use the prefix directory", &prefix, error))?;
    if !found.is_dir() {
        return Err(Error::Missing(format!("the prefix {} is no directory", prefix.display())));
    }
    if !may_write(&found) {
        return Err(Error::Refused(format!("nothing can be written to {}", prefix.display())));
    }
    Ok(found)
}

/// Takes a command line apart; its first word has to be there.
fn parse(words: &[String]) -> Result<LauncherLine> {
    let program = words.first().map(String::as_str).unwrap_or_default();
    if !can_run(program) {
        return Err(Error::Missing(format!("there is no command '{program}'")));
    }
    let version = || {
        let words = [program.to_owned(), "--version".to_owned()];
        Real.output(&words, VERSION_MAX).unwrap_or_default()
    };
    Ok(LauncherLine::new(Launcher::of(program, version), words, can_run))
}

fn restart_line(text: &str, environment: &Environment) -> Result<LauncherLine> {
    let variables = |name: &str| environment.get(name).cloned();
    let words = words(text, &variables)
        .map_err(|what| Error::Refused(format!("--restart-command: {what}")))?;
    parse(&words)
}

/// The resource manager; without one the nodes that the command line itself names.
fn manager(
    args: &Args,
    environment: &Environment,
    line: &LauncherLine,
) -> (Box<dyn Manager>, Option<Vec<RunHost>>) {
    let found = find(environment, args.hostfile.as_deref());
    if found.name() != "none" {
        return (found, None);
    }
    match line.own_hosts() {
        Some(Ok(list)) => (found, Some(hostfile(&list.replace(',', "\n")))),
        Some(Err(file)) => (find(environment, Some(Path::new(&file))), None),
        None => (found, None),
    }
}

pub fn shim() -> Result<PathBuf> {
    let path = own_path()?.parent().unwrap_or(Path::new("/")).join(SHIM);
    std::fs::canonicalize(&path).map_err(|_| {
        Error::Missing(format!(
            "the shim is not there: {}; --api leaves it out, for programs that call SCR themselves",
            path.display()
        ))
    })
}

/// Returns LD_PRELOAD with the shim in front of what is there; one of that name is replaced.
pub fn preload(shim: &Path, before: &str) -> String {
    let own = shim.file_name();
    let others = before.split([':', ' ']).filter(|entry| !entry.is_empty());
    let others = others.filter(|entry| Path::new(entry).file_name() != own).map(str::to_owned);
    let all: Vec<String> = std::iter::once(shim.display().to_string()).chain(others).collect();
    all.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shim_stands_first_and_once() {
        let shim = Path::new("/opt/scr/lib/libscr_preload.so");
        assert_eq!(preload(shim, ""), "/opt/scr/lib/libscr_preload.so");
        let line = preload(shim, "libscr_preload.so:/usr/lib/libdarshan.so");
        assert_eq!(line, "/opt/scr/lib/libscr_preload.so:/usr/lib/libdarshan.so");
    }
}
