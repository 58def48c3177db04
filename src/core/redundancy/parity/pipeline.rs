//! The work of all slots, piece by piece: memory stays at a few pieces, whatever the files' size.
//!
//! Exchanges are begun ahead. What a round needs of earlier ones it needs of a piece before
//! ([`Round::waits`]): those rounds lag by one piece behind the others.

use super::field::Multiplier;
use super::part::{ChunkReader, ParityWriter};
use super::schedule::{Item, Round, SlotWork, rounds};
use super::shape::{Content, Shape};
use crate::comm::Buffers;
use crate::error::{Error, Result};
use crate::redundancy::ahead::Ahead;
use crate::redundancy::layout::LogicalFile;
use crate::redundancy::ring::{Deferred, Ring};

pub struct Sides<'a> {
    pub shape: Shape,
    pub me: usize,
    pub chunk_bytes: u64,
    pub files: Option<&'a mut LogicalFile>,
    pub parity: Option<&'a mut ChunkReader>,
    /// Its files on their way back.
    pub restored: Option<&'a mut LogicalFile>,
    /// Its parity on its way.
    pub writer: Option<&'a mut ParityWriter>,
}

/// Does all works. What fails here is in `failed`: from then on, and if something has failed
/// before, this member sends zeros and keeps nothing.
pub fn run(
    ring: &Ring,
    works: &[SlotWork],
    sides: &mut Sides,
    failed: &mut Deferred,
) -> Result<()> {
    let rounds = rounds(works, ring.size, ring.me);
    let piece_bytes = ring.piece_bytes(sides.chunk_bytes);
    let (chunk_bytes, count) = (sides.chunk_bytes, sides.chunk_bytes.div_ceil(piece_bytes as u64));
    let piece = |index| Piece::new(index, chunk_bytes, piece_bytes);
    let desks = |work| [(); 2].map(|()| SlotDesk::new(work, ring.me));
    let desks = works.iter().map(desks).collect();
    let ahead = Ahead::new(ring.comm);
    let mut pipeline = Pipeline { me: ring.me, works, sides, failed, desks, ahead };
    for turn in 0..=count {
        let (now, before) = ((turn < count).then(|| piece(turn)), turn.checked_sub(1).map(piece));
        if let Some(piece) = now {
            pipeline.begin(piece)?;
        }
        for round in &rounds {
            if let Some(piece) = if round.waits { before } else { now } {
                pipeline.exchange(piece, round)?;
            }
        }
    }
    while !pipeline.ahead.is_over() {
        pipeline.end_oldest()?;
    }
    let sums = pipeline.desks.into_iter().flatten().flatten().flat_map(|desk| desk.sums);
    sums.for_each(|sum| pipeline.ahead.give_back(sum));
    Ok(())
}

#[derive(Clone, Copy)]
struct Piece {
    /// Which of each work's two desks it is on.
    desk: usize,
    offset: u64,
    length: usize,
}

impl Piece {
    fn new(index: u64, chunk_bytes: u64, piece_bytes: usize) -> Self {
        let offset = index * piece_bytes as u64;
        let length = (chunk_bytes - offset).min(piece_bytes as u64) as usize;
        Piece { desk: usize::from(index % 2 == 1), offset, length }
    }
}

struct Pipeline<'a, 'b> {
    me: usize,
    works: &'a [SlotWork],
    sides: &'a mut Sides<'b>,
    failed: &'a mut Deferred,
    /// For each work those of two pieces, which take turns; `None` if another one does this work.
    desks: Vec<[Option<SlotDesk>; 2]>,
    /// Each brings something of a piece, or nothing.
    ahead: Ahead<'a, (Piece, Option<Item>)>,
}

/// A piece of a slot that this member works for.
struct SlotDesk {
    multipliers: Vec<Vec<Multiplier>>,
    /// For each target the sum so far; empty before the first piece, and when it has been sent.
    sums: Vec<Vec<u8>>,
    own: Option<usize>,
    begun: bool,
    /// Sources that are not in the sums.
    left: usize,
}

