//! What the environment and the settings tell of a job: its nodes, and how they are reached.

use std::collections::BTreeMap;
use std::time::Duration;

use scr_core::error::Result;
use scr_core::operations::HostList;
use scr_core::operations::run::{Host, Manager, Real, Shell, Test};
use scr_core::params::{Environment, Settings, keys};

/// How long a node may take to answer.
const TEST_MAX: Duration = Duration::from_secs(10);

/// Nodes of the allocation: `named`, or those of the resource manager; SCR_NODELIST overrules both.
pub fn hosts(
    settings: &Settings,
    manager: &dyn Manager,
    named: Option<Vec<Host>>,
) -> Result<Vec<Host>> {
    let told = match named {
        Some(hosts) => Ok(hosts),
        None => manager.hosts(&Real),
    };
    let Some(list) = settings.get_optional(keys::NODELIST) else { return told };
    let slots: BTreeMap<String, Option<usize>> =
        told.unwrap_or_default().into_iter().map(|host| (host.name, host.slots)).collect();
    let host =
        |name: &String| Host { name: name.clone(), slots: slots.get(name).copied().flatten() };
    Ok(HostList::expand(&list)?.hosts().iter().map(host).collect())
}

/// How a node is reached: as the user says, as the resource manager does it, as mpirun does it.
pub fn shell(settings: &Settings, environment: &Environment, manager: &dyn Manager) -> Shell {
    if let Some(command) = settings.get_optional(keys::REMOTE_SHELL) {
        return Shell::remote(&command);
    }
    let of_mpi = ["OMPI_MCA_plm_rsh_agent", "HYDRA_LAUNCHER_EXEC"];
    let of_mpi = || of_mpi.iter().find_map(|name| environment.get(*name)).cloned();
    let usual = "ssh -o BatchMode=yes -o ConnectTimeout=5";
    manager.shell().unwrap_or_else(|| Shell::remote(&of_mpi().unwrap_or_else(|| usual.to_owned())))
}

/// Tests that a node has to pass.
pub fn tests(settings: &Settings) -> Vec<Test> {
    let names = settings.get_optional(keys::NODE_TESTS).unwrap_or_else(|| "echo".to_owned());
    let test = |name: &str| match name {
        "echo" => Test::echo(TEST_MAX),
        "ping" => Test::ping(TEST_MAX),
        command => Test::command(command, TEST_MAX),
    };
    names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(test).collect()
}
