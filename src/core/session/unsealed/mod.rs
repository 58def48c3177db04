//! Files that no agreement comes for go to the PFS by themselves; `machine/matters/unsealed.rs`
//! says which, when, and in which order.

mod publishing;
mod pulling;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::launch::site::Site;
use crate::session::{contents::Contents, node::Node, rank::Rank};
use crate::transfer::RankPulls;

pub struct Unsealed {
    pub(super) site: Arc<Site>,
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) contents: Arc<Contents>,
    /// A thread whose calls do not count has made collective ones.
    pub(super) passed_by: AtomicBool,
    /// Files of several nodes that leave the cache.
    pub(crate) pulls: RankPulls,
}

#[cfg(test)]
mod tests {
    use crate::session::alone::Alone;

    #[test]
    fn what_is_closed_comes_to_the_prefix_when_the_run_ends_without_an_agreement() {
        let one = Alone::new();
        let token = one.write("ck/1/file", "content");
        one.session.node.state().machine.begin_exit();
        let there = || std::fs::read_to_string(one.prefix().join("ck/1/file")).ok();
        one.session.unsealed.publish_overdue();
        assert_eq!(there(), None, "it is open");
        one.session.handles.closed(token);
        one.session.unsealed.publish_overdue();
        assert_eq!(there().as_deref(), Some("content"));
    }
}
