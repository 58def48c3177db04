//! What a node's cache holds, and what of it is not as its records say, found out on that node by a
//! process that is none of the run's ranks. Nothing is changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::cache::node::disk::{describe, files_below, is_there};
use crate::cache::node::layout::Layout;
use crate::cache::node::names::{LAUNCH, OWN_FOLDER};
use crate::cache::node::owner::identity_in;
use crate::cache::node::scatter::read_filemaps;
use crate::cache::node::store::Held;
use crate::cache::restart::claims::claim_of;
use crate::cache::restart::decide::Claim;
use crate::cache::sealing::catalog::Catalog;
use crate::cache::sealing::own_part::protection_of;
use crate::error::{Result, again};
use crate::kvtree::KvTree;
use crate::progress::{self, Total};
use crate::records::{DatasetRecord, FileContent, FileMeta, files_from_list, files_to_list};
use crate::system::{Lanes, in_lanes};

const LANES: usize = 8;

/// How closely a node is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Only whether files are there is looked at.
    Records,
    /// Sizes of files count.
    Sizes,
    /// Checksums count, too.
    Contents,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    /// It is not there.
    Missing,
    /// It has this size, in bytes.
    Size(u64),
    /// It has another checksum.
    Content,
    /// The system says why it does not read it.
    Unreadable(String),
}

/// A file that is not as its record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Its name in the dataset's directory; that of a program's file is the one below the prefix.
    pub name: String,
    /// It is a redundancy file.
    pub redundancy: bool,
    /// It is the rank's part of a file that several have written.
    pub part: bool,
    /// Its size when it was sealed, or the least that a file has which others write, too.
    pub bytes: u64,
    /// What is wrong.
    pub damage: Damage,
}

/// One rank's part of a dataset on a node.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldPart {
    /// Its holder is a number that the asker gives.
    pub claim: Claim,
    pub dir: PathBuf,
    /// Files that are the rank's alone.
    pub files: u64,
    /// Names of files that it has parts of.
    pub wholes: BTreeSet<String>,
    pub bytes: u64,
    pub faults: Vec<Fault>,
    /// Files of a dataset that is not sealed: those of all ranks of the node that share its
    /// directory, with the first of them.
    pub unsealed: Vec<FileMeta>,
}

/// What a node has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeState {
    /// Of the launch that left it; empty if nothing tells.
    pub identity: String,
    pub(crate) parts: Vec<HeldPart>,
    /// A sentence for each record that cannot be read.
    pub damaged: Vec<String>,
    /// Why datasets are left out that were made for another prefix.
    pub strange: Option<String>,
}

impl NodeState {
    /// Looks at the node of `layout`, or at dataset `id` alone; with `unsealed` lists the files of
    /// datasets that are being written, too.
    pub fn look(layout: &Layout, depth: Depth, id: Option<u64>, unsealed: bool) -> Result<Self> {
        let mut state = NodeState::default();
        if !layout.control_dir.is_dir() {
            return Ok(state);
        }
        let launch = KvTree::read_file(layout.control_dir.join(LAUNCH));
        match launch {
            Ok(tree) => {
                let tree = tree.unwrap_or_default();
                state.identity = identity_in(&tree).unwrap_or_default().to_owned();
            }
            Err(error) => state.damaged.push(error.to_string()),
        }
        let read = read_filemaps(&layout.control_dir)?;
        let sentence = |path: &PathBuf| {
            format!("{} is damaged: nothing tells whose files it named", path.display())
        };
        state.damaged.extend(read.damaged.iter().map(sentence));
        let wanted = |(_, record): &Held| id.is_none_or(|id| id == record.dataset_id);
        let (held, strange): (Vec<Held>, Vec<Held>) =
            read.held.into_iter().filter(wanted).partition(|(_, record)| layout.owner.owns(record));
        state.strange = strange.last().map(|(_, record)| {
            let name = record.key.name();
            format!("{name} was made for the directory that was there before")
        });
        let works: Vec<FilesToLookAt> =
            held.iter().map(|one| FilesToLookAt::of(layout, one, depth)).collect();
        let bytes = works.iter().flat_map(|one| &one.files).map(|(file, _)| file.size);
        let bytes = bytes.fold(0, u64::saturating_add);
        let total = (depth == Depth::Contents).then_some(bytes);
        let step = progress::step("comparing checksums", Total::Bytes(total));
        let look = |at: usize| works[at].faults(depth);
        let mut found = in_lanes(Lanes::of(LANES), works.len(), &look);
        drop(step);
        forget_changed(layout, &held, &mut found)?;
        let mut listed = BTreeSet::new();
        for ((one, work), faults) in held.iter().zip(works).zip(found) {
            state.parts.push(part_of(layout, one, work, faults));
            let part = state.parts.last_mut().filter(|part| unsealed && !part.claim.prepared);
            if let Some(part) = part.filter(|part| listed.insert(part.dir.clone())) {
                part.unsealed = list_unsealed(&part.dir)?;
            }
        }
        state.look_at_catalogs();
        Ok(state)
    }

