//! Turns: what another rank of the node does to names is one step for this one, which looks at none
//! of them meanwhile.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Turns(BTreeMap<usize, Vec<String>>);

impl Turns {
    pub fn begin(&mut self, rank: usize, names: Vec<String>) {
        self.0.insert(rank, names);
    }

    pub fn end(&mut self, rank: usize) {
        self.0.remove(&rank);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Finds a rank that changes one of `names`, or what is above or below it.
    pub fn concerning(&self, names: &[&str]) -> Option<usize> {
        let meets =
            |one: &str| names.iter().any(|name| is_within(one, name) || is_within(name, one));
        let mut all = self.0.iter();
        all.find(|(_, changed)| changed.iter().any(|one| meets(one))).map(|(rank, _)| *rank)
    }
}

/// Tells whether `name` is `top`, or lies below it; everything lies below the prefix, `""`.
pub fn is_within(top: &str, name: &str) -> bool {
    let below = |rest: &str| rest.is_empty() || rest.starts_with('/');
    top.is_empty() || name.strip_prefix(top).is_some_and(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_concerns_what_is_above_and_below_its_names() {
        let mut turns = Turns::default();
        turns.begin(2, vec!["c/a".into(), "c/b.bak".into()]);
        for name in ["c/a", "c/a/x", "c", "", "c/b.bak"] {
            assert_eq!(turns.concerning(&["d", name]), Some(2), "{name}");
        }
        assert_eq!(turns.concerning(&["c/b", "c/ab", "d"]), None);
        turns.end(2);
        assert_eq!(turns.concerning(&["c/a"]), None);
    }
}
