//! Programs whose ranks write one file together, drawn from a seed.

use fastrand::Rng;
use scr_abi::accesses::{Access, Deed, Moment, Within};

/// No write begins behind it.
const BEGIN_MAX: u64 = 64;
/// No write is longer.
const LENGTH_MAX: u64 = 30;
/// No file is longer.
pub const SIZE_MAX: usize = (BEGIN_MAX + 8 * LENGTH_MAX) as usize;

/// One call of a rank.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    pub rank: usize,
    /// [`Deed::Write`], [`Deed::Cut`] or [`Deed::Grow`].
    pub deed: Deed,
    pub stamp: u64,
    pub begin: u64,
    pub end: u64,
    /// What it writes.
    pub byte: u8,
    /// The log tells of it.
    pub is_logged: bool,
    /// Of two stamps the second is a call of those ranks that write, and no sync point.
    pub in_rounds: bool,
}

impl Call {
    pub fn access(&self) -> Access {
        let (deed, start, end) = (self.deed, self.begin, self.end);
        let stamp = match self.in_rounds {
            true => Moment { points: self.stamp / 2, round: 7 << 32 | self.stamp },
            false => Moment::at(self.stamp),
        };
        Access { deed, within: Within::Nothing, stamp, start, end }
    }

    pub fn writes(&self, at: u64) -> bool {
        self.deed == Deed::Write && (self.begin..self.end).contains(&at)
    }

    pub fn cuts_off(&self, at: u64) -> bool {
        self.deed == Deed::Cut && self.end <= at
    }
}

/// A job, and what its ranks do to the file.
#[derive(Debug)]
pub struct Drawn {
    /// The node of each rank.
    pub nodes: Vec<usize>,
    /// In the order in which they are made.
    pub calls: Vec<Call>,
    /// The log of this rank is full before it has ended.
    pub overfull: Option<usize>,
    /// Parts are dealt out in pieces of so many bytes.
    pub unit: u64,
}

/// What the ranks do between two sync points, or about.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Each its pieces, none that of another.
    Pieces,
    /// One writes all.
    Fill,
    /// All, or one, give the file a size.
    Cut,
    /// All, or one, ask for room.
    Grow,
    /// Several write the same bytes to the same place.
    Alike,
    /// Whatever they like.
    Free,
}

const PHASES: [Phase; 8] = [
    Phase::Pieces,
    Phase::Pieces,
    Phase::Pieces,
    Phase::Fill,
    Phase::Cut,
    Phase::Grow,
    Phase::Alike,
    Phase::Free,
];

struct Author {
    rng: Rng,
    ranks: usize,
    stamp: u64,
    in_rounds: bool,
    calls: Vec<Call>,
}

impl Drawn {
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let ranks = rng.usize(1..=6);
        let hosts = rng.usize(1..=4);
        let nodes = (0..ranks).map(|_| rng.usize(..hosts)).collect();
        // Those of a communicator that is smaller than that of all ranks, now and then.
        let members = if rng.u8(..4) == 0 { rng.usize(1..=ranks) } else { ranks };
        let unit = rng.u64(1..12);
        let (in_rounds, calls) = (rng.bool(), Vec::new());
        let mut author = Author { rng, ranks: members, stamp: 0, in_rounds, calls };
        for _ in 0..author.rng.usize(1..6) {
            // Two phases may have no sync point between them.
            author.stamp += u64::from(author.rng.u8(..12) != 0) * author.rng.u64(1..3);
            author.phase();
        }
        let Author { mut rng, mut calls, .. } = author;
        let from = rng.usize(..calls.len());
        let overfull = (rng.u8(..16) == 0).then_some(calls[from].rank);
        let is_lost = |call: &&mut Call| match overfull {
            Some(rank) => call.rank == rank,
            None => call.deed == Deed::Write,
        };
        let lost = calls[from..].iter_mut().filter(is_lost);
        let count = if overfull.is_some() { usize::MAX } else { usize::from(rng.u8(..16) == 0) };
        lost.take(count).for_each(|call| call.is_logged = false);
        Drawn { nodes, calls, overfull, unit }
    }
}

impl Author {
    fn phase(&mut self) {
        let begun = self.calls.len();
        let (begin, length) = (self.rng.u64(..BEGIN_MAX), self.rng.u64(1..LENGTH_MAX));
        match *self.rng.choice(&PHASES).unwrap_or(&Phase::Free) {
            Phase::Pieces => self.pieces(begin),
            Phase::Fill => {
                let rank = self.rank();
                self.call(rank, Deed::Write, begin, begin + length);
            }
            Phase::Cut => self.sized(Deed::Cut, begin + length / 2),
            Phase::Grow => self.sized(Deed::Grow, begin + length),
            Phase::Alike => {
                let byte = self.byte();
                for _ in 0..self.rng.usize(2..4) {
                    let rank = self.rank();
                    self.call(rank, Deed::Write, begin, begin + length).byte = byte;
                }
            }
            Phase::Free => (0..self.rng.usize(1..6)).for_each(|_| self.any()),
        }
        self.rng.shuffle(&mut self.calls[begun..]);
    }

    fn rank(&mut self) -> usize {
        self.rng.usize(..self.ranks)
    }

    /// No two calls that are not alike write the same.
    fn byte(&self) -> u8 {
        1 + self.calls.len() as u8
    }

    fn call(&mut self, rank: usize, deed: Deed, begin: u64, end: u64) -> &mut Call {
        let Author { stamp, in_rounds, .. } = *self;
        let (byte, is_logged) = (self.byte(), true);
        self.calls.push(Call { rank, deed, stamp, begin, end, byte, is_logged, in_rounds });
        let last = self.calls.len() - 1;
        &mut self.calls[last]
    }

    fn pieces(&mut self, mut at: u64) {
        let length = self.rng.u64(1..LENGTH_MAX);
        let even = self.rng.bool();
        for turn in 0..self.rng.usize(1..8) {
            let rank = if even { turn % self.ranks } else { self.rank() };
            let end = at + if even { length } else { self.rng.u64(1..LENGTH_MAX) };
            self.call(rank, Deed::Write, at, end);
            at = end + if even { 0 } else { self.rng.u64(..3) };
        }
    }

    fn sized(&mut self, deed: Deed, size: u64) {
        match self.rng.bool() {
            true => (0..self.ranks).for_each(|rank| _ = self.call(rank, deed, 0, size)),
            false => {
                let rank = self.rank();
                self.call(rank, deed, 0, size);
            }
        }
    }

    fn any(&mut self) {
        let (begin, rank) = (self.rng.u64(..BEGIN_MAX), self.rank());
        match self.rng.u8(..6) {
            0 => self.call(rank, Deed::Cut, 0, begin),
            1 => self.call(rank, Deed::Grow, 0, begin),
            _ => {
                let end = begin + self.rng.u64(1..LENGTH_MAX);
                self.call(rank, Deed::Write, begin, end)
            }
        };
    }
}
