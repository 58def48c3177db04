//! What is done to a file through the descriptors of a rank: a log in memory that the shim writes
//! and the engine reads.
//!
//! No lock, no allocation, no system call: threads write it, handlers of signals, and children that
//! share the memory. An entry counts from the moment on at which its word is there.

use core::sync::atomic::{AtomicU64, Ordering};

/// Entries of a log.
pub const ENTRIES: usize = 1 << 16;

/// What a call has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Deed {
    /// It has written these bytes.
    Write = 1,
    /// It has read them.
    Read,
    /// It was told the file's size, which is `end`.
    Size,
    /// It has made the file `end` bytes long, whatever it was.
    Cut,
    /// It has made the file at least `end` bytes long.
    Grow,
    /// It has opened the file, which was not there before, or which that has emptied; `end`:
    /// barriers that the rank had entered. Or it makes the file together with others by MPI-IO.
    Made,
    /// It has opened the file, which had to be there, or, with 1 for `start`, was; `end` as with
    /// [`Deed::Made`].
    Found,
}

/// In which call of MPI-IO that was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Within {
    /// In none that writes.
    #[default]
    Nothing = 0,
    /// In one that writes.
    Write,
    /// In one by which all ranks of a communicator write.
    WriteAll,
    /// In one that writes and has read before: it writes what it has read, but for the program's
    /// own bytes (data sieving).
    Sieve,
}

const DEEDS: [Deed; 7] =
    [Deed::Write, Deed::Read, Deed::Size, Deed::Cut, Deed::Grow, Deed::Made, Deed::Found];
const WITHIN: [Within; 4] = [Within::Nothing, Within::Write, Within::WriteAll, Within::Sieve];

/// When it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    /// Sync points that the rank had entered.
    pub points: u64,
    /// The last blocking collective call that it had entered on a file of some of the ranks: the
    /// number of that group of ranks in the upper half, which of their calls in the lower one. 0:
    /// there was none.
    pub round: u64,
}

impl Moment {
    /// Makes one before all such calls.
    #[must_use]
    pub const fn at(points: u64) -> Self {
        Moment { points, round: 0 }
    }
}

/// One deed, or several that follow one another without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Access {
    /// What was done.
    pub deed: Deed,
    /// In which call of MPI-IO.
    pub within: Within,
    /// When.
    pub stamp: Moment,
    /// First byte.
    pub start: u64,
    /// The byte behind the last one, a size, or a number of barriers.
    pub end: u64,
}

impl Access {
    /// Returns all but the round and the bytes as one number, which is not 0.
    #[must_use]
    pub fn tag(&self) -> u64 {
        self.stamp.points << 8 | (self.within as u64) << 4 | self.deed as u64
    }

    /// Makes it of what [`Access::tag`] has given, the round, and the bytes.
    #[must_use]
    pub fn of(tag: u64, round: u64, start: u64, end: u64) -> Option<Self> {
        let deed = DEEDS.into_iter().find(|deed| *deed as u64 == tag & 0xf)?;
        let within = WITHIN.into_iter().find(|within| *within as u64 == tag >> 4 & 0xf)?;
        let stamp = Moment { points: tag >> 8, round };
        Some(Self { deed, within, stamp, start, end })
    }
}

/// What is said of all that a rank does to a file, as bits.
pub mod trait_bit {
    /// The file was not there, or empty, when it was opened.
    pub const MADE: u64 = 1;
    /// It was opened with O_APPEND.
    pub const APPENDS: u64 = 2;
    /// Its bytes were changed in a way that is not seen: by memory, a stream, without the kernel's
    /// cache, by a child.
    pub const UNSEEN: u64 = 4;
    /// It was asked where it has holes, or has got some.
    pub const HOLES: u64 = 8;
    /// There was more than the log has entries for.
    pub const OVERFULL: u64 = 16;
    /// It was open when the next checkpoint had begun, or opened again after its own was complete.
    pub const GOES_ON: u64 = 32;
    /// The file lies in a store of this node, which has only what the ranks of this node have
    /// written of it. It is set before the open is answered.
    pub const PARTED: u64 = 64;
    /// MPI-IO was told at the open what it is told of a file that will be cached.
    pub const TRIED: u64 = 128;
    /// It was opened again after its checkpoint seemed to be complete, which was told too early.
    pub const EARLY: u64 = 256;
    /// While it was open, some ranks made a blocking collective call on a file of theirs by which
    /// they could tell one another nothing: what they know of one another's writes is not known.
    pub const UNCOUNTED: u64 = 512;
}

#[derive(Debug)]
#[repr(C)]
struct Entry {
    tag: AtomicU64,
    round: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
}

impl Entry {
    const fn new() -> Self {
        let [tag, round, start, end] = [const { AtomicU64::new(0) }; 4];
        Self { tag, round, start, end }
    }
}

