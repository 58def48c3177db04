//! The summary of a dataset on the prefix: which rank wrote which files (manual 1.1, section 9.2),
//! and the rank2file maps that take the lists of large datasets.
//!
//! ```text
//! summary.scr        VERSION / 6
//!                    DSET / <id> / COMPLETE / 1
//!                                / RANKS / <ranks of the launch that wrote it>
//!                                / DATASET / <fields of Dataset>
//!                                / RANK / <rank> / FILE / <name> / <fields of FileMeta>
//!
//! with more than 4096 files, instead of RANK:
//!                                / RANK2FILE / <number of shards>
//! rank2file.<i>.scr  VERSION / 1
//!                    DSET / <id>
//!                    EPOCH / <epoch>
//!                    RANK / <rank> / FILE / <name> / <fields of FileMeta>
//! rank2file.scr      VERSION / 1
//!                    DSET / <id>
//!                    EPOCH / <epoch>
//!                    SHARD / <i> / FIRST / <rank>, LAST / <rank>, FILES / <count>
//! ```
//!
//! Shards hold consecutive ranks and up to 4096 files, more only for a single rank; so a reader
//! needs two small files for its rank, and all together have a size in proportion to the number of
//! files. They are written before `summary.scr`: where that is, they are.
//! The C implementation has other trees ([`crate::records::on_prefix::classic`]).
//! Version 5 (manual 1.1) says CKPT instead of DSET and has no DATASET. Names are relative to the
//! prefix.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::records::on_prefix::classic;
use crate::records::record::{Record, datasets, number};
use crate::records::text::{epoch_text, parse_epoch};
use crate::records::{Dataset, FileMeta, files_from_list, files_to_list};

/// File name of the summary in the dataset's directory.
pub const SUMMARY_NAME: &str = "summary.scr";
const RANK2FILE_NAME: &str = "rank2file.scr";

const VERSION: u64 = 6;
const RANK2FILE_VERSION: u64 = 1;

/// Most files in the summary itself, and in a shard of several ranks.
const SHARD_FILES_MAX: usize = 4096;

/// Files by rank, in index order.
type FilesByRank = BTreeMap<usize, Vec<FileMeta>>;

/// All there is to know of a dataset on the prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// The dataset.
    pub dataset: Dataset,
    /// Ranks of the launch that wrote it.
    pub ranks: u64,
    /// Files by rank, in index order. Ranks without files may be left out.
    pub files: BTreeMap<usize, Vec<FileMeta>>,
}

impl Summary {
    /// Writes `summary.scr`, and before it the maps if there are many files, into `dir`.
    ///
    /// # Errors
    /// If a file cannot be written; without `summary.scr` the others mean nothing.
    pub fn write_to(&self, dir: &Path) -> Result<()> {
        let shards = shards(&self.files);
        if shards.len() <= 1 {
            return self.write(&dir.join(SUMMARY_NAME));
        }
        let mut index = rank2file_header(&self.dataset);
        for (number, ranks) in shards.iter().enumerate() {
            let mut tree = rank2file_header(&self.dataset);
            tree.set("RANK", files_tree(ranks));
            tree.write_file(dir.join(shard_name(number)))?;
            let entry = index.set_kv("SHARD", number);
            let ends = (ranks.first(), ranks.last());
            if let (Some((first, _)), Some((last, _))) = ends {
                entry.set_value("FIRST", first);
                entry.set_value("LAST", last);
            }
            entry.set_value("FILES", ranks.iter().map(|(_, files)| files.len()).sum::<usize>());
        }
        index.write_file(dir.join(RANK2FILE_NAME))?;
        let (mut tree, id) = (self.head(), self.dataset.id);
        tree.set_kv("DSET", id).set_value("RANK2FILE", shards.len());
        tree.write_file(dir.join(SUMMARY_NAME))
    }

