//! Starting programs in a cluster: on its head (`exec`, `run`), on a node (`agent`, `exec --on`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use scr_core::error::{Error, Result};
use scr_core::log::messages;

use super::namespace::{self, Namespaces};
use super::places::SCRATCH;
use super::state::{Node, SUBNET, State};
use crate::base::job::NODE_VARIABLES;
use crate::base::process::exit_code;
use crate::base::say;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mpi {
    /// Open MPI, by `mpirun.openmpi`.
    Openmpi,
    /// MPICH, by `mpirun.mpich`.
    Mpich,
}

/// Keeps launchers from looking for devices, which virtual nodes do not have: where the machine
/// itself is a virtual one, to ask its bus is a quarter of what a launch takes.
const NO_DEVICES: (&str, &str) = ("HWLOC_COMPONENTS", "-pci,-linuxio");

/// The variables that let a plain `mpirun` on the head find and use the nodes.
fn launcher_environment(state: &State) -> BTreeMap<&'static str, String> {
    let file = |name: &str| state.file(name).display().to_string();
    BTreeMap::from([
        ("OMPI_MCA_plm_rsh_agent", file("agent")),
        ("OMPI_MCA_orte_default_hostfile", file("hostfile.openmpi")),
        ("OMPI_MCA_orte_tmpdir_base", file(SCRATCH)),
        ("OMPI_MCA_oob_tcp_if_include", SUBNET.to_owned()),
        ("OMPI_MCA_btl_tcp_if_include", SUBNET.to_owned()),
        ("OMPI_MCA_btl", "self,vader,tcp".to_owned()),
        ("OMPI_MCA_pml", "ob1".to_owned()),
        // More ranks than cores are the rule here: spinning ones would starve the others.
        ("OMPI_MCA_mpi_yield_when_idle", "1".to_owned()),
        ("OMPI_MCA_hwloc_base_binding_policy", "none".to_owned()),
        // The same for Open MPI 5, whose launcher is PRRTE's.
        ("PRTE_MCA_plm_ssh_agent", file("agent")),
        ("PRTE_MCA_prte_default_hostfile", file("hostfile.openmpi")),
        ("PRTE_MCA_prte_tmpdir_base", file(SCRATCH)),
        ("PRTE_MCA_prte_if_include", SUBNET.to_owned()),
        ("PRTE_MCA_hwloc_default_binding_policy", "none".to_owned()),
        (NO_DEVICES.0, NO_DEVICES.1.to_owned()),
        ("OMPI_ALLOW_RUN_AS_ROOT", "1".to_owned()),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1".to_owned()),
        ("PRTE_ALLOW_RUN_AS_ROOT", "1".to_owned()),
        ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1".to_owned()),
        // UCX below MPICH would offer every node's loopback to the others, and hang at the end.
        ("UCX_NET_DEVICES", "eth0".to_owned()),
        ("HYDRA_LAUNCHER", "rsh".to_owned()),
        ("HYDRA_LAUNCHER_EXEC", file("agent")),
        ("HYDRA_HOST_FILE", file("hostfile.mpich")),
    ])
}

/// Runs `words` on the head, in the caller's directory and environment; returns its exit code.
pub fn exec_on_head(state: &State, words: &[String], without: &[&str]) -> Result<u8> {
    let (program, rest) = split(words)?;
    let mut command = Command::new(program);
    command.args(rest).envs(launcher_environment(state));
    for name in without {
        command.env_remove(name);
    }
    exec(state, 1, command, &here()?)
}

fn here() -> Result<PathBuf> {
    std::env::current_dir().map_err(|e| Error::io("cannot find", "the current directory", e))
}

fn exec(state: &State, pid: u32, mut command: Command, directory: &Path) -> Result<u8> {
    enter(state, pid, &mut command, directory)?;
    namespace::end_with_parent(&mut command);
    let status = command.status();
    Ok(exit_code(status.map_err(|e| Error::io("cannot run", command.get_program(), e))?))
}

pub fn on_head(state: &State, mut command: Command) -> Result<()> {
    enter(state, 1, &mut command, Path::new("/"))?;
    command.status().map_err(|e| Error::io("cannot run", command.get_program(), e))?;
    Ok(())
}

fn split(words: &[String]) -> Result<(&String, &[String])> {
    words.split_first().ok_or_else(|| Error::Missing("which program? Give it after --".to_owned()))
}

fn enter(state: &State, pid: u32, command: &mut Command, directory: &Path) -> Result<()> {
    let process = state.process(pid)?;
    Namespaces::of(&process)
        .and_then(|namespaces| namespaces.enter(command, directory))
        .map_err(|e| Error::io("cannot enter", &process, e))
}

/// The nodes for a program: the named ones, or the first that are up.
fn choose(state: &State, names: &[String]) -> Result<Vec<Node>> {
    let nodes = if names.is_empty() {
        let alive = state.nodes()?.into_iter().filter(|node| node.alive);
        alive.take(state.wanted()?).collect::<Vec<_>>()
    } else {
        names.iter().map(|name| state.node(name)).collect::<Result<_>>()?
    };
    if nodes.is_empty() {
        return Err(Error::Missing("no node is up".to_owned()));
    }
    Ok(nodes)
}

