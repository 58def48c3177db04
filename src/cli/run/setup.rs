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

use super::Args;
use super::step::WatchdogLimits;
use crate::job::{can_run, hosts, shell, tests};

/// The shim, seen from the directory of this program.
const SHIM: &str = "../lib/libscr_preload.so";
/// How long a launcher may take to say its version.
const VERSION_MAX: Duration = Duration::from_secs(20);
/// Variables that name the nodes of a launch; what we say of them holds.
pub const NODE_VARIABLES: [&str; 3] =
    ["OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile", "HYDRA_HOST_FILE"];

/// All that a run needs to know.
pub struct Setup {
    pub prefix: PathBuf,
    pub limits: Limits,
    pub watchdog: Option<WatchdogLimits>,
    /// The command, and that for launches which have a checkpoint.
    pub line: LauncherLine,
    pub restart: Option<LauncherLine>,
    /// Variables for the program.
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
    /// No scavenge after the last run.
    pub no_scavenge: bool,
    /// The program calls SCR, and the shim is not there to bring SCR's variables to other nodes.
    pub by_calls: bool,
    pub settings: Settings,
    pub environment: Environment,
}

impl Setup {
    /// Looks at everything; nothing has been started or changed yet.
    pub fn new(args: &Args) -> Result<Setup> {
        let (settings, environment) = crate::load_settings(args.prefix.as_deref())?;
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
            patterns: patterns(&settings),
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

fn patterns(settings: &Settings) -> Vec<String> {
    settings.family(keys::CHECKPOINT_PATTERN).into_iter().map(|(_, text)| text).collect()
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

/// Finds the shim that belongs to this program.
pub fn shim() -> Result<PathBuf> {
    let program = std::env::current_exe()
        .map_err(|error| Error::io("cannot find", "this program's own file", error))?;
    let path = program.parent().unwrap_or(Path::new("/")).join(SHIM);
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
