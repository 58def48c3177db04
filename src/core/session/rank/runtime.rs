//! The session of one rank: its state, and what the hooks report.
//!
//! Invariants:
//! * One lock guards the state. It is never held across communication or a wait; what a thread
//!   renames on the PFS meanwhile is noted in it (`publishing.rs`).
//! * Only [`Session::sync`], start and finish communicate.
//! * When the cache fails a rank for good, routing ends for it, with one message, and for the
//!   others when they hear of it; agreements go on, since the other ranks count on them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use super::publishing::{Publishing, Shared};
use crate::account::tally::Tally;
use crate::account::unmatched::Unmatched;
use crate::cache::{Launches, Leftovers, Setbacks, Spare};
use crate::files::lease::Lease;
use crate::handles::{Checksums, Holding, Tokens};
use crate::launch::site::{Links, Site};
use crate::machine::{DatasetKey, Deletion, FileRef, Idle, Machine, Need};
use crate::namespace::{
    self as ns, Claimed, Directories, Neighbours, SilencedFiles, ToldElsewhere, Turns, View,
};
use crate::patterns::{SeriesSet, Template};
use crate::session::conference::encode::Encoders;
use crate::session::conference::streams::Meetings;
use crate::session::conference::trouble::Troubles;
use crate::session::ending::halt::Halt;
use crate::session::flush::places::PlacesTold;
use crate::session::handles::children::Counter;
use crate::session::handles::lent::Lent;
use crate::session::program::Program;
use crate::session::report::events::Events;
use crate::session::stores::pages::Pages;
use crate::session::updates::moves::Moves;
use crate::system::{Memory, monotonic_ms};
use crate::transfer::{AsyncFlush, Background};

/// Everything that changes.
pub(in crate::session) struct State {
    pub machine: Machine,
    pub view: View,
    pub holdings: BTreeMap<DatasetKey, Holding>,
    pub tokens: Tokens,
    /// How the program names what it renames later, by series.
    pub templates: Vec<(usize, Template)>,
    /// Files that no pattern matches and that ranks write together, until they are renamed.
    pub together: BTreeSet<String>,
    /// Number of private copies made.
    pub shadows: u64,
    /// Files of which this rank has a private copy and that another one of its node writes, too;
    /// which one, if it is known.
    pub co_writers: BTreeMap<String, Option<usize>>,
    /// What other ranks of the node have claimed, and not said yet what has come of it.
    pub claims: BTreeMap<(String, usize), Claimed>,
    /// What other ranks of the node are changing right now.
    pub turns: Turns,
    /// Files whose reserved rest could not be given back yet.
    pub late: Vec<(DatasetKey, String)>,
    /// Files that the cache could not open: the PFS will have them as soon as the open is asked for
    /// again.
    pub kept_out: BTreeSet<String>,
    /// What the program has deleted, and the PFS still has.
    pub doomed: BTreeMap<String, ns::Doomed>,
    /// Series and id of checkpoints of which it is noted that the program removes them itself; of
    /// those that are in the cache alone.
    pub removals: BTreeSet<(usize, String)>,
    pub removals_cached: VecDeque<(usize, String)>,
    /// What children have open beside others.
    pub lent: Vec<Lent>,
    /// What other nodes know of names on this rank.
    pub told: ToldElsewhere,
    /// Directories that got their final name.
    pub moves: Moves,
    /// Checkpoints that this launch could not have, and perhaps a later one can, when their nodes
    /// are back: series and id.
    pub out_of_reach: Vec<(usize, u64)>,
    /// Why seals fail.
    pub troubles: Troubles,
    /// Of files that need not be read at the seal.
    pub checksums: Checksums,
    /// What the program may write over.
    pub pages: Pages,
    /// What threads are renaming on the PFS, without the lock.
    pub publishing: Publishing,
}

impl State {
    /// Notes that `name` belongs to `key` from now on, and is seen there or, with `on_prefix`, on
    /// the PFS.
    pub fn enter_file(&mut self, key: &DatasetKey, name: &str, on_prefix: bool) {
        self.holdings.entry(key.clone()).or_default().files.insert(name.to_string());
        self.view.enter(key, name, on_prefix);
    }

