//! What a restart found: which datasets it offers, and which it does not (`cache::decide` judges).

use std::collections::BTreeSet;

use super::keys::DatasetKey;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub key: DatasetKey,
    pub id: u64,
    pub number: u64,
    pub epoch: u64,
    /// Known to be complete.
    pub confirmed: bool,
    pub output: bool,
    pub on_prefix: bool,
    pub flushed: bool,
}

/// A dataset that is there but not offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    pub key: DatasetKey,
    /// 0 if no record has one.
    pub id: u64,
}

/// Equal on all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestartDecision {
    pub offered: Vec<Offer>,
    /// Their cached parts do not count: hidden, and removed only after a newer one is confirmed.
    pub rejected: Vec<Rejected>,
    /// Largest id in any record, 0 if none.
    pub last_id: u64,
}

/// A rank's own part of a dataset that the restart offers or rejects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoredFiles {
    /// Name relative to the prefix, the same with the id masked, bytes, whether it is on the PFS.
    pub files: Vec<(String, String, u64, bool)>,
    /// Files of which the PFS has what the program has made of them since.
    pub left: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resumed {
    pub decision: RestartDecision,
    /// This rank's files of each offered dataset, in the order of `decision.offered`.
    pub own: Vec<RestoredFiles>,
    /// Largest dataset id in the prefix's index; equal on all ranks.
    pub last_id: u64,
    /// By series, the largest number in series in that index.
    pub last_numbers: Vec<u64>,
    /// Series, captured id and number of what that index has.
    pub listed: Vec<(usize, String, u64)>,
}
