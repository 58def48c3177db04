//! A launch that protects nothing is told of it: no pattern is set, or no file matched one.
//!
//! Which names the program wrote is remembered while nothing has matched, a few kinds of them on
//! each rank. At the end the ranks agree on whose came nearest to a pattern, and that rank's words
//! go to rank 0, which tells.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::log::{self, messages};
use crate::params::Settings;
use crate::patterns::masked;
use crate::session::rank::runtime::Session;
use crate::session::rank::site::Links;

/// Kinds of names (numbers aside) that a rank remembers.
const KINDS_MAX: usize = 128;

/// Ends each message, for those who want no protection.
const SILENCE: &str = "SCR_ENABLE=0 switches SCR off, silently";

/// The names that this rank has written while no file of its own matched a pattern.
#[derive(Debug)]
pub(in crate::session) struct Unmatched {
    watching: AtomicBool,
    matched: AtomicBool,
    /// An example of each kind.
    names: Mutex<BTreeMap<String, String>>,
}

impl Unmatched {
    pub fn new() -> Self {
        Unmatched {
            watching: AtomicBool::new(true),
            matched: AtomicBool::new(false),
            names: Mutex::default(),
        }
    }

    /// Notes that the program changes a file that a pattern matches.
    pub fn matches(&self) {
        if !self.matched.load(Ordering::Relaxed) {
            self.matched.store(true, Ordering::Relaxed);
            self.watching.store(false, Ordering::Relaxed);
        }
    }

    /// Notes that the program writes a file that no pattern matches.
    pub fn note(&self, name: &str) {
        if !self.is_watching() {
            return;
        }
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.entry(masked(name)).or_insert_with(|| name.to_string());
        if names.len() >= KINDS_MAX {
            self.watching.store(false, Ordering::Relaxed);
        }
    }

    fn names(&self) -> Vec<String> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.values().cloned().collect()
    }

    fn is_watching(&self) -> bool {
        self.watching.load(Ordering::Relaxed)
    }

    fn is_matched(&self) -> bool {
        self.matched.load(Ordering::Relaxed)
    }
}

/// Returns what rank 0 says where no pattern is set.
pub(in crate::session) fn without_pattern(settings: &Settings) -> String {
    let told = |warning: &String| format!("; {warning}");
    let warnings: String = settings.warnings.iter().map(told).collect();
    format!(
        "no checkpoint is protected: no pattern is set (SCR_CHECKPOINT_PATTERN){warnings}; {}. \
         {SILENCE}",
        settings.user_file
    )
}

impl Session {
    /// Notes that the program writes `name`, or gives a file that name: no pattern matches it.
    pub(in crate::session) fn note_unmatched(&self, name: &str) {
        // One that is left alone since it is never quiet does match.
        match self.unmatched.is_watching() && self.series.match_path(name).is_some() {
            true => self.unmatched.matches(),
            false => self.unmatched.note(name),
        }
    }

    /// Tells, once, that the program writes a file whose `path` would match, but is no text: such
    /// files stay on the PFS.
    pub(in crate::session) fn tell_unnameable(&self, path: &Path) {
        let Ok(name) = path.strip_prefix(&self.site.prefix) else { return };
        let matched = self.series.match_path(&name.to_string_lossy());
        if name.to_str().is_some() || matched.is_none() {
            return;
        }
        self.unmatched.matches();
        log::warn_once(
            messages::UNNAMEABLE,
            format_args!(
                "{name:?} matches a pattern, but its name is not UTF-8 text, which SCR's records \
                 need: such files are not cached, they are written straight to {}",
                self.site.prefix.display()
            ),
        );
    }

    /// Notes that the directory `from` becomes `to`, and what is in it gets new names.
    pub(in crate::session) fn note_names_moved(&self, from: &str, to: &str) {
        let names = self.unmatched.names();
        for rest in names.iter().filter_map(|name| name.strip_prefix(from)?.strip_prefix('/')) {
            self.note_unmatched(&format!("{to}/{rest}"));
        }
    }

    /// Tells, on rank 0, if no file that the program wrote matched a pattern. Collective.
    ///
    /// # Errors
    /// Communication failed.
    pub(in crate::session) fn tell_unprotected(&self, links: &Links) -> Result<()> {
        let names = self.unmatched.names();
        let own = match self.unmatched.is_matched() {
            true => None,
            false => self.series.nearest(names.iter().map(String::as_str)),
        };
        // The best score, and of those that have it the lowest rank.
        let (rank, size) = (self.site.rank as i64, self.site.size as i64);
        let bid = own.as_ref().map_or(-1, |own| i64::from(own.score) * size + (size - 1 - rank));
        let mut words = [i64::from(self.unmatched.is_matched()), bid];
        links.world.all_max(&mut words)?;
        let [matched, best] = words;
        if matched != 0 {
            self.tell_placeholders();
            return Ok(());
        }
        let mut text = own.map(|own| own.text).unwrap_or_default().into_bytes();
        if best >= 0 {
            let teller = size - 1 - best % size;
            links.world.broadcast(&mut text, teller as usize)?;
        } else if self.state().machine.knows_datasets() {
            // It went on from a checkpoint, and wrote nothing at all.
            return Ok(());
        }
        if self.site.rank == 0 {
            let nearest = String::from_utf8_lossy(&text);
            self.events.run.change(|record| record.unmatched = Some(nearest.to_string()));
            self.say_unprotected(&nearest);
        }
        Ok(())
    }

    fn say_unprotected(&self, nearest: &str) {
        let prefix = self.site.prefix.display();
        let written = match nearest {
            "" => format!("the program wrote no file below {prefix} (SCR_PREFIX)"),
            nearest => format!(
                "no file that the program wrote below {prefix} matches a pattern. Nearest: \
                 {nearest}"
            ),
        };
        log::warn(
            messages::NOTHING_MATCHED,
            format_args!(
                "no checkpoint was protected: {written}. In force: {}; {}. {SILENCE}",
                self.series.in_force(),
                self.site.settings.user_file
            ),
        );
    }

    /// Other patterns matched: those with a placeholder of another tool are in vain all the same.
    fn tell_placeholders(&self) {
        if self.site.rank == 0 {
            let told = self.series.placeholders();
            told.iter().for_each(|text| log::warn(messages::PLACEHOLDER, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_kinds_are_remembered_until_something_matches() {
        let unmatched = Unmatched::new();
        ["a_1", "a_22", "b"].iter().for_each(|name| unmatched.note(name));
        assert_eq!(unmatched.names(), ["a_1", "b"]);
        unmatched.matches();
        unmatched.note("c");
        assert_eq!(unmatched.names(), ["a_1", "b"]);
        assert!(unmatched.is_matched());
        let many = Unmatched::new();
        for index in 0..2 * KINDS_MAX {
            many.note(&"x".repeat(index + 1));
        }
        assert_eq!(many.names().len(), KINDS_MAX);
        assert!(!many.is_matched());
    }
}
