//! A gate in a thread's way to the others that it exchanges with: while it is closed, the thread
//! stands still between two pieces, and the processor is the program's.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{Buffers, Comm, Pending};
use crate::error::Result;

/// Closed at first.
#[derive(Debug, Default)]
pub struct WaitGate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl WaitGate {
    fn is_open(&self) -> MutexGuard<'_, bool> {
        self.is_open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_open(&self, open: bool) {
        *self.is_open() = open;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let waited = self.opened.wait_while(self.is_open(), |is_open| !*is_open);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// A group of ranks whose exchanges pass a gate, before and after.
pub struct Gated {
    pub comm: Box<dyn Comm>,
    pub gate: Arc<WaitGate>,
}

impl Comm for Gated {
    fn rank(&self) -> usize {
        self.comm.rank()
    }

    fn size(&self) -> usize {
        self.comm.size()
    }

    fn barrier(&self) -> Result<()> {
        self.comm.barrier()
    }

    fn broadcast(&self, bytes: &mut Vec<u8>, root: usize) -> Result<()> {
        self.comm.broadcast(bytes, root)
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.comm.all_gather(bytes)
    }

    fn all_max(&self, words: &mut [i64]) -> Result<()> {
        self.comm.all_max(words)
    }

    fn exchange(&self, out: &[u8], to: usize, into: &mut [u8], from: usize) -> Result<()> {
        self.gate.pass();
        let done = self.comm.exchange(out, to, into, from);
        self.gate.pass();
        done
    }

    fn begin_exchange(&self, buffers: Buffers, to: usize, from: usize) -> Result<Box<dyn Pending>> {
        self.gate.pass();
        let begun = self.comm.begin_exchange(buffers, to, from);
        self.gate.pass();
        begun
    }

    fn send(&self, bytes: &[u8], to: usize) -> Result<()> {
        self.comm.send(bytes, to)
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        self.comm.receive(from)
    }

    fn sparse_exchange(&self, out: Vec<(usize, Vec<u8>)>) -> Result<Vec<(usize, Vec<u8>)>> {
        self.comm.sparse_exchange(out)
    }

    fn split(&self, color: i64, key: i64) -> Result<Option<Box<dyn Comm>>> {
        self.comm.split(color, key)
    }
}

/// Returns when all ranks have come, as [`Comm::barrier`] does, but calls `meanwhile` again and
/// again until then instead of taking the processor for the wait.
///
/// # Errors
/// Those of the communication.
pub fn meet_at_leisure(comm: &dyn Comm, mut meanwhile: impl FnMut()) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let mut distance = 1;
    while distance < size {
        let buffers = Buffers { out: vec![0], into: vec![0] };
        let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
        let mut pending = comm.begin_exchange(buffers, to, from)?;
        while pending.advance()?.is_none() {
            meanwhile();
        }
        distance *= 2;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;
    use crate::comm::solo::Solo;
    use crate::comm::threads::run;

    #[test]
    fn a_closed_gate_lets_no_exchange_begin_or_return() {
        let gate = Arc::new(WaitGate::default());
        let through = Arc::new(AtomicUsize::new(0));
        let (of_thread, counts) = (gate.clone(), through.clone());
        let thread = thread::spawn(move || {
            let gated = Gated { comm: Box::new(Solo::new()), gate: of_thread };
            for _ in 0..2 {
                gated.exchange(&[1], 0, &mut [0], 0).unwrap();
                counts.fetch_add(1, Ordering::SeqCst);
            }
        });
        assert_eq!(through.load(Ordering::SeqCst), 0);
        gate.set_open(true);
        thread.join().unwrap();
        assert_eq!(through.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn nobody_leaves_before_all_have_come() {
        let come = AtomicUsize::new(0);
        let _: Vec<()> = run(5, |comm| {
            come.fetch_add(1, Ordering::SeqCst);
            meet_at_leisure(&*comm, thread::yield_now).unwrap();
            assert_eq!(come.load(Ordering::SeqCst), 5);
        })
        .into_iter()
        .collect();
    }
}
