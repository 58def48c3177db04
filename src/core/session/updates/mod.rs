//! What ranks of the job tell each other of names and of how the program writes.

pub(super) mod elsewhere;
pub(super) mod knowledge;
mod parted;
pub(super) mod wanted;

use std::sync::Arc;

use crate::launch::site::Site;
use crate::session::{node::Node, rank::Rank, stores::Stores};

pub(crate) struct Updates {
    pub(super) site: Arc<Site>,
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) stores: Arc<Stores>,
}

#[cfg(test)]
mod tests {
    use crate::session::alone::Alone;

    #[test]
    fn what_an_earlier_launch_has_asked_for_is_asked_for_no_more() {
        let one = Alone::new();
        let updates = &one.session.names.updates;
        std::fs::create_dir_all(updates.wanted_folder().join("7")).unwrap();
        updates.sweep_wanted();
        assert!(!updates.wanted_folder().exists());
    }
}
