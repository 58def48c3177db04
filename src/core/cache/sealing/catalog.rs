//! What a sealed dataset holds: every file of every rank.
//!
//! Each node's leader keeps it as `.scr/catalog.scr` in the dataset's directory, in few bytes:
//! every node has all files of a job.
//! ```text
//! VERSION / 2
//! DSET / <id>      EPOCH / <hex>      KEY / SERIES, ID, GENERATION
//! FILES / <all files in order of ranks, packed (`packed.rs`), in hexadecimal>
//! ```
//! Elsewhere, and up to version 1, the files are a list that people can read:
//! ```text
//! VERSION / 1      DSET, EPOCH, KEY
//! RANK / <world rank> / FILE / <name> / SIZE, CRC, MODE, MTIME, MTIME_NSECS, PFS, INDEX
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::packed::{CatalogEntry, Packer, join_lists, pack, split_lists, unpack};
use crate::cache::Ctx;
use crate::cache::node::names::OWN_FOLDER;
use crate::comm::Comm;
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::parts::whole_crc32;
use crate::records::text::{epoch_text, hex_text, parse_epoch, parse_hex};
use crate::records::{FileMeta, RecordKey, files_from_list, files_to_list};

/// What a rank sends that has no list: no list begins like this.
const NO_LIST: &[u8] = &[0xff];
const FILE_NAME: &str = "catalog.scr";
const LISTED: u64 = 1;
const PACKED: u64 = 2;

/// All files of a dataset, by rank, in each rank's index order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalog {
    /// Dataset id.
    pub id: u64,
    /// Epoch of the seal.
    pub epoch: u64,
    /// Series, captured id, generation.
    pub key: RecordKey,
    /// The files.
    pub entries: Vec<CatalogEntry>,
}

impl Catalog {
    pub(crate) fn gather(
        comm: &dyn Comm,
        id: u64,
        epoch: u64,
        key: &RecordKey,
        own: &[FileMeta],
    ) -> Result<Catalog> {
        let mut entries = Vec::new();
        for bytes in comm.all_gather(&pack(comm.rank(), own))? {
            entries.extend(unpack(&bytes).ok_or_else(unreadable)?);
        }
        Ok(Catalog { id, epoch, key: key.clone(), entries })
    }

    /// Collects everyone's files on the leaders of the nodes; the others get `None`, and so do the
    /// leaders if any rank has `None`. A leader that returns knows that all ranks of its node have
    /// come here. Collective over the world.
    pub(crate) fn gather_on_leaders(
        ctx: &Ctx,
        id: u64,
        epoch: u64,
        key: &RecordKey,
        own: Option<&[FileMeta]>,
    ) -> Result<Option<Catalog>> {
        // In place of each rank's all-gather over the world: a job's files pass a node once.
        let own = own.map_or_else(|| NO_LIST.to_vec(), |own| pack(ctx.world.rank(), own));
        let near = ctx.node.all_gather(&own)?;
        let Some(leaders) = ctx.leaders else { return Ok(None) };
        let mut entries = Vec::new();
        let mut is_whole = true;
        for bytes in leaders.all_gather(&join_lists(&near))? {
            for list in split_lists(&bytes).ok_or_else(unreadable)? {
                match list {
                    NO_LIST => is_whole = false,
                    list => entries.extend(unpack(list).ok_or_else(unreadable)?),
                }
            }
        }
        if !is_whole {
            return Ok(None);
        }
        // A node's ranks need not follow one another.
        entries.sort_by_key(|entry| entry.rank);
        Ok(Some(Catalog { id, epoch, key: key.clone(), entries }))
    }

    pub(crate) fn path(dir: &Path) -> PathBuf {
        dir.join(OWN_FOLDER).join(FILE_NAME)
    }

