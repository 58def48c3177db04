//! What a rank knows of itself and says; nothing here waits, or needs the state.
//!
//! | file | job |
//! |---|---|
//! | `calls.rs` | what the program has said by calls of SCR |
//! | `known.rs` | what it knows of itself and of names |
//! | `meetings.rs` | folders in which the ranks of a launch meet |
//! | `publish.rs` | one file to the prefix by itself, for a reason |
//! | `events.rs` | the log of events |
//! | `words.rs` | lines for the user, by one rank |

pub(super) mod calls;
pub(super) mod events;
pub(super) mod known;
pub(super) mod meetings;
pub(super) mod publish;
mod words;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use calls::Calls;
use events::Events;

use crate::account::tally::Tally;
use crate::launch::site::{Links, Site};
use crate::namespace::{Directories, Silenced};
use crate::patterns::SeriesSet;

/// A rank of this launch.
pub struct Rank {
    pub(super) site: Arc<Site>,
    pub(super) series: SeriesSet,
    /// Gone after the end, or after communication has failed.
    pub(super) links: Mutex<Option<Arc<Links>>>,
    /// Random, the same on all ranks of this launch.
    pub(super) launch: u64,
    /// What a launch must share with the one whose cache it takes over.
    pub(super) identity: String,
    pub(super) tally: Tally,
    pub(super) events: Events,
    pub(super) silenced: Silenced,
    pub(super) directories: Directories,
    pub(super) calls: Calls,
    /// The rank uses the cache.
    pub(super) routing: AtomicBool,
    /// This process is a forked child of the rank.
    pub(super) child: AtomicBool,
    pub(super) ended: AtomicBool,
    /// exit(3) was called before MPI_Finalize, which may come yet.
    pub(super) exiting: AtomicBool,
    /// In MPI_Finalize, or ending for a halt condition.
    pub(super) finishing: AtomicBool,
}

/// Locks what no panic leaves in a state that is worse than none.
pub(in crate::session) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
