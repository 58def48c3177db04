//! The first process of a cluster: everything of it lives below this process and dies with it.
//!
//! It has its own process, mount, network, host name and IPC namespaces. In them are the bridge,
//! and the nodes (each a first process of nested namespaces, see [`super::node`]). Killing the
//! keeper, even with SIGKILL, therefore leaves nothing but the state directory.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use scr_core::error::{Error, Result};

use super::namespace::{self, Mount};
use super::node::mount;
use super::ordinary;
use super::places::{NODE_ETC, SCRATCH};
use super::plan::Plan;
use super::state::{HEAD_ADDRESS, Node, State};
use crate::base::process::own_path;
use crate::base::say;

fn own_command(state: &State, sub: &str) -> Result<Command> {
    let mut command = Command::new(own_path()?);
    command.args(["sim", "--name", state.name(), sub]);
    Ok(command)
}

/// Does `scr sim start`: makes the keeper and waits until all nodes are there.
pub fn start(state: &State, plan: &Plan) -> Result<()> {
    state.make_dir()?;
    begin(state, plan).inspect_err(|_| drop(state.remove()))
}

fn begin(state: &State, plan: &Plan) -> Result<()> {
    let is_root = namespace::is_root();
    if !is_root {
        let home = std::env::var("HOME").unwrap_or_else(|_| "/".to_owned());
        state.write("home", &home)?;
        ordinary::become_root()?;
    }
    let log = state.file("log");
    let log_file = fs::File::create(&log).map_err(|e| Error::io("cannot create", &log, e))?;
    let mut command = own_command(state, "keeper")?;
    command.args(plan.arguments()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log_file);
    // The owner may end between this call and the keeper's first look: the descriptor knows.
    let watch = |pid: u32| {
        namespace::watch(pid).map_err(|e| Error::io("cannot watch the process", pid.to_string(), e))
    };
    let owner = plan.owner.map(watch).transpose()?;
    if let Some(descriptor) = &owner {
        command.arg(format!("--owner-descriptor={}", descriptor.as_raw_fd()));
        namespace::inherit(&mut command, descriptor.as_raw_fd());
    }
    namespace::in_fresh_namespaces(&mut command);
    let no_namespaces = |e| match is_root {
        true => Error::io("cannot make namespaces for", "the cluster", e),
        false => ordinary::refused(&e),
    };
    namespace::next_child_is_first().map_err(no_namespaces)?;
    let mut child = command.spawn().map_err(no_namespaces)?;
    state.write("keeper", &child.id().to_string())?;
    let mut first_line = String::new();
    if let Some(output) = child.stdout.take() {
        // A keeper that fails closes its output: an empty line tells.
        let _ = BufReader::new(output).read_line(&mut first_line);
    }
    if first_line.trim() == "ready" {
        return Ok(());
    }
    let _ = child.wait();
    let reason = fs::read_to_string(&log).unwrap_or_default();
    Err(Error::Process(format!("the cluster did not start\n{}", reason.trim())))
}

/// Runs the keeper for its whole life. Its standard output says "ready" once.
pub fn keep(state: &State, plan: &Plan, owner: Option<RawFd>) -> Result<()> {
    let _lock = state.lock()?;
    prepare_head(state, plan)?;
    let mut nodes = Vec::new();
    let mut ready = Vec::new();
    for number in 1..=plan.nodes + plan.spare {
        let (node, output) = spawn_node(state, plan, number)?;
        nodes.push(node);
        ready.push(output);
    }
    connect(&nodes)?;
    for (node, mut output) in nodes.iter().zip(ready) {
        let mut line = String::new();
        if output.read_line(&mut line).is_err() || line.trim() != "ready" {
            return Err(Error::Process(format!("{} did not start", node.name)));
        }
    }
    state.record(&nodes, plan.nodes, plan.slots)?;
    if let Some(descriptor) = owner {
        let (dir, mounts) = (state.file(""), [state.file(SCRATCH), state.file(NODE_ETC)]);
        std::thread::spawn(move || {
            namespace::wait_for_end(descriptor);
            // Nobody is left who could be told of a failure; `start` clears remains, too.
            mounts.iter().for_each(|mount| drop(namespace::unmount(mount)));
            let _ = fs::remove_dir_all(&dir);
            std::process::exit(0)
        });
    }
    let _ = writeln!(std::io::stdout(), "ready");
    let (wanted, slots) = (plan.nodes, plan.slots);
    namespace::reap_for_ever(|pid| {
        if let Some(node) = nodes.iter_mut().find(|node| node.pid == pid) {
            node.alive = false;
            if let Err(error) = state.record(&nodes, wanted, slots) {
                say::complain("sim", &error);
            }
        }
    })
}

