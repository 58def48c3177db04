//! What a restart may do with a dataset, and why.

use std::collections::BTreeSet;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// To be done: it is whole in the cache, but the nodes have no room to move it.
    PublishFromHolders,
    /// To be done: the files that are kept beside get their names back from a newer one, which may
    /// have been found `damaged`.
    BringBack {
        damaged: bool,
    },
    /// To be done: it is looked at, and copied into the cache if it is good.
    Fetch,
    /// To be done: it is looked at where it is.
    Look(LookedFor),
    /// To be done: the program begins with it where it is, and files that newer ones have changed
    /// are again as they were.
    PutBack,
    Offer,
    ReadInPlace,
    Hide(HiddenBecause),
    /// What lies there is not ours to judge.
    Leave,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LookedFor {
    /// As a candidate; in full if the program `restarts` from it.
    Candidate {
        restarts: bool,
    },
    ToHide,
    ToStay,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HiddenBecause {
    NewerThanChosen,
    /// An earlier start has left it; the run has `gone_on` since, so that its names may be those of
    /// newer ones.
    Left {
        gone_on: bool,
    },
    Damaged,
    /// It is newer than the index's current one, which is good.
    AfterCurrent {
        damaged: bool,
    },
    /// It is older than the current one, but of a course that the run has left for good. What it
    /// shares with the newest of its `own` course is seen, such as a pointer.
    OtherCourse {
        own: u64,
    },
    /// A newer one is read on the prefix, and has names of it.
    OlderThan(u64),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum FilesFound {
    #[default]
    Right,
    Damaged,
    /// None is left, or somebody has written all of them anew.
    Gone,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LookResult {
    pub files: FilesFound,
    /// Somebody has written all files anew, perhaps as they were.
    pub anew: bool,
    pub has_names: bool,
    pub fetched: bool,
    pub shares: BTreeSet<u64>,
}

/// What is to become of all datasets, in the order in which it is to be done and told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StartPlan {
    /// A dataset that is not here stays as it is.
    pub verdicts: Vec<(u64, Fate)>,
    /// Those whose files are what they were with them, though hidden ones may have their names.
    pub good: BTreeSet<u64>,
    /// The newest one on the prefix that the program begins with; 0 if the cache has newer ones of
    /// all series.
    pub restart: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Current {
    Is(u64),
    /// None, since the run goes back to this one, which only the cache has.
    OnlyCached(u64),
}

impl FilesFound {
    pub fn of(is_damaged: bool, is_gone: bool) -> FilesFound {
        match (is_damaged, is_gone) {
            (true, _) => FilesFound::Damaged,
            (_, true) => FilesFound::Gone,
            _ => FilesFound::Right,
        }
    }
}

impl Fate {
    fn is_open(&self) -> bool {
        use Fate::{BringBack, Fetch, Look, PublishFromHolders, PutBack};
        matches!(self, PublishFromHolders | BringBack { .. } | Fetch | Look(_) | PutBack)
    }

    /// Tells whether it is in the cache, and the program does not see it there.
    pub fn withdraws(&self) -> bool {
        use HiddenBecause::{Damaged, Left, NewerThanChosen, OlderThan};
        let Fate::Hide(reason) = self else { return false };
        matches!(reason, NewerThanChosen | Left { .. } | Damaged | OlderThan(_))
    }
}

impl StartPlan {
    /// Returns the first that is to be done before more can be said.
    pub fn next(&self) -> Option<&(u64, Fate)> {
        self.verdicts.iter().find(|(_, verdict)| verdict.is_open())
    }

    /// Tells whether the program does not see it in the cache, and not just because it gives way to
    /// a newer one on the prefix.
    pub fn is_rejected(&self, id: u64) -> bool {
        let gives_way = |verdict: &Fate| matches!(verdict, Fate::Hide(HiddenBecause::OlderThan(_)));
        let mut own = self.verdicts.iter().filter(|(one, _)| *one == id);
        own.any(|(_, verdict)| verdict.withdraws() && !gives_way(verdict))
    }

    /// Returns the newest that the program reads where it is; 0 if there is none.
    pub fn newest_in_place(&self) -> u64 {
        let read = self.verdicts.iter().filter(|(_, verdict)| *verdict == Fate::ReadInPlace);
        read.map(|(id, _)| *id).max().unwrap_or(0)
    }

    pub fn say(&mut self, id: u64, verdict: Fate) {
        self.verdicts.push((id, verdict));
    }

    /// Tells whether the program does not see in the cache what the cache has of it.
    pub fn is_withdrawn(&self, id: u64) -> bool {
        self.verdicts.iter().any(|(one, verdict)| *one == id && verdict.withdraws())
    }
}
