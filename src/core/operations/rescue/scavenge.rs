//! What a job that died has left in the caches of its nodes, brought to the prefix (manual 1.1,
//! section 11.10, postrun).

use std::path::Path;
use std::time::SystemTime;

use super::salvage::{ADVICE, clear_copies, copy_node, publish_copies};
use crate::error::{Error, Result};
use crate::launch::JobPlaces;
use crate::operations::prefix::state_dir;
use crate::operations::run::reach::{Inquiry, Reach};
use crate::params::{Environment, Settings};
use crate::records::CourseTurn;
use crate::transfer::{ListedDataset, OtherSize, Which, list_in_cache, list_prefix, removals};

/// Who scavenges, and from where.
pub struct Scavenge<'a> {
    /// Which nodes are asked, and how they are reached.
    pub reach: Reach<'a>,
    /// Only the dataset with this id.
    pub id: Option<u64>,
}

/// What has become of a job's datasets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scavenged {
    /// Names of those that have come to the prefix, oldest first.
    pub published: Vec<String>,
    /// Names of the newest that could not be had, with the reason.
    pub lost: Vec<(String, String)>,
    /// Nodes that could not be asked, with the reason.
    pub silent: Vec<(String, String)>,
    /// What was found and is left out, a sentence for each.
    pub unknown: Vec<String>,
    /// Some node had a cache of the job.
    pub had_cache: bool,
    /// The prefix has complete datasets now.
    pub on_prefix: bool,
}

/// What `scr copy` prints on a node without a cache of the prefix, and on one that has it.
const WORDS: [&str; 2] = ["nothing", "copied"];

fn had_cache(text: &str) -> Result<bool> {
    let found = WORDS.iter().position(|word| text.split_whitespace().next() == Some(word));
    let unknown = || Error::Unreadable(format!("an answer that means nothing: {}", text.trim()));
    found.map(|at| at == 1).ok_or_else(unknown)
}

impl Scavenge<'_> {
    /// Copies, rebuilds and publishes what the prefix has not yet.
    pub fn run(&self) -> Result<Scavenged> {
        let places = JobPlaces::new(self.reach.settings, self.reach.environment)?;
        clear_copies(&places.prefix)?;
        let mut done = Scavenged::default();
        for (node, answer) in self.copy_all(&places) {
            match answer {
                Ok(had_cache) => done.had_cache |= had_cache,
                Err(error) => done.silent.push((node, error.to_string())),
            }
        }
        let which = self.id.map_or(Which::Newest, Which::Id);
        let found = publish_copies(&places, self.reach.settings, which)?;
        let mut done = published(&places, found, done)?;
        if done.had_cache && done.published.is_empty() && self.id.is_none() {
            done.unknown.extend(left_out(&places)?);
        }
        Ok(done)
    }

    fn copy_all(&self, places: &JobPlaces) -> Vec<(String, Result<bool>)> {
        let words = |node: &str| {
            let mut words = ["copy", "--node", node].map(str::to_owned).to_vec();
            words.extend(self.id.iter().flat_map(|id| ["--id".to_owned(), id.to_string()]));
            words
        };
        let here = |node: &str| Ok(copy_node(places, node, self.id)?.is_some());
        let what = "copying from the nodes";
        let inquiry = Inquiry { what, here: &here, words: &words, read: &had_cache };
        self.reach.ask(places, &self.reach.names(places), &inquiry)
    }
}

/// What no node has copied, since a start has left it out.
fn left_out(places: &JobPlaces) -> Result<Vec<String>> {
    if places.layout.owner.identity().is_none() {
        return Ok(Vec::new());
    }
    let left_out = |(series, turn): &(String, CourseTurn)| {
        format!(
            "{series}: what is newer than dataset {} stays where it is, since somebody has deleted \
             checkpoints on {} (SCR-3119); {ADVICE}",
            turn.to,
            places.prefix.display()
        )
    };
    Ok(removals(&places.prefix)?.iter().map(left_out).collect())
}

pub(super) fn published(
    places: &JobPlaces,
    found: Option<OtherSize>,
    mut done: Scavenged,
) -> Result<Scavenged> {
    if let Some(outcome) = found {
        done.had_cache = true;
        done.published = outcome.published.iter().map(|(_, key)| key.name()).collect();
        let lost = outcome.withheld.into_iter().map(|(_, key, why)| (key.name(), why));
        done.lost = lost.collect();
        let before = places.prefix.display();
        let strange =
            |name| format!("{name} was made for the directory that was {before} before; {ADVICE}");
        done.unknown.extend(outcome.strange.into_iter().map(strange));
    }
    done.on_prefix = list_prefix(&places.prefix)?.iter().any(|one| one.restorable);
    Ok(done)
}

/// Rebuilds and publishes what [`copy_this_node`] has brought to the prefix.
pub fn publish_what_was_copied(
    settings: &Settings,
    environment: &Environment,
) -> Result<Scavenged> {
    let places = JobPlaces::new(settings, environment)?;
    let found = publish_copies(&places, settings, Which::Newest)?;
    published(&places, found, Scavenged::default())
}

/// Tells whether a launch has taken the lease of the prefix since `time`.
pub fn used_since(prefix: &Path, time: SystemTime) -> bool {
    let taken = std::fs::metadata(state_dir(prefix).join("lease")).and_then(|file| file.modified());
    taken.is_ok_and(|taken| taken >= time)
}

/// Returns id and name of complete datasets that only the caches have, oldest first, without
/// checkpoints that are older than one of their series on the prefix.
pub fn left_in_caches(prefix: &Path) -> Result<Vec<(u64, String)>> {
    let mut left = list_in_cache(prefix)?;
    if !left.is_empty() {
        let mut listed = list_prefix(prefix)?;
        listed.retain(|one| one.restorable);
        left.retain(|(id, name)| {
            // An id may have a dot in it (a time), a series has none.
            let series = name.split_once('.').map_or(name.as_str(), |(series, _)| series);
            let is_output = series.starts_with("output");
            let newer =
                |one: &ListedDataset| !is_output && one.id > *id && one.key.series == series;
            !listed.iter().any(|one| one.id == *id || newer(one))
        });
    }
    Ok(left)
}

/// Does what `scr copy` does on a node; returns the word that tells its caller what came of it.
pub fn copy_this_node(
    settings: &Settings,
    environment: &Environment,
    node: &str,
    id: Option<u64>,
) -> Result<String> {
    let places = JobPlaces::new(settings, environment)?;
    Ok(WORDS[usize::from(copy_node(&places, node, id)?.is_some())].to_owned())
}
