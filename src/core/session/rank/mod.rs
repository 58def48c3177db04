//! What a rank knows of itself and says; nothing here waits, or needs the state.

mod events;
mod guard;
pub(super) mod known;
pub(super) mod publish;
pub(crate) mod stage;
mod words;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU8;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

pub(crate) use guard::lock;

use crate::account::calls::Calls;
use crate::account::run_book::RunBook;
use crate::account::tally::Tally;
use crate::events::EventLog;
use crate::launch::site::{Links, Site};
use crate::machine::DatasetKey;
use crate::namespace::{Directories, SilencedFiles};
use crate::patterns::SeriesSet;

#[derive(Default)]
pub(crate) struct Events {
    log: OnceLock<EventLog>,
    begin: OnceLock<Instant>,
    /// Flushes in the background that are not over, by dataset.
    flushes: Mutex<BTreeMap<u64, (DatasetKey, Instant)>>,
    pub run: RunBook,
}

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
    pub(super) silenced: SilencedFiles,
    pub(super) directories: Directories,
    pub(super) calls: Calls,
    /// Which [`stage::Milestone`]s have come about, as bits.
    pub(super) milestones: AtomicU8,
}

#[cfg(test)]
mod tests {
    use crate::session::alone::Alone;

    #[test]
    fn a_file_that_a_call_has_claimed_belongs_to_no_pattern() {
        let one = Alone::new();
        let rank = &one.session.rank;
        assert_eq!(rank.file_ref("ck/1/file").unwrap().id.as_deref(), Some("1"));
        rank.calls.in_use.store(true, std::sync::atomic::Ordering::Relaxed);
        rank.calls.claimed().insert("ck/1/file".to_string());
        assert!(rank.file_ref("ck/1/file").is_none());
    }

    #[test]
    fn a_rank_stops_to_use_the_cache_once() {
        let one = Alone::new();
        let rank = &one.session.rank;
        assert!(rank.is_routing());
        assert_eq!([1, 2].map(|_| rank.reach(super::stage::Milestone::OutOfCache)), [false, true]);
        assert!(!rank.is_routing());
    }
}
