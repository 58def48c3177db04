//! The copies of the left neighbour's files, and how they get there.

use std::path::Path;

use super::super::folder::{DIRECTORY_MODE, REDUNDANCY_DIR};
use super::super::layout::LogicalFile;
use super::super::ring::{Deferred, Ring};
use super::super::verify::compare_crcs;
use super::super::{MemberData, MemberList, RedundancySet, Spares, Survivor};
use super::stream::{Direction, Passing, stream, swap_lists};
use crate::error::{Error, Result};
use crate::files::{create_dirs, join_relative, remove_file_if_there, remove_tree};
use crate::kvtree::KvTree;
use crate::records::text::{epoch_text, parse_epoch};
use crate::records::{FileMeta, files_from_list, files_to_list};
use crate::system::Attributes;

pub(crate) struct Manifest {
    pub id: u64,
    pub epoch: u64,
    pub world_size: usize,
    /// What the rank had whose files were copied.
    pub list: MemberList,
    /// The parts that the keeper itself has of files: without its record nothing else tells where
    /// their bytes lie.
    pub own_parts: Vec<FileMeta>,
}

pub(super) fn directory(world_rank: usize) -> String {
    format!("{REDUNDANCY_DIR}/partner.{world_rank}")
}

fn manifest_name(world_rank: usize) -> String {
    format!("{}.scr", directory(world_rank))
}

impl Manifest {
    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("CKPT", self.id);
        tree.set_value("DSET", self.id);
        tree.set_value("EPOCH", epoch_text(self.epoch));
        tree.set_value("RANKS", self.world_size);
        tree.set("PARTNER", self.list.to_tree(self.id, self.world_size));
        if !self.own_parts.is_empty() {
            tree.set("OWN", files_to_list(&self.own_parts));
        }
        tree
    }

    fn from_tree(tree: &KvTree) -> Option<Self> {
        Some(Manifest {
            id: tree.parse("DSET")?,
            epoch: parse_epoch(tree.get_value("EPOCH")?)?,
            world_size: tree.parse("RANKS")?,
            list: MemberList::from_tree(tree.get("PARTNER")?)?,
            own_parts: files_from_list(tree.child("OWN"))?,
        })
    }

    /// Reads a manifest: `None` if it cannot be read, or is damaged.
    pub fn read(path: &Path) -> Option<Self> {
        Self::from_tree(&KvTree::read_file(path).ok()??)
    }

    pub fn copies(&self) -> Vec<FileMeta> {
        copies_of(&self.list)
    }

    /// Finds what the survivor has of the left neighbour at `distance`, if it fits its set and its
    /// seal and all of it was found right by the caller; `None` counts as lost.
    pub(in crate::redundancy) fn find(
        ring: &Ring,
        distance: usize,
        own: &Survivor,
    ) -> Option<Self> {
        let left = ring.world_rank(ring.left_by(distance));
        let known = &own.protection.as_ref()?.files;
        let is_known = |name: &str| known.iter().any(|file| file.name == name);
        let name = manifest_name(left);
        let manifest = Self::read(&own.dir.join(&name))?;
        let list = &manifest.list;
        let fits = is_known(&name)
            && (manifest.id, manifest.epoch) == (own.id, own.epoch)
            && list.world_rank == left
            && copies_of(list).iter().all(|copy| is_known(&copy.name));
        fits.then_some(manifest)
    }

    /// Writes the manifest: from now on the copies count. Gives the records of all of them.
    fn publish(&self, dir: &Path) -> Result<Vec<FileMeta>> {
        let name = manifest_name(self.list.world_rank);
        let path = join_relative(dir, &name)?;
        self.to_tree().write_file(&path)?;
        let (size, crc32) = crate::files::crc32_of_file(&path)?;
        let mut files = copies_of(&self.list);
        let crc32 = Some(crc32);
        files.push(FileMeta { name, size, crc32, mode: 0o600, ..FileMeta::default() });
        Ok(files)
    }
}

/// Finds those of `files` that are copies of one member's files, and their manifest.
pub(super) fn of_owner(files: &[FileMeta], world_rank: usize) -> Vec<FileMeta> {
    let (below, manifest) = (format!("{}/", directory(world_rank)), manifest_name(world_rank));
    let is_of = |file: &&FileMeta| file.name == manifest || file.name.starts_with(&below);
    files.iter().filter(is_of).cloned().collect()
}

