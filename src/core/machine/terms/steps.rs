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
        into: DatasetKey,
        /// This rank's files in `from`; those on the PFS stay there.
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
        key: DatasetKey,
        /// On some rank: what others may never send is not waited for.
        failed: bool,
    },
    /// Seal a dataset, in two phases; see [`crate::machine`]. If it was encoded beside the program,
    /// wait for the end of that, and take it.
    Seal(SealPlan),
    /// A provisional dataset is complete: vote ([`crate::machine::Machine::vote`]), allreduce, then
    /// the node leaders write the durable marker, allreduce, done.
    Confirm { key: DatasetKey, id: u64 },
    /// All ranks have left a provisional dataset alone for longer than it took: the node leaders
    /// write a durable marker, with which a restart may offer it, as it was at this seal, although
    /// a node is lost. One marker is enough, since no rank had touched it at the conference's sync
    /// point. Failures stay local.
    Trust { key: DatasetKey, id: u64 },
    /// A dataset is invalid: record it as such, report it. Its files stay readable until `Evict`.
    Drop {
        key: DatasetKey,
        id: u64,
        /// The rank that voted invalid first, with its reason for people.
        rank: usize,
        reason: String,
    },
    /// A newer dataset is confirmed: these deletions by the program on this rank become real.
    PublishDeletions { series: usize, files: Vec<String> },
    /// Write a confirmed dataset to the PFS. A file that a newer sealed dataset also holds is left
    /// out, so that a late flush never replaces newer content. Outcome by allreduce.
    Flush {
        key: DatasetKey,
        id: u64,
        /// Older ones, not known to be complete, of which it needs files
        /// ([`crate::machine::Machine::files_along`]). All are published together, or nothing.
        along: Vec<DatasetKey>,
    },
    /// Remove a dataset from the cache: files first, records after. Failures stay local.
    Evict {
        key: DatasetKey,
        /// 0 if it never had a number; then its directory is named by the key.
        id: u64,
    },
    /// The knowledge of a series is new or has changed: gather it, rank 0 stores it.
    Learned { series: usize },
    /// This dataset cannot be sealed in the cache: all ranks write their closed files to the PFS.
    /// Outcome by allreduce: `Done` if no rank has a file of it in the cache alone any more,
    /// `Touched` if one has that is not to be on the PFS (any more), `Failed` if one could not be
    /// written.
    Spill { key: DatasetKey, files: Vec<String> },
    /// This dataset cannot be sealed on the PFS either: its files stay where they are, and no later
    /// one waits for it.
    GiveUp { key: DatasetKey },
    /// All is sealed and flushed: record the reason and exit.
    Halt { reason: i64 },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SealPlan {
    pub key: DatasetKey,
    /// Never used before, unless `resealed`.
    pub id: u64,
    /// Its number in its series: settles the redundancy descriptor.
    pub number: u64,
    /// Written into every record and redundancy file of this seal.
    pub epoch: u64,
    pub confirmed: bool,
    /// Sealed before and amended since: the directory is already named by `id`.
    pub resealed: bool,
    /// No rank has a file of it in cache: no redundancy, no directory.
    pub on_prefix: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    Continue,
    /// Gather every rank's report, call [`crate::machine::Machine::confer`], perform the steps.
    Confer,
    /// Some rank does something else at this moment: nothing was agreed on.
    Postponed,
    Ended,
    /// The ranks do not pass the same sync points: no agreement ever again on any rank. These are
    /// the largest and the smallest count.
    Disabled {
        most: i64,
        least: i64,
    },
}

/// Outcome of a step, the worst of all ranks' where ranks agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Done,
    /// The program touched the dataset meanwhile: it is tried again later.
    Touched,
    Failed,
}

impl Outcome {
    pub fn to_word(self) -> i64 {
        self as i64
    }

    /// Takes anything unknown for a failure.
    pub fn from_word(word: i64) -> Self {
        match word {
            0 => Outcome::Done,
            1 => Outcome::Touched,
            _ => Outcome::Failed,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealFile {
    pub name: String,
    pub bytes: u64,
    /// It lies on the PFS: recorded, not protected.
    pub on_prefix: bool,
}