fn prepare_head(state: &State, plan: &Plan) -> Result<()> {
    namespace::block_child_signal();
    let own = fs::metadata("/proc/self/ns/pid")
        .map_err(|e| Error::io("cannot read", "/proc/self/ns/pid", e))?;
    state.write("inside", &std::os::unix::fs::MetadataExt::ino(&own).to_string())?;
    state.write("wanted", &plan.nodes.to_string())?;
    state.record_shared(&plan.share)?;
    let mut hosts = format!("127.0.0.1 localhost\n{HEAD_ADDRESS} {}\n", state.head());
    for number in 1..=plan.nodes + plan.spare {
        hosts.push_str(&format!("{} {}\n", address(number), name(number)));
    }
    state.write("hosts", &hosts)?;
    let agent = format!(
        "#!/bin/sh\n# The remote shell of the cluster, for mpirun: HOST COMMAND...\n\
         exec {} sim --name {} agent \"$@\"\n",
        own_path()?.display(),
        state.name()
    );
    state.write("agent", &agent)?;
    let path = state.file("agent");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
        .map_err(|e| Error::io("cannot make executable", &path, e))?;
    mount(&Mount::Private, Path::new("/"))?;
    mount(&Mount::Processes, Path::new("/proc"))?;
    mount(&Mount::Bind(&state.file("hosts")), Path::new("/etc/hosts"))?;
    for dir in [SCRATCH, "shared"] {
        let path = state.file(dir);
        fs::create_dir(&path).map_err(|e| Error::io("cannot create", &path, e))?;
    }
    prepare_etc(state)?;
    // Session files of mpirun: unseen by the host, gone with the cluster.
    mount(&Mount::Ram("size=64m"), &state.file(SCRATCH))?;
    namespace::set_hostname(&state.head())
        .map_err(|e| Error::io("cannot set the host name", state.head(), e))
}

/// The library beside this command that lets ranks share cores; see `shared_cores.c`.
fn shared_cores() -> Option<PathBuf> {
    let path = own_path().ok()?.parent()?.parent()?.join("lib/scr/sim/libshared_cores.so");
    path.exists().then_some(path)
}

/// The nodes' own `/etc`, with an `ld.so.preload`; nothing if we have no library.
fn prepare_etc(state: &State) -> Result<()> {
    let Some(library) = shared_cores() else {
        return Ok(());
    };
    let etc = state.file(NODE_ETC);
    fs::create_dir(&etc).map_err(|e| Error::io("cannot create", &etc, e))?;
    mount(&Mount::Ram("size=128m,mode=755"), &etc)?;
    // A mount needs a file to be mounted on, and the host's /etc is not ours: hence the copy.
    let mut copy = Command::new("cp");
    copy.args(["-a", "/etc/."]).arg(&etc);
    if !state.is_roots() {
        // An ordinary user can neither give files away nor read all of them.
        copy.arg("--no-preserve=ownership").stderr(Stdio::null());
    }
    copy.status().map_err(|e| Error::io("cannot run", "cp", e))?;
    let own = etc.join("scr-sim-cores.so");
    let list = etc.join("ld.so.preload");
    let mut preload = fs::read_to_string(&list).unwrap_or_default();
    preload.push_str("/etc/scr-sim-cores.so\n");
    fs::copy(&library, &own).map_err(|e| Error::io("cannot copy to", &own, e))?;
    fs::write(&list, preload).map_err(|e| Error::io("cannot write", &list, e))
}

fn name(number: usize) -> String {
    format!("node{number}")
}

fn address(number: usize) -> String {
    format!("10.77.0.{number}")
}

type Output = BufReader<std::process::ChildStdout>;

fn spawn_node(state: &State, plan: &Plan, number: usize) -> Result<(Node, Output)> {
    let failed = |e| Error::io("cannot start", name(number), e);
    let mut command = own_command(state, "node")?;
    command.arg(format!("--hostname={}", name(number))).args(plan.arguments());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).env_clear();
    namespace::in_fresh_namespaces(&mut command);
    namespace::next_child_is_first().map_err(failed)?;
    let spawned = command.spawn();
    namespace::children_live_here().map_err(failed)?;
    let mut child = spawned.map_err(failed)?;
    let node = Node { name: name(number), address: address(number), pid: child.id(), alive: true };
    let output = child.stdout.take();
    let output = output.ok_or_else(|| Error::Process("a pipe is missing".to_owned()))?;
    Ok((node, BufReader::new(output)))
}

fn connect(nodes: &[Node]) -> Result<()> {
    // Without an address of its own the bridge takes that of a port, and another one when that
    // port dies with its node: the others then send to the old one until they ask again.
    let mut lines = vec![
        "link set lo up".to_owned(),
        "link add scr0 address 02:00:0a:4d:00:fe type bridge".to_owned(),
        format!("addr add {HEAD_ADDRESS}/24 dev scr0"),
        "link set scr0 up".to_owned(),
    ];
    for (index, node) in nodes.iter().enumerate() {
        let pid = node.pid;
        lines.push(format!("link add to{index} type veth peer name eth0 netns {pid}"));
        lines.push(format!("link set to{index} master scr0"));
        lines.push(format!("link set to{index} up"));
    }
    ip(Command::new("ip"), &lines)?;
    for node in nodes {
        let mut command = Command::new("ip");
        namespace::in_network_of(&mut command, node.pid)
            .map_err(|e| Error::io("cannot reach the network of", &node.name, e))?;
        let address = format!("addr add {}/24 dev eth0", node.address);
        let lines = ["link set lo up".to_owned(), address, "link set eth0 up".to_owned()];
        ip(command, &lines)?;
    }
    Ok(())
}

fn ip(mut command: Command, lines: &[String]) -> Result<()> {
    let failed = |e| Error::io("cannot run", "ip (package iproute2)", e);
    let mut child = command.args(["-batch", "-"]).stdin(Stdio::piped()).spawn().map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        let text = lines.join("\n") + "\n";
        input.write_all(text.as_bytes()).map_err(failed)?;
    }
    let status = child.wait().map_err(failed)?;
    if status.success() { Ok(()) } else { Err(Error::Process("ip failed".to_owned())) }
}