impl Pipeline<'_, '_> {
    fn begin(&mut self, piece: Piece) -> Result<()> {
        for (at, work) in self.works.iter().enumerate() {
            self.complete(at, piece)?;
            let Some(desk) = &mut self.desks[at][piece.desk] else { continue };
            (desk.begun, desk.left) = (false, work.recipe.sources.len());
            for sum in desk.sums.iter_mut().filter(|sum| sum.is_empty()) {
                *sum = self.ahead.buffer(piece.length);
            }
            if let Some(index) = work.recipe.sources.iter().position(|one| *one == self.me) {
                let mut bytes = self.ahead.buffer(piece.length);
                self.sides.read_or_zero(self.failed, work.slot, piece.offset, &mut bytes);
                self.add(at, piece, index, &bytes)?;
                self.ahead.give_back(bytes);
            }
        }
        Ok(())
    }

    fn exchange(&mut self, piece: Piece, round: &Round) -> Result<()> {
        while self.ahead.is_full() {
            self.end_oldest()?;
        }
        let out = match round.out {
            None => Vec::new(),
            Some(Item::Source { work, .. }) => {
                let mut out = self.ahead.buffer(piece.length);
                let slot = self.works[work].slot;
                self.sides.read_or_zero(self.failed, slot, piece.offset, &mut out);
                out
            }
            Some(Item::Target { work, index }) => {
                self.complete(work, piece)?;
                let desk = self.desks[work][piece.desk].as_mut().ok_or_else(misled)?;
                std::mem::take(&mut desk.sums[index])
            }
        };
        let into = round.into.map_or_else(Vec::new, |_| self.ahead.buffer(piece.length));
        let what = (piece, round.into);
        self.ahead.begin(Buffers { out, into }, round.to, round.from, what)
    }

    /// Ends exchanges until this work's sums of a piece are complete, if this member makes them.
    fn complete(&mut self, work: usize, piece: Piece) -> Result<()> {
        while self.desks[work][piece.desk].as_ref().is_some_and(|desk| desk.left > 0) {
            self.end_oldest()?;
        }
        Ok(())
    }

    fn end_oldest(&mut self) -> Result<()> {
        let ((piece, item), bytes) = self.ahead.end_oldest()?;
        match item {
            None => {}
            Some(Item::Source { work, index }) => self.add(work, piece, index, &bytes)?,
            Some(Item::Target { work, .. }) => {
                let slot = self.works[work].slot;
                self.failed.act(|| self.sides.write(slot, piece.offset, &bytes));
            }
        }
        self.ahead.give_back(bytes);
        Ok(())
    }

    /// Adds the piece of one source. This member's own target is written as soon as it is made.
    fn add(&mut self, work: usize, piece: Piece, source: usize, bytes: &[u8]) -> Result<()> {
        let desk = self.desks[work][piece.desk].as_mut().ok_or_else(misled)?;
        desk.add(source, bytes);
        if let (0, Some(own)) = (desk.left, desk.own) {
            let slot = self.works[work].slot;
            self.failed.act(|| self.sides.write(slot, piece.offset, &desk.sums[own]));
        }
        Ok(())
    }
}

/// The schedule gives pieces of a slot to its worker only.
fn misled() -> Error {
    Error::Comm("a piece arrived at a member that does not work for its slot".into())
}

impl SlotDesk {
    /// `None` if another member does this work.
    fn new(work: &SlotWork, me: usize) -> Option<SlotDesk> {
        let recipe = &work.recipe;
        let of_source =
            |source| recipe.constants.iter().map(|row| Multiplier::new(row[source])).collect();
        (work.worker == me).then(|| SlotDesk {
            multipliers: (0..recipe.sources.len()).map(of_source).collect(),
            sums: vec![Vec::new(); recipe.targets.len()],
            own: recipe.targets.iter().position(|target| *target == me),
            begun: false,
            left: 0,
        })
    }

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
