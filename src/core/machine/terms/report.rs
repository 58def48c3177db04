//! What each rank says in a conference.

use super::accesses::Accesses;
use super::keys::DatasetKey;
use super::reason::Why;

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
    /// Its store has no room for two more datasets like those in it.
    pub scarce: bool,
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
    /// The most newer checkpoints that there were when the program gave one up here, since the last
    /// conference.
    pub distance: Option<u64>,
    /// Names found unsafe on this rank since the last conference.
    pub unsafe_names: Vec<UnsafeName>,
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
    /// Those of them that are flags or pointers beside checkpoints, and were unlinked.
    pub unlinked: Vec<String>,
    /// Such files of this rank that were unlinked, each with the id of the complete dataset that
    /// goes on without it.
    pub amended: Vec<(String, u64)>,
    /// Those of `deleted` that have moved with their directory.
    pub moved: Vec<String>,
    /// Files of this rank that another rank deleted and that were written again.
    pub revived: Vec<String>,
    /// Files of other ranks whose newest content this rank writes on the PFS, and the sync points
    /// passed when it began to.
    pub taken: Vec<(String, u64)>,
    /// Files of other ranks that this rank begins to write, there or elsewhere, and the sync points
    /// passed then.
    pub begun: Vec<(String, u64)>,
    /// What this rank has done to files that ranks of several nodes write.
    pub watched: Vec<Accesses>,
    /// Names that are never quiet, and their hash with the id masked.
    pub restless: Vec<(String, u64)>,
}

/// A name whose new files stay on the PFS.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UnsafeName {
    /// [`name_hash`](super::name_hash) of it with the id masked.
    pub name: u64,
    /// It has no id.
    pub bare: bool,
    /// Why they do.
    pub why: Why,
}

/// What a rank says of a dataset that is not confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
    /// How far this rank is with encoding it beside the program.
    pub encoding: EncodingReport,
    /// This rank wrote to it (else it only knows of it).
    pub begun: bool,
    /// Counts what this rank has begun, of all series; 0 if it has not.
    pub order: u64,
    /// It is sealed and provisional, and not amended by this rank.
    pub sealed: bool,
    /// Time since this rank touched a file of its series, milliseconds.
    pub quiet_ms: u64,
    /// Time since this rank began it, milliseconds; 0 if it has not.
    pub since_begun_ms: u64,
    /// This rank has begun a later dataset of the series.
    pub followed: bool,
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
    /// What its files here are like.
    pub set: SetReport,
    /// What the program says of it here, or does with it.
    pub word: ProgramWord,
}

impl SealedNews {
    /// Tells whether there is anything to say.
    pub fn is_any(self) -> bool {
        self != SealedNews::default()
    }

    /// Adds what one more rank says.
    pub fn add(&mut self, other: SealedNews) {
        self.deleted_from |= other.deleted_from;
        self.live |= other.live;
        self.held |= other.held;
        self.kept |= other.kept;
    }
}

/// What a rank's files of a dataset are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetReport {
    /// They are the known ones.
    pub complete: bool,
    /// They have all the names that the last confirmed one had.
    pub covers: bool,
    /// They have been left alone for the settle time.
    pub settled: bool,
    /// They are fewer of a kind than in the complete one before it.
    pub lacks: bool,
}

/// What the program says of a dataset, or does with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ProgramWord {
    /// It is output: it must reach the PFS, whatever its number.
    pub output: bool,
    /// The program deleted some of its files before they were known to be all: it is never
    /// confirmed.
    pub abandoned: bool,
}

/// How far the encoding of a dataset beside the program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EncodingReport {
    /// It has come to its end.
    pub encoded: bool,
    /// It has failed.
    pub failed: bool,
    /// The dataset has changed since it began.
    pub spoiled: bool,
}

/// What a rank says of a sealed dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedReport {
    /// The dataset.
    pub id: u64,
    /// What there is to say.
    pub news: SealedNews,
}

/// What a rank says of a sealed dataset, or what any of them says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SealedNews {
    /// The program deleted one of its files here.
    pub deleted_from: bool,
    /// It holds names without id that no newer confirmed dataset holds on this rank.
    pub live: bool,
    /// It holds names that no newer confirmed generation of the same id holds on this rank.
    pub held: bool,
    /// The program still sees a file of it that only the cache has.
    pub kept: bool,
}
