//! The nodes of a run, asked side by side: this one by a call, others by the same program there.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::{Commands, Shell};
use crate::error::{Error, Result};
use crate::launch::JobPlaces;
use crate::operations::read_nodes_file;
use crate::params::{Environment, Settings, keys};
use crate::progress::{self, Total};
use crate::system;

/// Which nodes are asked, and how they are reached.
pub struct Reach<'a> {
    /// The job's settings.
    pub settings: &'a Settings,
    /// SCR's variables of it go along to the nodes.
    pub environment: &'a Environment,
    /// Nodes that are asked; empty: those of the last launch.
    pub nodes: Vec<String>,
    /// How they are reached.
    pub shell: &'a Shell,
    /// What runs commands.
    pub commands: &'a dyn Commands,
    /// Path of the `scr` command, the same on all nodes.
    pub program: &'a Path,
    /// How long a node may take.
    pub limit: Duration,
}

pub(crate) struct Inquiry<'a, T> {
    /// For people who wait: "copying from the nodes".
    pub what: &'a str,
    /// What is done on this node, by name.
    pub here: &'a (dyn Fn(&str) -> Result<T> + Sync),
    /// The words behind `scr` on a node.
    pub words: &'a (dyn Fn(&str) -> Vec<String> + Sync),
    /// Reads what that prints.
    pub read: &'a (dyn Fn(&str) -> Result<T> + Sync),
}

impl Reach<'_> {
    /// Returns the nodes that are asked: named ones, else those of the last launch, else this one.
    pub fn names(&self, places: &JobPlaces) -> Vec<String> {
        let mut nodes = self.nodes.clone();
        if nodes.is_empty() {
            let told = read_nodes_file(&places.prefix).ok().flatten();
            nodes = told.map(|nodes| nodes.hosts.into_keys().collect()).unwrap_or_default();
        }
        if nodes.is_empty() {
            nodes.push(system::hostname());
        }
        nodes
    }

    pub(crate) fn ask<T: Send>(
        &self,
        places: &JobPlaces,
        nodes: &[String],
        inquiry: &Inquiry<'_, T>,
    ) -> Vec<(String, Result<T>)> {
        let here = system::hostname();
        // One node shows for itself how far it is.
        let several = nodes.len() > 1 || nodes.first() != Some(&here);
        let total = Total::Things(nodes.len() as u64);
        let step = &several.then(|| progress::step(inquiry.what, total));
        let ask = |node: &String| {
            let answer = match *node == here {
                true => (inquiry.here)(node),
                false => self
                    .remote(places, node, (inquiry.words)(node))
                    .and_then(|text| (inquiry.read)(&text)),
            };
            step.iter().for_each(progress::CurrentStep::add_thing);
            answer
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                nodes.iter().map(|node| (node.clone(), scope.spawn(move || ask(node)))).collect();
            let ended = |(node, thread): (String, std::thread::ScopedJoinHandle<'_, Result<T>>)| {
                let panicked = || Err(Error::Process("the question has crashed".to_owned()));
                (node, thread.join().unwrap_or_else(|_| panicked()))
            };
            threads.into_iter().map(ended).collect()
        })
    }

    fn remote(&self, places: &JobPlaces, node: &str, asked: Vec<String>) -> Result<String> {
        let mut words = vec!["env".to_owned()];
        words.extend(self.variables(places).iter().map(|(name, value)| format!("{name}={value}")));
        words.push(self.program.display().to_string());
        words.extend(asked);
        self.commands.output(&self.shell.command(node, &words), self.limit)
    }

    /// A remote shell begins with an environment of its own.
    fn variables(&self, places: &JobPlaces) -> BTreeMap<String, String> {
        let ours = self.environment.iter().filter(|(name, _)| {
            name.starts_with("SCR_")
                && !["SCR_SIM", "SCR_LAUNCH"].iter().any(|no| name.starts_with(no))
        });
        let mut all: BTreeMap<String, String> =
            ours.map(|(name, value)| (name.clone(), value.clone())).collect();
        all.insert("SCR_PREFIX".into(), places.prefix.display().to_string());
        all.insert("SCR_JOB_ID".into(), places.address.job.clone());
        all.insert("SCR_USER_NAME".into(), places.address.user.clone());
        let control = self.settings.get(keys::CNTL_BASE);
        all.insert("SCR_CNTL_BASE".into(), control.display().to_string());
        if let Some(path) = self.environment.get("SCR_CONF_FILE").filter(|path| !path.is_empty()) {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.into());
            all.insert("SCR_CONF_FILE".into(), absolute.display().to_string());
        }
        all
    }
}
