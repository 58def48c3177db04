//! What an earlier launch left, and how the program goes on with it, as `restart/` has planned.

pub(super) mod arrival;
mod carry_out;
pub(super) mod generations;
pub(super) mod going_back;
pub(super) mod links;
mod pointers;
pub(super) mod removed;
pub(super) mod restore;
pub(super) mod stranded;
pub(super) mod telling;

use std::sync::Arc;

use crate::launch::site::Site;
use crate::session::{
    contents::Contents, ending::Ending, flush::Flusher, names::Names, node::Node,
    prefix::Inspector, rank::Rank,
};

pub(crate) struct Restorer {
    pub(super) site: Arc<Site>,
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) contents: Arc<Contents>,
    pub(super) names: Arc<Names>,
    pub(super) flush: Arc<Flusher>,
    pub(super) ending: Arc<Ending>,
    pub(super) prefix: Arc<Inspector>,
}

#[cfg(test)]
mod tests {
    use crate::namespace::Answer;
    use crate::session::alone::Alone;

    #[test]
    fn a_run_that_was_killed_finds_its_complete_checkpoint_and_no_other() {
        let one = Alone::new();
        one.checkpoint("1");
        one.session.handles.closed(one.write("ck/2/file", "not complete"));
        let one = one.again();
        assert!(matches!(one.find("ck/1/file"), Answer::Redirect { .. }));
        assert!(!matches!(one.find("ck/2/file"), Answer::Redirect { .. }));
        assert_eq!(one.sealed(), 1);
    }
}