    /// Notes that `name` no longer belongs to `key`.
    pub fn leave_file(&mut self, key: &DatasetKey, name: &str) {
        if let Some(holding) = self.holdings.get_mut(key) {
            holding.files.remove(name);
        }
        if let Some(layer) = self.view.layer_mut(key) {
            layer.set_on_prefix(name, false);
        }
    }

    /// Notes that `name` belongs to no dataset any more.
    pub fn leave_all(&mut self, name: &str) {
        let keys: Vec<_> = self.holdings.keys().cloned().collect();
        keys.iter().for_each(|key| self.leave_file(key, name));
    }

    /// Finds the cached dataset that has the newest content of `name`, if another rank has written
    /// it.
    pub fn of_another(&self, name: &str) -> Option<DatasetKey> {
        let key = self.view.cached_in(name)?;
        let own = self.holdings.get(key).is_some_and(|holding| holding.files.contains(name));
        (!own && !self.view.is_absent(name)).then(|| key.clone())
    }

    /// Notes that the program deletes `file`, which is seen at `place`; tells what the unlink
    /// means.
    pub fn deleted_at(&mut self, file: &FileRef, place: &ns::Place) -> Deletion {
        let left = *place == ns::Place::Prefix && self.machine.is_left_behind(file);
        let told = self.machine.deleted(file, monotonic_ms());
        if left { Deletion::Now } else { told }
    }
}

/// The session of one rank.
pub struct Session {
    pub(in crate::session) site: Arc<Site>,
    pub(in crate::session) series: SeriesSet,
    /// Gone after the end, or after communication has failed.
    pub(in crate::session) links: Mutex<Option<Arc<Links>>>,
    /// Gone as [`Session::links`].
    pub(in crate::session) meetings: Mutex<Meetings>,
    pub(in crate::session) state: Arc<Shared>,
    pub(in crate::session) routing: AtomicBool,
    /// A thread whose calls do not count has made collective ones.
    pub(in crate::session) passed_by: AtomicBool,
    pub(in crate::session) child: AtomicBool,
    pub(in crate::session) ended: AtomicBool,
    /// exit(3) was called before MPI_Finalize, which may come yet.
    pub(in crate::session) exiting: AtomicBool,
    /// In MPI_Finalize, or ending for a halt condition.
    pub(in crate::session) finishing: AtomicBool,
    pub(in crate::session) halt: Halt,
    /// In a flush of all ranks together.
    pub(in crate::session) flushing: AtomicBool,
    /// Random, the same on all ranks of this launch.
    pub(in crate::session) launch: u64,
    /// What a launch must share with the one whose cache it takes over.
    pub(in crate::session) identity: String,
    /// The flush that a restart has begun, with the dataset's id.
    pub(in crate::session) background: Mutex<Option<(u64, Background)>>,
    /// Flushes that go on while the program does.
    pub(in crate::session) flushes: Mutex<BTreeMap<u64, AsyncFlush>>,
    /// Locks, held for the life of the process.
    pub(in crate::session) _leases: Vec<Lease>,
    pub(in crate::session) encoders: Encoders,
    pub(in crate::session) spare: Spare,
    pub(in crate::session) tally: Tally,
    pub(in crate::session) idle: Idle,
    pub(in crate::session) setbacks: Setbacks,
    pub(in crate::session) memory: Memory,
    pub(in crate::session) launches: Launches,
    /// What the flush file says, as far as it is ours to say.
    pub(in crate::session) places: Mutex<PlacesTold>,
    pub(in crate::session) events: Events,
    pub(in crate::session) evicted: Leftovers,
    pub(in crate::session) neighbours: Neighbours,
    pub(in crate::session) counter: Counter,
    pub(in crate::session) need: Mutex<Need>,
    pub(in crate::session) silenced: SilencedFiles,
    pub(in crate::session) unmatched: Unmatched,
    pub(in crate::session) directories: Directories,
    pub(in crate::session) program: Program,
}
