//! Files of other nodes' caches, copied to an exchange folder on the prefix; there nodes put their
//! parts of a file together, too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::ask::ask_nodes;
use super::exchange::Exchange;
use super::listing::{FilePlace, Listed, Listing, PartPlace};
use super::on_node::{WANTED, copy_of};
use super::question::Question;
use crate::comm::ranks::ranks_phrase;
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::operations::run::reach::Reach;
use crate::system::space;
use crate::transfer::finish_whole;

/// Where files can be read.
#[derive(Debug)]
pub struct BroughtFiles {
    /// By dataset id and name: the path, or why there is none.
    files: BTreeMap<(u64, String), std::result::Result<PathBuf, String>>,
    exchange: Option<Exchange>,
}

/// Files that nodes are to copy, in the form of [`WANTED`].
#[derive(Default)]
struct WantedFiles {
    list: KvTree,
    count: usize,
    bytes: u64,
    nodes: BTreeSet<String>,
}

/// A file, or a part of one, as the record of its rank has it.
struct WantedFile<'a> {
    rank: Option<usize>,
    name: &'a str,
    bytes: u64,
}

impl WantedFiles {
    /// Adds what a node has of `one` in the directory `dir`.
    fn add(&mut self, one: &Listed, node: &str, dir: &Path, file: &WantedFile<'_>) {
        let entry = self.list.child_mut("NODE").child_mut(node);
        let entry = entry.child_mut(format_args!("{:08}", self.count));
        entry.set_value("DSET", one.id);
        entry.set_value("DIR", dir.display());
        entry.set_value("FILE", file.name);
        if let Some(rank) = file.rank {
            entry.set_value("RANK", rank);
        }
        if file.name != one.meta.name {
            entry.set_value("OF", &one.meta.name);
        }
        self.count += 1;
        self.bytes = self.bytes.saturating_add(file.bytes);
        self.nodes.insert(node.to_owned());
    }
}

impl BroughtFiles {
    /// Makes files readable on this node: those of other nodes' caches are copied to the prefix,
    /// where they stay as long as this value; so are those that are put together from parts.
    pub fn new(reach: &Reach<'_>, listing: &Listing, wanted: &[&Listed]) -> Result<BroughtFiles> {
        let mut brought = BroughtFiles { files: BTreeMap::new(), exchange: None };
        let mut list = WantedFiles::default();
        for one in wanted {
            let path = match &one.place {
                FilePlace::Prefix => Ok(listing.places.prefix.join(&one.meta.name)),
                FilePlace::Node(node, dir) if *node == listing.here => Ok(dir.join(&one.meta.name)),
                FilePlace::Node(node, dir) => {
                    let (rank, bytes) = (one.rank, one.meta.size);
                    list.add(one, node, dir, &WantedFile { rank, name: &one.meta.name, bytes });
                    continue;
                }
                FilePlace::Parts(parts) if one.place.is_there() => {
                    for part in parts {
                        let (rank, name, bytes) = (Some(part.rank), &part.name, part.bytes);
                        let Some((node, dir)) = &part.place else { continue };
                        list.add(one, node, dir, &WantedFile { rank, name, bytes });
                    }
                    continue;
                }
                FilePlace::Parts(parts) => Err(absent_parts(listing, parts)),
                FilePlace::Unfinished(nodes) => Err(format!(
                    "{} are writing it together: it can be had when its dataset is complete",
                    nodes.join(", ")
                )),
                FilePlace::Nowhere => Err(nowhere(listing, "it")),
            };
            brought.files.insert((one.id, one.meta.name.clone()), path);
        }
        if list.count > 0 {
            brought.bring(reach, listing, &list)?;
            brought.finish_wholes(wanted);
        }
        Ok(brought)
    }

    fn bring(&mut self, reach: &Reach<'_>, listing: &Listing, wanted: &WantedFiles) -> Result<()> {
        let prefix = &listing.places.prefix;
        let (need_bytes, free_bytes) = (wanted.bytes, space(prefix)?.free_bytes);
        if free_bytes < need_bytes {
            return Err(Error::NoSpace { path: prefix.clone(), need_bytes, free_bytes });
        }
        let exchange = Exchange::new(prefix)?;
        wanted.list.write_file(exchange.path().join(WANTED))?;
        let question = Question::Bring { folder: exchange.name().to_owned() };
        let nodes: Vec<String> = wanted.nodes.iter().cloned().collect();
        for (node, answer) in
            ask_nodes(reach, &listing.places, &nodes, "copying from the nodes", &question)
        {
            let asked = wanted.list.child("NODE").child(&node);
            for (number, entry) in asked.iter() {
                let (Some(id), Some(name)) = (entry.get_u64("DSET"), entry.get_value("FILE"))
                else {
                    continue;
                };
                let whole = entry.get_value("OF");
                let part = match whole.and(entry.get_value("RANK")) {
                    Some(rank) => format!("the part of rank {rank}: "),
                    None => String::new(),
                };
                let told = match &answer {
                    Ok(failed) => failed.get_value(number).map(str::to_owned),
                    Err(error) => Some(error.to_string()),
                };
                let name = whole.unwrap_or(name);
                let path = match told {
                    None => Ok(copy_of(exchange.path(), id).join(name)),
                    Some(why) => Err(format!("{part}{node}: {why}")),
                };
                // One part that is missing is enough.
                let known = self.files.entry((id, name.to_owned())).or_insert(Ok(PathBuf::new()));
                if known.is_ok() {
                    *known = path;
                }
            }
        }
        self.exchange = Some(exchange);
        Ok(())
    }

    /// Gives files that are put together mode and times.
    fn finish_wholes(&mut self, wanted: &[&Listed]) {
        for one in wanted.iter().filter(|one| matches!(one.place, FilePlace::Parts(_))) {
            let Some(path) = self.files.get_mut(&(one.id, one.meta.name.clone())) else { continue };
            let failed = path.as_ref().ok().and_then(|path| finish_whole(path, &one.meta).err());
            if let Some(error) = failed {
                *path = Err(error.to_string());
            }
        }
    }

    /// Returns where a file can be read.
    pub fn path(&self, one: &Listed) -> Result<&Path> {
        match self.files.get(&(one.id, one.meta.name.clone())) {
            Some(Ok(path)) => Ok(path),
            Some(Err(why)) => Err(Error::Remote(format!("{}: {why}", one.meta.name))),
            None => Err(Error::Missing(format!("{}: nobody has asked for it", one.meta.name))),
        }
    }
}

fn absent_parts(listing: &Listing, parts: &[PartPlace]) -> String {
    let absent = || parts.iter().filter(|part| part.place.is_none());
    let ranks: Vec<usize> = absent().map(|part| part.rank).collect();
    let bytes = absent().fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
    let what = format!("the part of {} ({bytes} bytes)", ranks_phrase(&ranks));
    nowhere(listing, &what)
}

fn nowhere(listing: &Listing, what: &str) -> String {
    let silent: Vec<&str> = listing.silent.iter().map(|(node, _)| &**node).collect();
    let who = match silent.is_empty() {
        true => format!("no node has {what} any more"),
        false => format!("no node that answers has {what} (not asked: {})", silent.join(", ")),
    };
    format!("{who}; scr scavenge rebuilds what its redundancy can")
}
