//! How a run is doing, from what it has published on its prefix.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Error, Result};
use crate::files::{lease, read_optional};
use crate::log::{Id, messages};
use crate::operations::index::read_flush_file;
use crate::operations::prefix::state_dir;
use crate::operations::rescue::scavenge::left_in_caches;
use crate::params::{SCR_CONFIG, escaped};
use crate::records::{HaltFile, IndexEntry, PrefixIndex, Record as _, Refusal, RunRecord};
use crate::transfer::{Progress, flushes_under_way};

/// What is known of the last launch on a prefix.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PrefixStatus {
    /// The launch; `None` if there was none.
    pub run: Option<RunRecord>,
    /// A launch after it that went without SCR.
    pub refused: Option<Refusal>,
    /// Whether it lives.
    pub life: Life,
    /// Who uses the prefix now: a run, or a command that works on it.
    pub holder: Option<String>,
    /// Halt conditions.
    pub halt: HaltFile,
    /// What a new run would go on from.
    pub newest: Option<IndexEntry>,
    /// How far flushes under way have come, by id.
    pub flushes: BTreeMap<u64, Progress>,
    /// What only the caches of a run that is over have: id and name.
    pub only_in_caches: Vec<(u64, String)>,
    /// Records that could not be read.
    pub unreadable: Vec<Unread>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    pub id: Id,
    pub text: String,
}

/// Whether a launch lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Life {
    /// There was no launch.
    #[default]
    None,
    /// It runs.
    Runs,
    /// It has come to its end, with MPI_Finalize or without.
    Ended,
    /// It has not said why it is gone: it was killed, or its first node lost.
    Died,
    /// That cannot be found out.
    Unknown,
}

impl Life {
    /// Returns the word that is printed for it.
    pub fn text(self) -> &'static str {
        match self {
            Life::None => "none",
            Life::Runs => "running",
            Life::Ended => "ended",
            Life::Died => "died",
            Life::Unknown => "unknown",
        }
    }
}

/// Reads how the last run on `prefix` is doing. Damaged records are told in the answer.
pub fn read_status(prefix: &Path) -> PrefixStatus {
    let state = state_dir(prefix);
    let mut status = PrefixStatus::default();
    let mut unreadable = Vec::new();
    let run = kept(RunRecord::read(&state.join(RunRecord::NAME)), &mut unreadable);
    let is_known = run.is_some();
    status.run = run.flatten();
    let refused = Refusal::read(&state.join(Refusal::NAME));
    status.refused = kept(refused, &mut unreadable).flatten();
    let holder = lease::holder(&state.join("lease"));
    status.life = life(status.run.as_ref(), holder.as_ref().ok().map(Option::as_deref));
    status.holder = kept(holder, &mut unreadable).flatten();
    let halt = HaltFile::read(&state.join(HaltFile::NAME));
    status.halt = kept(halt, &mut unreadable).flatten().unwrap_or_default();
    let index = PrefixIndex::read(&state.join(PrefixIndex::NAME));
    let index = kept(index, &mut unreadable).flatten().unwrap_or_default();
    status.newest = goes_on_from(&index);
    // Those that have left the caches are no concern of the run; the index knows where they are.
    for (id, one) in status.run.iter_mut().flat_map(|run| &mut run.datasets) {
        one.on_prefix |= index.by_id(*id).is_some_and(|entry| entry.complete);
    }
    let told = match status.life {
        Life::Runs => read_flush_file(prefix).unwrap_or_default(),
        _ => Default::default(), // nobody keeps it up to date
    };
    status.flushes = flushes_under_way(prefix, &told);
    if !matches!(status.life, Life::Runs | Life::Unknown) {
        let left = kept(left_in_caches(prefix), &mut unreadable);
        status.only_in_caches = left.unwrap_or_default();
    }
    if !is_known && status.life == Life::None {
        status.life = Life::Unknown;
    }
    status.unreadable = each_cause_once(unreadable);
    status
}

fn kept<T>(read: Result<T>, unreadable: &mut Vec<Unread>) -> Option<T> {
    let note = |error: Error| unreadable.push(Unread { id: error.id(), text: error.to_string() });
    read.map_err(note).ok()
}

