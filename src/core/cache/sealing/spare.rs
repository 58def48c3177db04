//! Whether each rank of a node has a processor to spare, on which a thread can encode. The affinity
//! masks of the ranks and of their launcher tell which processors are free where ranks are bound.
//! Where they are not, or to several processors, what they have used so far tells: a program of
//! threads needs its processors itself.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::bytes::{Reader, Writer};
use crate::comm::Comm;
use crate::error::Result;
use crate::params::{Settings, keys};
use crate::system::{bind_thread, parent, permitted, processor_time, processors, take_short_turns};

/// A shorter time does not tell how many processors a program uses.
const MEASURED_LEAST: Duration = Duration::from_millis(500);

/// A part of a processor, used by services of MPI and ours, that counts as none.
const NOISE: f64 = 0.15;

/// Launchers of a resource manager, which may use processors of other jobs.
const FOREIGN_LAUNCHERS: [&str; 2] = ["slurmstepd", "srun"];

/// With `SCR_SEAL=AUTO`, bytes of a rank in a dataset from which on a thread is worth its while.
const AUTO_BYTES: u64 = 4 << 20;

/// The processors that the launcher may use, as far as they are the job's. Whoever asks for threads
/// himself has kept free what the kernel permits.
fn of_launcher(mode: &str) -> Option<BTreeSet<usize>> {
    if mode != "AUTO" {
        return permitted().ok();
    }
    let (process, name) = parent();
    let of_job = !FOREIGN_LAUNCHERS.contains(&name.as_str());
    if of_job { processors(process).ok() } else { None }
}

/// Processor time at a moment, and the processors that were used until then; 0: not known yet.
struct Used {
    at: Instant,
    time: Duration,
    processors: usize,
}

pub struct Spare {
    mode: String,
    node: NodeProcessors,
    used: Mutex<Used>,
    own: Arc<Mutex<Duration>>,
}

#[derive(Debug, PartialEq, Eq)]
struct NodeProcessors {
    /// No rank of the node is bound to these; none: any processor will do.
    free: BTreeSet<usize>,
    is_own: bool,
    /// The number of the node's processors for each rank.
    share: usize,
}

impl NodeProcessors {
    /// `masks`: processors of each rank of the node, and of its launcher.
    fn of(masks: &[(BTreeSet<usize>, BTreeSet<usize>)], rank: usize) -> NodeProcessors {
        let ranks = masks.len().max(1);
        let taken: BTreeSet<usize> = masks.iter().flat_map(|(own, _)| own).copied().collect();
        let all: BTreeSet<usize> = masks.iter().flat_map(|(_, all)| all).copied().collect();
        let all: BTreeSet<usize> = all.union(&taken).copied().collect();
        let free: Vec<usize> = all.difference(&taken).copied().collect();
        let width = free.len() / ranks;
        let is_own = width > 0;
        let (first, width) = if is_own { (rank * width, width) } else { (0, free.len()) };
        let free = free.into_iter().skip(first).take(width).collect();
        NodeProcessors { free, is_own, share: all.len() / ranks }
    }

    fn has_room(&self, used: usize) -> bool {
        self.is_own || (used > 0 && self.share > used)
    }
}

impl Spare {
    /// Asks the kernel and the other ranks of the node, unless the rank shares its process.
    /// Collective over the node.
    pub fn find(owns_process: bool, settings: &Settings, node: &dyn Comm) -> Result<Spare> {
        let mode = settings.get(keys::SEAL);
        let mut found = NodeProcessors { free: BTreeSet::new(), is_own: false, share: 0 };
        if matches!(mode.as_str(), "AUTO" | "BACKGROUND") && owns_process {
            let own = processors(0).unwrap_or_default();
            let launcher = of_launcher(&mode).unwrap_or_else(|| own.clone());
            let bytes = Writer::new().list(&list(&own), put).list(&list(&launcher), put).take();
            let masks = node.all_gather(&bytes)?;
            let masks: Option<Vec<_>> = masks.iter().map(|bytes| read(bytes)).collect();
            found = NodeProcessors::of(&masks.unwrap_or_default(), node.rank());
        }
        let used = Used { at: Instant::now(), time: processor_time(false), processors: 0 };
        Ok(Spare { mode, node: found, used: Mutex::new(used), own: Arc::default() })
    }

