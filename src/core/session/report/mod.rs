//! What a launch tells of itself.
//!
//! | file | job |
//! |---|---|
//! | `paces.rs` | how fast each node seals and flushes |
//! | `passed.rs` | what went straight to the prefix, and why |
//! | `phases.rs` | the program's phases in the log of events |
//! | `unprotected.rs` | a launch whose patterns match nothing |

mod paces;
mod passed;
pub(super) mod phases;
mod unprotected;

use std::sync::Arc;

use phases::Phases;

use crate::account::unmatched::Unmatched;
use crate::session::node::Node;
use crate::session::rank::Rank;

/// What a launch tells of itself.
pub(in crate::session) struct Report {
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) unmatched: Unmatched,
    pub(super) phases: Phases,
}
