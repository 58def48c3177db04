//! The work of all slots, piece by piece: memory stays at a few pieces, whatever the files' size.

use super::field::Multiplier;
use super::part::{ChunkReader, ParityWriter};
use super::schedule::{Item, Work, rounds};
use super::shape::{Content, Shape};
use crate::error::{Error, Result};
use crate::redundancy::layout::LogicalFile;
use crate::redundancy::ring::{Deferred, Ring};
use crate::system::test_pause;

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

/// A slot that this member works for.
struct Desk {
    /// For each source and each target.
    multipliers: Vec<Vec<Multiplier>>,
    /// For each target the sum so far.
    sums: Vec<Vec<u8>>,
    begun: bool,
}

/// Does all works. What fails here is in `failed`: from then on, and if something has failed
/// before, this member sends zeros and keeps nothing.
pub fn run(ring: &Ring, works: &[Work], sides: &mut Sides, failed: &mut Deferred) -> Result<()> {
    let rounds = rounds(works, ring.size, ring.me);
    let piece_bytes = ring.piece_bytes(sides.chunk_bytes);
    let desk = |work| Desk::new(work, ring.me, piece_bytes);
    let mut desks: Vec<_> = works.iter().map(desk).collect();
    let (mut out, mut into) = (vec![0; piece_bytes], vec![0; piece_bytes]);
    for (offset, length) in pieces(sides.chunk_bytes, piece_bytes as u64) {
        for (work, desk) in works.iter().zip(&mut desks) {
            let Some(desk) = desk else { continue };
            desk.begun = false;
            if let Some(index) = work.recipe.sources.iter().position(|source| *source == ring.me) {
                sides.read_or_zero(failed, work.slot, offset, &mut out[..length]);
                desk.add(index, &out[..length]);
            }
        }
        for round in &rounds {
            let sent = match round.out {
                None => &[][..],
                Some(Item::Source { work, .. }) => {
                    let out = &mut out[..length];
                    sides.read_or_zero(failed, works[work].slot, offset, out);
                    out
                }
                Some(Item::Target { work, index }) => piece(&desks[work], index, length)?,
            };
            let received = &mut into[..round.into.map_or(0, |_| length)];
            ring.comm.exchange(sent, round.to, received, round.from)?;
            test_pause("encode.middle");
            match round.into {
                None => {}
                Some(Item::Source { work, index }) => {
                    desks[work].as_mut().ok_or_else(misled)?.add(index, received);
                }
                Some(Item::Target { work, .. }) => {
                    failed.act(|| sides.write(works[work].slot, offset, received));
                }
            }
        }
        for (work, desk) in works.iter().zip(&desks) {
            let own = work.recipe.targets.iter().position(|target| *target == ring.me);
            if let (Some(index), Some(_)) = (own, desk) {
                let made = piece(desk, index, length)?;
                failed.act(|| sides.write(work.slot, offset, made));
            }
        }
    }
    Ok(())
}

fn piece(desk: &Option<Desk>, index: usize, length: usize) -> Result<&[u8]> {
    desk.as_ref().map(|desk| &desk.sums[index][..length]).ok_or_else(misled)
}

/// The schedule gives pieces of a slot to its worker only.
fn misled() -> Error {
    Error::Comm("a piece arrived at a member that does not work for its slot".into())
}

/// The pieces of a chunk, as offset and length.
fn pieces(chunk_bytes: u64, piece: u64) -> impl Iterator<Item = (u64, usize)> {
    (0..chunk_bytes.div_ceil(piece)).map(move |index| {
        let offset = index * piece;
        (offset, (chunk_bytes - offset).min(piece) as usize)
    })
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
            begun: false,
        })
    }

    /// Adds the piece of one source.
    fn add(&mut self, source: usize, bytes: &[u8]) {
        for (sum, multiplier) in self.sums.iter_mut().zip(&self.multipliers[source]) {
            let sum = &mut sum[..bytes.len()];
            if self.begun {
                multiplier.add_to(sum, bytes);
            } else {
                multiplier.put(sum, bytes);
            }
        }
        self.begun = true;
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
