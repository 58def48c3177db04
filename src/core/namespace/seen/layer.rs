//! A cached dataset as the name space has it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use scr_abi::wire::FileStat;

use crate::bytes::stable_number;
use crate::cache::{CatalogEntry, NodeCatalog};
use crate::machine::{DatasetKey, FileRef};
use crate::records::FileMeta;

/// A file on another node, as the catalog of its dataset tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remote {
    pub owner: usize,
    pub meta: FileMeta,
}

impl Remote {
    pub fn attributes(&self) -> FileStat {
        FileStat {
            size: self.meta.size,
            mode: libc::S_IFREG | (self.meta.mode & 0o7777),
            ino: stable_number(&self.meta.name),
            seconds: self.meta.mtime_seconds,
            nanoseconds: self.meta.mtime_nanoseconds,
        }
    }
}

/// What is known of a file besides what lies on this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownName {
    /// Another node has it in its cache; the PFS may have it, too.
    pub remote: Option<Remote>,
    /// The PFS has its current content, although an older layer may have the file.
    pub on_prefix: bool,
}

/// By which one content of a file is told from another: length in bytes, and time.
type Looks = (u64, i64, i64);

/// A cached dataset.
#[derive(Debug, Clone)]
pub struct Layer {
    pub key: DatasetKey,
    /// On this node; its name changes at the seal.
    pub dir: PathBuf,
    /// It failed verification, or is newer than what the user chose: nothing of it is shown.
    pub hidden: bool,
    catalog: Option<NodeCatalog>,
    remote: BTreeMap<String, Option<Remote>>,
    on_prefix: BTreeMap<String, bool>,
    /// Files of which each node has a part, as this rank has found them on the PFS. Their parts
    /// stay in the dataset, which may be sealed anew.
    come: BTreeMap<String, Looks>,
    /// The lowest rank of this node that has opened each file for writing; until the seal.
    makers: BTreeMap<String, usize>,
    /// Files that other ranks of this node make anew: their open may be still under way.
    coming: BTreeSet<String>,
}

impl Layer {
    pub fn new(key: DatasetKey, dir: PathBuf) -> Self {
        let (remote, on_prefix, come, makers, coming) = Default::default();
        Layer { key, dir, hidden: false, catalog: None, remote, on_prefix, come, makers, coming }
    }

    pub fn show(&mut self, catalog: NodeCatalog) {
        self.catalog = Some(catalog);
        self.remote.clear();
        self.makers.clear();
        self.on_prefix.retain(|_, on_prefix| *on_prefix);
    }

    pub fn catalog(&self) -> Option<&NodeCatalog> {
        self.catalog.as_ref()
    }

    pub fn names_here(&self) -> BTreeSet<String> {
        let mut here = BTreeSet::new();
        files_below(&self.dir, ".", &mut here);
        here.iter().filter_map(|name| name.strip_prefix("./")).map(String::from).collect()
    }

    /// Tells whether its catalog lacks the file.
    pub fn lacks(&self, name: &str) -> bool {
        self.catalog.as_ref().is_some_and(|all| all.named(name).is_empty())
    }

