//! `scr down-nodes`: which nodes of the allocation are no good (manual 1.1, section 11.2.3).

use std::collections::BTreeMap;
use std::process::ExitCode;

use scr_core::error::Result;
use scr_core::events::Event;
use scr_core::log::messages;
use scr_core::operations::run::{Real, RunHost, RunNodes, find};
use scr_core::operations::{HostList, log_event};
use scr_core::params::keys;
use scr_core::system::hostname;
use serde_json::json;

use crate::base::job::{hosts, shell, tests};
use crate::base::say;
use crate::base::settings::load_settings;

#[derive(clap::Args)]
#[command(after_help = "\
Asks the resource manager, then each node (SCR_NODE_TESTS, SCR_RETRIES, SCR_REMOTE_SHELL); nodes \
of SCR_EXCLUDE_NODES count as down, and so does one on which a store has less room than CAPACITY \
of its STORE line says. Prints the list, nothing if all are well. The exit status is \
0 if none is down, 1 if any is, 2 if that cannot be found out. Example:\n
    scr down-nodes --reason 'node[1-4]'")]
pub struct Args {
    /// The nodes; those of the allocation by default.
    #[arg(value_name = "HOSTS")]
    nodes: Option<String>,
    /// Nodes that are known to be down.
    #[arg(short, long, value_name = "HOSTS")]
    down: Option<String>,
    /// Print a line for each node, with the reason.
    #[arg(short, long)]
    reason: bool,
    /// Log each as NODE_FAIL, with the reason, if logging is on (SCR_LOG_ENABLE).
    #[arg(short, long)]
    log: bool,
    /// As JSON: node to reason.
    #[arg(long, conflicts_with = "reason")]
    json: bool,
}

pub fn run(args: &Args) -> ExitCode {
    let down = match look(args) {
        Ok(down) => down,
        Err(error) => return say::fail("down-nodes", &error, 2),
    };
    let text = match (args.json, args.reason) {
        (true, _) => format!("{:#}\n", json!(down)),
        (_, true) => down.iter().map(|(host, why)| format!("{host}: {why}\n")).collect(),
        _ if down.is_empty() => String::new(),
        _ => format!("{}\n", HostList::of(down.keys().cloned()).compress()),
    };
    let printed = say::print(&text);
    if down.is_empty() { printed } else { ExitCode::FAILURE }
}

/// Finds the nodes of the allocation that are no good; `told` are known to be so.
pub fn down(told: Option<String>) -> Result<BTreeMap<String, String>> {
    look(&Args { nodes: None, down: told, reason: false, log: false, json: false })
}

fn look(args: &Args) -> Result<BTreeMap<String, String>> {
    let (settings, environment) = load_settings(None)?;
    let manager = find(&environment, None);
    let host = |name: &String| RunHost { name: name.clone(), slots: None };
    let asked = match &args.nodes {
        Some(list) => HostList::expand(list)?.hosts().iter().map(host).collect(),
        None => hosts(&settings, &*manager, None)?,
    };
    let mut nodes = RunNodes {
        hosts: asked,
        shell: shell(&settings, &environment, &*manager),
        manager: &*manager,
        commands: &Real,
        here: hostname(),
        tests: tests(&settings),
        tries: settings.get(keys::RETRIES).saturating_add(1),
        down: BTreeMap::new(),
    };
    let excluded = settings.get_optional(keys::EXCLUDE_NODES).unwrap_or_default();
    let told = args.down.clone().unwrap_or_default();
    for (list, why) in [(told, "it is said to be down"), (excluded, "it is excluded")] {
        let known = HostList::expand(&list)?;
        for host in nodes.hosts.clone().iter().filter(|host| known.hosts().contains(&host.name)) {
            nodes.mark(&host.name, why);
        }
    }
    nodes.look();
    if args.log {
        for (host, why) in &nodes.down {
            let event = Event::new("NODE_FAIL").note(format!("{host}: {why}"));
            if let Err(error) = log_event(&settings, &environment, event) {
                let text = format!("{host} is not logged: {error}");
                say::tell("down-nodes", messages::LOG_FAILED, &text);
            }
        }
    }
    Ok(nodes.down)
}
