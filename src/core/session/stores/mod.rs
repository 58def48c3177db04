//! Where a dataset lies on a node, and what happens where it finds no room.

mod aliases;
pub(super) mod choice;
mod pages;
pub(super) mod room;
pub(super) mod setback;
pub(super) mod space;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use crate::cache::{Launches, Setbacks};
use crate::launch::site::Site;
use crate::machine::DatasetKey;
use crate::session::{node::Node, rank::Rank, report::Reporter};
use crate::system::Memory;

#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// Files that were written from start to end the last time: series and masked name.
    pub(super) in_order: BTreeSet<(usize, String)>,
    /// Evictions in a row at which nobody had taken what was kept.
    pub(super) unused: u32,
    /// Bytes that were kept at the last one.
    pub(super) kept: u64,
}

pub struct Stores {
    pub(super) site: Arc<Site>,
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) report: Arc<Reporter>,
    pub(super) setbacks: Setbacks,
    pub(super) memory: Memory,
    pub(super) launches: Launches,
    pub(super) pages: Mutex<Pages>,
    /// Files whose reserved rest could not be given back yet.
    pub(super) late: Mutex<Vec<(DatasetKey, String)>>,
    /// The cache could not open these files: they go to the PFS when they are asked for again.
    pub(super) kept_out: Mutex<BTreeSet<String>>,
}

#[cfg(test)]
mod tests {
    use crate::namespace::Answer;
    use crate::session::alone::Alone;

    /// The open was asked for again and again.
    #[test]
    fn a_file_that_the_store_could_not_open_goes_to_the_prefix_when_it_is_asked_for_again() {
        let one = Alone::new();
        let (path, flags) = (one.prefix().join("ck/1/file"), libc::O_WRONLY | libc::O_CREAT);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let open = || one.session.names.open(&path, flags);
        let Answer::Redirect { token, .. } = open() else { panic!("not cached") };
        assert!(one.session.stores.not_opened(token, libc::ENOSPC));
        assert!(matches!(open(), Answer::Pass { token } if token != 0));
    }
}