/// The log of one file. Memory that is all zero is an empty one.
#[derive(Debug)]
#[repr(C)]
pub struct AccessLog {
    /// Entries that were given out.
    given: AtomicU64,
    /// See [`trait_bit`].
    traits: AtomicU64,
    entries: [Entry; ENTRIES],
}

impl Default for AccessLog {
    fn default() -> Self {
        Self::new()
    }
}

impl AccessLog {
    /// Makes an empty one.
    #[must_use]
    pub const fn new() -> Self {
        let (given, traits) = (AtomicU64::new(0), AtomicU64::new(0));
        AccessLog { given, traits, entries: [const { Entry::new() }; ENTRIES] }
    }

    /// Adds what was done.
    pub fn add(&self, access: Access) {
        let tag = access.tag();
        let given = self.given.load(Ordering::Acquire) as usize;
        let last = given.checked_sub(1).and_then(|last| self.entries.get(last));
        let goes_on = matches!(access.deed, Deed::Write | Deed::Read);
        let (from, to) = (access.start, access.end);
        if let Some(last) = last.filter(|_| goes_on)
            && last.tag.load(Ordering::Acquire) == tag
            && last.round.load(Ordering::Relaxed) == access.stamp.round
            && last.end.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            return;
        }
        let at = self.given.fetch_add(1, Ordering::AcqRel) as usize;
        let Some(new) = self.entries.get(at) else { return self.mark(trait_bit::OVERFULL) };
        new.round.store(access.stamp.round, Ordering::Relaxed);
        new.start.store(from, Ordering::Relaxed);
        new.end.store(to, Ordering::Relaxed);
        new.tag.store(tag, Ordering::Release);
    }

    /// Adds to what is said of all.
    pub fn mark(&self, bits: u64) {
        self.traits.fetch_or(bits, Ordering::AcqRel);
    }

    /// Returns what is said of all.
    #[must_use]
    pub fn traits(&self) -> u64 {
        self.traits.load(Ordering::Acquire)
    }

    /// Returns what was done so far, in the order in which it was.
    pub fn all(&self) -> impl Iterator<Item = Access> {
        let given = (self.given.load(Ordering::Acquire) as usize).min(ENTRIES);
        self.entries[..given].iter().filter_map(|entry| {
            let tag = entry.tag.load(Ordering::Acquire);
            let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
            Access::of(tag, word(&entry.round), word(&entry.start), word(&entry.end))
        })
    }

    /// Empties it for another file: nobody writes to it any more.
    pub fn clear(&self) {
        let given = (self.given.swap(0, Ordering::AcqRel) as usize).min(ENTRIES);
        self.entries[..given].iter().for_each(|entry| entry.tag.store(0, Ordering::Relaxed));
        self.traits.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn write(start: u64, end: u64) -> Access {
        Access { deed: Deed::Write, within: Within::Nothing, stamp: Moment::at(7), start, end }
    }

    #[test]
    fn what_follows_the_last_one_lengthens_it() {
        static LOG: AccessLog = AccessLog::new();
        let log = &LOG;
        log.add(write(0, 5));
        log.add(write(5, 9));
        let at_8 = Access { stamp: Moment::at(8), ..write(9, 12) };
        let sieved = Access { within: Within::Sieve, start: 12, end: 13, ..at_8 };
        let next_round =
            Access { stamp: Moment { points: 8, round: 3 }, start: 13, end: 15, ..sieved };
        [at_8, sieved, next_round].into_iter().for_each(|one| log.add(one));
        let size = Access { deed: Deed::Size, ..write(0, 12) };
        log.add(size);
        log.add(size);
        let all: Vec<Access> = log.all().collect();
        assert_eq!(all, [write(0, 9), at_8, sieved, next_round, size, size]);
        log.mark(trait_bit::MADE);
        log.clear();
        assert_eq!((log.all().count(), log.traits()), (0, 0));
    }

    #[test]
    fn threads_lose_nothing_and_what_is_too_much_is_said() {
        static LOG: AccessLog = AccessLog::new();
        let log = &LOG;
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let bytes =
                    move |at: u64| ((thread << 32) | (at * 10), (thread << 32) | (at * 10 + 10));
                scope.spawn(move || {
                    (0..10_000).map(bytes).for_each(|(start, end)| log.add(write(start, end)));
                });
            }
        });
        let sum = |log: &AccessLog| log.all().map(|one| one.end - one.start).sum::<u64>();
        assert_eq!((sum(log), log.traits()), (400_000, 0));
        (0..=ENTRIES as u64).for_each(|at| log.add(write(at * 2, at * 2 + 1)));
        assert_eq!(log.traits(), trait_bit::OVERFULL);
    }
}
