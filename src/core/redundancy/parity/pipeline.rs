//! The work of all slots, piece by piece: memory stays at a few pieces, whatever the files' size.
//!
//! Exchanges are begun ahead: while one is on its way, the piece of the one before is worked in, and
//! that of the next one is read. So a member that writes what it has lost does not hold up one that
//! adds, and neither waits for the network. What a round needs of earlier ones it needs of a piece
//! before (`Round::waits`): those rounds lag by one piece behind the others.
//!
//! All members begin all exchanges in one order, and none that is earlier waits for one that is
//! later: the first one that is not over can always go on.

use std::collections::VecDeque;

use super::field::Multiplier;
use super::part::{ChunkReader, ParityWriter};
use super::schedule::{Item, Round, Work, rounds};
use super::shape::{Content, Shape};
use crate::comm::{Buffers, Pending};
use crate::error::{Error, Result};
use crate::redundancy::layout::LogicalFile;
use crate::redundancy::ring::{Deferred, Ring};
use crate::system::test_pause;

/// Exchanges of a member on their way.
const UNDER_WAY_MAX: usize = 3;

/// Where a member's pieces come from and where they go.
pub struct Sides<'a> {
    pub shape: Shape,
    pub me: usize,
    pub chunk_bytes: u64,
    /// Its files, if it has them.
    pub files: Option<&'a mut LogicalFile>,
    /// Its parity, if it has it.
    pub parity: Option<&'a mut ChunkReader>,
    /// Its files on their way back.
    pub restored: Option<&'a mut LogicalFile>,
    /// Its parity on its way.
    pub writer: Option<&'a mut ParityWriter>,
}

/// Does all works. What fails here is in `failed`: from then on, and if something has failed
/// before, this member sends zeros and keeps nothing.
pub fn run(ring: &Ring, works: &[Work], sides: &mut Sides, failed: &mut Deferred) -> Result<()> {
    let rounds = rounds(works, ring.size, ring.me);
    let piece_bytes = ring.piece_bytes(sides.chunk_bytes);
    let pieces = pieces(sides.chunk_bytes, piece_bytes as u64);
    let desks = |work| [(); 2].map(|()| Desk::new(work, ring.me, piece_bytes));
    let desks = works.iter().map(desks).collect();
    let (under_way, free) = (VecDeque::new(), Vec::new());
    let mut pipeline = Pipeline { ring, works, sides, failed, desks, under_way, free };
    for turn in 0..=pieces.len() {
        let (now, before) = (pieces.get(turn), turn.checked_sub(1).map(|one| &pieces[one]));
        if let Some(piece) = now {
            pipeline.begin(piece)?;
        }
        for round in &rounds {
            if let Some(piece) = if round.waits { before } else { now } {
                pipeline.exchange(piece, round)?;
            }
        }
    }
    while !pipeline.under_way.is_empty() {
        pipeline.end_oldest()?;
    }
    Ok(())
}

/// A piece of every chunk.
#[derive(Clone, Copy)]
struct Piece {
    /// Which of each work's two desks it is on.
    desk: usize,
    /// Where in the chunk it begins.
    offset: u64,
    length: usize,
}

fn pieces(chunk_bytes: u64, piece_bytes: u64) -> Vec<Piece> {
    let piece = |index: u64| {
        let offset = index * piece_bytes;
        let length = (chunk_bytes - offset).min(piece_bytes) as usize;
        Piece { desk: index as usize % 2, offset, length }
    };
    (0..chunk_bytes.div_ceil(piece_bytes)).map(piece).collect()
}

/// What this member has in hand.
struct Pipeline<'a, 'b> {
    ring: &'a Ring<'a>,
    works: &'a [Work],
    sides: &'a mut Sides<'b>,
    failed: &'a mut Deferred,
    /// For each work those of two pieces, which take turns; `None` if another one does this work.
    desks: Vec<[Option<Desk>; 2]>,
    under_way: VecDeque<UnderWay>,
    /// Buffers that nobody uses now.
    free: Vec<Vec<u8>>,
}

/// An exchange that has begun.
struct UnderWay {
    pending: Box<dyn Pending>,
    piece: Piece,
    /// What it brings.
    into: Option<Item>,
}

/// A piece of a slot that this member works for.
struct Desk {
    /// For each source and each target.
    multipliers: Vec<Vec<Multiplier>>,
    /// For each target the sum so far.
    sums: Vec<Vec<u8>>,
    /// Which target this member keeps.
    own: Option<usize>,
    begun: bool,
    /// Sources that are not in the sums.
    left: usize,
}

impl Pipeline<'_, '_> {
    /// Begins a piece with what this member has itself.
    fn begin(&mut self, piece: &Piece) -> Result<()> {
        for (at, work) in self.works.iter().enumerate() {
            self.complete(at, piece)?;
            let Some(desk) = &mut self.desks[at][piece.desk] else { continue };
            (desk.begun, desk.left) = (false, work.recipe.sources.len());
            if let Some(index) = work.recipe.sources.iter().position(|one| *one == self.ring.me) {
                let mut bytes = self.buffer(piece.length);
                self.sides.read_or_zero(self.failed, work.slot, piece.offset, &mut bytes);
                self.add(at, piece, index, &bytes)?;
                self.free.push(bytes);
            }
        }
        Ok(())
    }

