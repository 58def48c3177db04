//! Threads that encode beside the program, and what a seal is asked for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::encoder::Encoder;
use super::own_part::SealRequest;
use crate::comm::Comm;
use crate::comm::gate::{Gated, WaitGate, meet_at_leisure};
use crate::comm::mesh::Link;
use crate::error::Result;
use crate::kvtree::KvTree;
use crate::machine::{DatasetKey, SealPlan};
use crate::records::{self, FileMeta};
use crate::redundancy::RedundancySet;

pub(crate) struct SealAsked {
    pub key: records::DatasetKey,
    pub(crate) store: String,
    pub(crate) files: Vec<FileMeta>,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) gone: BTreeMap<String, u64>,
    pub(crate) set: RedundancySet,
    pub(crate) descriptor: KvTree,
}

impl SealAsked {
    pub fn request(&self, plan: &SealPlan) -> SealRequest<'_> {
        SealRequest {
            key: &self.key,
            id: plan.id,
            epoch: plan.epoch,
            store: &self.store,
            files: self.files.clone(),
            tags: self.tags.clone(),
            gone: self.gone.clone(),
            set: &self.set,
            descriptor: &self.descriptor,
        }
    }
}

pub(crate) struct EncodingUnderWay {
    pub(crate) encoder: Encoder,
    pub(crate) asked: SealAsked,
    pub(crate) begun: Instant,
    pub(crate) ways: Ways,
    /// Time in which the program has waited for it, or was to.
    pub(crate) lent: Duration,
}

#[derive(Default)]
pub(crate) struct Ways {
    /// Open while the program waits.
    pub(crate) gate: Option<Arc<WaitGate>>,
    /// Connections that nobody else uses before its end.
    pub(crate) link: Option<Arc<dyn Link>>,
}

impl Ways {
    /// Has the thread work while the program waits: `comm` is its way to the others.
    pub(crate) fn gated(mut self, comm: Box<dyn Comm>) -> (Box<dyn Comm>, Ways) {
        let gate = Arc::<WaitGate>::default();
        self.gate = Some(gate.clone());
        (Box::new(Gated { comm, gate }), self)
    }
}

/// Connections of the set that encoded last, with its world ranks; not while they are in use.
pub(crate) type KeptMesh = (Vec<usize>, Arc<dyn Link>);

#[derive(Default)]
pub(crate) struct Encoders {
    under_way: Mutex<BTreeMap<DatasetKey, EncodingUnderWay>>,
    kept: Mutex<Option<KeptMesh>>,
}

/// A piece is what the program may be held up by when its wait is over: two milliseconds of work.
/// With smaller ones little is done where the waits of two ranks never overlap.
pub(crate) const GATED_PIECE_BYTES: usize = 2 << 20;

/// Shorter waits are most often over before anything else could be done.
const SPIN: Duration = Duration::from_micros(20);

/// Between two looks at whether a wait is over.
const NAP: Duration = Duration::from_micros(50);

/// A program that hardly waits gives so much at a sync point, and a twentieth of its time in all.
const LINGER: Duration = Duration::from_millis(2);

const SHARE: u32 = 20;

/// The program's signal handlers wait no longer than this.
const LONG: Duration = Duration::from_secs(1);

impl Encoders {
    /// Waits for all ranks at a sync point while their threads encode: in its own call the program
    /// would keep the processor while it waits for them. `sleep` lets its signal handlers run.
    ///
    /// # Errors
    /// Those of the communication.
    pub(crate) fn work_until_all_come(
        &self,
        comm: &dyn Comm,
        sleep: impl Fn(Duration),
    ) -> Result<()> {
        let begun = Instant::now();
        let nap = || match begun.elapsed() < LONG {
            true => thread::sleep(NAP),
            false => sleep(NAP),
        };
        self.set_gates(true, Duration::ZERO);
        let met = meet_at_leisure(comm, || match begun.elapsed() < SPIN {
            true => std::hint::spin_loop(),
            false => nap(),
        });
        while met.is_ok() && begun.elapsed() < LINGER && self.are_short_of_time(begun) {
            nap();
        }
        self.set_gates(false, begun.elapsed());
        met
    }

    fn set_gates(&self, open: bool, lent: Duration) {
        for one in self.all().values_mut() {
            one.ways.gate.iter().for_each(|gate| gate.set_open(open));
            one.lent += lent;
        }
    }

    /// Tells whether some have had little of the program's time, this wait since `begun` counted.
    fn are_short_of_time(&self, begun: Instant) -> bool {
        let is_short = |one: &EncodingUnderWay| {
            let lent = one.lent + begun.elapsed();
            one.encoder.ended().is_none() && lent * SHARE < one.begun.elapsed()
        };
        self.all().values().any(is_short)
    }

    pub(crate) fn all(&self) -> MutexGuard<'_, BTreeMap<DatasetKey, EncodingUnderWay>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn kept(&self) -> MutexGuard<'_, Option<KeptMesh>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
