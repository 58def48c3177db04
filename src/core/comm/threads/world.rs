//! What the threads of a world share: messages on their way, and who takes part no more.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

/// The panic payload that ends a killed rank.
pub(super) struct Killed;

/// Locks; a panic of one rank must not take the lock away from the others.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Messages of collectives and of point-to-point calls never mix.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Channel {
    Point,
    Collective,
}

/// Pieces labelled with a rank of the group (whose meaning the call knows).
pub(super) type Parcel = Vec<(usize, Vec<u8>)>;

/// Context of the group, channel, sender and receiver (world ranks).
pub(super) type QueueKey = (u64, Channel, usize, usize);

#[derive(Default)]
pub(super) struct WorldState {
    pub queues: HashMap<QueueKey, VecDeque<Parcel>>,
    pub gone: HashSet<(u64, usize)>,
    pub dead: HashSet<usize>,
    /// A rank was killed by the `Reaper`.
    pub aborted: bool,
}

impl WorldState {
    /// Takes a parcel; `None` if it has not come yet, an error if it never will.
    pub fn take(&mut self, place: &QueueKey) -> Result<Option<Parcel>> {
        let (context, _, source, _) = *place;
        if let Some(queue) = self.queues.get_mut(place) {
            let parcel = queue.pop_front();
            if queue.is_empty() {
                self.queues.remove(place);
            }
            if parcel.is_some() {
                return Ok(parcel);
            }
        }
        let is_gone = self.dead.contains(&source) || self.aborted;
        match is_gone || self.gone.contains(&(context, source)) {
            true => Err(Error::Comm(format!("rank {source} is gone"))),
            false => Ok(None),
        }
    }
}

pub(super) struct World {
    pub state: Mutex<WorldState>,
    /// One for each rank, so that a message wakes its receiver only.
    pub arrived: Vec<Condvar>,
    pub calls: Vec<AtomicUsize>,
    pub kill_at: Vec<Option<usize>>,
    pub next_context: AtomicU64,
}

impl World {
    pub fn new(kill_at: Vec<Option<usize>>) -> Self {
        World {
            state: Mutex::default(),
            arrived: kill_at.iter().map(|_| Condvar::new()).collect(),
            calls: kill_at.iter().map(|_| AtomicUsize::new(0)).collect(),
            kill_at,
            next_context: AtomicU64::new(1),
        }
    }

    pub fn wake_all(&self) {
        self.arrived.iter().for_each(Condvar::notify_all);
    }

    pub fn die(&self, rank: usize) {
        lock(&self.state).dead.insert(rank);
        self.wake_all();
    }

    pub fn leave(&self, context: u64, rank: usize) {
        lock(&self.state).gone.insert((context, rank));
        self.wake_all();
    }
}
