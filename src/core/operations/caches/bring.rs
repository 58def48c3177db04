//! Files of other nodes' caches, copied to an exchange folder on the prefix.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::ask::ask_nodes;
use super::exchange::Exchange;
use super::listing::{FilePlace, Listed, Listing};
use super::on_node::{WANTED, copy_of};
use super::question::Question;
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::operations::run::reach::Reach;
use crate::system::space;

/// Where files can be read.
#[derive(Debug)]
pub struct BroughtFiles {
    /// By dataset id and name: the path, or why there is none.
    files: BTreeMap<(u64, String), std::result::Result<PathBuf, String>>,
    exchange: Option<Exchange>,
}

impl BroughtFiles {
    /// Makes files readable on this node: those of other nodes' caches are copied to the prefix,
    /// where they stay as long as this value.
    pub fn new(reach: &Reach<'_>, listing: &Listing, wanted: &[&Listed]) -> Result<BroughtFiles> {
        let mut brought = BroughtFiles { files: BTreeMap::new(), exchange: None };
        let mut list = KvTree::new();
        let (mut nodes, mut bytes) = (BTreeSet::new(), 0_u64);
        for (number, one) in wanted.iter().enumerate() {
            let key = (one.id, one.meta.name.clone());
            let path = match &one.place {
                FilePlace::Prefix => Ok(listing.places.prefix.join(&one.meta.name)),
                FilePlace::Node(node, dir) if *node == listing.here => Ok(dir.join(&one.meta.name)),
                FilePlace::Nowhere => Err(nowhere(listing)),
                FilePlace::Node(node, dir) => {
                    let entry = list.child_mut("NODE").child_mut(node);
                    let entry = entry.child_mut(format_args!("{number:08}"));
                    entry.set_value("DSET", one.id);
                    entry.set_value("DIR", dir.display());
                    entry.set_value("FILE", &one.meta.name);
                    if let Some(rank) = one.rank {
                        entry.set_value("RANK", rank);
                    }
                    nodes.insert(node.clone());
                    bytes = bytes.saturating_add(one.meta.size);
                    Err(format!("{node} has not brought it"))
                }
            };
            brought.files.insert(key, path);
        }
        if !nodes.is_empty() {
            brought.bring(reach, listing, &list, bytes, &nodes)?;
        }
        Ok(brought)
    }

    fn bring(
        &mut self,
        reach: &Reach<'_>,
        listing: &Listing,
        list: &KvTree,
        bytes: u64,
        nodes: &BTreeSet<String>,
    ) -> Result<()> {
        let prefix = &listing.places.prefix;
        let free = space(prefix)?.free_bytes;
        if free < bytes {
            let path = prefix.clone();
            return Err(Error::NoSpace { path, need_bytes: bytes, free_bytes: free });
        }
        let exchange = Exchange::new(prefix)?;
        list.write_file(exchange.path().join(WANTED))?;
        let question = Question::Bring { folder: exchange.name().to_owned() };
        let nodes: Vec<String> = nodes.iter().cloned().collect();
        for (node, answer) in
            ask_nodes(reach, &listing.places, &nodes, "copying from the nodes", &question)
        {
            let asked = list.child("NODE").child(&node);
            for (number, entry) in asked.iter() {
                let (Some(id), Some(name)) = (entry.get_u64("DSET"), entry.get_value("FILE"))
                else {
                    continue;
                };
                let told = match &answer {
                    Ok(failed) => failed.get_value(number).map(str::to_owned),
                    Err(error) => Some(error.to_string()),
                };
                let path = match told {
                    None => Ok(copy_of(exchange.path(), id).join(name)),
                    Some(why) => Err(format!("{node}: {why}")),
                };
                self.files.insert((id, name.to_owned()), path);
            }
        }
        self.exchange = Some(exchange);
        Ok(())
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

fn nowhere(listing: &Listing) -> String {
    let silent: Vec<&str> = listing.silent.iter().map(|(node, _)| &**node).collect();
    let who = match silent.is_empty() {
        true => "no node has it any more".to_owned(),
        false => format!("no node that answers has it (not asked: {})", silent.join(", ")),
    };
    format!("{who}; scr scavenge rebuilds what its redundancy can")
}
