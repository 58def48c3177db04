//! Files under their names below the prefix, and where each of them is. Of a name that several
//! datasets have the newest counts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::ask::{ask_nodes, parsed};
use super::question::Question;
use crate::cache::{Catalog, CatalogEntry, Depth, Health, Judged, NodeState, judge, whole_files};
use crate::error::{Error, Result};
use crate::files::normalize;
use crate::launch::JobPlaces;
use crate::operations::prefix::state_dir;
use crate::operations::read_index;
use crate::operations::rescue::salvage::ADVICE;
use crate::operations::run::reach::Reach;
use crate::patterns::{PatternConfig, PatternText, SeriesSet};
use crate::records::{FileMeta, RecordKey, Summary};
use crate::system::hostname;

/// Where a file can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilePlace {
    /// On the prefix, under its name.
    Prefix,
    /// In a cache: the node, and the dataset's directory there.
    Node(String, PathBuf),
    /// Each part in the cache of a node.
    Parts(Vec<PartPlace>),
    /// These nodes are writing it together: what one of them has is not the file.
    Unfinished(Vec<String>),
    /// In the cache of a node that does not answer, or nowhere.
    Nowhere,
}

/// Where a part of a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartPlace {
    /// World rank that answers for it.
    pub rank: usize,
    /// Its name in that rank's record.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The node, and the dataset's directory there; none if no node that answers has it.
    pub place: Option<(String, PathBuf)>,
}

impl FilePlace {
    /// Tells whether all of the file can be had.
    pub fn is_there(&self) -> bool {
        match self {
            FilePlace::Prefix | FilePlace::Node(..) => true,
            FilePlace::Parts(parts) => parts.iter().all(|part| part.place.is_some()),
            FilePlace::Unfinished(_) | FilePlace::Nowhere => false,
        }
    }

    /// Finds the nodes that have something of the file.
    pub fn nodes(&self) -> BTreeSet<&str> {
        match self {
            FilePlace::Prefix | FilePlace::Nowhere => BTreeSet::new(),
            FilePlace::Node(node, _) => [&**node].into(),
            FilePlace::Parts(parts) => {
                parts.iter().filter_map(|part| Some(&*part.place.as_ref()?.0)).collect()
            }
            FilePlace::Unfinished(nodes) => nodes.iter().map(|node| &**node).collect(),
        }
    }
}

/// A file of a dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Its name is one below the prefix.
    pub meta: FileMeta,
    /// World rank that wrote it, if known; the lowest of several.
    pub rank: Option<usize>,
    /// Id of its dataset; 0: none.
    pub id: u64,
    /// Series, captured id, generation of its dataset.
    pub key: RecordKey,
    /// Its dataset is complete.
    pub sealed: bool,
    /// Where it is.
    pub place: FilePlace,
    /// No newer dataset has a file of this name.
    pub newest: bool,
}

/// All files of a run.
#[derive(Debug, Clone)]
pub struct Listing {
    /// The job.
    pub places: JobPlaces,
    /// Name of this node.
    pub here: String,
    /// The files, by name, the newest of a name first.
    pub files: Vec<Listed>,
    /// Nodes that could not be asked, with the reason.
    pub silent: Vec<(String, String)>,
    /// Datasets that are left out, a sentence for each.
    pub left_out: Vec<String>,
}

impl Listing {
    /// Asks all nodes and the prefix; datasets that may be incomplete are listed with `unsealed`
    /// only.
    pub fn of(reach: &Reach<'_>, unsealed: bool) -> Result<Listing> {
        let places = JobPlaces::new(reach.settings, reach.environment)?;
        let here = hostname();
        let mut listing =
            Listing { places, here, files: Vec::new(), silent: Vec::new(), left_out: Vec::new() };
        let on_prefix = listing.add_prefix()?;
        let nodes = reach.names(&listing.places);
        let question = Question::Look { depth: Depth::Sizes, id: None, unsealed };
        let mut states = Vec::new();
        for (node, answer) in
            ask_nodes(reach, &listing.places, &nodes, "asking the nodes", &question)
        {
            match parsed(answer, NodeState::from_tree) {
                Ok(state) => {
                    let told = |why| format!("{node}: {why}; {ADVICE}");
                    listing.left_out.extend(state.strange.iter().map(told));
                    states.push((node, state));
                }
                Err(error) => listing.silent.push((node, error.to_string())),
            }
        }
        let judged = judge(&states)?;
        for one in judged.datasets.iter().filter(|one| !on_prefix.contains(&one.id)) {
            listing.add_sealed(reach, one, &states);
        }
        listing.add_unsealed(&judged, &states, unsealed);
        let newest_first =
            |one: &Listed| (one.meta.name.clone(), !one.sealed, std::cmp::Reverse(one.id));
        listing.files.sort_by_key(newest_first);
        for at in 0..listing.files.len() {
            let earlier = at.checked_sub(1).map(|before| &listing.files[before].meta.name);
            listing.files[at].newest = earlier != Some(&listing.files[at].meta.name);
        }
        Ok(listing)
    }

