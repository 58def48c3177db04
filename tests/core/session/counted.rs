//! A communicator that counts what the session asks of it.

use std::sync::{Arc, Mutex};

use scr_core::comm::Comm;
use scr_core::error::Result;

/// Calls of each rank since they were last taken: their kinds, in order.
pub struct Calls(Vec<Mutex<Vec<&'static str>>>);

impl Calls {
    pub fn of(ranks: usize) -> Arc<Calls> {
        Arc::new(Calls((0..ranks).map(|_| Mutex::default()).collect()))
    }

    /// What `rank` has called.
    pub fn take(&self, rank: usize) -> Vec<&'static str> {
        std::mem::take(&mut *self.0[rank].lock().unwrap())
    }
}

/// The group of another communicator, by the calls of a rank of the world.
pub struct Counted {
    inner: Box<dyn Comm>,
    calls: Arc<Calls>,
    rank: usize,
}

impl Counted {
    pub fn around(inner: Box<dyn Comm>, calls: Arc<Calls>) -> Box<dyn Comm> {
        let rank = inner.rank();
        Box::new(Counted { inner, calls, rank })
    }

    fn note(&self, what: &'static str) {
        // A group of one asks nobody.
        if self.inner.size() > 1 {
            self.calls.0[self.rank].lock().unwrap().push(what);
        }
    }
}

impl Comm for Counted {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn barrier(&self) -> Result<()> {
        self.note("barrier");
        self.inner.barrier()
    }

    fn broadcast(&self, bytes: &mut Vec<u8>, root: usize) -> Result<()> {
        self.note("broadcast");
        self.inner.broadcast(bytes, root)
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.note("all_gather");
        self.inner.all_gather(bytes)
    }

    fn all_max(&self, words: &mut [i64]) -> Result<()> {
        self.note("all_max");
        self.inner.all_max(words)
    }

    fn exchange(&self, out: &[u8], to: usize, into: &mut [u8], from: usize) -> Result<()> {
        self.note("exchange");
        self.inner.exchange(out, to, into, from)
    }

    fn send(&self, bytes: &[u8], to: usize) -> Result<()> {
        self.note("send");
        self.inner.send(bytes, to)
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        self.note("receive");
        self.inner.receive(from)
    }

    fn sparse_exchange(&self, out: Vec<(usize, Vec<u8>)>) -> Result<Vec<(usize, Vec<u8>)>> {
        self.note("sparse_exchange");
        self.inner.sparse_exchange(out)
    }

    fn split(&self, color: i64, key: i64) -> Result<Option<Box<dyn Comm>>> {
        self.note("split");
        let own = |inner| {
            let (calls, rank) = (self.calls.clone(), self.rank);
            Box::new(Counted { inner, calls, rank }) as Box<dyn Comm>
        };
        Ok(self.inner.split(color, key)?.map(own))
    }
}
