//! What the environment and the settings tell of a job: its nodes, and how they are reached.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use scr_core::error::Result;
use scr_core::operations::run::{Manager, Real, RunHost, Shell, Test};
use scr_core::operations::{HostList, wanted_directories};
use scr_core::params::{Environment, Settings, keys};

/// How long a node may take to bring or read what it has.
pub const LIMIT: Duration = Duration::from_secs(3600);
/// Clocks of this node and of the file system that has the prefix may differ.
pub const SKEW: Duration = Duration::from_secs(5);
/// Variables that name the nodes of a launch to its launcher.
pub const NODE_VARIABLES: [&str; 3] =
    ["OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile", "HYDRA_HOST_FILE"];

/// How long a node may take to answer. One that is dead is known earlier, by the connection; one
/// that is merely busy would be left out of the job.
const TEST_MAX: Duration = Duration::from_secs(30);

/// Finds the nodes of the allocation: `named`, or those of the resource manager; SCR_NODELIST
/// overrules both.
pub fn hosts(
    settings: &Settings,
    manager: &dyn Manager,
    named: Option<Vec<RunHost>>,
) -> Result<Vec<RunHost>> {
    let told = match named {
        Some(hosts) => Ok(hosts),
        None => manager.hosts(&Real),
    };
    let Some(list) = settings.get_optional(keys::NODELIST) else { return told };
    let slots: BTreeMap<String, Option<usize>> =
        told.unwrap_or_default().into_iter().map(|host| (host.name, host.slots)).collect();
    let host =
        |name: &String| RunHost { name: name.clone(), slots: slots.get(name).copied().flatten() };
    Ok(HostList::expand(&list)?.hosts().iter().map(host).collect())
}

/// Finds out how a node is reached: as the user says, as the resource manager does it, as mpirun
/// does it.
pub fn shell(settings: &Settings, environment: &Environment, manager: &dyn Manager) -> Shell {
    if let Some(command) = settings.get_optional(keys::REMOTE_SHELL) {
        return Shell::remote(&command);
    }
    let of_mpi = ["OMPI_MCA_plm_rsh_agent", "HYDRA_LAUNCHER_EXEC"];
    let of_mpi = || of_mpi.iter().find_map(|name| environment.get(*name)).cloned();
    let usual = "ssh -o BatchMode=yes -o ConnectTimeout=5";
    manager.shell().unwrap_or_else(|| Shell::remote(&of_mpi().unwrap_or_else(|| usual.to_owned())))
}

/// Lists the nodes that are asked: those named, else those of SCR_NODELIST; without `excluded`.
pub fn asked(
    settings: &Settings,
    named: Option<&str>,
    excluded: Option<&str>,
) -> Result<Vec<String>> {
    let list = named.map(str::to_owned).or_else(|| settings.get_optional(keys::NODELIST));
    let nodes = HostList::expand(&list.unwrap_or_default())?;
    Ok(nodes.minus(&HostList::expand(excluded.unwrap_or_default())?).hosts().to_vec())
}

pub fn tests(settings: &Settings) -> Vec<Test> {
    let chosen = settings.get_optional(keys::NODE_TESTS);
    let names = chosen.unwrap_or_else(|| match has_capacities(settings) {
        true => "echo, directories".to_owned(),
        false => "echo".to_owned(),
    });
    let test = |name: &str| match name {
        "echo" => Test::echo(TEST_MAX),
        "ping" => Test::ping(TEST_MAX),
        "directories" => directories(settings),
        command => Test::command(command, TEST_MAX),
    };
    names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(test).collect()
}

fn has_capacities(settings: &Settings) -> bool {
    wanted_directories(settings).is_ok_and(|all| all.iter().any(|one| one.capacity_bytes.is_some()))
}

fn directories(settings: &Settings) -> Test {
    let program = std::env::current_exe().map(|path| path.display().to_string());
    // Wrong descriptors are told by whoever needs them.
    let wanted = wanted_directories(settings).unwrap_or_default();
    let words = wanted.iter().map(ToString::to_string).collect();
    Test::directories(&program.unwrap_or_else(|_| "scr".to_owned()), words, TEST_MAX)
}

pub fn can_run(word: &str) -> bool {
    find_command(word).is_some()
}

/// Finds the file that a word starts.
pub fn find_command(word: &str) -> Option<PathBuf> {
    let executable = |path: &PathBuf| {
        path.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if word.is_empty() || word.contains('/') {
        return Some(PathBuf::from(word)).filter(executable);
    }
    let places = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&places).map(|place| place.join(word)).find(executable)
}

#[cfg(test)]
mod tests {
    use super::can_run;

    #[test]
    fn what_can_be_executed() {
        assert!(can_run("sh") && can_run("/bin/sh"));
        assert!(
            !can_run("") && !can_run("/") && !can_run("/etc/passwd") && !can_run("no-such-command")
        );
    }
}
