//! The names that a program writes while no pattern matches any, and what is said where no pattern
//! is set.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::params::Settings;
use crate::patterns::masked;

const KINDS_MAX: usize = 128;

/// Ends each message, for those who want no protection.
pub(crate) const SILENCE: &str = "SCR_ENABLE=0 switches SCR off, silently";

#[derive(Debug)]
pub(crate) struct Unmatched {
    watching: AtomicBool,
    matched: AtomicBool,
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

    pub fn matches(&self) {
        if !self.matched.load(Ordering::Relaxed) {
            self.matched.store(true, Ordering::Relaxed);
            self.watching.store(false, Ordering::Relaxed);
        }
    }

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

    pub fn names(&self) -> Vec<String> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.values().cloned().collect()
    }

    pub fn is_watching(&self) -> bool {
        self.watching.load(Ordering::Relaxed)
    }

    pub fn is_matched(&self) -> bool {
        self.matched.load(Ordering::Relaxed)
    }
}

pub(crate) fn without_pattern(settings: &Settings) -> String {
    let told = |warning: &String| format!("; {warning}");
    let warnings: String = settings.warnings.iter().map(told).collect();
    format!(
        "no checkpoint is protected: no pattern is set (SCR_CHECKPOINT_PATTERN){warnings}; {}. \
         {SILENCE}",
        settings.user_file
    )
}

/// Says that no file matched. `nearest`: the name that came nearest to a pattern, if there was any.
pub(crate) fn nothing_matched(
    nearest: &str,
    prefix: &Path,
    in_force: &str,
    user_file: &str,
) -> String {
    let prefix = prefix.display();
    let written = match nearest {
        "" => format!("the program wrote no file below {prefix} (SCR_PREFIX)"),
        nearest => format!(
            "no file that the program wrote below {prefix} matches a pattern. Nearest: {nearest}"
        ),
    };
    format!("no checkpoint was protected: {written}. In force: {in_force}; {user_file}. {SILENCE}")
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
