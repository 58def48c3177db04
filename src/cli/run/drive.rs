//! The loop: asks the policy what is to be done, does it, tells what came of it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::SystemTime;

use scr_core::error::Result;
use scr_core::events;
use scr_core::log::messages;
use scr_core::operations::run::{
    Action, End, Latest, Launcher, LauncherLine, Policy, Real, RunHost, RunNews, RunNodes, Stop,
    latest, slurm_variables,
};
use scr_core::operations::{
    HostList, JobPlaces, forget_halt_reason, left_in_caches, log_event, read_halt_file, read_nodes,
    reset_nodes_file, used_since,
};
use scr_core::params::keys;
use scr_core::system::{hostname, unix_seconds};

use super::setup::Setup;
use super::step::{self, Signals, warn};
use crate::base::job::{LIMIT, NODE_VARIABLES, SKEW};
use crate::base::say;
use crate::base::settings::load_settings;
use crate::rescue::saved;
use crate::rescue::scavenge::scavenge;
use crate::watch::halt::IMMEDIATE;

/// What a shell reports for SIGTERM.
const TERMINATED: u8 = 143;

pub fn drive(setup: Setup) -> Result<u8> {
    let signals = Signals::new()?;
    if setup.is_off {
        let mut command = Command::new(&setup.line.words()[0]);
        command.args(&setup.line.words()[1..]);
        return Ok(step::run(&mut command, &signals, &setup.prefix, None, |_| {})?.status());
    }
    // What the run of an earlier allocation has left there is no reason to stop this one.
    if let Err(error) = forget_halt_reason(&setup.prefix) {
        warn(error.id(), &format!("{error}; the run begins all the same"));
    }
    if let Err(error) = begin_allocation(&setup) {
        warn(error.id(), &format!("{error}; what an earlier job has left there is not known"));
    }
    let nodes = RunNodes {
        hosts: setup.hosts.clone(),
        manager: &*setup.manager,
        shell: setup.shell.clone(),
        commands: &Real,
        here: hostname(),
        tests: setup.tests.clone(),
        tries: setup.tries,
        down: BTreeMap::new(),
    };
    Driver { setup: &setup, signals, nodes, healthy: Vec::new(), last: None }.run()
}

/// In an allocation that has another job's id than the last launch: its nodes are not ours.
fn begin_allocation(setup: &Setup) -> Result<()> {
    let places = JobPlaces::new(&setup.settings, &setup.environment)?;
    let Some(former) = reset_nodes_file(&places.prefix, &places.address.job)? else {
        return Ok(());
    };
    if let Some((_, name)) = left_in_caches(&places.prefix)?.last() {
        warn(
            messages::ONLY_IN_CACHES,
            &format!(
                "{name} is in the caches of job {former} alone, and this is job {}; while that \
                 job's nodes are there, SCR_JOB_ID={former} scr scavenge --nodes <them> saves it",
                places.address.job
            ),
        );
    }
    Ok(())
}

fn say(text: &str) {
    say::narrate("run", text);
}

struct Driver<'a> {
    setup: &'a Setup,
    signals: Signals,
    nodes: RunNodes<'a>,
    healthy: Vec<RunHost>,
    /// How the last launch ended.
    last: Option<End>,
}