    /// Reads the summary in `dir`, maps included; `None` if there is none.
    ///
    /// # Errors
    /// If a file is damaged, missing, or of a newer version.
    pub fn read_from(dir: &Path) -> Result<Option<Summary>> {
        let path = dir.join(SUMMARY_NAME);
        let Some(tree) = KvTree::read_file(&path)? else { return Ok(None) };
        if let Some(theirs) = classic::summary_of(&tree, dir) {
            let classic::TheirSummary { dataset, ranks, files } = theirs?;
            return Ok(Some(Summary { dataset, ranks, files }));
        }
        let mut summary =
            Summary::without_maps(&tree).map_err(|what| Error::corrupt(&path, what))?;
        let entry = datasets(&tree).child(&summary.dataset.id.to_string());
        if entry.get("RANK2FILE").is_some() {
            for shard in Shard::read_list(dir, &summary.dataset, entry.get_u64("RANK2FILE"))? {
                summary.files.extend(shard.read(dir, &summary.dataset)?);
            }
        }
        Ok(Some(summary))
    }

    /// Reads all but the maps.
    fn without_maps(tree: &KvTree) -> std::result::Result<Self, String> {
        let version = tree.get_u64("VERSION").ok_or("no VERSION")?;
        if version > VERSION {
            return Err(format!(
                "it has version {version}, written by a newer SCR; this one knows {VERSION}"
            ));
        }
        let mut entries = datasets(tree).iter();
        let (Some((id, entry)), None) = (entries.next(), entries.next()) else {
            return Err("it does not describe exactly one dataset".into());
        };
        let id = number(id, "a dataset id")?;
        let ranks = entry.get_u64("RANKS").ok_or("no number of RANKS")?;
        let complete = entry.get_flag("COMPLETE");
        let files = files_of(entry.child("RANK"))?;
        let dataset = match entry.get("DATASET") {
            Some(fields) => Dataset::from_tree(fields)
                .filter(|dataset| (dataset.id, dataset.complete) == (id, complete))
                .ok_or("the dataset has a bad field")?,
            None => older_dataset(id, complete, &files),
        };
        Ok(Summary { dataset, ranks, files })
    }

    /// All but the lists of files.
    fn head(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("VERSION", VERSION);
        let entry = tree.set_kv("DSET", self.dataset.id);
        entry.set_value("COMPLETE", u8::from(self.dataset.complete));
        entry.set_value("RANKS", self.ranks);
        entry.set("DATASET", self.dataset.to_tree());
        tree
    }
}

impl Record for Summary {
    const KIND: &'static str = "a summary";

    /// The form without maps, whatever the number of files.
    fn to_tree(&self) -> KvTree {
        let mut tree = self.head();
        let ranks: Vec<_> = self.files.iter().map(|(rank, files)| (*rank, &files[..])).collect();
        tree.set_kv("DSET", self.dataset.id).set("RANK", files_tree(&ranks));
        tree
    }

    /// Refuses a summary whose lists are in maps: it would seem to have no files.
    fn from_tree(tree: &KvTree) -> std::result::Result<Self, String> {
        let summary = Summary::without_maps(tree)?;
        match datasets(tree).child(&summary.dataset.id.to_string()).get("RANK2FILE") {
            None => Ok(summary),
            Some(_) => Err("its lists of files are in the maps beside it".into()),
        }
    }
}

/// What a summary without DATASET tells of it.
fn older_dataset(id: u64, complete: bool, files: &FilesByRank) -> Dataset {
    let all = || files.values().flatten();
    Dataset {
        id,
        name: format!("scr.dataset.{id}"),
        checkpoint_id: Some(id),
        files: all().count() as u64,
        bytes: all().fold(0, |sum, file| sum.saturating_add(file.size)),
        complete,
        ..Dataset::default()
    }
}

fn files_tree(ranks: &[(usize, &[FileMeta])]) -> KvTree {
    let mut tree = KvTree::new();
    for (rank, files) in ranks {
        let entry = tree.child_mut(rank);
        if !files.is_empty() {
            entry.set("FILE", files_to_list(files));
        }
    }
    tree
}