    /// Reads the catalog of the dataset in `dir`; `None` if there is none.
    pub fn read(dir: &Path) -> Result<Option<Catalog>> {
        let path = Self::path(dir);
        let Some(tree) = KvTree::read_file(&path)? else { return Ok(None) };
        match Self::from_tree(&tree) {
            Some(catalog) => Ok(Some(catalog)),
            None => Err(Error::corrupt(path, "it is not a catalog of this version")),
        }
    }

    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        self.to_file_tree().write_file(Self::path(dir))
    }

    /// Does what [`Catalog::write`] does, but durable only with the next sync of our folder in
    /// `dir`.
    pub(crate) fn write_unnamed(&self, dir: &Path) -> Result<()> {
        self.to_file_tree().replace_file(Self::path(dir))
    }

    fn to_file_tree(&self) -> KvTree {
        let mut tree = self.head(PACKED);
        let mut packer = Packer::default();
        self.entries.iter().for_each(|entry| packer.put(entry.rank, &entry.meta));
        tree.set_value("FILES", hex_text(&packer.bytes()));
        tree
    }

    pub(crate) fn files_of_rank(&self, rank: usize) -> impl Iterator<Item = &FileMeta> {
        self.entries.iter().filter(move |entry| entry.rank == rank).map(|entry| &entry.meta)
    }

    /// Returns the files that several ranks have, at least one of them in cache, by name.
    pub fn contested(&self) -> BTreeMap<&str, Vec<&CatalogEntry>> {
        let mut names = HashMap::with_capacity(self.entries.len());
        for entry in &self.entries {
            *names.entry(entry.meta.name.as_str()).or_insert(0_usize) += 1;
        }
        let mut found: BTreeMap<&str, Vec<&CatalogEntry>> = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| names[entry.meta.name.as_str()] > 1) {
            found.entry(&entry.meta.name).or_default().push(entry);
        }
        found.retain(|_, entries| entries.iter().any(|entry| !entry.meta.on_prefix));
        found
    }

    fn head(&self, version: u64) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("VERSION", version);
        tree.set_value("DSET", self.id);
        tree.set_value("EPOCH", epoch_text(self.epoch));
        tree.set("KEY", self.key.to_tree());
        tree
    }

    /// Makes the second picture above.
    pub fn to_tree(&self) -> KvTree {
        let mut tree = self.head(LISTED);
        let mut rest = &self.entries[..];
        while let Some(first) = rest.first() {
            let count = rest.iter().take_while(|entry| entry.rank == first.rank).count();
            let files: Vec<_> = rest[..count].iter().map(|entry| entry.meta.clone()).collect();
            tree.child_mut("RANK").set(first.rank, file_list(&files));
            rest = &rest[count..];
        }
        tree
    }

    /// Reads either picture; `None` if a field is missing, malformed, or of another version.
    pub fn from_tree(tree: &KvTree) -> Option<Catalog> {
        let entries = match tree.get_u64("VERSION")? {
            LISTED => listed(tree.child("RANK"))?,
            PACKED => unpack(&parse_hex(tree.get_value("FILES")?)?)?,
            _ => return None,
        };
        Some(Catalog {
            id: tree.get_u64("DSET")?,
            epoch: parse_epoch(tree.get_value("EPOCH")?)?,
            key: RecordKey::from_tree(tree.get("KEY")?)?,
            entries,
        })
    }
}

fn unreadable() -> Error {
    Error::Unreadable("a rank sent a list of files that cannot be read".into())
}

fn listed(ranks: &KvTree) -> Option<Vec<CatalogEntry>> {
    let mut entries = Vec::new();
    for (rank, list) in ranks {
        let rank = rank.parse().ok()?;
        entries.extend(files_of(list)?.into_iter().map(|meta| CatalogEntry { rank, meta }));
    }
    // Keys are in byte order, in which 10 comes before 9.
    entries.sort_by_key(|entry| entry.rank);
    Some(entries)
}

fn file_list(files: &[FileMeta]) -> KvTree {
    let mut tree = KvTree::new();
    tree.set("FILE", files_to_list(files));
    tree
}

fn files_of(tree: &KvTree) -> Option<Vec<FileMeta>> {
    files_from_list(tree.child("FILE"))
}

/// Joins the parts of each file, of which all are in `entries`, in that of its lowest rank.
#[must_use]
pub fn whole_files(entries: &[CatalogEntry]) -> Vec<CatalogEntry> {
    let mut all: Vec<CatalogEntry> = Vec::with_capacity(entries.len());
    let mut wholes: HashMap<&str, (usize, Option<u32>)> = HashMap::new();
    for entry in entries {
        let Some(part) = &entry.meta.part else {
            all.push(entry.clone());
            continue;
        };
        let (at, shares) = wholes.entry(&part.of).or_insert_with(|| {
            all.push(CatalogEntry { rank: entry.rank, meta: entry.meta.as_whole() });
            (all.len() - 1, Some(0))
        });
        *shares = shares.zip(part.share).map(|(shares, share)| shares ^ share);
        let whole = &mut all[*at];
        whole.rank = whole.rank.min(entry.rank);
        whole.meta.on_prefix |= entry.meta.on_prefix;
        let of = |meta: &FileMeta| (meta.mtime_seconds, meta.mtime_nanoseconds);
        let latest = of(&whole.meta).max(of(&entry.meta));
        (whole.meta.mtime_seconds, whole.meta.mtime_nanoseconds) = latest;
    }
    for (at, shares) in wholes.into_values() {
        let meta = &mut all[at].meta;
        meta.crc32 = shares.filter(|_| !meta.on_prefix).map(|all| whole_crc32(meta.size, [all]));
    }
    all.sort_by_key(|entry| entry.rank);
    all
}

