//! Neighbours in a set, and outcomes that all members share.

use std::iter;

use super::RedundancySet;
use crate::bytes::{Reader, Writer};
use crate::comm::{Comm, words};
use crate::error::{Error, Result};

#[derive(Clone, Copy)]
pub(super) struct Ring<'a> {
    pub set: &'a RedundancySet,
    pub comm: &'a dyn Comm,
    pub me: usize,
    pub size: usize,
}

impl<'a> Ring<'a> {
    pub fn new(set: &'a RedundancySet) -> Self {
        let (me, size) = (set.comm.rank(), set.comm.size());
        Ring { set, comm: &*set.comm, me, size }
    }

    /// Returns the member `distance` to the right, at most once around.
    pub fn right_by(&self, distance: usize) -> usize {
        (self.me + distance) % self.size
    }

    pub fn left_by(&self, distance: usize) -> usize {
        (self.me + self.size - distance) % self.size
    }

    pub fn world_rank(&self, member: usize) -> usize {
        self.set.world_ranks[member]
    }

    pub fn world_ranks(&self, members: &[usize]) -> String {
        let texts: Vec<_> = members.iter().map(|&m| self.world_rank(m).to_string()).collect();
        match &texts[..] {
            [one] => format!("rank {one}"),
            _ => format!("ranks {}", texts.join(", ")),
        }
    }

    /// Makes a step's outcome common: `Ok` on all members if all have `Ok`. Otherwise a member with
    /// an error keeps it, and the others get the first such member's; what is unrecoverable for one
    /// is so for all. After `Err(Error::Comm)` nothing is sent any more.
    pub fn agree<T>(&self, outcome: Result<T>) -> Result<T> {
        Ok(self.agree_and_max(outcome, |_| 0)?.0)
    }

    /// Does what [`Ring::agree`] does, and finds the largest of the members' numbers.
    pub fn agree_and_max<T>(
        &self,
        outcome: Result<T>,
        number: impl FnOnce(&T) -> u64,
    ) -> Result<(T, u64)> {
        if let Err(Error::Comm(what)) = outcome {
            return Err(Error::Comm(what));
        }
        // File sizes fit into i64 on every file system.
        let number = outcome.as_ref().map_or(0, number);
        let mut words = [i64::from(outcome.is_err()), i64::try_from(number).unwrap_or(i64::MAX)];
        self.comm.all_max(&mut words)?;
        let [failed, largest] = words;
        if failed == 0 {
            return outcome.map(|value| (value, largest.unsigned_abs()));
        }
        let own = match &outcome {
            Ok(_) => String::new(),
            Err(Error::Unrecoverable(what)) => format!("u{what}"),
            Err(error) => format!("e{error}"),
        };
        let all = self.comm.all_gather(own.as_bytes())?;
        let first = all.iter().enumerate().find(|(_, text)| !text.is_empty());
        let (member, kind, text) = match first.and_then(|(m, t)| Some((m, t.split_first()?))) {
            Some((member, (kind, text))) => (member, *kind, String::from_utf8_lossy(text)),
            None => (self.me, b'e', "a member failed".into()),
        };
        Err(match (outcome, kind) {
            (Err(own), _) => own,
            (Ok(_), b'u') => Error::Unrecoverable(text.into_owned()),
            _ => Error::Remote(format!("rank {}: {text}", self.world_rank(member))),
        })
    }

    pub fn swap_crcs(
        &self,
        crcs: &[Option<u32>],
        to: usize,
        from: usize,
    ) -> Result<Vec<Option<u32>>> {
        Ok(crcs_from_bytes(&self.swap(&crcs_to_bytes(crcs), to, from)?))
    }

    pub fn swap(&self, out: &[u8], to: usize, from: usize) -> Result<Vec<u8>> {
        words::swap(self.comm, out, to, from)
    }

    /// Returns the bytes of a piece where the longest stream has `total` bytes, the same on all
    /// members.
    pub fn piece_bytes(&self, total: u64) -> usize {
        self.set.piece_bytes.min(usize::try_from(total).unwrap_or(usize::MAX)).max(1)
    }
}

/// Of each a marker and four bytes.
fn crcs_to_bytes(crcs: &[Option<u32>]) -> Vec<u8> {
    let mut out = Writer::new();
    for crc32 in crcs {
        out.flags(&[crc32.is_some()]).word32(crc32.unwrap_or(0));
    }
    out.take()
}

fn crcs_from_bytes(bytes: &[u8]) -> Vec<Option<u32>> {
    let mut from = Reader::new(bytes);
    let next = || {
        let ([some], crc32) = (from.flags()?, from.word32()?);
        Some(some.then_some(crc32))
    };
    iter::from_fn(next).collect()
}

/// The first error of a rank that must go on communicating, so that the others do not wait in vain.
#[derive(Default)]
pub(super) struct Deferred(Option<Error>);

impl Deferred {
    /// Acts unless something has failed before; whether it has worked.
    pub fn act(&mut self, act: impl FnOnce() -> Result<()>) -> bool {
        if self.0.is_none() {
            self.0 = act().err();
        }
        self.0.is_none()
    }

    pub fn take<T>(&mut self, outcome: Result<T>) -> Option<T> {
        let mut value = None;
        self.act(|| {
            value = Some(outcome?);
            Ok(())
        });
        value
    }

    pub fn outcome(self) -> Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}
