//! The catalog of a dataset as the ranks of a node have it: once in their memory, packed, and
//! sorted by name, so that a rank's own memory and time do not grow with the size of the job.
//!
//! ```text
//! words u64, little-endian: files, files on the prefix, bytes, bytes in caches, lists, contested
//! place of each list, u64
//! packed lists of LIST_FILES files; then one of the files that several ranks have
//! ```

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::ops::Deref;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use super::catalog::{count_files, whole_files};
use super::packed::{Packer, Unpacker};
use crate::cache::{Catalog, CatalogEntry, Ctx};
use crate::comm::Comm;
use crate::error::{Error, Result};
use crate::files::remove_file_if_there;
use crate::log;
use crate::system::{SharedBytes, allow_size};

/// A name is found by halving over the lists and a walk through one of them.
const LIST_FILES: usize = 16;
const WORDS: usize = 6;
/// Catalogs up to this size are sent: to share two pages of memory is more work.
const SENT_BYTES_MAX: usize = 8 << 10;
const NO_CATALOG: &[u8] = &[0];
/// Is in the control directory while a catalog passes from rank to rank.
const FILE: &str = "catalog";

/// All files of a dataset, by name.
#[derive(Clone)]
pub struct NodeCatalog {
    bytes: Arc<Bytes>,
    node_ranks: Arc<[usize]>,
}

enum Bytes {
    Own(Vec<u8>),
    Shared(SharedBytes),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Own(bytes) => bytes,
            Bytes::Shared(bytes) => bytes,
        }
    }
}

impl NodeCatalog {
    /// Passes what the node's leader has gathered to the other ranks of the node. Collective over
    /// the node.
    ///
    /// # Errors
    /// Not the same on all ranks: the leader has an error instead, or memory cannot be shared.
    pub(crate) fn share(ctx: &Ctx, whole: Result<Option<Catalog>>) -> Result<NodeCatalog> {
        let none = || Error::Remote("the node's leader has no catalog".into());
        NodeCatalog::share_if_any(ctx, whole)?.ok_or_else(none)
    }

    /// Does what [`NodeCatalog::share`] does, `None` if the leader has no catalog.
    pub(super) fn share_if_any(
        ctx: &Ctx,
        whole: Result<Option<Catalog>>,
    ) -> Result<Option<NodeCatalog>> {
        let (bytes, outcome) = match whole {
            Err(Error::Comm(what)) => return Err(Error::Comm(what)),
            Err(error) => (NO_CATALOG.to_vec(), Err(error)),
            Ok(whole) => (whole.map_or_else(|| NO_CATALOG.to_vec(), |whole| pack(&whole)), Ok(())),
        };
        let shared = pass(ctx.node, &ctx.layout.control_dir.join(FILE), bytes);
        outcome?;
        let catalog = NodeCatalog { bytes: Arc::new(shared?), node_ranks: ctx.node_ranks.into() };
        Ok(catalog.is_whole().then_some(catalog))
    }

    /// Packs a catalog that this rank has, in its own memory.
    pub fn of(whole: &Catalog, node_ranks: &[usize]) -> NodeCatalog {
        let bytes = Arc::new(Bytes::Own(pack(whole)));
        NodeCatalog { bytes, node_ranks: node_ranks.into() }
    }

    /// Tells whether the rank runs on this node.
    pub fn is_near(&self, rank: usize) -> bool {
        self.node_ranks.contains(&rank)
    }

    /// Returns the number of all files, and of their bytes; a file that several ranks have written
    /// counts once.
    pub fn size(&self) -> (u64, u64) {
        (self.word(0), self.word(2))
    }

    pub(crate) fn cached_bytes(&self) -> u64 {
        self.word(3)
    }

    pub(crate) fn has_files_on_prefix(&self) -> bool {
        self.word(1) > 0
    }

    pub(crate) fn is_on_prefix(&self) -> bool {
        self.word(1) == self.word(0)
    }

