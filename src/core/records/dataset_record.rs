//! One rank's record of one dataset in cache: the leaf of the filemap (manual 1.1, section 4.2).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use scr_abi::accesses::Moment;

use crate::kvtree::KvTree;
use crate::parts::{Cut, NodeLog, Write};
use crate::patterns::{PROGRAM, PROGRAM_OUTPUT};
use crate::records::file_meta::{FileMeta, files_from_list, files_to_list};
use crate::records::prefix_identity::PrefixIdentity;
use crate::records::text::{epoch_text, parse_epoch};

/// What names a dataset in records, before it has an id, too: equal on all ranks without
/// communication.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey {
    /// Name of the series.
    pub series: String,
    /// What `{id}` captured; empty if the series has none.
    pub id: String,
    /// Counts rewrites under the same series and id, from 0.
    pub generation: u64,
}

/// Bytes of an escaped id in a directory's name, which may have 255 on all file systems.
const ESCAPED_MAX: usize = 200;
/// Stands for what is missing of an id; no escaped one has it.
const CUT: char = '~';
/// Bytes that say what is missing.
const CUT_BYTES: usize = 17;

/// First part of the directory name of a dataset that is not sealed.
const OPEN_PREFIX: &str = "scr.open.";

impl RecordKey {
    /// Tells whether its id is the name that the program has given it.
    pub(crate) fn is_named(&self) -> bool {
        matches!(self.series.as_str(), PROGRAM | PROGRAM_OUTPUT)
    }

    /// Returns the dataset's name in index and flush file: the program's own, else `<series>.<id>`,
    /// or the generation without ids.
    #[must_use]
    pub fn name(&self) -> String {
        if self.is_named() {
            return self.id.clone();
        }
        match self.id.as_str() {
            "" => format!("{}.{}", self.series, self.generation),
            id => format!("{}.{id}", self.series),
        }
    }

    /// Describes the dataset in words, for people.
    #[must_use]
    pub fn title(&self) -> String {
        if self.is_named() {
            return self.id.clone();
        }
        match (self.id.as_str(), self.generation) {
            ("", generation) => format!("{} (generation {generation})", self.series),
            (id, 0) => format!("{} {id}", self.series),
            (id, generation) => format!("{} {id} (written {} times)", self.series, generation + 1),
        }
    }

    /// Tells whether other datasets of the series have a file of this name, too.
    #[must_use]
    pub fn is_shared_name(&self, name: &str) -> bool {
        !self.id.is_empty() && !self.is_named() && !name.contains(&self.id)
    }

    /// Makes the directory name of the dataset until its seal:
    /// `scr.open.<series>.<escaped id>.<generation>`. A long id, which only a program gives, is
    /// cut, and a checksum tells it from others.
    #[must_use]
    pub fn directory_name(&self) -> String {
        let (series, mut id) = (escape(&self.series), escape(&self.id));
        if id.len() > ESCAPED_MAX {
            let whole = crate::files::crc32(id.as_bytes());
            id.truncate(ESCAPED_MAX - CUT_BYTES);
            id = format!("{id}{CUT}{:08x}{whole:08x}", self.id.len());
        }
        format!("{OPEN_PREFIX}{series}.{id}.{}", self.generation)
    }

    /// Tells whether [`RecordKey::directory_name`] can have made it.
    #[must_use]
    pub fn is_directory_name(name: &str) -> bool {
        let is_cut = name.starts_with(OPEN_PREFIX) && name.contains(CUT);
        is_cut || Self::from_directory_name(name).is_some()
    }

    /// Reads the key from a name of [`RecordKey::directory_name`], if the id was not cut.
    #[must_use]
    pub fn from_directory_name(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(OPEN_PREFIX)?.split('.');
        let key = RecordKey {
            series: unescape(parts.next()?)?,
            id: unescape(parts.next()?)?,
            generation: parts.next()?.parse().ok()?,
        };
        // Only the one canonical spelling counts: two directories never mean the same key.
        (parts.next().is_none() && key.directory_name() == name).then_some(key)
    }

