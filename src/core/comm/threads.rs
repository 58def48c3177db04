//! Ranks as threads of one process, with ranks that can be killed at any communication step.
//!
//! Everything that runs over `dyn Comm` runs here without a launcher, so a plain `cargo test` can
//! lose ranks and nodes. Rules that make such tests exact:
//!
//! * A message is there once it was sent, whatever happens to its sender later.
//! * A call that waits for a rank that has died, has dropped this communicator, or has itself got
//!   an error from it, returns `Err(Error::Comm)`; so one death reaches everyone who depends on it,
//!   and nobody hangs.
//! * Sending never fails and never waits. So what a rank sees depends only on what the others did,
//!   never on who was faster.
//!
//! All collectives run through the group's rank 0 by single messages, and each message sent or
//! received counts as one call for [`ThreadWorld::kill_after`]; a rank can therefore die in the
//! middle of a collective, some members having its result and some not, as in real life.

mod coming;
mod world;

use std::any::Any;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Builder;

use super::{Buffers, Comm, Over, Pending};
use crate::bytes::{Reader, Writer};
use crate::error::{Error, Result};

use coming::Coming;
use world::{Channel, Killed, Parcel, World, lock};

/// Runs `body` on `ranks` threads and returns their results in rank order. A panic of a rank is
/// passed on after all have ended (the first one, since the others' may follow from it).
pub fn run<T, F>(ranks: usize, body: F) -> Vec<T>
where
    T: Send,
    F: Fn(Box<dyn Comm>) -> T + Sync,
{
    let outcome = ThreadWorld::new(ranks).run(body);
    // Without `kill_after` no rank is killed, so every rank has a result.
    outcome.results.into_iter().flatten().collect()
}

/// A world of threads that is still to be run, with the ranks that will be killed.
pub struct ThreadWorld {
    kill_at: Vec<Option<usize>>,
    reaper: Reaper,
}

/// Kills ranks of a [`ThreadWorld`] while it runs, as a launcher sees it that ends the others, too.
#[derive(Clone, Default)]
pub struct Reaper(Arc<OnceLock<Arc<World>>>);

impl Reaper {
    /// Kills `rank`: its thread ends at its next communication call, and no rank of the world waits
    /// for any other from now on: what has not come by then is an error.
    pub fn kill(&self, rank: usize) {
        if let Some(world) = self.0.get() {
            lock(&world.state).aborted = true;
            world.die(rank);
        }
    }
}

/// What a [`ThreadWorld`] left.
#[derive(Debug)]
pub struct WorldOutcome<T> {
    /// Each rank's result; `None` for a rank that was killed.
    pub results: Vec<Option<T>>,
    /// Communication calls that each rank has made (all its communicators together).
    pub calls: Vec<usize>,
}

impl ThreadWorld {
    /// Makes a world of `ranks` threads.
    pub fn new(ranks: usize) -> Self {
        ThreadWorld { kill_at: vec![None; ranks], reaper: Reaper::default() }
    }

    /// Kills `rank` instead of its communication call number `calls` (0 is its first). The thread
    /// unwinds, so that nothing of the code under test runs on but its destructors. In a world of
    /// one there is no communication, hence no kill.
    pub fn kill_after(mut self, rank: usize, calls: usize) -> Self {
        self.kill_at[rank] = Some(calls);
        self
    }

    /// Returns what kills ranks, for those who decide while it runs.
    #[must_use]
    pub fn reaper(&self) -> Reaper {
        self.reaper.clone()
    }

    /// Runs `body` on every rank. A rank for which no thread can be made has died at once, and so
    /// have those after it.
    pub fn run<T, F>(self, body: F) -> WorldOutcome<T>
    where
        T: Send,
        F: Fn(Box<dyn Comm>) -> T + Sync,
    {
        self.run_on(|_| Builder::new(), body)
    }

    fn run_on<T, F>(self, thread: impl Fn(usize) -> Builder, body: F) -> WorldOutcome<T>
    where
        T: Send,
        F: Fn(Box<dyn Comm>) -> T + Sync,
    {
        let ranks = self.kill_at.len();
        let world = Arc::new(World::new(self.kill_at));
        let _ = self.reaper.0.set(world.clone());
        let first_panic: Mutex<Option<Box<dyn Any + Send>>> = Mutex::new(None);
        let results = std::thread::scope(|scope| {
            let (world, body, first_panic) = (&world, &body, &first_panic);
            let start = |rank: usize| {
                let run = move || {
                    let comm = ThreadComm::of_world(world.clone(), rank);
                    let result = catch_unwind(AssertUnwindSafe(|| body(Box::new(comm))));
                    // Before the others hear of the death: their panics follow from this one.
                    let result = keep_first_panic(result, first_panic);
                    world.die(rank);
                    result
                };
                thread(rank).spawn_scoped(scope, run).ok()
            };
            let threads: Vec<_> = (0..ranks).map_while(start).collect();
            (threads.len()..ranks).for_each(|rank| world.die(rank));
            let mut results: Vec<Option<T>> =
                threads.into_iter().map(|t| t.join().ok().flatten()).collect();
            results.resize_with(ranks, || None);
            results
        });
        if let Some(payload) = lock(&first_panic).take() {
            resume_unwind(payload);
        }
        WorldOutcome {
            results,
            calls: world.calls.iter().map(|c| c.load(Ordering::Relaxed)).collect(),
        }
    }
}