    /// Returns all files by name; one that several ranks have in parts, or on the prefix, is there
    /// once.
    pub fn entries(&self) -> impl Iterator<Item = CatalogEntry> {
        self.since_list(0).filter(|entry| entry.meta.part.is_none())
    }

    /// Returns all files that ranks have: of one of several nodes its parts.
    pub fn held(&self) -> impl Iterator<Item = CatalogEntry> {
        self.since_list(0).filter(|entry| !entry.meta.is_shared)
    }

    /// Returns the files in the directory `dir` and below; `""` is the prefix.
    pub fn below(&self, dir: &str) -> impl Iterator<Item = CatalogEntry> {
        let below = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let from = self.since_list(self.list_of(&below));
        let from = from.skip_while({
            let below = below.clone();
            move |entry| entry.meta.name < below
        });
        let from = from.take_while(move |entry| entry.meta.name.starts_with(&below));
        from.filter(|entry| entry.meta.part.is_none())
    }

    /// Returns the files of this name: several if ranks have each one in their caches.
    pub fn named(&self, name: &str) -> Vec<CatalogEntry> {
        let mut found = Vec::new();
        for list in self.list_of(name)..self.lists() {
            let mut unpacker = Unpacker::new(self.list(list));
            while unpacker.step().is_some() && unpacker.name() <= name.as_bytes() {
                if unpacker.name() == name.as_bytes() {
                    found.extend(unpacker.entry());
                }
            }
            if unpacker.name() > name.as_bytes() {
                break;
            }
        }
        found
    }

    /// Returns the files that several ranks have, at least one of them in cache, by name.
    pub fn contested(&self) -> impl Iterator<Item = CatalogEntry> {
        read(self.bytes.get(self.word(5) as usize..).unwrap_or_default())
    }

    fn word(&self, index: usize) -> u64 {
        let bytes = self.bytes.get(index * 8..index * 8 + 8);
        bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    }

    fn lists(&self) -> usize {
        self.word(4) as usize
    }

    fn is_whole(&self) -> bool {
        let end = self.word(5) as usize;
        self.bytes.len() >= WORDS * 8 && end >= WORDS * 8 && end <= self.bytes.len()
    }

    fn list(&self, index: usize) -> &[u8] {
        let last = index + 1 >= self.lists();
        let begin = self.word(WORDS + index) as usize;
        let end = self.word(if last { 5 } else { WORDS + index + 1 }) as usize;
        self.bytes.get(begin..end).unwrap_or_default()
    }