    fn add_prefix(&mut self) -> Result<BTreeSet<u64>> {
        let prefix = &self.places.prefix;
        let mut ids = BTreeSet::new();
        for entry in read_index(prefix)?.newest_first().filter(|entry| entry.is_restorable()) {
            let folder = state_dir(prefix).join(format!("scr.dataset.{}", entry.id));
            let summary = match Summary::read_from(&folder) {
                Ok(Some(summary)) => summary,
                Ok(None) => continue,
                Err(error) => {
                    self.left_out.push(error.to_string());
                    continue;
                }
            };
            ids.insert(entry.id);
            for (rank, files) in summary.files {
                let listed = |meta| Listed {
                    meta,
                    rank: Some(rank),
                    id: entry.id,
                    key: summary.dataset.key.clone(),
                    sealed: true,
                    place: FilePlace::Prefix,
                    newest: false,
                };
                self.files.extend(files.into_iter().map(listed));
            }
        }
        Ok(ids)
    }

    /// Any node that has a part of a sealed dataset knows all its files.
    fn add_sealed(&mut self, reach: &Reach<'_>, one: &Health, states: &[(String, NodeState)]) {
        let mut holders: Vec<usize> = one.holders.iter().flatten().copied().collect();
        holders.sort_by_key(|holder| (states[*holder].0 != self.here, *holder));
        holders.dedup();
        let question = Question::Catalog { id: one.id };
        let mut why = "no node has it".to_owned();
        let catalog = holders.iter().find_map(|holder| {
            let node = [states[*holder].0.clone()];
            let what = "asking for the names";
            let mut answers = ask_nodes(reach, &self.places, &node, what, &question);
            let read = answers.pop()?.1.map(|tree| Catalog::from_tree(&tree));
            let fits = |found: &Catalog| (found.id, found.epoch) == (one.id, one.epoch);
            match read {
                Ok(catalog) => catalog.filter(fits),
                Err(error) => {
                    why = error.to_string();
                    None
                }
            }
        });
        let Some(catalog) = catalog else {
            self.left_out.push(format!("{}: its files cannot be listed: {why}", one.key.name()));
            return;
        };
        let cached = |rank: usize| {
            let (node, state) = &states[one.holders.get(rank).copied().flatten()?];
            let of_it = |claim: &crate::cache::Claim| {
                (claim.id, claim.epoch, claim.owner) == (one.id, one.epoch, rank)
            };
            let part = state.parts.iter().find(|part| of_it(&part.claim))?;
            Some((node.clone(), part.dir.clone()))
        };
        let mut parts = parts_of_wholes(&catalog.entries, &cached);
        for CatalogEntry { rank, meta } in whole_files(&catalog.entries) {
            let place = match (parts.remove(&meta.name), cached(rank)) {
                _ if meta.on_prefix => FilePlace::Prefix,
                (Some(parts), _) => FilePlace::Parts(parts),
                (None, Some((node, dir))) => FilePlace::Node(node, dir),
                (None, None) => FilePlace::Nowhere,
            };
            self.files.push(Listed {
                meta,
                rank: Some(rank),
                id: one.id,
                key: one.key.clone(),
                sealed: true,
                place,
                newest: false,
            });
        }
    }

