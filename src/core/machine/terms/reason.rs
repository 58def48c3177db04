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
    /// It is changed where it lies: it was neither made anew nor emptied first.
    InPlace,
    /// A rank was told a size that only another node knew.
    Sizes,
    /// It is written in a way that is not seen: through memory, a stream that reads, past the
    /// kernel's cache, by a child, or at its end from several nodes.
    Unseen,
    /// The pieces of each node are too small or too many.
    TooFine,
    /// It is deleted for the next checkpoint before its own is complete: if the caches are lost
    /// before the next one is, there is none.
    DeletedEarly,
    /// Ranks of several nodes write it, each node its own bytes: cached.
    OfNodes(Hints),
    /// The same, as far as was seen: what MPI-IO does when it is told so is to be seen first. If it
    /// is told nothing, too little was seen: the checkpoint seemed to be complete too early.
    Tries(Hints),
}

/// What MPI-IO would have to be told so that each rank writes what it has, where a file of several
/// nodes is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hints {
    /// Nothing: MPI-IO has no part in it.
    None,
    /// Neither to collect the bytes of several ranks nor to read what lies between them.
    Apart,
    /// To collect them on one rank of each node: by themselves they are too small.
    Gathered,
}

impl Why {
    pub const ALL: [Why; 15] = [
        Why::Writers,
        Why::Readers,
        Why::GoesOn,
        Why::Stays,
        Why::InPlace,
        Why::Sizes,
        Why::Unseen,
        Why::TooFine,
        Why::OfNodes(Hints::None),
        Why::OfNodes(Hints::Apart),
        Why::OfNodes(Hints::Gathered),
        Why::Tries(Hints::Apart),
        Why::Tries(Hints::Gathered),
        Why::Tries(Hints::None),
        Why::DeletedEarly,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Why::Writers => "WRITERS",
            Why::Readers => "READERS",
            Why::GoesOn => "GOES_ON",
            Why::Stays => "STAYS",
            Why::InPlace => "IN_PLACE",
            Why::Sizes => "SIZES",
            Why::Unseen => "UNSEEN",
            Why::TooFine => "TOO_FINE",
            Why::DeletedEarly => "DELETED_EARLY",
            Why::OfNodes(Hints::None) => "OF_NODES",
            Why::OfNodes(Hints::Apart) => "OF_NODES_APART",
            Why::OfNodes(Hints::Gathered) => "OF_NODES_GATHERED",
            Why::Tries(Hints::Gathered) => "TRIES_GATHERED",
            Why::Tries(Hints::Apart) => "TRIES_APART",
            Why::Tries(Hints::None) => "TRIES",
        }
    }

    /// Says it in a clause, as [`Reason::text`] does.
    pub fn text(self) -> &'static str {
        match self {
            Why::Writers => "several ranks write it",
            Why::Readers => "ranks of other nodes read it, or rename it, during the run",
            Why::GoesOn => "a checkpoint goes on in it after a collective",
            Why::Stays => "it is renamed in a way that the cache cannot do",
            Why::InPlace => "several nodes change it where it lies",
            Why::Sizes => {
                "a rank opens it, or asks how long it is, right after other nodes make or write it"
            }
            Why::Unseen => "several nodes write it in a way that SCR cannot follow",
            Why::TooFine => "several nodes write it in pieces that are too small or too many",
            Why::DeletedEarly => "it is deleted for the next checkpoint before its own is complete",
            Why::OfNodes(Hints::None) => "each of several nodes writes a part of it",
            Why::OfNodes(Hints::Apart) => "each of several nodes writes a part of it by MPI-IO",
            Why::OfNodes(Hints::Gathered) => {
                "each of several nodes writes small pieces of it by collective MPI-IO"
            }
            Why::Tries(Hints::Gathered) => {
                "several nodes write small pieces of it by collective MPI-IO, each its own"
            }
            Why::Tries(Hints::Apart) => "several nodes write it by MPI-IO, each its own part",
            Why::Tries(Hints::None) => "several nodes write it, some long after others",
        }
    }

    /// Says why a file keeps its whole series, which has no ids, on the PFS, and what helps.
    #[must_use]
    pub fn keeps_series(self) -> (String, String) {
        const NAMES: &str = "Names that differ from checkpoint to checkpoint, with {id} in the \
                         pattern, help; or leave that file out (SCR_IGNORE_PATTERN) if no restart \
                         needs it";
        match self {
        Why::GoesOn => (
            "is written anew at each checkpoint and goes on after a collective, so that nothing \
             tells where a checkpoint ends"
                .into(),
            "If the state after each collective can be restarted from, \":own\" behind each \
             pattern of the series has it cached"
                .into(),
        ),
        Why::Writers => ("has no {id} and is written by several ranks".into(), NAMES.into()),
        Why::Readers => (
            "has no {id} and is read by ranks of other nodes in mid-run, or renamed when it is \
             complete"
                .into(),
            NAMES.into(),
        ),
        Why::Stays => (
            "has no {id} and is renamed in a way that the cache cannot do".into(),
            NAMES.into(),
        ),
        _ => (format!("has no {{id}} and {}", self.text()), format!("{}. {NAMES}", self.help())),
    }
    }

    /// Says what a user can change so that the file is cached; empty if nothing helps that is known
    /// here.
    pub fn help(self) -> &'static str {
        match self {
            Why::Writers => {
                "Ranks of several nodes write the same bytes with no collective call of all ranks \
                 between them, or it was not seen that they do not. A barrier helps, and in \
                 a library its own switch: no fill values (H5Pset_fill_time, nc_set_fill), no \
                 MPI_File_preallocate"
            }
            Why::Readers => {
                "Of chunks that are compressed each rank is to write whole ones, so that nobody \
                 reads another rank's; what is read back can be read after the next checkpoint"
            }
            Why::GoesOn => {
                "Close the file before the next checkpoint begins, on all ranks, and let no long \
                 pause lie between its header and the rest"
            }
            Why::Stays => "",
            Why::InPlace => "A new name for each checkpoint, or one that is emptied first, helps",
            Why::Sizes => {
                "A barrier between the rank that makes the file and those that open it helps, \
                 offsets that each rank computes (MPI_Exscan) instead of the file's end, or a \
                 collective call before the size is asked; those on a file count if all ranks of \
                 the program have it open"
            }
            Why::Unseen => {
                "pwrite or MPI-IO instead of a stream that reads, O_APPEND, mmap or O_DIRECT; or a \
                 file for each node (a communicator of MPI_COMM_TYPE_SHARED)"
            }
            Why::TooFine => {
                "Larger pieces for each rank: collective calls (MPI_File_write_at_all, \
                 H5FD_MPIO_COLLECTIVE), or chunks of at least 4 KiB"
            }
            Why::DeletedEarly => {
                "To empty it (O_TRUNC, MPI_File_set_size) in place of deleting it helps, or \
                 a collective call some time after it is closed"
            }
            Why::OfNodes(_) | Why::Tries(_) => {
                "Each node keeps its part in the cache, unless SCR_SHARED_CACHE=0 is set; under a \
                 name without {id} from the third time on"
            }
        }
    }

    /// Tells whether each of several nodes writes its own bytes, as far as is known.
    pub fn is_of_nodes(self) -> bool {
        matches!(self, Why::OfNodes(_) | Why::Tries(_))
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
    LeftCaches,
}

