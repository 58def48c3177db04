//! A group of ranks whose links can do one thing: exchange bytes with one rank each way at a time.
//!
//! Collectives are made of exchanges at distances 1, 2, 4, ...: each rank passes on all that it
//! knows, so after log2 of the size all know all. Nothing is sent that the other side does not
//! expect, so no order of calls can lock the group.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Buffers, Comm, Over, Pending, words};
use crate::bytes::{Reader, Writer};
use crate::error::{Error, Result};

/// What joins the ranks.
pub trait Link: Send + Sync {
    /// Sends `out` to rank `to` while receiving `into.len()` bytes from rank `from`; neither is
    /// this rank. After an error every later call fails, too.
    fn exchange(&self, out: &[u8], to: usize, into: &mut [u8], from: usize) -> Result<()>;

    /// Does the same with buffers that it may take over until it gives them back.
    fn carry(&self, mut buffers: Buffers, to: usize, from: usize) -> Result<Buffers> {
        self.exchange(&buffers.out, to, &mut buffers.into, from)?;
        Ok(buffers)
    }
}

pub struct Mesh {
    link: Arc<dyn Link>,
    members: Vec<usize>,
    rank: usize,
}

type BytesByRank = BTreeMap<u64, Vec<u8>>;

impl Mesh {
    pub fn new(link: Arc<dyn Link>, rank: usize, size: usize) -> Self {
        Mesh { link, members: (0..size).collect(), rank }
    }

    /// Tells what `own` is on every rank, by doubling distances.
    fn spread(&self, own: Vec<u8>) -> Result<BytesByRank> {
        let (size, mut distance) = (self.size(), 1);
        let mut known = BytesByRank::from([(self.rank as u64, own)]);
        while distance < size {
            let (to, from) = ((self.rank + distance) % size, (self.rank + size - distance) % size);
            let all: Vec<(&u64, &Vec<u8>)> = known.iter().collect();
            let out = Writer::new()
                .list(&all, |out, (rank, bytes)| _ = out.word(**rank).counted(bytes))
                .take();
            let arrived = words::swap(self, &out, to, from)?;
            let mut reader = Reader::new(&arrived);
            let theirs = reader.list(|from| Some((from.word()?, from.counted()?.to_vec())));
            let theirs = theirs.and_then(|theirs| reader.whole(theirs));
            known.extend(theirs.ok_or_else(|| disorder(from))?);
            distance *= 2;
        }
        Ok(known)
    }
}

fn disorder(from: usize) -> Error {
    Error::Comm(format!("what member {from} sent is not what was expected"))
}

impl Comm for Mesh {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.members.len()
    }

    fn barrier(&self) -> Result<()> {
        self.all_max(&mut [0])
    }

    fn broadcast(&self, bytes: &mut Vec<u8>, root: usize) -> Result<()> {
        let own = if self.rank == root { std::mem::take(bytes) } else { Vec::new() };
        let mut known = self.spread(own)?;
        *bytes = known.remove(&(root as u64)).ok_or_else(|| disorder(root))?;
        Ok(())
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let known = self.spread(bytes.to_vec())?;
        if known.len() != self.size() {
            return Err(disorder(self.rank));
        }
        Ok(known.into_values().collect())
    }

    fn all_max(&self, words: &mut [i64]) -> Result<()> {
        let (size, mut distance) = (self.size(), 1);
        while distance < size {
            let (to, from) = ((self.rank + distance) % size, (self.rank + size - distance) % size);
            let mut out = Writer::new();
            words.iter().for_each(|word| _ = out.word(*word as u64));
            let out = out.take();
            let mut into = vec![0; out.len()];
            self.exchange(&out, to, &mut into, from)?;
            let mut reader = Reader::new(&into);
            for word in words.iter_mut() {
                *word = (*word).max(reader.word().ok_or_else(|| disorder(from))? as i64);
            }
            distance *= 2;
        }
        Ok(())
    }

    fn exchange(&self, out: &[u8], to: usize, into: &mut [u8], from: usize) -> Result<()> {
        if to != self.rank && from != self.rank {
            return self.link.exchange(out, self.members[to], into, self.members[from]);
        }
        if to != from || out.len() != into.len() {
            return Err(disorder(from));
        }
        into.copy_from_slice(out);
        Ok(())
    }

    fn begin_exchange(
        &self,
        mut buffers: Buffers,
        to: usize,
        from: usize,
    ) -> Result<Box<dyn Pending>> {
        if to == self.rank || from == self.rank {
            self.exchange(&buffers.out, to, &mut buffers.into, from)?;
        } else {
            buffers = self.link.carry(buffers, self.members[to], self.members[from])?;
        }
        Ok(Box::new(Over(buffers)))
    }

    fn send(&self, bytes: &[u8], to: usize) -> Result<()> {
        let (length, to) = (Writer::new().word(bytes.len() as u64).take(), self.members[to]);
        self.link.exchange(&length, to, &mut [], to)?;
        self.link.exchange(bytes, to, &mut [], to)
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        let (mut length, source) = ([0; 8], self.members[from]);
        self.link.exchange(&[], source, &mut length, source)?;
        let length = Reader::new(&length).size().ok_or_else(|| disorder(from))?;
        let mut bytes = vec![0; length];
        self.link.exchange(&[], source, &mut bytes, source)?;
        Ok(bytes)
    }

    fn sparse_exchange(&self, out: Vec<(usize, Vec<u8>)>) -> Result<Vec<(usize, Vec<u8>)>> {
        let own = Writer::new()
            .list(&out, |to, (rank, bytes)| _ = to.word(*rank as u64).counted(bytes))
            .take();
        let mut arrived = Vec::new();
        for (source, bytes) in self.all_gather(&own)?.iter().enumerate() {
            let mut reader = Reader::new(bytes);
            let sent = reader.list(|from| Some((from.size()?, from.counted()?.to_vec())));
            let sent = sent.ok_or_else(|| disorder(source))?;
            let mine = sent.into_iter().filter(|(to, _)| *to == self.rank);
            arrived.extend(mine.map(|(_, bytes)| (source, bytes)));
        }
        Ok(arrived)
    }

    fn split(&self, color: i64, key: i64) -> Result<Option<Box<dyn Comm>>> {
        let mut same = Vec::new();
        for (rank, bytes) in self.all_gather(&pair(color, key))?.iter().enumerate() {
            let mut reader = Reader::new(bytes);
            let theirs = reader.word().zip(reader.word()).ok_or_else(|| disorder(rank))?;
            if theirs.0 as i64 == color {
                same.push((theirs.1 as i64, rank));
            }
        }
        same.sort_unstable();
        let rank = same.iter().position(|(_, rank)| *rank == self.rank);
        let members = same.iter().map(|(_, rank)| self.members[*rank]).collect();
        let part =
            |rank| Box::new(Mesh { link: self.link.clone(), members, rank }) as Box<dyn Comm>;
        Ok(rank.filter(|_| color >= 0).map(part))
    }
}

fn pair(one: i64, other: i64) -> Vec<u8> {
    Writer::new().word(one as u64).word(other as u64).take()
}
