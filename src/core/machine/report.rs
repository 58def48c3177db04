//! What each rank says in a conference.

use super::keys::DatasetKey;
use super::knowledge::Why;

/// One rank's part of a conference. [`Report::from_bytes`] is total.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Fresh random bits; rank 0's become the epochs of the seals.
    pub entropy: u64,
    /// Digest of what must be equal on all ranks.
    pub digest: u64,
    /// Halt reason code; 0 for none.
    pub halt: i64,
    /// The program is in MPI_Finalize (all ranks or none).
    pub ending: bool,
    /// This rank cannot use the cache any more.
    pub fallen_back: bool,
    /// It can encode beside the program now.
    pub aside: bool,
    /// Per series.
    pub series: Vec<SeriesReport>,
    /// Datasets in progress on this rank or known to be, and provisional ones; oldest first.
    pub datasets: Vec<DatasetReport>,
    /// Sealed datasets with something to say, by number.
    pub sealed: Vec<SealedReport>,
}

/// What a rank says of a series.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeriesReport {
    /// Hash of this rank's known set is known, and the set is empty.
    pub writes_nothing: bool,
    /// Time between the begins of its last two datasets, milliseconds; 0 if unknown.
    pub interval_ms: u64,
    /// Names found unsafe on this rank since the last conference.
    pub unsafe_names: Vec<Mark>,
    /// A file was written again inside one checkpoint on this rank.
    pub rewrites: bool,
    /// This rank has learned how files are called before they have their names.
    pub learned: bool,
    /// While learning: names that this rank wrote.
    pub written: Vec<u64>,
    /// While learning: names that this rank read and never wrote; `true`: the name has no id.
    pub read: Vec<(u64, bool)>,
    /// Files of other ranks that the program deleted on this rank, and the sync points passed then.
    pub deleted: Vec<(String, u64)>,
    /// Those of them that have moved with their directory.
    pub moved: Vec<String>,
    /// Files of this rank that another rank deleted and that were written again.
    pub revived: Vec<String>,
    /// Files of other ranks whose newest content this rank writes on the PFS, and the sync points
    /// passed when it began to.
    pub taken: Vec<(String, u64)>,
    /// Files of other ranks that this rank begins to write, there or elsewhere, and the sync points
    /// passed then.
    pub begun: Vec<(String, u64)>,
    /// Names that are never quiet, and their hash with the id masked.
    pub restless: Vec<(String, u64)>,
}

/// A name whose new files stay on the PFS.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mark {
    /// [`name_hash`](super::name_hash) of it with the id masked.
    pub name: u64,
    /// It has no id.
    pub bare: bool,
    /// Why they do.
    pub why: Why,
}

/// What a rank says of a dataset that is not confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetReport {
    /// The dataset.
    pub key: DatasetKey,
    /// Files open for writing.
    pub open: u32,
    /// Files in it on this rank.
    pub files: u32,
    /// Of them, those on the PFS.
    pub on_prefix: u32,
    /// Bytes of its closed files that lie in cache.
    pub bytes: u64,
    /// It has been encoded beside the program here.
    pub encoded: bool,
    /// That has failed here.
    pub failed: bool,
    /// It has changed here since that began.
    pub spoiled: bool,
    /// This rank wrote to it (else it only knows of it).
    pub begun: bool,
    /// Counts what this rank has begun, of all series; 0 if it has not.
    pub order: u64,
    /// It is sealed and provisional, and not amended by this rank.
    pub sealed: bool,
    /// Its set of files here equals the known one.
    pub complete: bool,
    /// Untouched for the settle time.
    pub settled: bool,
    /// Time since this rank touched a file of its series, milliseconds.
    pub quiet_ms: u64,
    /// Time since this rank began it, milliseconds; 0 if it has not.
    pub since_begun_ms: u64,
    /// This rank has begun a later dataset of the series.
    pub followed: bool,
    /// The program deleted some of its files here before they were known to be all.
    pub abandoned: bool,
    /// Why it is invalid.
    pub invalid: Option<String>,
    /// Files in it that a private copy of this rank has replaced on the PFS since the last
    /// conference, and the sync points passed then.
    pub replaced: Vec<(String, u64)>,
    /// For a floating dataset: the newest one that has the same names from an earlier checkpoint;
    /// it belongs to a later one.
    pub after: Option<DatasetKey>,
    /// Its files belong to the generation before: it was begun because of a vote to confirm that
    /// one, which came to nothing.
    pub returns: bool,
    /// The program calls it output: see [`super::SharedDataset::output`].
    pub output: bool,
}

/// What a rank says of a sealed dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedReport {
    /// The dataset.
    pub id: u64,
    /// The program deleted one of its files here.
    pub deleted_from: bool,
    /// It holds names without id that no newer confirmed dataset holds on this rank.
    pub live: bool,
    /// It holds names that no newer confirmed generation of the same id holds on this rank.
    pub held: bool,
}