/// Counts files and their bytes; one that several ranks have written counts once.
#[must_use]
pub fn count_files<'a>(entries: impl IntoIterator<Item = &'a CatalogEntry>) -> (u64, u64) {
    let mut seen = HashSet::new();
    let mut bytes = 0_u64;
    for CatalogEntry { meta, .. } in entries {
        if seen.insert(meta.whole_name()) {
            bytes = bytes.saturating_add(meta.part.as_ref().map_or(meta.size, |part| part.whole));
        }
    }
    (seen.len() as u64, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::threads::run;
    use crate::files::crc32;
    use crate::parts::{CrcShare, Extent};
    use crate::records::FilePart;

    fn meta(name: &str, size: u64) -> FileMeta {
        FileMeta { name: name.into(), size, crc32: Some(7), mode: 0o640, ..FileMeta::default() }
    }

    #[test]
    fn gathered_lists_keep_ranks_and_index_order() {
        let key = RecordKey { series: "a".into(), id: "6".into(), generation: 1 };
        let catalogs = run(11, |comm| {
            let rank = comm.rank();
            let own = match rank {
                0 => vec![],
                _ => vec![meta(&format!("z{rank}"), 1), meta(&format!("b/{rank}"), 2)],
            };
            Catalog::gather(&*comm, 3, 0xabc, &key, &own).unwrap()
        });
        assert_eq!(catalogs[0], catalogs[10]);
        assert_eq!(catalogs[0].files_of_rank(10).next().unwrap().name, "z10");
        assert_eq!(catalogs[0].files_of_rank(0).count(), 0);
        assert_eq!(Catalog::from_tree(&catalogs[0].to_tree()), Some(catalogs[0].clone()));
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(OWN_FOLDER)).unwrap();
        catalogs[0].write(dir.path()).unwrap();
        assert_eq!(Catalog::read(dir.path()).unwrap().as_ref(), Some(&catalogs[0]));
        catalogs[0].to_tree().write_file(Catalog::path(dir.path())).unwrap(); // of version 1
        assert_eq!(Catalog::read(dir.path()).unwrap().as_ref(), Some(&catalogs[0]));
    }

    #[test]
    fn names_that_several_ranks_have_and_one_of_them_in_cache() {
        let entry = |rank, name: &str, on_prefix| CatalogEntry {
            rank,
            meta: FileMeta { on_prefix, ..meta(name, 1) },
        };
        let entries = vec![
            entry(0, "both", false),
            entry(0, "own", false),
            entry(0, "shared", true),
            entry(3, "shared", true),
            entry(3, "mixed", true),
            entry(4, "both", false),
            entry(5, "mixed", false),
        ];
        let catalog = Catalog { entries, ..Catalog::default() };
        let found = catalog.contested().into_iter();
        let ranks = |of: Vec<&CatalogEntry>| of.iter().map(|one| one.rank).collect::<Vec<_>>();
        let found: Vec<_> = found.map(|(name, of)| (name, ranks(of))).collect();
        assert_eq!(found, [("both", vec![0, 4]), ("mixed", vec![3, 5])]);
    }

    #[test]
    fn a_damaged_catalog_is_an_error_and_a_missing_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Catalog::read(dir.path()).unwrap(), None);
        std::fs::create_dir(dir.path().join(OWN_FOLDER)).unwrap();
        Catalog::default().write(dir.path()).unwrap();
        assert_eq!(Catalog::read(dir.path()).unwrap(), Some(Catalog::default()));
        let mut bytes = std::fs::read(Catalog::path(dir.path())).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(Catalog::path(dir.path()), bytes).unwrap();
        assert!(Catalog::read(dir.path()).is_err());
    }

    #[test]
    fn parts_are_one_file_of_their_lowest_rank() {
        let part = |rank, extents: &[(u64, &[u8])]| {
            let mut share = CrcShare::new(9);
            extents.iter().for_each(|(at, bytes)| share.add(*at, bytes));
            let ends = extents.iter().map(|(at, all)| Extent::new(*at, at + all.len() as u64));
            let (of, extents) = ("d/all".to_owned(), ends.collect());
            let part = FilePart { of, extents, whole: 9, share: Some(share.value()), live: true };
            let (name, size) = (FilePart::file_name(rank, "d/all"), part.extents.bytes());
            let part = Some(part.into());
            let meta = FileMeta { name, size, crc32: Some(1), part, ..FileMeta::default() };
            CatalogEntry { rank, meta }
        };
        let own = |rank, name: &str, on_prefix| CatalogEntry {
            rank,
            meta: FileMeta { name: name.into(), size: 5, on_prefix, ..FileMeta::default() },
        };
        let mut entries = vec![own(0, "a", false), own(1, "c", true), own(2, "c", true)];
        entries.push(part(2, &[(5, b"fgh")]));
        entries.push(part(1, &[(0, b"ab"), (3, b"de")]));
        let all = whole_files(&entries);
        assert_eq!(all.iter().map(|one| one.rank).collect::<Vec<_>>(), [0, 1, 1, 2]);
        let whole = &all.iter().find(|one| one.meta.is_shared).unwrap().meta;
        assert_eq!((whole.name.as_str(), whole.size, &whole.part), ("d/all", 9, &None));
        assert_eq!(whole.crc32, Some(crc32(b"ab\0defgh\0")));
        assert_eq!(count_files(&entries), (3, 5 + 5 + 9));
        assert_eq!(count_files(&all), (3, 5 + 5 + 9));
        entries[3].meta.part.as_mut().unwrap().share = None;
        assert!(whole_files(&entries).iter().all(|one| one.meta.crc32.is_none()));
    }
}