    /// A dataset's directory has the list of its files.
    fn look_at_catalogs(&mut self) {
        let sealed = self.parts.iter().filter(|part| part.claim.prepared && part.claim.present);
        let dirs: BTreeSet<&PathBuf> = sealed.map(|part| &part.dir).collect();
        for dir in dirs {
            match Catalog::read(dir) {
                Ok(Some(_)) => {}
                Ok(None) if !is_there(dir) => {}
                Ok(None) => {
                    self.damaged.push(format!("{} is missing", Catalog::path(dir).display()));
                }
                Err(error) => self.damaged.push(error.to_string()),
            }
        }
    }

    /// Makes the tree in which the node's state travels.
    pub fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("IDENTITY", &self.identity);
        if let Some(strange) = &self.strange {
            tree.set_value("STRANGE", strange);
        }
        for (number, what) in self.damaged.iter().enumerate() {
            tree.child_mut("DAMAGED").set_value(number, what);
        }
        for (number, part) in self.parts.iter().enumerate() {
            tree.child_mut("PART").set(format_args!("{number:08}"), part.to_tree());
        }
        tree
    }

    /// Returns `None` if a field is missing or malformed.
    pub fn from_tree(tree: &KvTree) -> Option<Self> {
        let damaged = tree.child("DAMAGED");
        let text = |key: &str| damaged.get_value(key).map(str::to_owned);
        let parts = tree.child("PART").iter().map(|(_, part)| HeldPart::from_tree(part));
        Some(NodeState {
            identity: tree.get_value("IDENTITY")?.to_owned(),
            damaged: damaged.keys().map(text).collect::<Option<_>>()?,
            parts: parts.collect::<Option<_>>()?,
            strange: tree.get_value("STRANGE").map(str::to_owned),
        })
    }
}

struct FilesToLookAt {
    dir: PathBuf,
    files: Vec<(FileMeta, bool)>,
}

impl FilesToLookAt {
    fn of(layout: &Layout, (_, record): &Held, depth: Depth) -> FilesToLookAt {
        let dir = layout.data_dir(record);
        let mut files = Vec::new();
        // Where another encoding is under way, files are in two places: the next start judges.
        let settled = record.descriptor.get("BEFORE").is_none();
        if depth != Depth::Records && is_sealed(record) {
            let own = record.files.iter().filter(|file| !file.on_prefix);
            files.extend(own.map(|file| (file.clone(), false)));
            let protection = protection_of(record).into_iter().filter(|_| settled);
            files.extend(protection.map(|file| (file, true)));
        }
        FilesToLookAt { dir, files }
    }

    fn faults(&self, depth: Depth) -> Vec<Fault> {
        let fault = |(file, redundancy): &(FileMeta, bool)| {
            let damage = damage_of(&self.dir, file, depth == Depth::Contents)?;
            let live = file.part.as_ref().filter(|part| part.live);
            let bytes = match (live, &damage) {
                (Some(part), Damage::Size(_)) => part.extents.end(),
                _ => file.size,
            };
            let (redundancy, part) = (*redundancy, !*redundancy && file.part.is_some());
            let name = if part { file.whole_name() } else { &file.name }.to_owned();
            Some(Fault { name, redundancy, part, bytes, damage })
        };
        self.files.iter().filter_map(fault).collect()
    }
}

fn is_sealed(record: &DatasetRecord) -> bool {
    Claim::new(0, 0, record).prepared
}

/// Returns what is wrong with a file of `dir`; with `content` its checksum counts.
pub(super) fn damage_of(dir: &Path, meta: &FileMeta, content: bool) -> Option<Damage> {
    let unreadable = |error: &dyn std::fmt::Display| Damage::Unreadable(error.to_string());
    let there = match FileContent::of(dir, meta) {
        Ok(there) => there,
        Err(error) => return Some(unreadable(&error)),
    };
    match std::fs::symlink_metadata(there.path()) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some(Damage::Missing),
        Err(error) => return Some(unreadable(&error)),
        Ok(found) if !found.is_file() => return Some(Damage::Missing),
        Ok(found) if !there.fits(found.len()) => return Some(Damage::Size(found.len())),
        Ok(_) => {}
    }
    let expected = meta.crc32.filter(|_| content)?;
    match again(|| there.crc32()) {
        Ok(found) if found == expected => None,
        Ok(_) => Some(Damage::Content),
        Err(error) => Some(unreadable(&error)),
    }
}

/// A run may evict or amend what is being looked at: what has another record by now says nothing.
fn forget_changed(layout: &Layout, held: &[Held], found: &mut [Vec<Fault>]) -> Result<()> {
    if found.iter().all(Vec::is_empty) {
        return Ok(());
    }
    let now = read_filemaps(&layout.control_dir)?.held;
    for (one, faults) in held.iter().zip(found) {
        if !now.contains(one) {
            faults.clear();
        }
    }
    Ok(())
}

