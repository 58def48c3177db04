//! What the shim in a launcher calls when a launch has failed: is there something that only the
//! nodes' caches have? Then it is said how to save it, or saved (SCR_SCAVENGE_ON_EXIT).

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use scr_core::error::Result;
use scr_core::events::Event;
use scr_core::log::messages;
use scr_core::operations::run::quoted;
use scr_core::operations::{JobPlaces, Scavenged, left_in_caches, log_event, used_since};
use scr_core::params::{Environment, Settings, keys};

use crate::base::job::SKEW;
use crate::base::settings::load_settings;
use crate::rescue::saved::{is_saved, lines};

/// The exit status that asks for [`save`]; the shim knows it.
const WANTED: u8 = 3;
/// A launch's ranks may outlive its launcher for a moment: they have the caches in use.
const TRIES: usize = 3;
/// Variables of the run that a scavenge has to have as well.
const NEEDED: [&str; 7] = [
    "SCR_CONF_FILE",
    "SCR_JOB_ID",
    "SCR_USER_NAME",
    "SCR_CNTL_BASE",
    "SCR_CACHE_BASE",
    "SCR_NODELIST",
    "SCR_REMOTE_SHELL",
];

/// Looks what a launch that began `begun` seconds after 1970 has left. Whatever goes
/// wrong here the run itself has told of, or nobody can do anything about.
pub fn look(begun: u64) -> ExitCode {
    match found(begun) {
        Ok(Some((settings, _))) if settings.get(keys::SCAVENGE_ON_EXIT) => ExitCode::from(WANTED),
        Ok(Some((_, line))) => {
            say(messages::ONLY_IN_CACHES, &line);
            ExitCode::SUCCESS
        }
        Ok(None) | Err(_) => ExitCode::SUCCESS,
    }
}

/// Scavenges the caches, a few times if need be, until the newest of everything is on the prefix.
pub fn save(scavenge: impl Fn() -> Result<Option<Scavenged>>) -> ExitCode {
    let mut done = scavenge();
    for _ in 1..TRIES {
        if done.as_ref().is_ok_and(|done| done.as_ref().is_none_or(is_saved)) {
            break;
        }
        done = scavenge();
    }
    match done {
        Ok(done) => done.iter().flat_map(lines).for_each(|line| {
            say(line.id.unwrap_or(messages::SCAVENGED), &line.text);
        }),
        Err(error) => {
            let text = format!("the caches could not be scavenged: {error}");
            say(messages::NOT_SCAVENGED, &text);
        }
    }
    ExitCode::SUCCESS
}

fn found(begun: u64) -> Result<Option<(Settings, String)>> {
    let (settings, environment) = load_settings(None)?;
    if !settings.get(keys::ENABLE) {
        return Ok(None);
    }
    let places = JobPlaces::new(&settings, &environment)?;
    if !used_since(&places.prefix, UNIX_EPOCH + Duration::from_secs(begun) - SKEW) {
        return Ok(None);
    }
    // For scr report: the ranks could not tell. What is not logged is missed by nobody.
    let failed = Event::new("FAILED").note("its launcher has seen it");
    let _ = log_event(&settings, &environment, failed);
    let left = left_in_caches(&places.prefix)?;
    let Some((_, newest)) = left.last() else { return Ok(None) };
    let others = match left.len() {
        1 => String::new(),
        more => format!(" and {} more", more - 1),
    };
    let line = format!(
        "the launch has failed, and only its nodes' caches have {newest}{others} ({}). Start it \
         again, or save the newest with: {}",
        messages::ONLY_IN_CACHES,
        command(&settings, &environment, &places)
    );
    Ok(Some((settings, line)))
}

fn command(settings: &Settings, environment: &Environment, places: &JobPlaces) -> String {
    let mut needed: BTreeSet<(&str, String)> = BTreeSet::new();
    for name in NEEDED {
        if let Some(value) = environment.get(name).filter(|value| !value.is_empty()) {
            needed.insert((name, value.clone()));
        }
    }
    // Known to the resource manager's job alone.
    let elsewhere = JobPlaces::new(settings, &Environment::new());
    if elsewhere.is_ok_and(|found| found.address.job != places.address.job) {
        needed.insert(("SCR_JOB_ID", places.address.job.clone()));
    }
    let mut words: Vec<String> =
        needed.iter().map(|(name, value)| format!("{name}={}", quoted(value))).collect();
    words.extend([program(), "scavenge".into(), "--prefix".into()]);
    words.push(quoted(&places.prefix.display().to_string()));
    words.join(" ")
}

/// How this program is called: by its name, if a shell finds it by that.
fn program() -> String {
    let own = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("scr"));
    let same =
        |place: PathBuf| std::fs::canonicalize(place.join("scr")).is_ok_and(|path| path == own);
    let search = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&search).any(same) {
        true => "scr".to_owned(),
        false => quoted(&own.display().to_string()),
    }
}

/// As the shim does: one write, and nobody to tell if it fails.
fn say(id: messages::Id, text: &str) {
    let _ = std::io::stderr().write_all(format!("SCR: {}\n", id.close(text)).as_bytes());
}
