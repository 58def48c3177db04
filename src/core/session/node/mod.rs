//! The state of a rank, as the ranks of its node see it at once.
//!
//! | file | job |
//! |---|---|
//! | `state.rs` | the state |
//! | `shared.rs` | its lock, and threads that give files their names on the PFS meanwhile |
//! | `neighbours.rs` | what the ranks of a node see at once |
//! | `turns.rs` | one step of theirs at a time |
//! | `moves.rs` | directories that got their final name |
//! | `left.rs` | files of complete datasets that the program has changed since |

mod left;
pub(super) mod moves;
pub(super) mod neighbours;
pub(super) mod shared;
mod state;
mod turns;

use std::sync::Arc;

pub(crate) use state::State;

use shared::SharedState;

use crate::launch::site::Site;
use crate::machine::Idle;
use crate::namespace::Neighbours;
use crate::session::rank::Rank;

/// The state, and how ranks of the node hear of what each does with it.
pub struct Node {
    pub(super) site: Arc<Site>,
    pub(super) rank: Arc<Rank>,
    pub(super) state: Arc<SharedState>,
    pub(super) neighbours: Neighbours,
    pub(super) idle: Idle,
}
