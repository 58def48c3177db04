//! Communication between ranks as every scheme, the rebuild and the agreement see it.
//!
//! Byte-oriented and object-safe, so that the same code runs over MPI (`src/mpi` of package `scr`)
//! and over in-process ranks ([`threads`]), where tests kill ranks without any launcher; a thread
//! beside the program's has sockets of its own (`sockets`).

pub(crate) mod mesh;
pub(crate) mod ranks;
pub(crate) mod sockets;
pub mod solo;
pub mod threads;
pub mod trees;
pub(crate) mod words;

use crate::error::Result;

/// What an exchange works on until it is over.
#[derive(Debug, Default)]
pub struct Buffers {
    /// What is sent.
    pub out: Vec<u8>,
    /// What is received, exactly that long.
    pub into: Vec<u8>,
}

/// An exchange that has begun.
pub trait Pending: Send {
    /// Gives the buffers back, once both ways are through; never waits.
    fn advance(&mut self) -> Result<Option<Buffers>>;
    /// Waits until both ways are through, and gives the buffers back.
    fn wait(&mut self) -> Result<Buffers>;
}

/// An exchange that was over when it began.
pub struct Over(pub Buffers);

impl Pending for Over {
    fn advance(&mut self) -> Result<Option<Buffers>> {
        self.wait().map(Some)
    }

    fn wait(&mut self) -> Result<Buffers> {
        Ok(std::mem::take(&mut self.0))
    }
}

/// A group of ranks that can talk to one another. All calls but [`Comm::send`], [`Comm::receive`]
/// and [`Comm::exchange`] are collective over the group: every member makes them in the same order.
///
/// An `Err(Error::Comm)` means that the group is unusable from now on.
pub trait Comm: Send + Sync {
    /// This process's rank in the group, `0..size`.
    fn rank(&self) -> usize;
    /// Number of ranks in the group.
    fn size(&self) -> usize;
    /// Returns when all ranks have entered.
    fn barrier(&self) -> Result<()>;
    /// Copies `bytes` of `root` to all ranks (any length; the others' content is replaced).
    fn broadcast(&self, bytes: &mut Vec<u8>, root: usize) -> Result<()>;
    /// Every rank's `bytes` (lengths may differ), in rank order, on every rank.
    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>>;
    /// Element-wise maximum over all ranks; same length everywhere. One allreduce.
    fn all_max(&self, words: &mut [i64]) -> Result<()>;
    /// Sends `out` to `to` while receiving exactly `into.len()` bytes from `from`. What is empty is
    /// no message: nobody waits for it.
    fn exchange(&self, out: &[u8], to: usize, into: &mut [u8], from: usize) -> Result<()>;
    /// Sends a message of any length.
    fn send(&self, bytes: &[u8], to: usize) -> Result<()>;
    /// Receives one message of any length from `from`.
    fn receive(&self, from: usize) -> Result<Vec<u8>>;
    /// Sparse all-to-all: each `(destination, bytes)` arrives as `(source, bytes)`, sorted by
    /// source. Destinations need not know their sources in advance. Self-sends are allowed.
    fn sparse_exchange(&self, out: Vec<(usize, Vec<u8>)>) -> Result<Vec<(usize, Vec<u8>)>>;
    /// Begins [`Comm::exchange`]; it goes on while the caller does other things, or in calls of
    /// [`Pending`]. Several may be under way: those between two ranks arrive in the order in which
    /// both begin them. A kind that cannot do so does all at once.
    fn begin_exchange(
        &self,
        mut buffers: Buffers,
        to: usize,
        from: usize,
    ) -> Result<Box<dyn Pending>> {
        self.exchange(&buffers.out, to, &mut buffers.into, from)?;
        Ok(Box::new(Over(buffers)))
    }
    /// Makes a group of the same ranks for one other thread of each, which may use it while this
    /// one is in use; `None` if this kind has none. Collective.
    fn aside(&self) -> Result<Option<Box<dyn Comm>>> {
        Ok(None)
    }
    /// Splits the group by `color`, ordered by `(key, rank)`; a negative color yields `None`.
    fn split(&self, color: i64, key: i64) -> Result<Option<Box<dyn Comm>>>;
}