/// The claim is made last: a directory that has gone meanwhile is not there.
fn part_of(layout: &Layout, held: &Held, work: FilesToLookAt, faults: Vec<Fault>) -> HeldPart {
    let mut claim = claim_of(layout, 0, held);
    claim.intact &= faults.iter().all(|fault| fault.redundancy);
    if faults.iter().any(|fault| fault.redundancy) {
        claim.encodings.iter_mut().take(1).for_each(|one| one.protected = false);
    }
    let bytes = work.files.iter().fold(0, |sum: u64, (file, _)| sum.saturating_add(file.size));
    let is_part = |(file, redundancy): &&(FileMeta, bool)| !redundancy && file.part.is_some();
    let wholes = work.files.iter().filter(is_part).map(|(file, _)| file.whole_name().to_owned());
    let wholes: BTreeSet<String> = wholes.collect();
    let (dir, files) = (work.dir, (work.files.len() - wholes.len()) as u64);
    HeldPart { claim, dir, files, wholes, bytes, faults, unsealed: Vec::new() }
}

pub(crate) fn unsealed_dirs(layout: &Layout) -> Result<BTreeSet<PathBuf>> {
    let held = read_filemaps(&layout.control_dir)?.held;
    let open = held.iter().filter(|(_, record)| !is_sealed(record));
    Ok(open.map(|(_, record)| layout.data_dir(record)).collect())
}

fn list_unsealed(dir: &Path) -> Result<Vec<FileMeta>> {
    let names = files_below(dir)?.into_iter().filter(|name| !name.starts_with(OWN_FOLDER));
    // Gone since the listing, or no text.
    let meta = |name: PathBuf| describe(&dir.join(&name), name.to_str()?).ok();
    Ok(names.filter_map(meta).collect())
}

impl HeldPart {
    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set("CLAIM", self.claim.to_tree());
        tree.set_value("DIR", self.dir.display());
        tree.set_value("FILES", self.files);
        tree.set_value("BYTES", self.bytes);
        self.wholes.iter().for_each(|name| tree.child_mut("WHOLES").set_flag(name, true));
        for (number, fault) in self.faults.iter().enumerate() {
            tree.child_mut("FAULT").set(format_args!("{number:08}"), fault.to_tree());
        }
        if !self.unsealed.is_empty() {
            tree.set("UNSEALED", files_to_list(&self.unsealed));
        }
        tree
    }

    fn from_tree(tree: &KvTree) -> Option<Self> {
        let faults = tree.child("FAULT").iter().map(|(_, fault)| Fault::from_tree(fault));
        Some(HeldPart {
            claim: Claim::from_tree(tree.get("CLAIM")?)?,
            dir: tree.get_value("DIR")?.into(),
            files: tree.get_u64("FILES")?,
            bytes: tree.get_u64("BYTES")?,
            wholes: tree.child("WHOLES").keys().map(str::to_owned).collect(),
            faults: faults.collect::<Option<_>>()?,
            unsealed: files_from_list(tree.child("UNSEALED"))?,
        })
    }
}

impl Fault {
    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("FILE", &self.name);
        tree.set_flag("REDUNDANCY", self.redundancy);
        tree.set_flag("PART", self.part);
        tree.set_value("SIZE", self.bytes);
        match &self.damage {
            Damage::Missing => tree.set_flag("MISSING", true),
            Damage::Size(found) => tree.set_value("FOUND", found),
            Damage::Content => tree.set_flag("CONTENT", true),
            Damage::Unreadable(why) => tree.set_value("WHY", why),
        }
        tree
    }

    fn from_tree(tree: &KvTree) -> Option<Self> {
        let damage = match (tree.get_value("FOUND"), tree.get_value("WHY")) {
            (Some(found), _) => Damage::Size(found.parse().ok()?),
            (_, Some(why)) => Damage::Unreadable(why.to_owned()),
            _ if tree.get_flag("MISSING") => Damage::Missing,
            _ if tree.get_flag("CONTENT") => Damage::Content,
            _ => return None,
        };
        Some(Fault {
            name: tree.get_value("FILE")?.to_owned(),
            redundancy: tree.get_flag("REDUNDANCY"),
            part: tree.get_flag("PART"),
            bytes: tree.get_u64("SIZE")?,
            damage,
        })
    }

    /// Says what is wrong, without the name: "ends after 10 of 20 bytes".
    pub fn sentence(&self) -> String {
        let bytes = self.bytes;
        match &self.damage {
            Damage::Missing => format!("is missing ({bytes} bytes)"),
            Damage::Size(found) if *found < bytes => {
                format!("ends after {found} of {bytes} bytes")
            }
            Damage::Size(found) => format!("has {found} bytes instead of {bytes}"),
            Damage::Content => {
                format!("has another checksum than when it was sealed ({bytes} bytes)")
            }
            Damage::Unreadable(why) => format!("cannot be read: {why}"),
        }
    }
}