impl Reason {
    pub const ALL: [Reason; 35] = [
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
        Reason::Learned(Why::InPlace),
        Reason::Learned(Why::Sizes),
        Reason::Learned(Why::Unseen),
        Reason::Learned(Why::TooFine),
        Reason::Learned(Why::OfNodes(Hints::None)),
        Reason::Learned(Why::OfNodes(Hints::Apart)),
        Reason::Learned(Why::OfNodes(Hints::Gathered)),
        Reason::Learned(Why::Tries(Hints::Apart)),
        Reason::Learned(Why::Tries(Hints::Gathered)),
        Reason::LeftCaches,
        Reason::Learned(Why::DeletedEarly),
    ];

    /// Says it in a clause that goes on from "it is there since".
    pub fn text(self) -> &'static str {
        match self {
            Reason::Watched => {
                "SCR watches how the program writes such files before it caches them"
            }
            Reason::SeriesStays => "another file of its series cannot be cached",
            Reason::Learned(why) => why.text(),
            Reason::FallenBack => "the cache was given up after an error",
            Reason::WaitsForFlush => "the store is full of datasets that wait for their flush",
            Reason::NoAgreement => "no agreement of the ranks was in sight",
            Reason::Unsealable => "its checkpoint could not be sealed in the cache",
            Reason::NoRoom => "the store had no room",
            Reason::StoreFailed => "the store had failed",
            Reason::Shared => "another rank or a child process writes it there",
            Reason::Follows => "its older content was open or lay there",
            Reason::LeftCaches => "it had to leave the caches while it was written",
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

    /// Tells whether it is for the end of the run to say it: there is no message of it when it
    /// happens, and it is no wish of the user (SCR_SHARED_CACHE).
    pub fn is_untold(self) -> bool {
        !matches!(
            self,
            Reason::SeriesStays
                | Reason::Learned(Why::OfNodes(_))
                | Reason::FallenBack
                | Reason::WaitsForFlush
                | Reason::NoAgreement
                | Reason::Unsealable
                | Reason::NoRoom
                | Reason::StoreFailed
                | Reason::NeverQuiet
                | Reason::Wanted
                | Reason::ChangedApart
                | Reason::Evicted
        )
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
