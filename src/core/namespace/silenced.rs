//! Files that match patterns, but are left alone since they are never quiet.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::machine::{Knowledge, mask_numbers, name_hash};
use crate::patterns::Match;

/// By series and `name_hash`.
#[derive(Debug, Default)]
pub struct SilencedFiles {
    any: AtomicBool,
    templates: RwLock<BTreeSet<(usize, u64)>>,
}

impl SilencedFiles {
    pub fn new(known: &[Knowledge]) -> Self {
        let silenced = SilencedFiles::default();
        for (series, known) in known.iter().enumerate() {
            known.restless.iter().for_each(|template| silenced.add(series, *template));
        }
        silenced
    }

    pub fn add(&self, series: usize, template: u64) {
        self.templates.write().unwrap_or_else(PoisonError::into_inner).insert((series, template));
        self.any.store(true, Ordering::Release);
    }

    pub fn is_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    pub fn has(&self, matched: &Match) -> bool {
        let template = || (matched.series, name_hash(&matched.masked));
        self.is_any()
            && self.templates.read().unwrap_or_else(PoisonError::into_inner).contains(&template())
    }
}

/// Returns the name, or a pattern for names that differ by numbers.
pub fn pattern_of(names: &[&str]) -> String {
    match names {
        [only] => (*only).to_string(),
        names => {
            let patterns: BTreeSet<String> =
                names.iter().map(|name| mask_numbers(name, '*')).collect();
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
