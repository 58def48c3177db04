//! Checkpoints that a start finds on the prefix: which to trust, to fetch, to hide.
//!
//! | file | job |
//! |---|---|
//! | `inspection.rs` | whether one is what it was |
//! | `fetching.rs` | which to fetch |
//! | `hiding.rs` | which to hide |
//! | `half_there.rs` | parts of checkpoints that cannot be offered |
//! | `abandoned.rs` | empty directories of a checkpoint that a lost run had begun |
//! | `spoiled.rs` | cached ones whose files on the prefix are not what was sealed |

pub(super) mod abandoned;
pub(super) mod fetching;
pub(super) mod half_there;
pub(super) mod hiding;
pub(super) mod inspection;
pub(super) mod spoiled;

use std::sync::Arc;

use crate::launch::site::Site;
use crate::session::{names::Names, node::Node, rank::Rank, stores::Stores};

/// Looks at checkpoints on the prefix.
pub(crate) struct Inspector {
    pub(super) site: Arc<Site>,
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) stores: Arc<Stores>,
    pub(super) names: Arc<Names>,
}