    /// Tells without a look at the file system whether it may have the file. A checkpoint has none
    /// of another one of its series; what is sealed has none of others that its catalog lacks.
    pub(super) fn may_have(&self, file: &FileRef) -> bool {
        let (name, is_near) = (&file.name, self.key.series == file.series);
        let is_told = || self.remote.contains_key(name) || self.on_prefix.contains_key(name);
        match &file.id {
            None => true,
            Some(id) if is_near && *id == self.key.id => true,
            _ if self.catalog.is_some() => !self.lacks(name) || is_told(),
            _ => !is_near || self.key.id.is_empty() || is_told(),
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.is_elsewhere(name) || self.dir.join(name).symlink_metadata().is_ok()
    }

    /// Tells whether it has the content, or knows that it is on the PFS.
    pub fn knows(&self, name: &str) -> bool {
        let known = self.known(name);
        let is_told = known.on_prefix || known.remote.is_some() || self.coming.contains(name);
        is_told || self.dir.join(name).symlink_metadata().is_ok()
    }

    /// Returns where its file of that name is on this node, or is about to be.
    pub fn here(&self, name: &str) -> Option<PathBuf> {
        let here = self.dir.join(name);
        let is_file = || here.symlink_metadata().is_ok_and(|found| !found.is_dir());
        (self.coming.contains(name) || is_file()).then_some(here)
    }

    pub fn is_elsewhere(&self, name: &str) -> bool {
        self.known(name).remote.is_some()
    }

    /// Tells whether each of several nodes has a part of it.
    pub fn is_parted(&self, name: &str) -> bool {
        self.known(name).remote.is_some_and(|remote| remote.meta.is_shared)
    }

    /// Tells whether another node has it, or this one a copy of what that has.
    pub fn comes_from_elsewhere(&self, name: &str) -> bool {
        let is_copy = || self.remote.get(name) == Some(&None) && !self.on_prefix.contains_key(name);
        self.is_elsewhere(name) || is_copy()
    }

    pub fn is_on_prefix(&self, name: &str) -> bool {
        self.known(name).on_prefix
    }

    /// Notes that this rank has found the file with this content on the PFS.
    pub fn note_come(&mut self, content: &FileMeta) {
        match content.is_shared {
            true => drop(self.come.insert(content.name.clone(), looks_of(content))),
            false => self.set_on_prefix(&content.name, true),
        }
    }

    /// Tells whether it is there, or was: it may have been changed since.
    pub fn has_come(&self, content: &FileMeta) -> bool {
        self.come.get(&content.name) == Some(&looks_of(content))
    }

    pub fn known(&self, name: &str) -> KnownName {
        let (remote, on_prefix) = (self.remote.get(name), self.on_prefix.get(name));
        let mut known = KnownName::default();
        if let Some(catalog) = &self.catalog
            && (remote.is_none() || on_prefix.is_none())
        {
            catalog.named(name).into_iter().for_each(|entry| known.add(catalog, entry));
        }
        KnownName {
            remote: remote.map_or(known.remote, Clone::clone),
            on_prefix: on_prefix.copied().unwrap_or(known.on_prefix),
        }
    }

    pub fn known_below(&self, dir: &str) -> BTreeMap<String, KnownName> {
        let mut all: BTreeMap<String, KnownName> = BTreeMap::new();
        if let Some(catalog) = &self.catalog {
            for entry in catalog.below(dir) {
                all.entry(entry.meta.name.clone()).or_default().add(catalog, entry);
            }
        }
        for (name, remote) in self.remote.iter().filter(|(name, _)| is_below(dir, name)) {
            all.entry(name.clone()).or_default().remote.clone_from(remote);
        }
        for (name, on_prefix) in self.on_prefix.iter().filter(|(name, _)| is_below(dir, name)) {
            all.entry(name.clone()).or_default().on_prefix = *on_prefix;
        }
        all
    }

    /// Notes that `rank` of this node has opened the file for writing.
    pub fn note_maker(&mut self, name: &str, rank: usize) {
        let maker = self.makers.entry(name.to_string()).or_insert(rank);
        *maker = rank.min(*maker);
    }

    /// Notes that another rank of this node makes a file that was deleted. Until its open is over,
    /// what the PFS has under the name is older.
    pub fn note_coming(&mut self, name: &str) {
        self.coming.insert(name.to_string());
    }

    /// Notes that no open of another rank is under way.
    pub fn forget_coming(&mut self) {
        self.coming.clear();
    }

    /// Notes that the file is gone.
    pub fn forget_maker(&mut self, name: &str) {
        self.makers.remove(name);
        self.coming.remove(name);
    }

    /// Returns the lowest of the other ranks of this node that have opened it for writing.
    pub fn maker(&self, name: &str) -> Option<usize> {
        self.makers.get(name).copied()
    }

    /// Notes that another node has the file.
    pub fn put_elsewhere(&mut self, remote: Remote) {
        self.remote.insert(remote.meta.name.clone(), Some(remote));
    }

    /// Notes that each of several nodes has a part of the file, unless that is known.
    pub fn put_parted(&mut self, name: &str, owner: usize, mode: u32) {
        let known = self.known(name);
        if known.on_prefix || known.remote.is_some_and(|remote| remote.meta.is_shared) {
            return;
        }
        let name = name.to_owned();
        let meta = FileMeta { name, mode, is_shared: true, ..FileMeta::default() };
        self.put_elsewhere(Remote { owner, meta });
    }

    pub fn drop_elsewhere(&mut self, name: &str) {
        self.remote.insert(name.to_string(), None);
    }

    pub fn set_on_prefix(&mut self, name: &str, on_prefix: bool) {
        self.on_prefix.insert(name.to_string(), on_prefix);
    }

    /// Lets `change` alter all that is known, file by file.
    pub fn change(&mut self, mut change: impl FnMut(String, KnownName) -> (String, KnownName)) {
        let all = self.known_below("");
        (self.catalog, self.remote, self.on_prefix) = Default::default();
        for (name, known) in all {
            let (name, known) = change(name, known);
            self.on_prefix.extend(known.on_prefix.then(|| (name.clone(), true)));
            self.remote.extend(known.remote.map(|remote| (name, Some(remote))));
        }
    }
}

impl KnownName {
    fn add(&mut self, catalog: &NodeCatalog, entry: CatalogEntry) {
        match entry.meta.on_prefix {
            true => self.on_prefix = true,
            false if catalog.is_near(entry.rank) && !entry.meta.is_shared => {}
            false => self.remote = Some(Remote { owner: entry.rank, meta: entry.meta }),
        }
    }
}

fn looks_of(content: &FileMeta) -> Looks {
    (content.size, content.mtime_seconds, content.mtime_nanoseconds)
}

fn is_below(dir: &str, name: &str) -> bool {
    dir.is_empty() || name.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
}

pub(super) fn files_below(top: &Path, dir: &str, names: &mut BTreeSet<String>) {
    let Ok(entries) = top.join(dir).read_dir() else { return };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let name = format!("{dir}/{name}");
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_below(top, &name, names),
            _ => drop(names.insert(name)),
        }
    }
}
