//! What a launch tells of itself.

mod paces;
mod passed;
mod phases;
mod unprotected;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::account::unmatched::Unmatched;
use crate::launch::site::Site;
use crate::machine::DatasetKey;
use crate::session::{node::Node, rank::Rank};

#[derive(Debug, Default)]
pub(crate) struct Phases {
    /// Datasets that are being written, and since when.
    pub(super) writes: BTreeMap<DatasetKey, u64>,
    pub(super) computes: Option<Instant>,
}

pub(crate) struct Reporter {
    pub(super) site: Arc<Site>,
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) unmatched: Unmatched,
    pub(super) phases: Mutex<Phases>,
}

#[cfg(test)]
mod tests {
    use crate::session::alone::Alone;

    #[test]
    fn names_that_match_nothing_are_remembered_until_something_matches() {
        let one = Alone::new();
        let report = &one.session.names.report;
        report.note_unmatched("ck/1/data");
        assert_eq!(report.unmatched.names(), ["ck/1/data"]);
        one.write("ck/1/file", "");
        assert!(report.unmatched.is_matched());
    }
}
