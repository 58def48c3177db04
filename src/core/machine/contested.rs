//! Files that several ranks turn out to have written into one dataset, each without the others,
//! although all were said to have one writer (`SCR_LEARN=0`, `:own`): nobody looks for them before
//! it is sealed.

use std::collections::BTreeMap;

use super::Machine;
use super::keys::{DatasetKey, FileRef};
use super::knowledge::{Why, name_hash};
use super::report::Mark;

/// One of them; the same on all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contested {
    /// The file.
    pub file: FileRef,
    /// Who has it, the first rank first.
    pub ranks: Vec<usize>,
    /// Why none of them has what the program has written, if their contents differ.
    pub spoiled: Option<String>,
}

impl Machine {
    /// Finds the names that ranks of different nodes have in their caches, with those ranks;
    /// `names` are what each rank has.
    #[must_use]
    pub fn parted<'a>(&self, names: &[Vec<&'a str>]) -> BTreeMap<&'a str, Vec<usize>> {
        let mut ranks: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (rank, name) in
            names.iter().enumerate().flat_map(|(at, all)| all.iter().map(move |one| (at, *one)))
        {
            ranks.entry(name).or_default().push(rank);
        }
        let node = |rank: &usize| self.config.nodes[*rank];
        ranks.retain(|_, all| all.iter().any(|rank| node(rank) != node(&all[0])));
        ranks
    }

    /// Settles who keeps these `files`, because of which the seal of `key` has come to nothing. The
    /// first rank keeps a file that all have alike, and the seal is tried again; with another one
    /// the dataset is given up. Later files of these names go to the PFS.
    pub fn settle_contested(&mut self, key: &DatasetKey, files: &[Contested]) {
        for Contested { file, ranks, spoiled } in files {
            let (name, bare) = (name_hash(&file.masked), file.masked == file.name);
            let mark = Mark { name, bare, why: Why::Writers };
            self.shared.series[key.series].note_unsafe(&mark);
            self.find_marked(key.series);
            let own = self.series[key.series].find_mut(key);
            match (spoiled, &mut self.conference) {
                (None, _) if ranks[0] == self.config.rank => {}
                (None, _) => drop(own.and_then(|own| own.files.remove(&file.name))),
                (Some(why), Some(conference)) => {
                    let vote = conference.votes.entry(key.clone()).or_default();
                    vote.invalid.get_or_insert_with(|| (ranks[0], why.clone()));
                }
                (Some(_), None) => {}
            }
        }
        self.agreement.changed(1);
    }
}

/// Says why a dataset with `name` is given up, which these `writers` have written, too.
pub fn contested_reason(name: &str, writers: &str) -> String {
    format!(
        "{name} was written by {writers}, too, and no rank has all of it. From now on such files \
         go straight to the PFS; SCR_LEARN=0 and \":own\" are for files that one rank writes"
    )
}

/// Says why a dataset is given up of which these `writers` have each routed the file `name`.
pub fn parted_reason(name: &str, writers: &str) -> String {
    format!(
        "{name} was written by {writers}, and no node has all of it. From now on such files go \
         straight to the prefix, where all of them write to one; with SCR_CACHE_BYPASS=1 they do \
         from the first one on"
    )
}