    /// Makes a tree of the keys SERIES, ID, GENERATION.
    #[must_use]
    pub fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("SERIES", &self.series);
        tree.set_value("ID", &self.id);
        tree.set_value("GENERATION", self.generation);
        tree
    }

    /// Reads what [`RecordKey::to_tree`] makes; `None` if a field is missing or malformed.
    #[must_use]
    pub fn from_tree(tree: &KvTree) -> Option<Self> {
        Some(RecordKey {
            series: tree.get_value("SERIES")?.to_owned(),
            id: tree.get_value("ID")?.to_owned(),
            generation: tree.get_u64("GENERATION")?,
        })
    }
}

/// Writes bytes outside `[A-Za-z0-9_-]` as `%XX`, so that the result is one part of a file name.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The inverse of [`escape`].
fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next()?, bytes.next()?];
            let digits = std::str::from_utf8(&digits).ok()?;
            out.push(u8::from_str_radix(digits, 16).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

/// How far a rank has come with a dataset, as its record says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordedState {
    /// Being written, or revoked: never restored.
    #[default]
    Open,
    /// Sizes, checksums and redundancy are durable on this rank.
    Prepared,
}

/// One rank's record of one dataset.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DatasetRecord {
    /// Series, captured id and generation.
    pub key: RecordKey,
    /// Dataset id; 0 until prepared.
    pub dataset_id: u64,
    /// Epoch of the seal; 0 until prepared.
    pub epoch: u64,
    /// How far the rank has come.
    pub state: RecordedState,
    /// Known to be complete at the time of the seal already.
    pub confirmed: bool,
    /// Directory of the dataset on the node (UTF-8, as the settings demand of every store).
    pub dir: PathBuf,
    /// Number of program files the rank wrote (manual 1.1, section 4.2 EXPECT).
    pub expect: u64,
    /// The program's files, in index order.
    pub files: Vec<FileMeta>,
    /// The redundancy descriptor: TYPE, GROUP_ID, GROUP_RANK, GROUP_SIZE, ...
    pub descriptor: KvTree,
    /// Identity of the prefix that it was made for; `None` in records of versions without it.
    pub prefix: Option<PrefixIdentity>,
    /// Free tags (manual 1.1, section 4.3.7), as PARTNER.
    pub tags: BTreeMap<String, String>,
    /// Names of files, perhaps of other ranks, that the program has changed or removed by itself
    /// since: the cache keeps them as they were sealed, and the prefix has the last word.
    pub left: BTreeSet<String>,
    /// Names of files of older datasets that the program had deleted when this one was sealed, or
    /// has since: a run that begins with this one does not have them. With each, when the prefix's
    /// file of that name was last changed (`ctime`, nanoseconds since 1970; 0: there was none).
    pub gone: BTreeMap<String, u64>,
}

impl DatasetRecord {
    /// Returns what the rank answers for in a file of several nodes, as if it had just written it.
    #[must_use]
    pub fn part_log(&self, name: &str) -> Option<NodeLog> {
        let mut parts = self.files.iter().filter_map(|file| file.part.as_ref());
        let part = parts.find(|part| part.of == name && part.live)?;
        let writes =
            part.extents.iter().map(|piece| Write { piece, stamp: Moment::default() }).collect();
        let grows = vec![Cut { length: part.whole, stamp: Moment::default() }];
        Some(NodeLog { writes, grows, ..NodeLog::default() })
    }