fn keep_first_panic<T>(
    result: std::thread::Result<T>,
    first: &Mutex<Option<Box<dyn Any + Send>>>,
) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(payload) => {
            if !payload.is::<Killed>() {
                lock(first).get_or_insert(payload);
            }
            None
        }
    }
}

struct ThreadComm {
    world: Arc<World>,
    context: u64,
    /// World ranks of the group's members, in group order.
    members: Vec<usize>,
    rank: usize,
}

impl ThreadComm {
    fn of_world(world: Arc<World>, rank: usize) -> Self {
        let members = (0..world.arrived.len()).collect();
        ThreadComm { world, context: 0, members, rank }
    }

    fn world_rank(&self) -> usize {
        self.members[self.rank]
    }

    /// Counts one call and ends this rank if it is the one chosen for its death.
    fn step(&self) -> Result<()> {
        let me = self.world_rank();
        let call = self.world.calls[me].fetch_add(1, Ordering::Relaxed);
        let mut state = lock(&self.world.state);
        if state.dead.contains(&me) || self.world.kill_at[me].is_some_and(|at| call >= at) {
            state.dead.insert(me);
            drop(state);
            self.world.wake_all();
            resume_unwind(Box::new(Killed));
        }
        if state.gone.contains(&(self.context, me)) {
            return Err(Error::Comm("an earlier call on this group failed".into()));
        }
        Ok(())
    }

    fn post(&self, channel: Channel, to: usize, parcel: Parcel) -> Result<()> {
        self.step()?;
        let target = self.members[to];
        let key = (self.context, channel, self.world_rank(), target);
        lock(&self.world.state).queues.entry(key).or_default().push_back(parcel);
        self.world.arrived[target].notify_all();
        Ok(())
    }

