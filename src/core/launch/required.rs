//! `SCR_RESTART_REQUIRED=1` where the start fails before it can tell what there is to restart from:
//! better no run than one that begins from an older state, or from none.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::host::{Host, Surroundings};
use crate::cache::holds_value;
use crate::error::Error;
use crate::log::{self, Id, messages};
use crate::namespace::STATE_FOLDER;
use crate::params::Environment;
use crate::records::{Record as _, Refusal};
use crate::system::{check_own_dir, unix_seconds};
use crate::transfer::has_datasets;

/// How long the other ranks leave the word to the one that tells why: the launcher kills it as soon
/// as one of them has ended.
const TELL: Duration = Duration::from_secs(2);

const NAME: &str = "SCR_RESTART_REQUIRED";

/// What is to become of a run that SCR cannot take part in.
#[derive(Clone)]
pub struct Required {
    host: Arc<dyn Host>,
    /// Where it is recorded that the launch goes without SCR.
    prefix: PathBuf,
    /// The prefix and this node's control directory, if there has to be a restart.
    wanted: Option<(PathBuf, Option<PathBuf>)>,
}

impl Required {
    /// Knows this node's control directory, `control`, if there has to be a restart.
    pub(crate) fn of(host: Arc<dyn Host>, prefix: PathBuf, control: Option<PathBuf>) -> Required {
        let wanted = control.map(|control| (prefix.clone(), Some(control)));
        Required { host, prefix, wanted }
    }

    /// Tells what is to become of a run before its settings are read.
    pub fn of_process(around: &Surroundings) -> Required {
        Required::of_environment(around, &around.environment().0)
    }

    /// Tells what is to become of a run where the settings cannot be read: by what the environment
    /// and the config file have in plain words.
    pub(crate) fn of_environment(around: &Surroundings, environment: &Environment) -> Required {
        let here = around.here();
        let prefix = environment.get("SCR_PREFIX").map_or_else(|| here.clone(), |it| here.join(it));
        let file = match environment.get("SCR_CONF_FILE") {
            Some(name) => here.join(name),
            None => prefix.join(".scrconf"),
        };
        let is_on = |value: &str| !matches!(value.trim().trim_matches('\''), "" | "0");
        let in_file = || {
            let text = std::fs::read(file).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let values = text.lines().filter_map(|line| line.trim().strip_prefix(NAME));
            values.filter_map(|rest| rest.trim_start().strip_prefix('=')).any(is_on)
        };
        let wanted = environment.get(NAME).map_or_else(in_file, |value| is_on(value));
        let host = around.host.clone();
        Required { host, wanted: wanted.then(|| (prefix.clone(), None)), prefix }
    }

    /// Says, if this rank `tells`, that the program runs without SCR, and why; or ends the process,
    /// and with it the run, if there may be something that it has to be restarted from.
    pub fn fall_back(&self, why: &Error, tells: bool) {
        let lost = self.wanted.as_ref().filter(|(prefix, control)| {
            left_something(prefix) || control.as_deref().is_some_and(holds_value)
        });
        let Some((prefix, _)) = lost else {
            if tells {
                log::warn(of_start(why), format_args!("{why}; the program runs without SCR"));
                self.record(&why.to_string());
            }
            return;
        };
        if !tells {
            std::thread::sleep(TELL);
        }
        log::warn(
            messages::RESTART_REQUIRED,
            format_args!(
                "{NAME}=1: the run ends before it computes, since SCR cannot take part in it and \
                 an earlier one of {} has left checkpoints: {why}. Without the setting the program \
                 would go on from what it finds there",
                prefix.display()
            ),
        );
        self.host.end_at_once(1)
    }

    /// For who looks afterwards; makes no directory, and nothing rests on it.
    fn record(&self, why: &str) {
        let state = self.prefix.join(STATE_FOLDER);
        // Not where a link of somebody else's leads.
        if state.is_dir() && check_own_dir(&state).is_ok() {
            let refusal = Refusal { time: unix_seconds(), why: why.to_owned() };
            if let Err(error) = refusal.write(&state.join(Refusal::NAME)) {
                log::message(1, error);
            }
        }
    }
}

/// The message of a launch that goes without SCR; an error of any kind may be the cause.
fn of_start(why: &Error) -> Id {
    match why {
        Error::Named { .. } | Error::Config { .. } | Error::Comm(_) | Error::Busy(_) => why.id(),
        _ => messages::START_FAILED,
    }
}

/// Whether an earlier run has left datasets; if it cannot be known, it has.
fn left_something(prefix: &Path) -> bool {
    prefix.join(STATE_FOLDER).exists() && has_datasets(prefix).unwrap_or(true)
}
