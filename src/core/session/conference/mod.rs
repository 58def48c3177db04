//! Sync points: the agreement, and what a conference decides, done.

pub(super) mod contested;
mod encode;
pub(super) mod eviction;
mod groups;
mod parted;
pub(super) mod perform;
pub(super) mod streams;
pub(super) mod sync;
pub(super) mod trouble;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::cache::under_way::Encoders;
use crate::cache::{Leftovers, Spare};
use crate::comm::Comm;
use crate::launch::site::Site;
use crate::machine::{DatasetKey, Need};
use crate::session::{
    contents::Contents, flush::Flusher, halt::Halt, handles::Handles, names::Names, node::Node,
    rank::Rank, report::Reporter, stores::Stores, unsealed::Unsealed, updates::Updates,
};

pub(crate) type Meetings = Vec<Option<Arc<dyn Comm>>>;

/// Why seals and confirmations have failed: the first rank that failed, its node, the cause.
#[derive(Debug, Default)]
pub(crate) struct Troubles {
    pub(super) by_key: BTreeMap<DatasetKey, String>,
    pub(super) last: String,
}

/// What all ranks agree on, and do.
pub struct Conference {
    pub(super) site: Arc<Site>,
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) report: Arc<Reporter>,
    pub(super) stores: Arc<Stores>,
    pub(super) updates: Arc<Updates>,
    pub(super) contents: Arc<Contents>,
    pub(super) unsealed: Arc<Unsealed>,
    pub(super) handles: Arc<Handles>,
    pub(super) names: Arc<Names>,
    pub(super) flush: Arc<Flusher>,
    pub(super) halt: Arc<Halt>,
    /// Gone as the links of the rank.
    pub(super) meetings: Mutex<Meetings>,
    pub(super) encoders: Encoders,
    pub(super) spare: Spare,
    /// What the decision that a checkpoint is due rests on; rank 0's counts.
    pub(super) need: Mutex<Need>,
    pub(super) troubles: Mutex<Troubles>,
    pub(super) evicted: Leftovers,
}

#[cfg(test)]
mod tests {
    use crate::machine::SyncKind;
    use crate::session::alone::Alone;
    use crate::streams::WORLD;

    #[test]
    fn a_checkpoint_is_complete_when_it_is_closed_and_not_before() {
        let one = Alone::new();
        let sync =
            || (0..4).for_each(|_| _ = one.session.conference.sync(WORLD, SyncKind::Barrier));
        let token = one.write("ck/1/file", "content");
        sync();
        assert_eq!(one.sealed(), 0);
        one.session.handles.closed(token);
        sync();
        assert_eq!(one.sealed(), 1);
    }
}