    fn take(&self, channel: Channel, from: usize) -> Result<Parcel> {
        self.step()?;
        let (me, source) = (self.world_rank(), self.members[from]);
        let key = (self.context, channel, source, me);
        let mut state = lock(&self.world.state);
        loop {
            let found = state.take(&key);
            if let Ok(Some(parcel)) = found {
                return Ok(parcel);
            }
            if state.dead.contains(&me) {
                drop(state);
                resume_unwind(Box::new(Killed));
            }
            if let Err(error) = found {
                drop(state);
                self.world.leave(self.context, me);
                return Err(error);
            }
            let woken = self.world.arrived[me].wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gathers everyone's parcel at rank 0, which turns them into one answer for each rank.
    fn through_root(
        &self,
        own: Parcel,
        answer: impl FnOnce(Vec<Parcel>) -> Result<Vec<Parcel>>,
    ) -> Result<Parcel> {
        if self.rank != 0 {
            self.post(Channel::Collective, 0, own)?;
            return self.take(Channel::Collective, 0);
        }
        let mut all = vec![own];
        for from in 1..self.size() {
            all.push(self.take(Channel::Collective, from)?);
        }
        let answers = answer(all)?;
        let mut mine = Parcel::new();
        for (to, parcel) in answers.into_iter().enumerate() {
            match to {
                0 => mine = parcel,
                _ => self.post(Channel::Collective, to, parcel)?,
            }
        }
        Ok(mine)
    }

    fn single(&self, parcel: Parcel) -> Result<Vec<u8>> {
        let piece = parcel.into_iter().next();
        piece.map(|(_, bytes)| bytes).ok_or_else(|| self.broken("calls do not match"))
    }

    /// The error of a call that the members made in different ways; none of them may go on.
    fn broken(&self, what: impl Into<String>) -> Error {
        self.world.leave(self.context, self.world_rank());
        Error::Comm(what.into())
    }
}

impl Drop for ThreadComm {
    fn drop(&mut self) {
        self.world.leave(self.context, self.world_rank());
    }
}

impl Comm for ThreadComm {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.members.len()
    }

    fn barrier(&self) -> Result<()> {
        self.through_root(Parcel::new(), Ok).map(drop)
    }

    fn broadcast(&self, bytes: &mut Vec<u8>, root: usize) -> Result<()> {
        if self.rank == root {
            for to in (0..self.size()).filter(|&to| to != root) {
                self.post(Channel::Collective, to, vec![(root, bytes.clone())])?;
            }
        } else {
            *bytes = self.single(self.take(Channel::Collective, root)?)?;
        }
        Ok(())
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let gathered = self.through_root(vec![(self.rank, bytes.to_vec())], |all| {
            let joined: Parcel = all.into_iter().flatten().collect();
            Ok(vec![joined; self.size()])
        })?;
        Ok(gathered.into_iter().map(|(_, bytes)| bytes).collect())
    }

    fn all_max(&self, words: &mut [i64]) -> Result<()> {
        let mut out = Writer::new();
        words.iter().for_each(|word| _ = out.word(*word as u64));
        for bytes in self.all_gather(&out.take())? {
            let theirs = words_in(&bytes);
            if theirs.len() != words.len() {
                return Err(self.broken("all_max with different lengths"));
            }
            for (word, theirs) in words.iter_mut().zip(theirs) {
                *word = (*word).max(theirs);
            }
        }
        Ok(())
    }

    fn exchange(&self, out: &[u8], to: usize, into: &mut [u8], from: usize) -> Result<()> {
        if !out.is_empty() {
            self.send(out, to)?;
        }
        if into.is_empty() {
            return Ok(());
        }
        let got = self.receive(from)?;
        if got.len() != into.len() {
            let (want, have) = (into.len(), got.len());
            return Err(self.broken(format!("expected {want} bytes of rank {from}, got {have}")));
        }
        into.copy_from_slice(&got);
        Ok(())
    }

    fn send(&self, bytes: &[u8], to: usize) -> Result<()> {
        self.post(Channel::Point, to, vec![(self.rank, bytes.to_vec())])
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        self.single(self.take(Channel::Point, from)?)
    }

    fn sparse_exchange(&self, out: Vec<(usize, Vec<u8>)>) -> Result<Vec<(usize, Vec<u8>)>> {
        self.through_root(out, |all| {
            let mut routed = vec![Parcel::new(); self.size()];
            for (source, parcel) in all.into_iter().enumerate() {
                for (target, bytes) in parcel {
                    let box_of_target = routed.get_mut(target).ok_or_else(|| {
                        self.broken(format!("rank {source} sends to rank {target}"))
                    })?;
                    box_of_target.push((source, bytes));
                }
            }
            Ok(routed)
        })
    }

    fn begin_exchange(&self, buffers: Buffers, to: usize, from: usize) -> Result<Box<dyn Pending>> {
        if !buffers.out.is_empty() {
            self.send(&buffers.out, to)?;
        }
        if buffers.into.is_empty() {
            return Ok(Box::new(Over(buffers)));
        }
        self.step()?;
        Ok(Box::new(Coming::new(self, buffers, from)))
    }

    fn aside(&self) -> Result<Option<Box<dyn Comm>>> {
        self.split(0, self.rank as i64)
    }

    fn split(&self, color: i64, key: i64) -> Result<Option<Box<dyn Comm>>> {
        let own = Writer::new().word(color as u64).word(key as u64).take();
        let (mut colors, mut contexts) = (Vec::new(), 0);
        // The answer: everyone's color and key, then a fresh range of contexts.
        let answer = self.through_root(vec![(self.rank, own)], |all| {
            let mut joined: Parcel = all.into_iter().flatten().collect();
            let size = self.size();
            let fresh = self.world.next_context.fetch_add(size as u64, Ordering::Relaxed);
            joined.push((size, Writer::new().word(fresh).take()));
            Ok(vec![joined; size])
        })?;
        for (rank, bytes) in answer {
            match words_in(&bytes)[..] {
                [color, key] => colors.push((color, key, rank)),
                [fresh] => contexts = fresh as u64,
                _ => return Err(self.broken("calls do not match")),
            }
        }
        if color < 0 {
            return Ok(None);
        }
        colors.retain(|&(theirs, ..)| theirs == color);
        // Any member's old rank tells the colors apart: the first one's of each group.
        let context = contexts + colors.iter().map(|c| c.2).min().unwrap_or(0) as u64;
        colors.sort_by_key(|&(_, key, rank)| (key, rank));
        let rank = colors.iter().position(|c| c.2 == self.rank).unwrap_or(0);
        let members = colors.iter().map(|c| self.members[c.2]).collect();
        let world = self.world.clone();
        Ok(Some(Box::new(ThreadComm { world, context, members, rank })))
    }
}

fn words_in(bytes: &[u8]) -> Vec<i64> {
    let mut from = Reader::new(bytes);
    iter::from_fn(|| from.word()).map(|word| word as i64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_ranks_that_have_no_thread() {
        // No system has so much memory for a stack.
        let thread = |rank| match rank {
            0 | 1 => Builder::new(),
            _ => Builder::new().stack_size(1 << 60),
        };
        let outcome = ThreadWorld::new(4).run_on(thread, |comm| comm.barrier());
        let failed = |result: &Option<Result<()>>| matches!(result, Some(Err(Error::Comm(_))));
        assert!(outcome.results[..2].iter().all(failed), "{:?}", outcome.results);
        assert!(outcome.results[2..].iter().all(Option::is_none));
    }
}