fn copies_of(list: &MemberList) -> Vec<FileMeta> {
    let below = directory(list.world_rank);
    let copy = |file: &FileMeta| FileMeta {
        name: format!("{below}/{}", file.name),
        mode: 0o600,
        mtime_seconds: 0,
        mtime_nanoseconds: 0,
        attributes: Attributes::new(),
        ..file.clone()
    };
    list.files.iter().filter(|file| !file.on_prefix).map(copy).collect()
}

/// Removes what is left of older copies, the manifest first, and creates the new ones, empty.
fn begin(dir: &Path, list: &MemberList, spares: &Spares) -> Result<LogicalFile> {
    // A list without files still has a manifest.
    create_dirs(&dir.join(REDUNDANCY_DIR), DIRECTORY_MODE)?;
    let below = join_relative(dir, &directory(list.world_rank))?;
    remove_file_if_there(&join_relative(dir, &manifest_name(list.world_rank))?)?;
    remove_tree(&below)?;
    LogicalFile::create(&list.files, Some(spares), |_, file| join_relative(&below, &file.name))
}

pub(super) struct CopiedRight {
    pub files: Option<Vec<FileMeta>>,
    pub file_crcs: Vec<Option<u32>>,
}

/// Copies the files of each member to its right neighbour at `distance`, as far as `wanted` says
/// for that one. Each member has its own outcome; one that has no data says why.
pub(super) fn copy_right(
    ring: &Ring,
    distance: usize,
    data: Result<MemberData>,
    wanted: &[bool],
) -> Result<(MemberData, CopiedRight)> {
    let way = Direction::right(ring, distance);
    let (sends, receives) = (wanted[way.to], wanted[ring.me]);
    let opened = data.and_then(|data| {
        let source = sends.then(|| LogicalFile::open(&data.dir, &data.files)).transpose()?;
        Ok((data, source))
    });
    let bytes = |source: &Option<LogicalFile>| source.as_ref().map_or(0, LogicalFile::total);
    let ((data, mut source), longest) = ring.agree_and_max(opened, |(_, source)| bytes(source))?;
    let own = sends.then(|| MemberList::of(ring.set, &data));
    let of = receives.then_some(way.from);
    let (coming, list) = swap_lists(ring, way, data.id, own.as_ref(), of)?;
    let mut failed = Deferred::default();
    let mut copies = failed.take(list.and_then(|list| {
        let spares = Spares::beside(&data.dir, ring.world_rank(ring.me));
        list.map(|list| Ok((begin(&data.dir, &list, &spares)?, list))).transpose()
    }));
    let into = copies.as_mut().and_then(Option::as_mut).map(|(content, _)| content);
    let passing = Passing { out: source.as_mut(), into, coming, longest };
    stream(ring, way, passing, &mut failed)?;

    let found = source.map(|source| source.crcs()).unwrap_or_default();
    let file_crcs: Vec<_> = (data.files.iter().enumerate())
        .map(|(index, file)| found.get(index).copied().flatten().or(file.crc32))
        .collect();
    failed.act(|| compare_crcs(&data.dir, &data.files, &file_crcs));
    let of_left = ring.swap_crcs(&file_crcs, way.to, way.from)?;
    failed.outcome()?;
    let files = copies.flatten().map(|(content, list)| keep(ring, &data, content, list, &of_left));
    Ok((data, CopiedRight { files: files.transpose()?, file_crcs }))
}

/// Makes what has arrived durable if it is right. From then on it counts.
fn keep(
    ring: &Ring,
    data: &MemberData,
    mut content: LogicalFile,
    mut list: MemberList,
    crcs: &[Option<u32>],
) -> Result<Vec<FileMeta>> {
    list.set_crcs(crcs);
    let arrived = content.crcs();
    let mut both = list.files.iter().zip(&arrived);
    if both.any(|(file, arrived)| !file.on_prefix && file.crc32 != *arrived) {
        let rank = list.world_rank;
        return Err(Error::Unreadable(format!("the copy of a file of rank {rank} is wrong")));
    }
    content.sync()?;
    let (id, epoch, world_size) = (data.id, data.epoch, ring.set.world_size);
    let own_parts = data.files.iter().filter(|file| file.part.is_some()).cloned().collect();
    Manifest { id, epoch, world_size, list, own_parts }.publish(&data.dir)
}

/// Copies of each file in a set of at least two.
pub(super) fn copies_kept(set: &RedundancySet) -> usize {
    set.failures.clamp(1, set.comm.size() - 1)
}