fn files_of(tree: &KvTree) -> std::result::Result<FilesByRank, String> {
    let mut all = FilesByRank::new();
    for (rank, entry) in tree {
        let files = files_from_list(entry.child("FILE"))
            .ok_or_else(|| format!("a file of rank {rank} has a bad field"))?;
        if all.insert(number(rank, "a rank")?, files).is_some() {
            return Err(format!("rank {rank} is listed twice"));
        }
    }
    Ok(all)
}

/// Cuts the list of ranks into shards.
fn shards(files: &FilesByRank) -> Vec<Vec<(usize, &[FileMeta])>> {
    let mut shards: Vec<Vec<_>> = Vec::new();
    let mut count = 0;
    for (rank, files) in files {
        if shards.is_empty() || count + files.len() > SHARD_FILES_MAX {
            shards.push(Vec::new());
            count = 0;
        }
        count += files.len();
        if let Some(shard) = shards.last_mut() {
            shard.push((*rank, &files[..]));
        }
    }
    shards
}

fn shard_name(number: usize) -> String {
    format!("rank2file.{number}.scr")
}

fn rank2file_header(dataset: &Dataset) -> KvTree {
    let mut tree = KvTree::new();
    tree.set_value("VERSION", RANK2FILE_VERSION);
    tree.set_value("DSET", dataset.id);
    tree.set_value("EPOCH", epoch_text(dataset.epoch));
    tree
}

/// A map of another dataset, or of another seal of this one, must not be mistaken for ours.
fn check_header(tree: &KvTree, dataset: &Dataset) -> std::result::Result<(), String> {
    let version = tree.get_u64("VERSION").ok_or("no VERSION")?;
    if version > RANK2FILE_VERSION {
        return Err(format!(
            "it has version {version}, written by a newer SCR; this one knows {RANK2FILE_VERSION}"
        ));
    }
    let epoch = tree.get_value("EPOCH").and_then(parse_epoch);
    if (tree.get_u64("DSET"), epoch) != (Some(dataset.id), Some(dataset.epoch)) {
        return Err("it belongs to another dataset than the summary beside it".into());
    }
    Ok(())
}

struct Shard {
    number: usize,
    first: usize,
    last: usize,
    files: usize,
}

impl Shard {
    fn read_list(dir: &Path, dataset: &Dataset, count: Option<u64>) -> Result<Vec<Shard>> {
        let path = dir.join(RANK2FILE_NAME);
        let corrupt = |what: String| Error::corrupt(&path, what);
        let tree = KvTree::read_file(&path)?.ok_or_else(|| corrupt("it is missing".into()))?;
        check_header(&tree, dataset).map_err(corrupt)?;
        let mut shards = Vec::new();
        for (name, entry) in tree.child("SHARD") {
            let field = |key: &str| {
                entry.parse(key).ok_or_else(|| corrupt(format!("shard {name} has no {key}")))
            };
            let number = number(name, "a shard").map_err(corrupt)?;
            let (first, last, files) = (field("FIRST")?, field("LAST")?, field("FILES")?);
            shards.push(Shard { number, first, last, files });
        }
        shards.sort_by_key(|shard| shard.first);
        let apart = shards.windows(2).all(|pair| pair[0].last < pair[1].first);
        if !apart || Some(shards.len() as u64) != count {
            return Err(corrupt("its shards overlap, or some are missing".into()));
        }
        Ok(shards)
    }

    fn read(&self, dir: &Path, dataset: &Dataset) -> Result<FilesByRank> {
        let path = dir.join(shard_name(self.number));
        let corrupt = |what: String| Error::corrupt(&path, what);
        let tree = KvTree::read_file(&path)?.ok_or_else(|| corrupt("it is missing".into()))?;
        check_header(&tree, dataset).map_err(corrupt)?;
        let files = files_of(tree.child("RANK")).map_err(corrupt)?;
        let count: usize = files.values().map(Vec::len).sum();
        if count != self.files || !files.keys().all(|rank| (self.first..=self.last).contains(rank))
        {
            return Err(corrupt(format!("it differs from what {RANK2FILE_NAME} says of it")));
        }
        Ok(files)
    }
}