/// Who may not read one record may not read the others: the first tells of all.
fn each_cause_once(mut unreadable: Vec<Unread>) -> Vec<Unread> {
    unreadable.dedup();
    let is_refused = |one: &Unread| one.id == messages::SYSTEM_REFUSED;
    let refused = unreadable.iter().filter(|one| is_refused(one)).count();
    let mut first = true;
    unreadable.retain_mut(|one| {
        if !is_refused(one) {
            return true;
        }
        if first && refused > 1 {
            one.text += "; and so it is with other records there";
        }
        std::mem::take(&mut first)
    });
    unreadable
}

/// `None`: who holds the prefix could not be found out.
fn life(run: Option<&RunRecord>, holder: Option<Option<&str>>) -> Life {
    let holds = holder.map(|holder| holder.and_then(begun));
    match (run, holds) {
        (None, Some(Some(_))) => Life::Runs,
        (None, _) => Life::None,
        (Some(run), _) if run.end.is_some() => Life::Ended,
        // A later launch has the prefix, and no record yet.
        (Some(run), Some(Some(begun))) if begun > run.started => Life::Died,
        (Some(_), Some(Some(_))) => Life::Runs,
        (Some(_), Some(None)) => Life::Died,
        (Some(_), None) => Life::Unknown,
    }
}

/// A command that holds the prefix does not say when it began.
fn begun(holder: &str) -> Option<u64> {
    holder.rsplit(", ").next()?.parse().ok()
}

fn goes_on_from(index: &PrefixIndex) -> Option<IndexEntry> {
    let usable = |entry: &&IndexEntry| {
        let is_output =
            entry.dataset.as_ref().is_some_and(|one| one.is_output && one.checkpoint_id.is_none());
        !is_output && (entry.is_restorable() || entry.is_kept())
    };
    let current = index.current_entry().filter(usable);
    current.or_else(|| index.newest_first().find(usable)).cloned()
}

/// Returns the lines that the program of the last run has set by SCR_Config: its caches may lie
/// where it said.
pub fn lines_of_program(prefix: &Path) -> Vec<String> {
    let run = RunRecord::read(&state_dir(prefix).join(RunRecord::NAME)).ok().flatten();
    let Some(run) = run else {
        // What a program of the C implementation has set.
        let bytes = read_optional(&state_dir(prefix).join("app.conf")).ok().flatten();
        let text = String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default();
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
        return lines.map(str::to_owned).collect();
    };
    let own = run.settings.into_iter().filter(|(_, (_, place))| place.starts_with(SCR_CONFIG));
    let line = |(name, (value, _)): (String, (String, String))| match name.contains('=') {
        true => format!("{name} {value}"),
        false => format!("{name}={}", escaped(&value)),
    };
    own.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::RunEnd;

    #[test]
    fn a_launch_is_told_from_a_command_and_from_a_dead_one() {
        let alive = RunRecord { started: 1_700_000_000, ..RunRecord::default() };
        let ended = RunRecord { end: Some(RunEnd::default()), ..RunRecord::default() };
        let launch = Some("host n1, process 7, 1700000000");
        let command = Some("host n1, process 7");
        for (run, holder, want) in [
            (None, Some(None), Life::None),
            (None, Some(launch), Life::Runs),
            (Some(&alive), Some(launch), Life::Runs),
            (Some(&alive), Some(Some("host n1, process 8, 1700000001")), Life::Died),
            (Some(&alive), Some(command), Life::Died),
            (Some(&alive), Some(None), Life::Died),
            (Some(&alive), None, Life::Unknown),
            (Some(&ended), Some(None), Life::Ended),
            (Some(&ended), Some(launch), Life::Ended),
        ] {
            assert_eq!(life(run, holder), want, "{run:?} {holder:?}");
        }
    }

    #[test]
    fn flushes_are_counted_by_nodes_and_damage_is_told() {
        let prefix = tempfile::tempdir().unwrap();
        assert_eq!(read_status(prefix.path()), PrefixStatus::default());
        let journal = prefix.path().join(".scr/journal/5");
        std::fs::create_dir_all(&journal).unwrap();
        for name in ["part.0.scr", "part.8.scr", "staged.8.scr", "plan.scr"] {
            std::fs::write(journal.join(name), "").unwrap();
        }
        std::fs::write(prefix.path().join(".scr/run.scr"), "text").unwrap();
        let status = read_status(prefix.path());
        let progress = Progress { nodes_done: 1, nodes: 2, ..Progress::default() };
        assert_eq!(status.flushes, [(5, progress)].into());
        assert_eq!(status.unreadable.len(), 1, "{:?}", status.unreadable);
    }
}
