//! Files that no pattern matches and that several ranks write: one has made such a file, the others
//! have opened it. When it gets a name of ours it is no temporary file of one rank.

use std::collections::BTreeSet;

/// More than a rank writes between two renames; the rest is taken to be of one rank.
const NAMES_MAX: usize = 256;

/// What a rank knows of them.
#[derive(Debug, Default)]
pub struct JoinedNames {
    /// This rank has made them.
    made: BTreeSet<String>,
    /// It has opened them, and has not told it yet.
    untold: BTreeSet<String>,
    /// Other ranks have opened them.
    others: BTreeSet<String>,
}

fn add(names: &mut BTreeSet<String>, name: String) {
    if names.len() >= NAMES_MAX {
        names.pop_first();
    }
    names.insert(name);
}

impl JoinedNames {
    /// Notes that this rank opens a file to write it, which `exists`. Returns whether that is to be
    /// told.
    pub fn opens(&mut self, name: &str, exists: bool) -> bool {
        if !exists {
            add(&mut self.made, name.to_owned());
            return false;
        }
        let joins = !self.made.contains(name);
        if joins {
            add(&mut self.untold, name.to_owned());
        }
        joins
    }

    /// Takes what is to be told.
    pub fn take_news(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.untold)
    }

    /// Hears what another rank has told.
    pub fn hear(&mut self, names: impl Iterator<Item = String>) {
        names.for_each(|name| add(&mut self.others, name));
    }

    /// Tells whether another rank writes the file, too.
    pub fn is_of_others(&self, name: &str) -> bool {
        self.others.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_opens_what_another_rank_has_made_tells_it() {
        let (mut maker, mut other) = (JoinedNames::default(), JoinedNames::default());
        assert!(!maker.opens("a", false) && !maker.opens("a", true), "its own, again");
        assert!(other.opens("a", true));
        maker.hear(other.take_news().into_iter());
        assert!(maker.is_of_others("a") && !other.is_of_others("a"));
        assert!(other.take_news().is_empty());
    }
}