    /// Tells whether the rank has a part of a file.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        self.files.iter().any(|file| file.part.is_some())
    }

    /// Makes a tree of the keys KEY, DSET, EPOCH, STATE, CONFIRMED, DIR, EXPECT, FILE, REDDESC,
    /// PREFIX, TAG, LEFT, GONE.
    #[must_use]
    pub fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set("KEY", self.key.to_tree());
        tree.set_value("DSET", self.dataset_id);
        tree.set_value("EPOCH", epoch_text(self.epoch));
        let state = match self.state {
            RecordedState::Open => "OPEN",
            RecordedState::Prepared => "PREPARED",
        };
        tree.set_value("STATE", state);
        tree.set_flag("CONFIRMED", self.confirmed);
        tree.set_value("DIR", self.dir.display());
        tree.set_value("EXPECT", self.expect);
        if !self.files.is_empty() {
            tree.set("FILE", files_to_list(&self.files));
        }
        if !self.descriptor.is_empty() {
            tree.set("REDDESC", self.descriptor.clone());
        }
        if let Some(prefix) = &self.prefix {
            tree.set_value("PREFIX", prefix.text());
        }
        for (tag, value) in &self.tags {
            tree.child_mut("TAG").set_value(tag, value);
        }
        self.left.iter().for_each(|name| tree.child_mut("LEFT").set_flag(name, true));
        self.gone.iter().for_each(|(name, time)| tree.child_mut("GONE").set_value(name, time));
        tree
    }

    /// Reads what [`DatasetRecord::to_tree`] makes; `None` if a field is missing or malformed.
    #[must_use]
    pub fn from_tree(tree: &KvTree) -> Option<Self> {
        let gone = tree.child("GONE");
        let gone = gone.keys().map(|name| Some((name.to_owned(), gone.get_u64(name)?)));
        let mut tags = BTreeMap::new();
        for tag in tree.child("TAG").keys() {
            tags.insert(tag.to_owned(), tree.child("TAG").get_value(tag)?.to_owned());
        }
        Some(DatasetRecord {
            key: RecordKey::from_tree(tree.get("KEY")?)?,
            dataset_id: tree.get_u64("DSET")?,
            epoch: parse_epoch(tree.get_value("EPOCH")?)?,
            state: match tree.get_value("STATE")? {
                "OPEN" => RecordedState::Open,
                "PREPARED" => RecordedState::Prepared,
                _ => return None,
            },
            confirmed: tree.get_flag("CONFIRMED"),
            dir: PathBuf::from(tree.get_value("DIR")?),
            expect: tree.get_u64("EXPECT")?,
            files: files_from_list(tree.child("FILE"))?,
            descriptor: tree.child("REDDESC").clone(),
            prefix: tree.get_value("PREFIX").and_then(PrefixIdentity::parse),
            tags,
            left: tree.child("LEFT").keys().map(str::to_owned).collect(),
            gone: gone.collect::<Option<_>>()?,
        })
    }

    /// Returns the sum of the sizes of the files, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> DatasetRecord {
        let file = |name: &str, size| FileMeta { name: name.into(), size, ..FileMeta::default() };
        let mut descriptor = KvTree::new();
        descriptor.set_value("TYPE", "XOR");
        DatasetRecord {
            key: RecordKey { series: "ckpt".into(), id: "000100".into(), generation: 2 },
            dataset_id: 18,
            epoch: 0xfeed_0000_0000_0001,
            state: RecordedState::Prepared,
            confirmed: true,
            dir: "/dev/shm/u/scr.1/scr.dataset.18".into(),
            expect: 3,
            files: vec![file("z", 1), file("a/b", 2), file("m", 3)],
            descriptor,
            prefix: PrefixIdentity::parse("0123456789abcdef0123456789abcdef"),
            tags: BTreeMap::from([("PARTNER".to_owned(), "atlas56".to_owned())]),
            left: BTreeSet::from(["a/b".to_owned()]),
            gone: BTreeMap::from([("c".to_owned(), 0), ("d".to_owned(), 17)]),
        }
    }

    #[test]
    fn record_survives_the_tree_with_its_file_order() {
        assert_eq!(DatasetRecord::from_tree(&sample().to_tree()), Some(sample()));
        let open = DatasetRecord { dir: "/d".into(), ..DatasetRecord::default() };
        assert_eq!(DatasetRecord::from_tree(&open.to_tree()), Some(open));
    }

    #[test]
    fn a_missing_field_gives_none() {
        for key in ["KEY", "DSET", "EPOCH", "STATE", "DIR", "EXPECT"] {
            let mut tree = sample().to_tree();
            tree.remove(key);
            assert_eq!(DatasetRecord::from_tree(&tree), None, "{key}");
        }
    }

    #[test]
    fn directory_names_are_one_to_one() {
        for id in ["", "100", "a.b/c%", "\u{e9}"] {
            let key = RecordKey { series: "state.cpt".into(), id: id.into(), generation: 7 };
            let name = key.directory_name();
            assert!(!name.contains('/'), "{name}");
            assert_eq!(RecordKey::from_directory_name(&name), Some(key));
        }
        for name in ["scr.open.a.b", "scr.open.a.b.c", "scr.open.a.b.01", "scr.open.%61.b.1"] {
            assert_eq!(RecordKey::from_directory_name(name), None, "{name}");
        }
        let plain = RecordKey { series: "ckpt".into(), id: "100".into(), generation: 0 };
        assert_eq!(plain.directory_name(), "scr.open.ckpt.100.0");
    }
}