    fn list_of(&self, name: &str) -> usize {
        let (mut low, mut high) = (0, self.lists());
        while low < high {
            let middle = low.midpoint(high);
            let mut first = Unpacker::new(self.list(middle));
            match first.step().is_some() && first.name() < name.as_bytes() {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low.saturating_sub(1)
    }

    fn since_list(&self, list: usize) -> impl Iterator<Item = CatalogEntry> {
        (list..self.lists()).flat_map(|list| read(self.list(list)))
    }
}

impl PartialEq for NodeCatalog {
    fn eq(&self, other: &Self) -> bool {
        **self.bytes == **other.bytes
    }
}

impl fmt::Debug for NodeCatalog {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_list().entries(self.entries()).finish()
    }
}

fn read(list: &[u8]) -> impl Iterator<Item = CatalogEntry> {
    let mut unpacker = Unpacker::new(list);
    std::iter::from_fn(move || unpacker.step().and_then(|()| unpacker.entry()))
}

fn pack(whole: &Catalog) -> Vec<u8> {
    let mut files = whole_files(&whole.entries);
    let parts = whole.entries.iter().filter(|entry| entry.meta.part.is_some());
    files.extend(parts.cloned());
    let mut sorted: Vec<&CatalogEntry> = files.iter().collect();
    sorted.sort_by_key(|entry| (&entry.meta.name, entry.meta.on_prefix, entry.rank));
    sorted.dedup_by(|now, before| {
        now.meta.on_prefix && before.meta.on_prefix && { now.meta.name == before.meta.name }
    });
    let mut packer = Packer::default();
    let mut places = Vec::new();
    for list in sorted.chunks(LIST_FILES) {
        places.push(packer.begin());
        list.iter().for_each(|entry| packer.put(entry.rank, &entry.meta));
    }
    let contested = packer.begin();
    for entry in whole.contested().into_values().flatten() {
        packer.put(entry.rank, &entry.meta);
    }
    let (files, bytes) = count_files(&whole.entries);
    let (cached, cached_bytes) =
        count_files(whole.entries.iter().filter(|entry| !entry.meta.on_prefix));
    let head = (WORDS + places.len()) * 8;
    let counts = [files, files.saturating_sub(cached), bytes, cached_bytes];
    let ends = [places.len() as u64, (head + contested) as u64];
    let places = places.into_iter().map(|place| (head + place) as u64);
    let words = counts.into_iter().chain(ends).chain(places);
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    bytes.extend(packer.bytes());
    bytes
}

fn pass(node: &dyn Comm, path: &Path, bytes: Vec<u8>) -> Result<Bytes> {
    if node.size() == 1 {
        return Ok(Bytes::Own(bytes));
    }
    let mut file = None;
    if bytes.len() > SENT_BYTES_MAX {
        match make(path, &bytes) {
            Ok(made) => file = Some(made),
            // Each rank has them for itself.
            Err(error) => log::message(1, format_args!("a catalog cannot be shared: {error}")),
        }
    }
    let mut sent = if file.is_some() { Vec::new() } else { bytes };
    node.broadcast(&mut sent, 0)?;
    if !sent.is_empty() {
        return Ok(Bytes::Own(sent));
    }
    let file = file.map_or_else(|| File::open(path), Ok);
    let shared = file.and_then(|file| SharedBytes::map(&file));
    node.barrier()?;
    if node.rank() == 0 {
        let _ = remove_file_if_there(path); // the next one does it
    }
    Ok(Bytes::Shared(shared.map_err(|e| Error::io("cannot map", path, e))?))
}

fn make(path: &Path, bytes: &[u8]) -> Result<File> {
    remove_file_if_there(path)?;
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(path);
    let allowed = file.and_then(|file| allow_size(bytes.len() as u64).map(|()| file));
    let written = allowed.and_then(|mut file| file.write_all(bytes).map(|()| file));
    written.map_err(|e| {
        let _ = remove_file_if_there(path);
        Error::io("cannot write", path, e)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::threads::run;
    use crate::files::crc32;
    use crate::records::{FileMeta, FilePart};

    fn entry(rank: usize, name: &str, on_prefix: bool) -> CatalogEntry {
        let meta = FileMeta { name: name.into(), size: 10, on_prefix, ..FileMeta::default() };
        CatalogEntry { rank, meta }
    }

    fn catalog(entries: Vec<CatalogEntry>) -> NodeCatalog {
        NodeCatalog::of(&Catalog { entries, ..Catalog::default() }, &[0, 1])
    }

    fn ranks(entries: impl IntoIterator<Item = CatalogEntry>) -> Vec<usize> {
        entries.into_iter().map(|entry| entry.rank).collect()
    }

    #[test]
    fn names_are_found_wherever_they_are() {
        let name = |rank: usize| format!("d{}/f{rank:04}", rank % 3);
        let all: Vec<_> = (0..1000).rev().map(|rank| entry(rank, &name(rank), false)).collect();
        let found = catalog(all);
        for rank in 0..1000 {
            assert_eq!(ranks(found.named(&name(rank))), [rank]);
            assert!(found.named(&format!("{}x", name(rank))).is_empty());
        }
        assert!(found.named("").is_empty() && found.named("z").is_empty());
        assert_eq!(found.below("d1").count(), 333);
        assert_eq!(ranks(found.below("d2")), (2..1000).step_by(3).collect::<Vec<_>>());
        assert_eq!((found.below("d").count(), found.below("").count()), (0, 1000));
        assert_eq!((found.size(), found.cached_bytes()), ((1000, 10_000), 10_000));
        assert!(!found.has_files_on_prefix() && found.is_near(1) && !found.is_near(2));
    }

    #[test]
    fn a_name_of_many_ranks_is_there_for_each_that_has_it_in_cache_and_once_on_the_prefix() {
        let mut all: Vec<_> = (0..40).map(|rank| entry(rank, "both", false)).collect();
        all.extend((0..40).map(|rank| entry(rank, "shared", true)));
        all.extend([entry(7, "after", false), entry(9, "mixed", true), entry(8, "mixed", false)]);
        let found = catalog(all);
        assert_eq!(ranks(found.named("both")), (0..40).collect::<Vec<_>>());
        assert_eq!(ranks(found.named("shared")), [0]);
        assert_eq!(ranks(found.named("mixed")), [8, 9]);
        assert_eq!(found.size(), (4, 40));
        assert_eq!(found.cached_bytes(), 30);
        assert!(found.has_files_on_prefix() && !found.is_on_prefix());
        assert_eq!(crc32(&found.bytes), 0x1da2_9707, "the form is as it was");
        let contested: Vec<_> = found.contested().collect();
        assert_eq!((contested.len(), contested[0].meta.name.as_str()), (42, "both"));
        let none = catalog(vec![]);
        assert!(none.is_on_prefix() && none.entries().next().is_none());
        assert!(none.contested().next().is_none() && none.named("x").is_empty());
    }

    #[test]
    fn a_file_of_several_ranks_counts_once_wherever_it_is() {
        let part = |rank| {
            let mut one = entry(rank, &FilePart::file_name(rank, "all"), false);
            let part = FilePart { of: "all".into(), whole: 100, ..FilePart::default() };
            one.meta.part = Some(part.into());
            one
        };
        let past = [0, 1, 2].map(|rank| entry(rank, "past", true));
        let cached = [part(0), part(2), part(3), entry(0, "own", false)];
        let found = catalog(cached.into_iter().chain(past).collect());
        assert_eq!((found.size(), found.cached_bytes()), ((3, 120), 110));
        assert!(found.has_files_on_prefix() && !found.is_on_prefix());
    }

    #[test]
    fn the_ranks_of_a_node_have_one_copy_of_what_is_large() {
        let base = tempfile::tempdir().unwrap();
        for (files, mappings) in [(3, 0), (1000, 3)] {
            let path = base.path().join(FILE);
            std::fs::write(&path, "what a killed run left").unwrap();
            let all = (0..files).map(|rank| entry(rank, &format!("f{rank}"), true));
            let whole = Catalog { entries: all.collect(), ..Catalog::default() };
            let passed = run(3, |comm| {
                let bytes = if comm.rank() == 0 { pack(&whole) } else { Vec::new() };
                pass(&*comm, &path, bytes).unwrap()
            });
            assert!(passed.iter().all(|bytes| **bytes == *pack(&whole)));
            let shared = passed.iter().filter(|bytes| matches!(bytes, Bytes::Shared(_))).count();
            assert_eq!(shared, mappings);
            assert_eq!(path.exists(), files == 3); // untouched where nothing is shared
            // Without a place for it each has its own.
            let nowhere = base.path().join("none").join(FILE);
            let passed = run(2, |comm| {
                let bytes = if comm.rank() == 0 { pack(&whole) } else { Vec::new() };
                pass(&*comm, &nowhere, bytes).unwrap()
            });
            assert!(passed.iter().all(|bytes| matches!(bytes, Bytes::Own(_))));
            assert!(passed.iter().all(|bytes| **bytes == *pack(&whole)));
        }
    }
}
