//! What the shim tells the session that is about more than one of its parts.

mod children;
pub(super) mod counter;
pub(super) mod hooked;

use std::sync::Arc;

use counter::Counter;

use crate::files::lease::Lease;
use crate::session::{
    conference::Conference, contents::Contents, ending::Ending, flush::Flusher, handles::Handles,
    names::Names, node::Node, program::Program, rank::Rank, stores::Stores, unsealed::Unsealed,
};

/// The session of one rank: its owners, of which the shim and calls of SCR ask what is theirs.
pub struct Session {
    /// What the rank knows of itself.
    pub rank: Arc<Rank>,
    /// The state.
    pub node: Arc<Node>,
    /// Where files lie on this node.
    pub stores: Arc<Stores>,
    pub(super) contents: Arc<Contents>,
    /// Files that no agreement comes for.
    pub unsealed: Arc<Unsealed>,
    /// Files that are open.
    pub handles: Arc<Handles>,
    /// Calls that name a file.
    pub names: Arc<Names>,
    pub(super) flush: Arc<Flusher>,
    /// What all ranks agree on.
    pub conference: Arc<Conference>,
    /// Sync points at which the run may end, and its end.
    pub ending: Arc<Ending>,
    /// Calls of SCR.
    pub program: Arc<Program>,
    pub(super) counter: Counter,
    /// Locks, held for the life of the process.
    pub(super) _leases: Vec<Lease>,
}
