//! What a restart found: which datasets it offers, and which it does not (`cache::decide` judges).

use std::collections::BTreeSet;

use super::keys::DatasetKey;

/// A dataset that is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The dataset.
    pub key: DatasetKey,
    /// Its number.
    pub id: u64,
    /// Number of the dataset in its series.
    pub number: u64,
    /// The epoch that all its parts must carry.
    pub epoch: u64,
    /// Known to be complete.
    pub confirmed: bool,
    /// The program called it output.
    pub output: bool,
    /// On the PFS only.
    pub on_prefix: bool,
    /// On the PFS too.
    pub flushed: bool,
}

/// A dataset that is there but not offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The dataset.
    pub key: DatasetKey,
    /// Its number; 0 if no record has one.
    pub id: u64,
}

/// What the rebuild came to; equal on all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestartDecision {
    /// Datasets that are offered, lowest id first.
    pub offered: Vec<Offer>,
    /// Datasets whose cached parts do not count. They are hidden, and removed only after a newer
    /// one is confirmed.
    pub rejected: Vec<Rejected>,
    /// Largest id in any record, 0 if none.
    pub last_id: u64,
}

/// A rank's own part of a dataset that the restart offers or rejects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoredFiles {
    /// Names relative to the prefix, the same with the id masked, bytes, on the PFS.
    pub files: Vec<(String, String, u64, bool)>,
    /// Names of those of which the PFS has what the program has made of them since.
    pub left: BTreeSet<String>,
}

/// What a restart hands to the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resumed {
    /// The decision after the rebuild; equal on all ranks.
    pub decision: RestartDecision,
    /// This rank's files of each offered dataset, in the order of `decision.offered`.
    pub own: Vec<RestoredFiles>,
    /// Largest dataset id that the prefix's index knows; equal on all ranks.
    pub last_id: u64,
    /// Per series, the largest number in series that the prefix's index knows.
    pub last_numbers: Vec<u64>,
    /// Series, captured id and number of what that index has.
    pub listed: Vec<(usize, String, u64)>,
}
