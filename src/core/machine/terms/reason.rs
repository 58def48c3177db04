//! Why a file that a pattern matches is on the prefix under its own name: kept with the file,
//! counted, and told to who asks.

/// Why new files of a name stay on the PFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    Writers,
    /// Ranks of other nodes read it while the run goes on.
    Readers,
    /// A checkpoint goes on after a collective, in place.
    GoesOn,
    /// It got its name by a rename, but cannot be moved into the cache.
    Stays,
}

impl Why {
    pub(super) const ALL: [Why; 4] = [Why::Writers, Why::Readers, Why::GoesOn, Why::Stays];

    pub fn word(self) -> &'static str {
        match self {
            Why::Writers => "WRITERS",
            Why::Readers => "READERS",
            Why::GoesOn => "GOES_ON",
            Why::Stays => "STAYS",
        }
    }

    pub fn from_word(word: &str) -> Option<Why> {
        Why::ALL.into_iter().find(|why| why.word() == word)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    Watched,
    SeriesStays,
    /// It was seen what the program does with such files.
    Learned(Why),
    FallenBack,
    WaitsForFlush,
    NoAgreement,
    Unsealable,
    NoRoom,
    StoreFailed,
    Shared,
    Follows,
    Linked,
    DirectoryMoved,
    RenamedOut,
    Temporary,
    OpenedTogether,
    NeverQuiet,
    Wanted,
    Special,
    ChangedApart,
    Evicted,
}

impl Reason {
    pub const ALL: [Reason; 24] = [
        Reason::Watched,
        Reason::SeriesStays,
        Reason::Learned(Why::Writers),
        Reason::Learned(Why::Readers),
        Reason::Learned(Why::GoesOn),
        Reason::Learned(Why::Stays),
        Reason::FallenBack,
        Reason::WaitsForFlush,
        Reason::NoAgreement,
        Reason::Unsealable,
        Reason::NoRoom,
        Reason::StoreFailed,
        Reason::Shared,
        Reason::Follows,
        Reason::Linked,
        Reason::DirectoryMoved,
        Reason::RenamedOut,
        Reason::Temporary,
        Reason::OpenedTogether,
        Reason::NeverQuiet,
        Reason::Wanted,
        Reason::Special,
        Reason::ChangedApart,
        Reason::Evicted,
    ];

    /// Says it in a clause that goes on from "it is there since".
    pub fn text(self) -> &'static str {
        match self {
            Reason::Watched => {
                "SCR watches how the program writes such files before it caches them"
            }
            Reason::SeriesStays => "another file of its series cannot be cached",
            Reason::Learned(Why::Writers) => "several ranks write it",
            Reason::Learned(Why::Readers) => "ranks of other nodes read it during the run",
            Reason::Learned(Why::GoesOn) => "a checkpoint goes on in it after a collective",
            Reason::Learned(Why::Stays) => "it gets its name by a rename that the cache cannot do",
            Reason::FallenBack => "the cache was given up after an error",
            Reason::WaitsForFlush => "the store is full of datasets that wait for their flush",
            Reason::NoAgreement => "no agreement of the ranks was in sight",
            Reason::Unsealable => "its checkpoint could not be sealed in the cache",
            Reason::NoRoom => "the store had no room",
            Reason::StoreFailed => "the store had failed",
            Reason::Shared => "another rank or a child process writes it there",
            Reason::Follows => "its older content was open or lay there",
            Reason::Linked => "the program made a hard link of it",
            Reason::DirectoryMoved => "its directory was renamed",
            Reason::RenamedOut => "it was renamed to a name that no pattern matches",
            Reason::Temporary => "it kept its temporary name",
            Reason::OpenedTogether => "ranks opened it together by MPI-IO",
            Reason::NeverQuiet => "no checkpoint can wait for it: it is written to all the time",
            Reason::Wanted => "a rank of another node waited for it",
            Reason::ChangedApart => "the program changed it other than by calls of SCR",
            Reason::Special => "it was opened with O_DIRECT or O_TMPFILE",
            Reason::Evicted => "its checkpoint had left the cache while it was open",
        }
    }

    /// Returns its place in [`Reason::ALL`].
    pub fn index(self) -> usize {
        Reason::ALL.iter().position(|one| *one == self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reason_has_its_place_and_words_of_its_own() {
        let places: Vec<usize> = Reason::ALL.iter().map(|reason| reason.index()).collect();
        assert_eq!(places, (0..Reason::ALL.len()).collect::<Vec<_>>());
        let texts: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.text()).collect();
        assert_eq!(texts.len(), Reason::ALL.len());
    }
}
