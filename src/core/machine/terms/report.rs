//! What each rank says in a conference.

use super::accesses::Accesses;
use super::keys::DatasetKey;
use super::reason::Why;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Fresh random bits; rank 0's become the epochs of the seals.
    pub entropy: u64,
    pub digest: u64,
    /// Reason code; 0 for none.
    pub halt: i64,
    /// The program is in MPI_Finalize (all ranks or none).
    pub ending: bool,
    /// This rank cannot use the cache any more.
    pub fallen_back: bool,
    /// Its store has no room for two more datasets like those in it.
    pub scarce: bool,
    /// It can encode beside the program: it has a processor for it.
    pub aside: bool,
    pub series: Vec<SeriesReport>,
    /// In progress on this rank or known to be, and provisional ones; oldest first.
    pub datasets: Vec<DatasetReport>,
    pub sealed: Vec<SealedReport>,
}

/// What a rank says of a series; lists have what is new since the last conference.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeriesReport {
    /// This rank's known set of names is empty.
    pub writes_nothing: bool,
    /// Between the begins of its last two datasets; 0 if unknown.
    pub interval_ms: u64,
    /// The most newer checkpoints that there were when the program gave one up.
    pub distance: Option<u64>,
    pub unsafe_names: Vec<UnsafeName>,
    /// A file was written again inside one checkpoint.
    pub rewrites: bool,
    /// This rank has learned how files are called before they have their names.
    pub learned: bool,
    /// While learning: names that this rank wrote.
    pub written: Vec<u64>,
    /// While learning: names that this rank read and never wrote; `true`: the name has no id.
    pub read: Vec<(u64, bool)>,
    /// Files of other ranks that the program deleted on this rank, with the sync points passed
    /// then.
    pub deleted: Vec<(String, u64)>,
    /// Those of `deleted` that are flags or pointers beside checkpoints, and were unlinked.
    pub unlinked: Vec<String>,
    /// Such files of this rank, with the ids of the complete datasets that go on without them.
    pub amended: Vec<(String, u64)>,
    /// Those of `deleted` that have moved with their directory.
    pub moved: Vec<String>,
    /// Files of this rank that another rank deleted, written again.
    pub revived: Vec<String>,
    /// Files of other ranks whose newest content this rank writes on the PFS, with the sync points
    /// passed when it began to.
    pub taken: Vec<(String, u64)>,
    /// Files of other ranks that this rank begins to write, there or elsewhere, with the sync
    /// points passed then.
    pub begun: Vec<(String, u64)>,
    /// What this rank has done to files that ranks of several nodes write.
    pub watched: Vec<Accesses>,
    /// Names that are never quiet, and their hash with the id masked.
    pub restless: Vec<(String, u64)>,
}

/// A name whose new files stay on the PFS.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UnsafeName {
    pub name: u64,
    /// [`kind_hash`](super::kind_hash) of it; of one that several ranks write, its name.
    pub kind: u64,
    pub bare: bool,
    pub why: Why,
}

/// What a rank says of a dataset that is not confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DatasetReport {
    pub key: DatasetKey,
    pub open: u32,
    pub files: u32,
    /// Of `files`, those on the PFS.
    pub on_prefix: u32,
    /// Of these, those whose names have the id.
    pub named_there: u32,
    /// Of its closed files in cache.
    pub bytes: u64,
    pub encoding: EncodingReport,
    /// This rank wrote to it; else it only knows of it.
    pub begun: bool,
    /// Counts what this rank has begun, of all series; 0 if it has not.
    pub order: u64,
    /// It is sealed and provisional, and not amended by this rank.
    pub sealed: bool,
    /// Since this rank touched a file of its series.
    pub quiet_ms: u64,
    /// 0 if this rank has not begun it.
    pub since_begun_ms: u64,
    /// This rank has begun a later dataset of the series.
    pub followed: bool,
    pub invalid: Option<String>,
    /// Files that a private copy of this rank has replaced on the PFS since the last conference,
    /// with the sync points passed then.
    pub replaced: Vec<(String, u64)>,
    /// The newest dataset with the same names, of an earlier checkpoint: a floating one belongs to
    /// a later one.
    pub after: Option<DatasetKey>,
    /// Its files belong to the generation before: it was begun because of a vote to confirm that
    /// one, which failed.
    pub returns: bool,
    pub set: SetReport,
    pub word: ProgramWord,
}

impl SealedNews {
    pub fn is_any(self) -> bool {
        self != SealedNews::default()
    }

    pub fn add(&mut self, other: SealedNews) {
        self.deleted_from |= other.deleted_from;
        self.live |= other.live;
        self.held |= other.held;
        self.kept |= other.kept;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetReport {
    /// By what the sum of their names' hashes is more than that of the known ones; `None` if that
    /// cannot be said.
    pub excess: Option<u64>,
    /// They have all names of the datasets before.
    pub covers: bool,
    /// They have been left alone for the settle time.
    pub settled: bool,
    /// They are fewer of a kind than in the complete dataset before.
    pub lacks: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ProgramWord {
    /// It must reach the PFS, whatever its number.
    pub output: bool,
    /// The program deleted some of its files before they were known to be all: it is never
    /// confirmed.
    pub abandoned: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EncodingReport {
    pub encoded: bool,
    pub failed: bool,
    pub spoiled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedReport {
    pub id: u64,
    pub news: SealedNews,
}

/// What a rank says of a sealed dataset, or all of them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SealedNews {
    /// The program deleted one of its files.
    pub deleted_from: bool,
    /// It has names without id that no newer confirmed dataset has on that rank.
    pub live: bool,
    /// It has names that no newer confirmed generation of its id has on that rank.
    pub held: bool,
    /// The program still sees a file of it that only the cache has.
    pub kept: bool,
}
