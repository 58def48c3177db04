//! When a run is to end, and its end.

pub(super) mod finish;
pub(super) mod halting;
pub(super) mod leaving;
pub(super) mod need;

use std::sync::{Arc, Mutex};

use crate::launch::site::Site;
use crate::session::{
    conference::Conference, contents::Contents, flush::Flusher, halt::Halt, handles::Handles,
    node::Node, rank::Rank, report::Reporter, stores::Stores, unsealed::Unsealed, updates::Updates,
};

pub struct Ending {
    pub(super) site: Arc<Site>,
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) report: Arc<Reporter>,
    pub(super) stores: Arc<Stores>,
    pub(super) updates: Arc<Updates>,
    pub(super) contents: Arc<Contents>,
    pub(super) unsealed: Arc<Unsealed>,
    pub(super) handles: Arc<Handles>,
    pub(super) flush: Arc<Flusher>,
    pub(super) halt: Arc<Halt>,
    pub(super) conference: Arc<Conference>,
    /// Series and id of checkpoints that only a later launch can have, when their nodes are back.
    pub(super) out_of_reach: Mutex<Vec<(usize, u64)>>,
}

#[cfg(test)]
mod tests {
    use crate::session::{alone::Alone, rank::lock};

    /// The end of a run once cleared caches of which only a later launch could read a checkpoint.
    #[test]
    fn the_cache_stays_where_a_newer_checkpoint_could_not_be_had() {
        for out_of_reach in [false, true] {
            let one = Alone::new();
            one.checkpoint("1");
            lock(&one.session.ending.out_of_reach).extend(out_of_reach.then_some((0, 9)));
            one.session.ending.finish();
            let record = one.session.rank.site.filemap.get_id(1);
            assert_eq!(record.is_some(), out_of_reach);
        }
    }
}
