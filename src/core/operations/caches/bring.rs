//! Files of other nodes' caches, brought to an exchange folder on the prefix and compared with
//! their checksums on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::ask_nodes;
use super::exchange::Exchange;
use super::listing::{Listed, Listing, Place};
use super::question::Question;
use crate::cache::{Layout, parts_of, unsealed_dirs};
use crate::error::{Error, Result};
use crate::files::{CopyOptions, copy_file, create_dirs, join_relative};
use crate::kvtree::KvTree;
use crate::launch::JobPlaces;
use crate::operations::reach::Reach;
use crate::records::FileMeta;
use crate::system::space;

/// The list of wanted files in the folder: `NODE / <node> / <number> / DSET, RANK, DIR, FILE`.
const WANTED: &str = "wanted.scr";

/// Where files can be read now.
#[derive(Debug)]
pub struct Brought {
    /// By dataset id and name the path, or why there is none.
    files: BTreeMap<(u64, String), std::result::Result<PathBuf, String>>,
    /// What the copies are in, if there are any.
    exchange: Option<Exchange>,
}

impl Brought {
    /// Makes files readable on this node: those of other nodes' caches are copied to the prefix, as
    /// long as this is there.
    ///
    /// # Errors
    /// The prefix has no room for them, or cannot be written to.
    pub fn new(reach: &Reach<'_>, listing: &Listing, wanted: &[&Listed]) -> Result<Brought> {
        let mut brought = Brought { files: BTreeMap::new(), exchange: None };
        let mut list = KvTree::new();
        let (mut nodes, mut bytes) = (BTreeSet::new(), 0_u64);
        for (number, one) in wanted.iter().enumerate() {
            let key = (one.id, one.meta.name.clone());
            let path = match &one.place {
                Place::Prefix => Ok(listing.places.prefix.join(&one.meta.name)),
                Place::Node(node, dir) if *node == listing.here => Ok(dir.join(&one.meta.name)),
                Place::Nowhere => Err(nowhere(listing)),
                Place::Node(node, dir) => {
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
        let about = ("copying from the nodes", &question);
        for (node, answer) in ask_nodes(reach, &listing.places, &nodes, about) {
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
    ///
    /// # Errors
    /// Why it cannot.
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

/// Where the copies of a dataset's files are.
fn copy_of(folder: &Path, id: u64) -> PathBuf {
    folder.join("files").join(id.to_string())
}

/// Does a node's part of it: gives the numbers of files that it could not copy, and why.
pub(super) fn on_node(places: &JobPlaces, folder: &Path, node: &str) -> Result<KvTree> {
    let path = folder.join(WANTED);
    let list = KvTree::read_file(&path)?;
    let list = list.ok_or_else(|| Error::Missing(format!("{} is not there", path.display())))?;
    let mut failed = KvTree::new();
    for (number, entry) in list.child("NODE").child(node).iter() {
        if let Err(error) = copy_one(&places.layout, folder, entry) {
            failed.set_value(number, error);
        }
    }
    Ok(failed)
}

fn copy_one(layout: &Layout, folder: &Path, entry: &KvTree) -> Result<()> {
    let asked = || {
        let (id, dir) = (entry.get_u64("DSET")?, entry.get_value("DIR")?);
        Some((id, Path::new(dir), entry.get_value("FILE")?))
    };
    let unknown = || Error::Unreadable("the list of wanted files is of another version".into());
    let (id, dir, name) = asked().ok_or_else(unknown)?;
    let gone = || Error::Missing("it has left the cache meanwhile".into());
    let (dir, meta) = match entry.parse::<usize>("RANK") {
        Some(rank) => {
            let mut parts = parts_of(layout, id)?.into_iter();
            let part = parts.find(|((owner, _), _)| *owner == rank).ok_or_else(gone)?;
            let ((_, record), dir) = part;
            let meta = record.files.into_iter().find(|file| file.name == name);
            (dir, Some(meta.ok_or_else(gone)?))
        }
        None => {
            let dirs = unsealed_dirs(layout)?;
            (dirs.into_iter().find(|one| one == dir).ok_or_else(gone)?, None)
        }
    };
    let to = join_relative(&copy_of(folder, id), name)?;
    create_dirs(to.parent().unwrap_or(folder), 0o700)?;
    let from = join_relative(&dir, name)?;
    let options = CopyOptions { crc32: true, sync: true, ..CopyOptions::default() };
    let copied = copy_file(&from, &to, options)?;
    match meta {
        Some(FileMeta { size, crc32, .. })
            if copied.bytes != size || (crc32.is_some() && copied.crc32 != crc32) =>
        {
            // Nobody is to take it for the file.
            let _ = std::fs::remove_file(&to);
            Err(Error::corrupt(from, "it is not what was sealed; see scr verify"))
        }
        _ => Ok(()),
    }
}