    /// Begins a round's exchange.
    fn exchange(&mut self, piece: &Piece, round: &Round) -> Result<()> {
        while self.under_way.len() >= UNDER_WAY_MAX {
            self.end_oldest()?;
        }
        let out = match round.out {
            None => Vec::new(),
            Some(Item::Source { work, .. }) => {
                let mut out = self.buffer(piece.length);
                let slot = self.works[work].slot;
                self.sides.read_or_zero(self.failed, slot, piece.offset, &mut out);
                out
            }
            Some(Item::Target { work, index }) => {
                self.complete(work, piece)?;
                let next = self.buffer(piece.length);
                let desk = self.desks[work][piece.desk].as_mut().ok_or_else(misled)?;
                std::mem::replace(&mut desk.sums[index], next)
            }
        };
        let into = round.into.map_or_else(Vec::new, |_| self.buffer(piece.length));
        let buffers = Buffers { out, into };
        let pending = self.ring.comm.begin_exchange(buffers, round.to, round.from)?;
        self.under_way.push_back(UnderWay { pending, piece: *piece, into: round.into });
        Ok(())
    }

    /// Ends exchanges until this work's sums of a piece are complete, if this member makes them.
    fn complete(&mut self, work: usize, piece: &Piece) -> Result<()> {
        while self.desks[work][piece.desk].as_ref().is_some_and(|desk| desk.left > 0) {
            self.end_oldest()?;
        }
        Ok(())
    }

    /// Waits for the exchange that was begun first, and works in what it brings.
    fn end_oldest(&mut self) -> Result<()> {
        let mut one = self.under_way.pop_front().ok_or_else(misled)?;
        let Buffers { out, into } = one.pending.wait()?;
        test_pause("encode.middle");
        match one.into {
            None => {}
            Some(Item::Source { work, index }) => self.add(work, &one.piece, index, &into)?,
            Some(Item::Target { work, .. }) => {
                let slot = self.works[work].slot;
                self.failed.act(|| self.sides.write(slot, one.piece.offset, &into));
            }
        }
        self.free.extend([out, into].into_iter().filter(|buffer| !buffer.is_empty()));
        Ok(())
    }

    /// Adds the piece of one source. This member's own target is written as soon as it is made.
    fn add(&mut self, work: usize, piece: &Piece, source: usize, bytes: &[u8]) -> Result<()> {
        let desk = self.desks[work][piece.desk].as_mut().ok_or_else(misled)?;
        desk.add(source, bytes);
        if let (0, Some(own)) = (desk.left, desk.own) {
            let slot = self.works[work].slot;
            self.failed.act(|| self.sides.write(slot, piece.offset, &desk.sums[own]));
        }
        Ok(())
    }

    /// Returns a buffer of that length, with any content.
    fn buffer(&mut self, length: usize) -> Vec<u8> {
        let mut buffer = self.free.pop().unwrap_or_default();
        buffer.resize(length, 0);
        buffer
    }
}

/// The schedule gives pieces of a slot to its worker only.
fn misled() -> Error {
    Error::Comm("a piece arrived at a member that does not work for its slot".into())
}

impl Desk {
    /// The desk of `me`; `None` if another one does this work.
    fn new(work: &Work, me: usize, piece_bytes: usize) -> Option<Desk> {
        let recipe = &work.recipe;
        let of_source =
            |source| recipe.constants.iter().map(|row| Multiplier::new(row[source])).collect();
        (work.worker == me).then(|| Desk {
            multipliers: (0..recipe.sources.len()).map(of_source).collect(),
            sums: vec![vec![0; piece_bytes]; recipe.targets.len()],
            own: recipe.targets.iter().position(|target| *target == me),
            begun: false,
            left: 0,
        })
    }

    /// Adds the piece of one source.
    fn add(&mut self, source: usize, bytes: &[u8]) {
        for (sum, multiplier) in self.sums.iter_mut().zip(&self.multipliers[source]) {
            if self.begun {
                multiplier.add_to(sum, bytes);
            } else {
                sum.resize(bytes.len(), 0);
                multiplier.put(sum, bytes);
            }
        }
        self.begun = true;
        self.left = self.left.saturating_sub(1);
    }
}

impl Sides<'_> {
    fn read_or_zero(&mut self, failed: &mut Deferred, slot: usize, offset: u64, into: &mut [u8]) {
        if !failed.act(|| self.read(slot, offset, into)) {
            into.fill(0);
        }
    }

    /// What this member has in `slot`, from `offset` of the chunk on.
    fn read(&mut self, slot: usize, offset: u64, into: &mut [u8]) -> Result<()> {
        let start = self.start(slot) + offset;
        match (self.shape.content(self.me, slot), &mut self.files, &mut self.parity) {
            (Content::Data(_), Some(files), _) => files.read_padded(start, into),
            (Content::Parity(_), _, Some(parity)) => parity.read(start, into),
            _ => Err(Error::Defect("a member is to read what it has lost".into())),
        }
    }

    fn write(&mut self, slot: usize, offset: u64, bytes: &[u8]) -> Result<()> {
        let start = self.start(slot) + offset;
        match (self.shape.content(self.me, slot), &mut self.restored, &mut self.writer) {
            (Content::Data(_), Some(files), _) => files.write_padded(start, bytes),
            (Content::Parity(_), _, Some(writer)) => writer.write(start, bytes),
            _ => Err(Error::Defect("a member is to write what it has not lost".into())),
        }
    }

    /// Where the chunk of `slot` begins: in the files, or behind the header of the parity file.
    fn start(&self, slot: usize) -> u64 {
        let chunk = match self.shape.content(self.me, slot) {
            Content::Data(_) => self.shape.data_chunk(self.me, slot),
            Content::Parity(parity) => parity as u64,
        };
        chunk * self.chunk_bytes
    }
}