    fn add_unsealed(&mut self, judged: &Judged, states: &[(String, NodeState)], wanted: bool) {
        for (id, key, why) in judged.unsealed.iter().filter(|(id, ..)| *id > 0 && !wanted) {
            self.left_out.push(format!("{} (dataset {id}): {why}", key.name()));
        }
        let mut listed: BTreeMap<(RecordKey, String), Listed> = BTreeMap::new();
        for (node, state) in states {
            for part in state.parts.iter().filter(|part| !part.unsealed.is_empty()) {
                for meta in &part.unsealed {
                    let name = (part.claim.key.clone(), meta.name.clone());
                    if let Some(other) = listed.get_mut(&name) {
                        other.add_writer(node, meta);
                        continue;
                    }
                    let one = Listed {
                        meta: meta.clone(),
                        rank: None,
                        id: part.claim.id,
                        key: part.claim.key.clone(),
                        sealed: false,
                        place: FilePlace::Node(node.clone(), part.dir.clone()),
                        newest: false,
                    };
                    listed.insert(name, one);
                }
            }
        }
        self.files.extend(listed.into_values());
    }

    /// Finds the files that `word` means: a dataset's id or name, a path (of a file or a directory,
    /// relative to the working directory if that is below the prefix, else to the prefix), or a
    /// pattern.
    pub fn select(&self, word: &str, all: bool) -> Result<Vec<&Listed>> {
        let of_dataset = |one: &&Listed| {
            let is_id = one.id > 0 && one.id.to_string() == word;
            is_id || one.key.name() == word || one.key.title() == word
        };
        let mut found: Vec<&Listed> = self.files.iter().filter(of_dataset).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let name = self.below_prefix(word);
        let folder = format!("{name}/");
        let is_below = |one: &&Listed| {
            let path = &one.meta.name;
            (*path == name || path.starts_with(&folder) || name.is_empty()) && (all || one.newest)
        };
        found.extend(self.files.iter().filter(is_below));
        if found.is_empty() && word.contains(['*', '?', '[', '{']) {
            let series = self.pattern(&name)?;
            let matches =
                |one: &&Listed| (all || one.newest) && series.match_path(&one.meta.name).is_some();
            found.extend(self.files.iter().filter(matches));
        }
        if !found.is_empty() {
            return Ok(found);
        }
        let asked = match self.silent.len() {
            0 => String::new(),
            1 => format!("; {} does not answer", self.silent[0].0),
            more => format!("; {more} nodes do not answer"),
        };
        Err(Error::Missing(format!("no complete dataset has a file {word}{asked}")))
    }

    fn pattern(&self, text: &str) -> Result<SeriesSet> {
        let (name, place) = ("PATTERN".to_owned(), "the pattern".to_owned());
        SeriesSet::new(&PatternConfig {
            prefix: self.places.prefix.clone(),
            checkpoint: vec![PatternText { name, place, text: text.to_owned() }],
            ..PatternConfig::default()
        })
    }

    /// Gives a path as a name below the prefix, as far as it is one.
    pub fn below_prefix(&self, word: &str) -> String {
        let prefix = &self.places.prefix;
        let here = std::env::current_dir().ok().filter(|dir| dir.starts_with(prefix));
        let base = here.as_ref().unwrap_or(prefix);
        let path = normalize(Path::new(word), base);
        let real = path.parent().and_then(|dir| dir.canonicalize().ok());
        let real = real.and_then(|dir| Some(dir.join(path.file_name()?)));
        let below = |path: &Path| path.strip_prefix(prefix).ok().map(Path::to_path_buf);
        let name = below(&path).or_else(|| below(&real?)).unwrap_or(path);
        name.to_string_lossy().into_owned()
    }
}

impl Listed {
    /// Notes that another node has something of a file that is being written. In a store that both
    /// reach it is the same.
    fn add_writer(&mut self, node: &str, meta: &FileMeta) {
        if self.meta == *meta {
            return;
        }
        let mut nodes: Vec<String> = self.place.nodes().into_iter().map(str::to_owned).collect();
        nodes.push(node.to_owned());
        self.place = FilePlace::Unfinished(nodes);
        self.meta.size = self.meta.size.max(meta.size);
    }
}

/// Finds where the parts of files are, by the names of the files; `cached` tells where what a rank
/// has is.
fn parts_of_wholes(
    entries: &[CatalogEntry],
    cached: &dyn Fn(usize) -> Option<(String, PathBuf)>,
) -> BTreeMap<String, Vec<PartPlace>> {
    let mut parts: BTreeMap<String, Vec<PartPlace>> = BTreeMap::new();
    for CatalogEntry { rank, meta } in entries.iter().filter(|entry| entry.meta.part.is_some()) {
        let place = cached(*rank);
        let part = PartPlace { rank: *rank, name: meta.name.clone(), bytes: meta.size, place };
        parts.entry(meta.whole_name().to_owned()).or_default().push(part);
    }
    parts
}