/// The mpirun line for `ranks` ranks of `words` on `nodes`, ranks side by side on each node. As
/// long as there are enough, each node has one: what its cache holds is out of reach otherwise.
fn mpirun_line(mpi: Mpi, ranks: usize, nodes: &[Node], words: &[String]) -> Vec<String> {
    let (each, more) = (ranks / nodes.len(), ranks % nodes.len());
    let slots = |index| each + usize::from(index < more);
    let hosts = nodes.iter().enumerate().filter(|(index, _)| slots(*index) > 0);
    let hosts: Vec<String> =
        hosts.map(|(index, node)| format!("{}:{}", node.name, slots(index))).collect();
    let (launcher, option) = match mpi {
        Mpi::Openmpi => ("mpirun.openmpi", "--host"),
        Mpi::Mpich => ("mpirun.mpich", "-hosts"),
    };
    let start = [launcher, option, &hosts.join(","), "-n", &ranks.to_string()].map(str::to_owned);
    start.into_iter().chain(words.iter().cloned()).collect()
}

/// Does `scr sim run`: mpirun on the head, ranks on the nodes; returns mpirun's exit code.
pub fn run(
    state: &State,
    mpi: Mpi,
    ranks: usize,
    names: &[String],
    words: &[String],
) -> Result<u8> {
    split(words)?;
    warn_of_private_directory(state);
    let line = mpirun_line(mpi, ranks.max(1), &choose(state, names)?, words);
    exec_on_head(state, &line, &NODE_VARIABLES)
}

fn warn_of_private_directory(state: &State) {
    if let Some(dir) = std::env::current_dir().ok().filter(|dir| !state.all_see(dir)) {
        let text = format!(
            "every node has its own /tmp and /dev/shm: {} is not seen there, since the cluster was \
             started neither from it nor with --share for it",
            dir.display()
        );
        say::tell("sim", messages::NODES_OF_THEIR_OWN, &text);
    }
}

/// The options that mpirun's launchers give to a remote shell, with the number of words of each.
const SHELL_OPTIONS: [(&str, usize); 5] = [("-x", 1), ("-q", 1), ("-n", 1), ("-T", 1), ("-l", 2)];

fn parse_agent(words: &[String]) -> Option<(&str, String)> {
    let mut rest = words;
    while let Some((_, count)) =
        SHELL_OPTIONS.iter().find(|(option, _)| rest.first().is_some_and(|word| word == option))
    {
        rest = rest.get(*count..)?;
    }
    let (host, command) = rest.split_first()?;
    Some((host, command.join(" ")))
}

/// Serves as the remote shell: runs a command line on a node as sshd would, with an environment of
/// its own.
pub fn agent(state: &State, words: &[String]) -> Result<u8> {
    let (host, line) = parse_agent(words)
        .ok_or_else(|| Error::Refused("usage: agent HOST COMMAND...".to_owned()))?;
    let node = state.node(host)?;
    if !node.alive {
        let address = &node.address;
        let text = format!("connect to {host} ({address}): no route to host, the node is dead");
        say::tell("sim", messages::NODE_SILENT, &text);
        return Ok(255);
    }
    let words = ["sh".to_owned(), "-c".to_owned(), line];
    on_node(state, &node, &words, Path::new(&state.home()))
}

/// Does `scr sim exec --on`: runs `words` on a node, in the caller's directory.
pub fn exec_on_node(state: &State, name: &str, words: &[String]) -> Result<u8> {
    let node = state.node(name)?;
    if !node.alive {
        return Err(Error::Process(format!("{name} is dead")));
    }
    on_node(state, &node, words, &here()?)
}

fn on_node(state: &State, node: &Node, words: &[String], directory: &Path) -> Result<u8> {
    let (program, rest) = split(words)?;
    let mut command = Command::new(program);
    command.args(rest).env_clear().envs([
        NO_DEVICES,
        ("HOME", &*state.home()),
        ("USER", "root"),
        ("LOGNAME", "root"),
        ("SHELL", "/bin/sh"),
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ]);
    exec(state, node.pid, command, directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_remote_shell_skips_the_launchers_options() {
        let line = words("-x -l root node2 /usr/bin/proxy --port 3");
        assert_eq!(parse_agent(&line), Some(("node2", "/usr/bin/proxy --port 3".to_owned())));
        assert_eq!(parse_agent(&words("node2 a -x")), Some(("node2", "a -x".to_owned())));
        assert_eq!(parse_agent(&words("-l root")), None);
    }

    #[test]
    fn ranks_fill_the_nodes_evenly() {
        let node = |number: usize| Node {
            name: format!("node{number}"),
            address: String::new(),
            pid: 1,
            alive: true,
        };
        let line = |ranks| {
            let nodes = [node(1), node(2), node(4)];
            mpirun_line(Mpi::Mpich, ranks, &nodes, &words("app x")).join(" ")
        };
        assert_eq!(line(8), "mpirun.mpich -hosts node1:3,node2:3,node4:2 -n 8 app x");
        // None is left out while there are ranks for it.
        assert_eq!(line(4), "mpirun.mpich -hosts node1:2,node2:1,node4:1 -n 4 app x");
        assert_eq!(line(2), "mpirun.mpich -hosts node1:1,node2:1 -n 2 app x");
    }
}
