//! Directories of nodes as a person has copied them: whole caches, or directories of datasets
//! alone, at any depth. Each node becomes a folder in the form of `scr copy`, by links where
//! possible: nothing in the copies is changed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::redundancy_files::is_redundancy_name;
use super::traces::records_in;
use crate::cache::node::address::keep_own;
use crate::cache::node::disk::{files_below, make_own_dir, names_in};
use crate::cache::node::layout::store_of;
use crate::cache::node::names::{LAUNCH, OWN_FOLDER, is_filemap_name, sealed_id};
use crate::cache::node::scatter::read_filemaps;
use crate::cache::node::store::{Held, write_records};
use crate::error::{Error, Result};
use crate::files::{CopyOptions, copy_file};
use crate::records::{MASTER_FILEMAP, RecordKey, filemap_name};

/// Nobody has a cache in deeper directories.
const DEPTH_MAX: usize = 16;
/// Number of the filemap of records that were put together; no node has so many ranks.
const MADE: usize = 999_999;

#[derive(Debug, Default)]
pub(crate) struct Found {
    /// A directory that nothing tells the node of is a node of its own.
    pub nodes: Vec<FoundNode>,
    /// Ranks of the run, or 0 if the redundancy files do not tell.
    pub ranks: usize,
    /// A sentence for each dataset that nothing tells of.
    pub unknown: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct FoundNode {
    pub control: Option<PathBuf>,
    made: Vec<Held>,
    datasets: Vec<FoundDataset>,
}

#[derive(Debug)]
struct FoundDataset {
    id: u64,
    store: String,
    dir: PathBuf,
}

impl Found {
    /// Looks below `dirs`, where other prefixes may have something, too.
    pub fn below(dirs: &[PathBuf], prefix: &Path) -> Result<Found> {
        let (mut controls, mut datasets) = (BTreeSet::new(), BTreeSet::new());
        for dir in dirs {
            let dir = fs::canonicalize(dir).map_err(|e| Error::io("cannot find", dir, e))?;
            if !dir.is_dir() {
                return Err(Error::Missing(format!("{} is no directory", dir.display())));
            }
            walk(&dir, DEPTH_MAX, &mut controls, &mut datasets)?;
        }
        keep_own(prefix, &mut [&mut controls, &mut datasets]);
        let mut found = Found::default();
        let node = |control: &PathBuf| FoundNode {
            control: Some(control.clone()),
            ..FoundNode::default()
        };
        found.nodes.extend(controls.iter().map(node));
        for dir in datasets {
            found.add(&controls, dir)?;
        }
        Ok(found)
    }

    pub fn has_identity(&self) -> bool {
        let mut controls = self.nodes.iter().filter_map(|node| node.control.as_ref());
        controls.any(|control| control.join(LAUNCH).exists())
    }

