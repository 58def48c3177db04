//! Which files of the patterns are left alone, since they are never quiet.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::machine::{Knowledge, name_hash};
use crate::patterns::Match;

/// Templates that this rank leaves alone: the series, and the hash of the name with the id masked.
#[derive(Debug, Default)]
pub struct SilencedFiles {
    any: AtomicBool,
    templates: RwLock<BTreeSet<(usize, u64)>>,
}

impl SilencedFiles {
    /// Makes the set of those that an earlier launch has found.
    pub fn new(known: &[Knowledge]) -> Self {
        let silenced = SilencedFiles::default();
        for (series, known) in known.iter().enumerate() {
            known.restless.iter().for_each(|template| silenced.add(series, *template));
        }
        silenced
    }

    /// Adds one.
    pub fn add(&self, series: usize, template: u64) {
        self.templates.write().unwrap_or_else(PoisonError::into_inner).insert((series, template));
        self.any.store(true, Ordering::Release);
    }

    /// Tells whether there is any.
    pub fn is_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Tells whether a file that matches a pattern is left alone.
    pub fn has(&self, matched: &Match) -> bool {
        let template = || (matched.series, name_hash(&matched.masked));
        self.is_any()
            && self.templates.read().unwrap_or_else(PoisonError::into_inner).contains(&template())
    }
}

/// Returns the name, or a pattern for names that differ by numbers.
pub fn pattern_of(names: &[&str]) -> String {
    let masked = |name: &str| {
        let mut text = String::new();
        for letter in name.chars() {
            match letter {
                '0'..='9' if text.ends_with('*') => {}
                '0'..='9' => text.push('*'),
                other => text.push(other),
            }
        }
        text
    };
    match names {
        [only] => (*only).to_string(),
        names => {
            let patterns: BTreeSet<String> = names.iter().map(|name| masked(name)).collect();
            patterns.into_iter().collect::<Vec<_>>().join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_by_numbers_are_one_pattern() {
        assert_eq!(pattern_of(&["a/run_0.log"]), "a/run_0.log");
        assert_eq!(pattern_of(&["a/run_0.log", "a/run_17.log"]), "a/run_*.log");
        assert_eq!(pattern_of(&["b1.log", "a/x.txt", "b2.log"]), "a/x.txt, b*.log");
    }

    #[test]
    fn what_an_earlier_launch_has_found_is_left_alone_in_its_series_only() {
        let matched = |series, masked: &str| Match {
            series,
            id: Some("7".into()),
            rank: None,
            own: false,
            has_id_in_series: true,
            masked: masked.into(),
            temporary: false,
        };
        assert!(!SilencedFiles::default().has(&matched(0, "log_{id}")));
        let known = Knowledge { restless: [name_hash("log_{id}")].into(), ..Knowledge::default() };
        let silenced = SilencedFiles::new(&[Knowledge::default(), known]);
        let found = [matched(1, "log_{id}"), matched(0, "log_{id}"), matched(1, "x_{id}")];
        assert_eq!(found.map(|one| silenced.has(&one)), [true, false, false]);
    }
}
