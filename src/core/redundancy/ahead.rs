//! Exchanges that are begun ahead: while one is on its way, the piece of the one before is worked
//! in and that of the next one is read. So no member holds up another one that is quicker just now,
//! and none waits for the network while it has work.
//!
//! All members begin all exchanges in one order, and none that is earlier waits for one that is
//! later: the first one that is not over can always go on.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem;

use crate::comm::{Buffers, Comm, Pending};
use crate::error::{Error, Result};
use crate::system::test_pause;

const UNDER_WAY_MAX: usize = 3;

/// Most bytes of buffers that stay for the next checkpoint.
const KEPT_BYTES_MAX: usize = 1 << 20;

thread_local! {
    /// Buffers of the last encode. New ones come from the system page by page: a fifth of what a
    /// checkpoint of a MiB costs.
    static KEPT: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

pub(super) struct Ahead<'a, T> {
    comm: &'a dyn Comm,
    under_way: VecDeque<(Box<dyn Pending>, T)>,
    free: Vec<Vec<u8>>,
}

impl<'a, T> Ahead<'a, T> {
    pub fn new(comm: &'a dyn Comm) -> Self {
        // In a handler of exit(3) the thread has lost what it keeps.
        let free = KEPT.try_with(RefCell::take).unwrap_or_default();
        Ahead { comm, under_way: VecDeque::new(), free }
    }

    pub fn is_full(&self) -> bool {
        self.under_way.len() >= UNDER_WAY_MAX
    }

    pub fn is_over(&self) -> bool {
        self.under_way.is_empty()
    }

    pub fn begin(&mut self, buffers: Buffers, to: usize, from: usize, what: T) -> Result<()> {
        let pending = self.comm.begin_exchange(buffers, to, from)?;
        self.under_way.push_back((pending, what));
        Ok(())
    }

    /// Waits for the one that was begun first. Its buffer is to be given back.
    pub fn end_oldest(&mut self) -> Result<(T, Vec<u8>)> {
        let none = || Error::Comm("a piece is awaited that nobody sends".into());
        let (mut pending, what) = self.under_way.pop_front().ok_or_else(none)?;
        let Buffers { out, into } = pending.wait()?;
        test_pause("encode.middle");
        self.give_back(out);
        Ok((what, into))
    }

    pub fn buffer(&mut self, length: usize) -> Vec<u8> {
        let mut buffer = self.free.pop().unwrap_or_default();
        buffer.resize(length, 0);
        buffer
    }

    pub fn give_back(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() > 0 {
            self.free.push(buffer);
        }
    }
}

impl<T> Drop for Ahead<'_, T> {
    fn drop(&mut self) {
        let mut kept = mem::take(&mut self.free);
        let mut bytes = 0;
        kept.retain(|buffer| {
            bytes += buffer.capacity();
            bytes <= KEPT_BYTES_MAX
        });
        let _ = KEPT.try_with(|place| place.replace(kept));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::comm::threads::run;

    #[test]
    fn a_member_goes_on_while_the_other_has_not_begun() {
        let begun = Barrier::new(2);
        run(2, |comm| {
            let (me, other) = (comm.rank(), 1 - comm.rank());
            let mut ahead = Ahead::new(&*comm);
            if me == 1 {
                begun.wait();
            }
            for number in 0..UNDER_WAY_MAX {
                assert!(!ahead.is_full());
                let (mut out, into) = (ahead.buffer(number), ahead.buffer(number));
                out.fill(me as u8);
                ahead.begin(Buffers { out, into }, other, other, number).unwrap();
            }
            if me == 0 {
                begun.wait();
            }
            assert!(ahead.is_full());
            for number in 0..UNDER_WAY_MAX {
                assert_eq!(ahead.end_oldest().unwrap(), (number, vec![other as u8; number]));
            }
            assert!(ahead.is_over() && ahead.end_oldest().is_err());
        });
    }
}
