//! Checkpoints that a start finds on the prefix: which to trust, to fetch, to hide.

pub(super) mod abandoned;
pub(super) mod fetching;
pub(super) mod half_there;
pub(super) mod hiding;
pub(super) mod inspection;
pub(super) mod spoiled;

use std::sync::Arc;

use crate::launch::site::Site;
use crate::session::{node::Node, rank::Rank, stores::Stores};

pub(crate) struct Inspector {
    pub(super) site: Arc<Site>,
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) stores: Arc<Stores>,
}
