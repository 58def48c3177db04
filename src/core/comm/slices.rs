//! Messages of a thread that may not communicate itself: the program's thread carries one exchange
//! at a time for it, a little further whenever it comes by. So what is in flight is bounded by the
//! pieces of the exchanges, and so is the time that each visit takes.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::mesh::Link;
use super::{Buffers, Comm, Pending};
use crate::error::{Error, Result};

/// How long a visit waits. Both sides come by at the same sync point, so what is begun there is
/// mostly over within this time; to come by once more for that would double the visits.
const MOMENT: Duration = Duration::from_micros(400);

enum AtTheDesk {
    Free,
    Asked {
        buffers: Buffers,
        to: usize,
        from: usize,
    },
    UnderWay(Box<dyn Pending>),
    Done(Result<Buffers>),
    /// Nobody carries anything any more.
    Closed,
}

pub struct Slices {
    desk: Mutex<AtTheDesk>,
    changed: Condvar,
}

impl Slices {
    pub fn new() -> Self {
        Slices { desk: Mutex::new(AtTheDesk::Free), changed: Condvar::new() }
    }

    fn desk(&self) -> MutexGuard<'_, AtTheDesk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries on what the thread has asked for; waits for the other side a moment, and no longer.
    pub fn advance(&self, comm: &dyn Comm) {
        let mut desk = self.desk();
        if let AtTheDesk::Asked { buffers, to, from } = &mut *desk {
            *desk = match comm.begin_exchange(std::mem::take(buffers), *to, *from) {
                Ok(pending) => AtTheDesk::UnderWay(pending),
                Err(error) => AtTheDesk::Done(Err(error)),
            };
        }
        let begun = Instant::now();
        if let AtTheDesk::UnderWay(pending) = &mut *desk {
            let outcome = loop {
                match pending.advance() {
                    Ok(None) if begun.elapsed() < MOMENT => std::hint::spin_loop(),
                    Ok(None) => return,
                    Ok(Some(arrived)) => break Ok(arrived),
                    Err(error) => break Err(error),
                }
            };
            *desk = AtTheDesk::Done(outcome);
        }
        drop(desk);
        self.changed.notify_all();
    }

    /// Lets the thread hear an error from now on, whatever it waits for.
    pub fn close(&self) {
        *self.desk() = AtTheDesk::Closed;
        self.changed.notify_all();
    }
}

impl Link for Slices {
    fn exchange(&self, out: &[u8], to: usize, into: &mut [u8], from: usize) -> Result<()> {
        let buffers = Buffers { out: out.to_vec(), into: vec![0; into.len()] };
        into.copy_from_slice(&self.carry(buffers, to, from)?.into);
        Ok(())
    }

    /// No byte is copied: memory for copies of a MiB comes page by page.
    fn carry(&self, buffers: Buffers, to: usize, from: usize) -> Result<Buffers> {
        let mut desk = self.desk();
        if !matches!(*desk, AtTheDesk::Free) {
            return Err(closed());
        }
        *desk = AtTheDesk::Asked { buffers, to, from };
        loop {
            match &mut *desk {
                AtTheDesk::Asked { .. } | AtTheDesk::UnderWay(_) => {}
                AtTheDesk::Done(outcome) => {
                    let buffers = std::mem::replace(outcome, Err(closed()))?;
                    *desk = AtTheDesk::Free;
                    return Ok(buffers);
                }
                AtTheDesk::Free | AtTheDesk::Closed => return Err(closed()),
            }
            desk = self.changed.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn closed() -> Error {
    Error::Comm("nobody carries messages any more".to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::comm::mesh::Mesh;
    use crate::comm::threads::run;

    #[test]
    fn the_ranks_carry_what_their_threads_say() {
        run(3, |comm| {
            let (me, slices) = (comm.rank(), Arc::new(Slices::new()));
            let mesh = Mesh::new(slices.clone(), me, 3);
            let work = thread::spawn(move || mesh.all_gather(&vec![me as u8; me]).unwrap());
            loop {
                slices.advance(&*comm);
                let mut waits = [i64::from(!work.is_finished())];
                comm.all_max(&mut waits).unwrap(); // the program's own
                if waits == [0] {
                    break;
                }
            }
            assert_eq!(work.join().unwrap(), [vec![], vec![1], vec![2; 2]]);
        });
    }

    #[test]
    fn a_thread_hears_that_nobody_carries_for_it() {
        let slices = Arc::new(Slices::new());
        let mesh = Mesh::new(slices.clone(), 0, 2);
        let work = thread::spawn(move || (mesh.send(b"a", 1), mesh.send(b"b", 1)));
        while !matches!(*slices.desk(), AtTheDesk::Asked { .. }) {
            thread::yield_now();
        }
        slices.close();
        let (first, second) = work.join().unwrap();
        assert!(first.is_err() && second.is_err());
    }
}
