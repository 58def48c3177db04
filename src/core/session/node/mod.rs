//! The state of a rank, as the ranks of its node see it at once.

mod left;
pub(super) mod moves;
pub(super) mod neighbours;
pub(super) mod shared;
mod turns;

use std::sync::Arc;

pub(crate) use crate::handles::{RankFiles, State};

use shared::StateLock;

use crate::launch::site::Site;
use crate::machine::Idle;
use crate::namespace::Neighbours;
use crate::session::rank::Rank;

/// The state, and how ranks of the node hear of what each does with it.
pub struct Node {
    pub(super) site: Arc<Site>,
    pub(super) rank: Arc<Rank>,
    pub(super) state: Arc<StateLock>,
    pub(super) neighbours: Neighbours,
    pub(super) idle: Idle,
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::thread::{scope, yield_now};

    use crate::machine::DatasetKey;
    use crate::session::{alone::Alone, rank::lock};

    /// All calls of the program once waited for a slow rename on the prefix.
    #[test]
    fn who_looks_does_not_wait_for_a_name_that_a_thread_gives_and_who_changes_it_does() {
        let one = Alone::new();
        let (node, key) = (&one.session.node, &DatasetKey::new(0, "1", 0));
        let done = &Mutex::new(Vec::new());
        scope(|threads| {
            let rename = &mut || {
                drop(node.state_to_look());
                drop(node.state_to_change(&["ck/2/file"]));
                threads.spawn(|| {
                    drop(node.state_to_change(&["ck/1/file"]));
                    lock(done).push("changed");
                });
                while !node.state.is_awaited() && lock(done).is_empty() {
                    yield_now();
                }
                lock(done).push("named");
                Ok(())
            };
            node.state.publish(key, "ck/1/file", rename).unwrap();
        });
        assert_eq!(*lock(done), ["named", "changed"]);
    }
}
