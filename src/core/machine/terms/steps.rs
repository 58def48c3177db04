//! What a conference decides, in the order in which all ranks perform it.

use super::keys::DatasetKey;

/// One thing that every rank does now. All ranks get the same steps in the same order; only the
/// file lists are each rank's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Files that this rank wrote into `from` belong to `into`: move them (rename within the store;
    /// open descriptors follow), re-key their tokens, forget `from`. Local.
    Adopt {
        /// The floating dataset (empty id), or the next generation of `into`.
        from: DatasetKey,
        /// The dataset that the files belong to.
        into: DatasetKey,
        /// This rank's files in `from`, names relative to the prefix; those on the PFS stay there.
        files: Vec<String>,
        /// This rank has no record of `into` yet: write it (state Open) before moving.
        begin: bool,
        /// This rank's record of `into` says Prepared: set it back to Open, durably, first.
        revoke: bool,
    },
    /// Begin to encode a dataset beside the program; nobody waits for it until an agreement tells
    /// that all have called [`crate::machine::Machine::encoded`]. Outcome by allreduce.
    Encode(SealPlan),
    /// What was encoded beside the program is of no use any more: wait for its end, forget it.
    Discard {
        /// The dataset.
        key: DatasetKey,
        /// Some rank's part has failed: it is not waited for what others may never send.
        failed: bool,
    },
    /// Seal a dataset, in two phases; see [`crate::machine`]. Of one that was encoded beside the
    /// program, wait for the end of that, and take it.
    Seal(SealPlan),
    /// A provisional dataset is complete: vote ([`crate::machine::Machine::vote`]), allreduce, then
    /// the node leaders write the durable marker, allreduce, done.
    Confirm {
        /// The dataset.
        key: DatasetKey,
        /// Its number.
        id: u64,
    },
    /// All ranks have left a provisional dataset alone for longer than it took: the node leaders
    /// write a durable marker, with which a restart may offer it, as it was at this seal, although
    /// a node is lost. All were sealed and untouched at the conference's sync point, so one marker
    /// is enough, whatever the program writes since. Failures stay local.
    Trust {
        /// The dataset.
        key: DatasetKey,
        /// Its number.
        id: u64,
    },
    /// A dataset is invalid: record it as such, report it. Its files stay readable until `Evict`.
    Drop {
        /// The dataset.
        key: DatasetKey,
        /// Its number; 0 if it never had one.
        id: u64,
        /// The rank that voted invalid first.
        rank: usize,
        /// Its reason, for people.
        reason: String,
    },
    /// A newer dataset is confirmed: these deletions by the program on this rank become real.
    PublishDeletions {
        /// The series.
        series: usize,
        /// Names relative to the prefix, on this rank.
        files: Vec<String>,
    },
    /// Write a confirmed dataset to the PFS. A file whose path a newer sealed dataset also holds
    /// is left out, so that a late flush never replaces newer content. Outcome by allreduce.
    Flush {
        /// The dataset.
        key: DatasetKey,
        /// Its number.
        id: u64,
        /// Older ones of which it needs files and that are not known to be complete: see
        /// [`crate::machine::Machine::files_along`]. All are published together, or nothing.
        along: Vec<DatasetKey>,
    },
    /// Remove a dataset from the cache: files first, records after. Failures stay local.
    Evict {
        /// The dataset.
        key: DatasetKey,
        /// Its number; 0 if it never had one (then its directory is named by the key).
        id: u64,
    },
    /// The knowledge of a series is new or has changed: gather it, rank 0 stores it.
    Learned {
        /// The series.
        series: usize,
    },
    /// This dataset cannot be sealed in the cache (files are still open at the end, or seals fail
    /// again and again): all ranks write their closed files to the PFS. Outcome by allreduce:
    /// `Done` if no rank has a file of it in the cache alone any more, `Touched` if one has that is
    /// not to be on the PFS (any more), `Failed` if one could not be written.
    Spill {
        /// The dataset.
        key: DatasetKey,
        /// This rank's closed files in it that are not on the PFS.
        files: Vec<String>,
    },
    /// This dataset cannot be sealed on the PFS either: its files stay where they are, and no later
    /// one waits for it.
    GiveUp {
        /// The dataset.
        key: DatasetKey,
    },
    /// All is sealed and flushed: record the reason and exit.
    Halt {
        /// The largest reason code that a rank gave.
        reason: i64,
    },
}

/// The plan of one seal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SealPlan {
    /// The dataset.
    pub key: DatasetKey,
    /// Its number, never used before (unless `resealed`).
    pub id: u64,
    /// Number of the dataset in its series: settles the redundancy descriptor.
    pub number: u64,
    /// Written into every record and redundancy file of this seal.
    pub epoch: u64,
    /// It is confirmed the moment it is sealed.
    pub confirmed: bool,
    /// Sealed before and amended since: the directory is already named by `id`.
    pub resealed: bool,
    /// No rank has a file of it in cache: no redundancy, no directory.
    pub on_prefix: bool,
}

/// What the all-reduced words of an agreement ask for; equal on all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Go on with the program's own call.
    Continue,
    /// Gather every rank's report, call [`crate::machine::Machine::confer`], perform the steps.
    Confer,
    /// Nothing was agreed on: some rank does something else at this moment. Go on.
    Postponed,
    /// Some rank takes no part in agreements any more: none ever again.
    Ended,
    /// The ranks do not pass the same sync points: no agreement ever again on any rank.
    Disabled {
        /// Largest count of sync points on any rank.
        most: i64,
        /// Smallest.
        least: i64,
    },
}

/// Outcome of a step, the worst of all ranks' where ranks agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// All went well.
    Done,
    /// The program touched the dataset meanwhile: nothing is wrong, it is tried again later.
    Touched,
    /// An error of ours.
    Failed,
}

impl Outcome {
    /// Returns the word for an all-reduce by maximum.
    #[must_use]
    pub fn to_word(self) -> i64 {
        match self {
            Outcome::Done => 0,
            Outcome::Touched => 1,
            Outcome::Failed => 2,
        }
    }

    /// Reads what [`Outcome::to_word`] has made; anything unknown is a failure.
    #[must_use]
    pub fn from_word(word: i64) -> Self {
        match word {
            0 => Outcome::Done,
            1 => Outcome::Touched,
            _ => Outcome::Failed,
        }
    }
}

/// A file of a seal on this rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealFile {
    /// Name relative to the prefix.
    pub name: String,
    /// Its size at the last close, bytes.
    pub bytes: u64,
    /// It lies on the PFS: recorded, not protected.
    pub on_prefix: bool,
}
