//! What a job that died has left in the caches of its nodes, brought to the prefix (manual 1.1,
//! section 11.10, postrun): every node that answers copies what it has, then this process rebuilds
//! what is missing, publishes, and enters it into the index.

use std::path::Path;
use std::time::SystemTime;

use super::salvage::{ADVICE, NodeCopies, Salvaged, clear_copies, copy_node, publish_copies};
use crate::error::{Error, Result};
use crate::launch::JobPlaces;
use crate::operations::prefix::{holder, state_dir};
use crate::operations::run::reach::{Inquiry, Reach};
use crate::params::{Environment, Settings};
use crate::records::CourseTurn;
use crate::transfer::{OnPrefix, Which, list_in_cache, list_prefix, removals};

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
    /// Names of the newest that could not be had, with the reason. The index has them as
    /// incomplete.
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

/// What `scr copy` prints on a node that has nothing of the prefix, and on one that has.
const WORDS: [&str; 2] = ["nothing", "copied"];

/// Reads it.
fn had_cache(text: &str) -> Result<bool> {
    let found = WORDS.iter().position(|word| text.split_whitespace().next() == Some(word));
    let unknown = || Error::Unreadable(format!("an answer that means nothing: {}", text.trim()));
    found.map(|at| at == 1).ok_or_else(unknown)
}

impl Scavenge<'_> {
    /// Does it all. It can be done again at any time: what is on the prefix already is left alone.
    ///
    /// # Errors
    /// A live run uses the prefix or a node; or prefix or copies cannot be read or written.
    pub fn run(&self) -> Result<Scavenged> {
        let places = JobPlaces::new(self.reach.settings, self.reach.environment)?;
        clear_copies(&places.prefix)?;
        let holder = holder();
        let mut done = Scavenged::default();
        for (node, answer) in self.copy_all(&places, &holder) {
            match answer {
                Ok(had_cache) => done.had_cache |= had_cache,
                Err(error) => done.silent.push((node, error.to_string())),
            }
        }
        let which = self.id.map_or(Which::Newest, Which::Id);
        let found = publish_copies(&places, self.reach.settings, &holder, which)?;
        let mut done = published(&places, found, done)?;
        if done.had_cache && done.published.is_empty() && self.id.is_none() {
            done.unknown.extend(left_out(&places)?);
        }
        Ok(done)
    }

    /// All nodes, side by side; what came of it.
    fn copy_all(&self, places: &JobPlaces, holder: &str) -> Vec<(String, Result<bool>)> {
        let words = |node: &str| {
            let mut words = ["copy", "--node", node].map(str::to_owned).to_vec();
            words.extend(self.id.iter().flat_map(|id| ["--id".to_owned(), id.to_string()]));
            words
        };
        let here = |node: &str| local(places, node, holder, self.id);
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

/// Adds what was published to what is `done`.
pub(super) fn published(
    places: &JobPlaces,
    found: Salvaged,
    mut done: Scavenged,
) -> Result<Scavenged> {
    match found {
        Salvaged::Busy(other) => {
            return Err(Error::Busy(format!("a live run uses the prefix ({other})")));
        }
        Salvaged::Nothing => {}
        Salvaged::Done(outcome) => {
            done.had_cache = true;
            done.published = outcome.published.iter().map(|(_, key)| key.name()).collect();
            let lost = outcome.withheld.into_iter().map(|(_, key, why)| (key.name(), why));
            done.lost = lost.collect();
            let strange = |name| {
                format!(
                    "{name} was made for the directory that was {} before; {ADVICE}",
                    places.prefix.display()
                )
            };
            done.unknown.extend(outcome.strange.into_iter().map(strange));
        }
    }
    done.on_prefix = list_prefix(&places.prefix)?.iter().any(|one| one.restorable);
    Ok(done)
}

/// Rebuilds and publishes what [`copy_this_node`] has brought to the prefix.
///
/// # Errors
/// A live run uses the prefix, or something cannot be read or written.
pub fn publish_what_was_copied(
    settings: &Settings,
    environment: &Environment,
) -> Result<Scavenged> {
    let places = JobPlaces::new(settings, environment)?;
    let found = publish_copies(&places, settings, &holder(), Which::Newest)?;
    published(&places, found, Scavenged::default())
}

/// Tells whether a launch has begun on the prefix since then: it has taken the lease.
#[must_use]
pub fn used_since(prefix: &Path, time: SystemTime) -> bool {
    let taken = std::fs::metadata(state_dir(prefix).join("lease")).and_then(|file| file.modified());
    taken.is_ok_and(|taken| taken >= time)
}

/// Returns the complete datasets that the caches have and the prefix has not, by its records,
/// oldest first: id and name. A checkpoint that is older than one of its series there is of no use.
///
/// # Errors
/// If the records cannot be read.
pub fn left_in_caches(prefix: &Path) -> Result<Vec<(u64, String)>> {
    let mut left = list_in_cache(prefix)?;
    if !left.is_empty() {
        let mut listed = list_prefix(prefix)?;
        listed.retain(|one| one.restorable);
        left.retain(|(id, name)| {
            // An id may have a dot in it (a time), a series has none.
            let series = name.split_once('.').map_or(name.as_str(), |(series, _)| series);
            let is_output = series.starts_with("output");
            let newer = |one: &OnPrefix| !is_output && one.id > *id && one.key.series == series;
            !listed.iter().any(|one| one.id == *id || newer(one))
        });
    }
    Ok(left)
}

fn local(places: &JobPlaces, node: &str, holder: &str, id: Option<u64>) -> Result<bool> {
    match copy_node(places, node, holder, id)? {
        NodeCopies::Nothing => Ok(false),
        NodeCopies::Datasets(_) => Ok(true),
        NodeCopies::Busy(other) => Err(Error::Busy(format!("a live run uses it ({other})"))),
    }
}

/// Does what `scr copy` does on a node, of dataset `id` alone if that is given; returns the word
/// that tells its caller what came of it.
///
/// # Errors
/// A live run uses the node, or something cannot be read or written.
pub fn copy_this_node(
    settings: &Settings,
    environment: &Environment,
    node: &str,
    id: Option<u64>,
) -> Result<String> {
    let places = JobPlaces::new(settings, environment)?;
    Ok(WORDS[usize::from(local(&places, node, &holder(), id)?)].to_owned())
}
