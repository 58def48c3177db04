//! Names with the ranks that have told of them.

use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub struct ByOthers(BTreeSet<(String, usize)>);

impl ByOthers {
    pub fn insert(&mut self, name: &str, rank: usize) {
        self.0.insert((name.to_string(), rank));
    }

    pub fn remove(&mut self, name: &str, rank: usize) {
        self.0.remove(&(name.to_string(), rank));
    }

    pub fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        self.0.retain(|(_, rank)| keep(*rank));
    }

    pub fn forget(&mut self, name: &str) {
        while let Some(first) = self.first(name) {
            self.0.remove(&first);
        }
    }

    pub fn has(&self, name: &str) -> bool {
        !self.0.is_empty() && self.first(name).is_some()
    }

    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.0.iter().map(|(name, _)| name)
    }

    fn first(&self, name: &str) -> Option<(String, usize)> {
        let mut from = self.0.range((name.to_string(), 0)..);
        from.next().filter(|(first, _)| first == name).cloned()
    }
}