impl Driver<'_> {
    fn run(mut self) -> Result<u8> {
        for host in &self.setup.excluded {
            self.nodes.mark(host, "it is excluded");
        }
        let policy = RefCell::new(Policy::new(self.setup.limits));
        let mut event = RunNews::Begin;
        loop {
            let action = policy.borrow_mut().on(event);
            event = match action {
                Action::LookAtNodes => self.look_at_nodes(policy.borrow().launched()),
                Action::Launch(number) => {
                    let interrupted = |signal| {
                        policy.borrow_mut().on(RunNews::Interrupted(signal));
                    };
                    let end = self.launch(number, interrupted)?;
                    self.last = Some(end);
                    RunNews::Ended(end)
                }
                Action::LookAtHalt => RunNews::Halt(self.halt_reason()),
                Action::Pause(length) => match self.signals.pause(length) {
                    Some(signal) => RunNews::Interrupted(signal),
                    None => RunNews::Paused,
                },
                // Each of our events is one that the policy waits for.
                Action::Wait => RunNews::Paused,
                Action::Stop(why) => {
                    let status = self.stopped(&why);
                    self.save();
                    return Ok(status);
                }
            };
        }
    }

    fn look_at_nodes(&mut self, launched: u64) -> RunNews {
        for (host, reason) in self.nodes.look() {
            warn(messages::NODE_OUT, &format!("{host} is out: {reason}"));
            if launched > 0 {
                self.log("NODE_FAIL", format!("{host}: {reason}"));
            }
        }
        let all = self.nodes.hosts.iter().filter(|host| !self.setup.excluded.contains(&host.name));
        let all = all.count();
        // The nodes file of the launch before says how many it had; it may not have come so far.
        let now = read_nodes(&self.setup.prefix).ok().flatten();
        let before = now.filter(|_| launched > 0 && self.setup.has_nodes);
        let before = before.and_then(|count| usize::try_from(count).ok());
        let needed = self.setup.min_nodes.or(self.setup.nodes).or(before).unwrap_or(all);
        self.healthy = self.nodes.healthy(self.setup.nodes.or(before).unwrap_or(all));
        RunNews::Nodes { healthy: self.healthy.len(), needed }
    }

    /// Logs what no rank can, for scr report; what cannot be logged is missed by nobody.
    fn log(&self, what: &'static str, note: String) {
        let event = events::Event::new(what).note(note);
        let _ = log_event(&self.setup.settings, &self.setup.environment, event);
    }

    /// The reason to halt, with what the settings say of the end of the allocation left to the
    /// program: it has the time to flush.
    fn halt_reason(&self) -> Option<String> {
        match read_halt_file(&self.setup.prefix) {
            Ok(file) => file.due(unix_seconds()).map(str::to_owned),
            Err(error) => {
                warn(messages::HALT_FILE, &format!("{error}; no halt condition is known"));
                None
            }
        }
    }

    fn launch(&mut self, number: u64, interrupted: impl FnMut(i32)) -> Result<End> {
        let setup = self.setup;
        let hosts: Vec<RunHost> =
            self.healthy.iter().take(setup.nodes.unwrap_or(usize::MAX)).cloned().collect();
        let newest = latest(&setup.prefix).unwrap_or_else(|error| {
            warn(
                messages::RECORD_UNREADABLE,
                &format!("{error}; the newest checkpoint is not known"),
            );
            None
        });
        let line = match (&setup.restart, &newest) {
            (Some(restart), Some(_)) => restart,
            _ => &setup.line,
        };
        let mut command = self.command(line, &hosts, newest.as_ref());
        if setup.has_nodes && number > 1 {
            let list = HostList::of(hosts.into_iter().map(|host| host.name)).compress();
            say(&format!("run {number} begins on {list}"));
        } else if number > 1 {
            say(&format!("run {number} begins"));
        }
        let begun = SystemTime::now() - SKEW;
        let end =
            step::run(&mut command, &self.signals, &setup.prefix, setup.watchdog, interrupted)?;
        if end != End::Exited(0) {
            let what = format!("run {number} failed with exit status {}", end.status());
            warn(messages::LAUNCH_FAILED, &what);
            if used_since(&setup.prefix, begun) {
                self.log("FAILED", what);
            }
        }
        Ok(end)
    }

    fn command(&self, line: &LauncherLine, hosts: &[RunHost], newest: Option<&Latest>) -> Command {
        let setup = self.setup;
        let names = |hosts: &[RunHost]| HostList::of(hosts.iter().map(|host| host.name.clone()));
        let all = names(&setup.hosts);
        let out = all.minus(&names(&self.healthy)).hosts().to_vec();
        let words = match setup.has_nodes {
            true => line.place(hosts, &out, setup.nodes),
            false => line.words().to_vec(),
        };
        let words = match setup.by_calls {
            true => line.hand_on(words, &self.own_variables(newest.is_some())),
            false => words,
        };
        let list = names(hosts).compress();
        let words: Vec<String> =
            words.iter().map(|word| Latest::fill(newest, word).replace("{nodes}", &list)).collect();
        if !line.launcher.places() && !out.is_empty() && !words.contains(&list) {
            let out = HostList::of(out.clone()).compress();
            let text =
                format!("{} has to be told to avoid {out}: {{nodes}} names the others", words[0]);
            warn(messages::NODES_NOT_AVOIDED, &text);
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).envs(&setup.variables);
        if setup.manager.name() == "Slurm" {
            // As many ranks as these nodes have is a number to begin with only if it is the same on
            // each; else srun says that they are too few for what was asked for.
            let even = hosts.windows(2).all(|pair| pair[0].slots == pair[1].slots);
            let has_spares = even && hosts.len() < setup.hosts.len();
            let has_others = has_spares || !out.is_empty();
            command.envs(slurm_variables(&setup.environment, hosts, has_others));
        }
        if setup.has_nodes && matches!(line.launcher, Launcher::OpenMpi | Launcher::Hydra) {
            for name in NODE_VARIABLES {
                command.env_remove(name);
            }
        }
        for name in ["SCR_LATEST_NAME", "SCR_LATEST_PATH"] {
            command.env_remove(name);
        }
        if let Some(newest) = newest {
            command.env("SCR_LATEST_NAME", &newest.name);
            command.env("SCR_LATEST_PATH", newest.path(&setup.prefix, &setup.patterns));
        }
        command
    }

    /// The names of SCR's variables that the program is to have; none if the user says in a list of
    /// variables which those are, beside which Open MPI takes none by name.
    fn own_variables(&self, has_latest: bool) -> Vec<String> {
        let Setup { environment, variables, .. } = self.setup;
        if environment.contains_key("OMPI_MCA_mca_base_env_list") {
            return Vec::new();
        }
        let internal = ["SCR_LAUNCH", "SCR_LATEST_"];
        let ours = |name: &&String| {
            name.starts_with("SCR_") && !internal.iter().any(|one| name.starts_with(one))
        };
        let mut names: BTreeSet<String> =
            environment.keys().chain(variables.keys()).filter(ours).cloned().collect();
        if has_latest {
            names.extend(["SCR_LATEST_NAME", "SCR_LATEST_PATH"].map(str::to_owned));
        }
        names.into_iter().collect()
    }

    /// After the last run, however it has ended (manual 1.1, section 11.3.1): what only the caches
    /// have is brought to the prefix, or told of.
    fn save(&self) {
        let failed = self.last.is_some_and(|end| end != End::Exited(0));
        let left = left_in_caches(&self.setup.prefix).unwrap_or_default();
        if self.last.is_none() || (!failed && left.is_empty()) {
            return;
        }
        if self.setup.no_scavenge {
            if let Some((_, name)) = left.last() {
                let prefix = self.setup.prefix.display();
                let text = format!(
                    "{name} is in the caches alone; while the job has its nodes, scr scavenge \
                     --prefix {prefix} saves it"
                );
                warn(messages::ONLY_IN_CACHES, &text);
            }
            return;
        }
        // The program may have said by SCR_Config where they are.
        let prefix = self.setup.prefix.display().to_string();
        let loaded = load_settings(Some(&prefix)).map(|(settings, _)| settings);
        let settings = loaded.unwrap_or_else(|_| self.setup.settings.clone());
        let nodes =
            self.nodes.hosts.iter().filter(|host| !self.nodes.down.contains_key(&host.name));
        let nodes = nodes.map(|host| host.name.clone()).collect();
        let setup = self.setup;
        let answer = scavenge(&settings, &setup.environment, nodes, None, &setup.shell, LIMIT);
        match answer {
            Ok(done) => saved::lines(&done).iter().for_each(|line| match line.id {
                Some(id) => warn(id, &line.text),
                None => say(&line.text),
            }),
            Err(error) => {
                let text = format!("the caches could not be scavenged: {error}");
                warn(messages::NOT_SCAVENGED, &text);
            }
        }
    }

    fn stopped(&self, why: &Stop) -> u8 {
        match why {
            Stop::Done => {}
            Stop::NoRunsLeft => {
                if self.setup.limits.runs != Some(1) {
                    warn(messages::NO_RUNS_LEFT, "no more runs are allowed (SCR_RUNS)");
                }
            }
            Stop::TooFewNodes { healthy, needed } => warn(
                messages::TOO_FEW_NODES,
                &format!(
                    "{healthy} healthy nodes, and a run needs {needed} (SCR_MIN_NODES): no run"
                ),
            ),
            Stop::Halted(reason) => {
                warn(messages::HALT, &format!("halt condition {reason}: no further run"))
            }
            Stop::Interrupted(signal) => say(&format!("signal {signal}: no further run")),
        }
        let status = self.last.map_or(1, End::status);
        match why {
            Stop::Halted(_) | Stop::NoRunsLeft if status == TERMINATED => {
                self.halt_status().unwrap_or(status)
            }
            _ => status,
        }
    }

    /// SCR_HALT_STATUS, if the user wants one and a halt condition holds. Ranks end with it one
    /// after another; srun kills those that are left when the first has, and reports just that.
    fn halt_status(&self) -> Option<u8> {
        let status = self.setup.settings.get(keys::HALT_STATUS);
        let halted = || self.halt_reason().is_some_and(|reason| reason != IMMEDIATE);
        u8::try_from(status).ok().filter(|status| *status != 0 && halted())
    }
}