    fn add(&mut self, controls: &BTreeSet<PathBuf>, dir: PathBuf) -> Result<()> {
        let near = nearest(controls, &dir);
        let mut known = Vec::new();
        let mut damaged = false;
        for control in &near {
            let read = read_filemaps(control)?;
            damaged |= !read.damaged.is_empty();
            known.extend(read.held);
        }
        let told = records_in(&dir)?;
        let named = dir.file_name().and_then(|name| sealed_id(&name.to_string_lossy()));
        let Some(id) = told.as_ref().map(|told| told.id).or(named) else {
            self.unknown.push(format!("{}: nothing tells which dataset it is", dir.display()));
            return Ok(());
        };
        known.retain(|(_, record)| record.dataset_id == id);
        let mut made = Vec::new();
        if let Some(told) = told {
            self.ranks = self.ranks.max(told.ranks);
            if known.is_empty() || damaged {
                let is_new = |(rank, _): &Held| known.iter().all(|(owner, _)| owner != rank);
                made.extend(told.held.into_iter().filter(is_new));
            }
        }
        let Some((_, first)) = known.first().or(made.first()) else {
            let dir = dir.display();
            self.unknown.push(format!(
                "{dir}: nothing tells whose files these are; copy the node's control directory \
                 (filemap_*.scrinfo, launch.scr), too"
            ));
            return Ok(());
        };
        let dataset = FoundDataset { id, store: store_of(first).to_owned(), dir };
        let only = (near.len() == 1).then(|| near[0].clone());
        let home = self.nodes.iter_mut().find(|node| {
            only.is_some() && node.control == only && node.datasets.iter().all(|one| one.id != id)
        });
        match home {
            Some(node) => {
                node.made.extend(made);
                node.datasets.push(dataset);
            }
            None => {
                known.extend(made);
                let (control, made) = (None, known);
                self.nodes.push(FoundNode { control, made, datasets: vec![dataset] });
            }
        }
        Ok(())
    }
}

impl FoundNode {
    /// Makes `node` from it; `place` tells where the datasets of a store lie there.
    pub fn stage(&self, node: &Path, place: &dyn Fn(&str) -> PathBuf) -> Result<()> {
        let control = node.join("control");
        make_own_dir(&control)?;
        if let Some(from) = &self.control {
            let wanted = |name: &String| is_filemap_name(name) || name == LAUNCH;
            for name in names_in(from)?.iter().filter(|name| wanted(name)) {
                if name != MASTER_FILEMAP {
                    link(&from.join(name), &control.join(name))?;
                }
            }
        }
        if !self.made.is_empty() {
            write_records(&control.join(filemap_name(MADE)), &self.made)?;
        }
        for one in &self.datasets {
            let to = place(&one.store).join(format!("scr.dataset.{}", one.id));
            make_own_dir(&to)?;
            for name in files_below(&one.dir)? {
                let to = to.join(&name);
                make_own_dir(to.parent().unwrap_or(node))?;
                link(&one.dir.join(&name), &to)?;
            }
        }
        Ok(())
    }
}

/// Gives the file at `from` the name `to`, too; copies it if that is on another file system.
pub(super) fn link(from: &Path, to: &Path) -> Result<()> {
    if fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    let options = CopyOptions { crc32: false, sync: false, ..CopyOptions::default() };
    copy_file(from, to, options).map(|_| ())
}

fn walk(
    dir: &Path,
    depth: usize,
    controls: &mut BTreeSet<PathBuf>,
    datasets: &mut BTreeSet<PathBuf>,
) -> Result<()> {
    if is_dataset(dir)? {
        datasets.insert(dir.to_path_buf());
        return Ok(());
    }
    let names = names_in(dir)?;
    if names.iter().any(|name| is_filemap_name(name)) {
        controls.insert(dir.to_path_buf());
    }
    // Links are not followed, and what is ours below a prefix is no copy of a node.
    let is_folder = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir());
    let folders = names.iter().filter(|name| *name != OWN_FOLDER).map(|name| dir.join(name));
    for folder in folders.filter(|path| depth > 0 && is_folder(path)) {
        walk(&folder, depth - 1, controls, datasets)?;
    }
    Ok(())
}

/// Tells whether `dir` has the program's files of a dataset: one that is being written has another
/// name, and the records of one on a prefix have a summary.
fn is_dataset(dir: &Path) -> Result<bool> {
    let name = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if RecordKey::is_directory_name(&name) || dir.join("summary.scr").exists() {
        return Ok(false);
    }
    let own = dir.join(OWN_FOLDER);
    let is_sign = |name: &String| name == "catalog.scr" || is_redundancy_name(name);
    Ok(own.is_dir() && names_in(&own)?.iter().any(is_sign))
}

fn nearest(controls: &BTreeSet<PathBuf>, dir: &Path) -> Vec<PathBuf> {
    let common = |control: &Path| {
        control.components().zip(dir.components()).take_while(|(a, b)| a == b).count()
    };
    let most = controls.iter().map(|control| common(control)).max().unwrap_or(0);
    controls.iter().filter(|control| common(control) == most).cloned().collect()
}