    /// Returns the least bytes of a rank in datasets that are encoded beside the program, if any
    /// are.
    pub fn least_bytes(mode: &str) -> Option<u64> {
        match mode {
            "BLOCKING" => None,
            "AUTO" => Some(AUTO_BYTES),
            _ => Some(0),
        }
    }

    /// Tells whether this rank can encode beside the program now.
    pub fn is_there(&self) -> bool {
        match self.mode.as_str() {
            "BLOCKING" => false,
            "AUTO" => self.node.has_room(self.used()),
            _ => true,
        }
    }

    fn used(&self) -> usize {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let own = *self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, time) = (Instant::now(), processor_time(false).saturating_sub(own));
        let passed = now.duration_since(used.at);
        if passed >= MEASURED_LEAST {
            let spent = time.saturating_sub(used.time).as_secs_f64() / passed.as_secs_f64();
            *used = Used { at: now, time, processors: (spent - NOISE).ceil().max(1.0) as usize };
        }
        used.processors
    }

    pub fn enter(&self) -> (impl FnOnce() + Send + 'static, impl FnOnce() + Send + 'static) {
        let (free, own) = (self.node.free.clone(), self.own.clone());
        let begin = move || {
            if free.is_empty() || bind_thread(&free).is_err() {
                take_short_turns(); // it shares the rank's own, which has a call to make
            }
        };
        let end = move || {
            *own.lock().unwrap_or_else(PoisonError::into_inner) += processor_time(true);
        };
        (begin, end)
    }
}

fn list(set: &BTreeSet<usize>) -> Vec<u64> {
    set.iter().map(|one| *one as u64).collect()
}

fn put(out: &mut Writer, one: &u64) {
    out.packed(*one);
}

fn read(bytes: &[u8]) -> Option<(BTreeSet<usize>, BTreeSet<usize>)> {
    let mut from = Reader::new(bytes);
    let mut set = || -> Option<BTreeSet<usize>> {
        let list = from.list(Reader::packed)?;
        list.into_iter().map(|one| usize::try_from(one).ok()).collect()
    };
    Some((set()?, set()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(masks: &[(&[usize], &[usize])], rank: usize) -> NodeProcessors {
        let set = |of: &[usize]| of.iter().copied().collect();
        let masks: Vec<_> = masks.iter().map(|(own, all)| (set(own), set(all))).collect();
        NodeProcessors::of(&masks, rank)
    }

    #[test]
    fn processors_beside_those_that_ranks_are_bound_to_are_free() {
        let all: &[usize] = &[0, 1, 2, 3];
        let found = node(&[(&[0], all), (&[1], all)], 1);
        let alone = |number| BTreeSet::from([number]);
        assert_eq!(found, NodeProcessors { free: alone(3), is_own: true, share: 2 });
        assert!(found.has_room(0), "bound: what it uses does not matter");
        let full = node(&[(&[0, 1], all), (&[2, 3], all)], 0);
        assert_eq!(full, NodeProcessors { free: BTreeSet::new(), is_own: false, share: 2 });
        let one = node(&[(&[0], &[0, 1]), (&[0], &[0, 1])], 1);
        assert_eq!(one, NodeProcessors { free: alone(1), is_own: false, share: 1 });
        assert!(!one.has_room(1), "both would share it");
    }

    #[test]
    fn unbound_ranks_have_what_they_do_not_use() {
        let all: &[usize] = &[0, 1, 2, 3];
        let found = node(&[(all, all), (all, all)], 0);
        let room = [0, 1, 2].map(|used| found.has_room(used));
        assert_eq!((room, found.free.len()), ([false, true, false], 0));
        let tight = node(&[(&[0, 1], &[0, 1]), (&[0, 1], &[0, 1])], 0);
        assert!(!tight.has_room(1));
    }
}
