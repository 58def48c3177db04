//! Where a dataset lies on a node, and what happens where it finds no room.
//!
//! | file | job |
//! |---|---|
//! | `choice.rs` | which store a dataset goes to |
//! | `room.rs` | room for a file before it is routed there |
//! | `pages.rs` | what evicted files leave for the program to write over |
//! | `setback.rs` | a store that cannot take a file |
//! | `space.rs` | a store that is full or fails in mid-write |
//! | `aliases.rs` | what is written through symbolic links |

mod aliases;
pub(super) mod choice;
pub(super) mod pages;
pub(super) mod room;
pub(super) mod setback;
pub(super) mod space;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use pages::Pages;

use crate::cache::{Launches, Setbacks};
use crate::machine::DatasetKey;
use crate::session::node::Node;
use crate::session::rank::Rank;
use crate::session::report::Report;
use crate::system::Memory;

/// The stores of this node, as this rank uses them.
pub struct Stores {
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) report: Arc<Report>,
    pub(super) setbacks: Setbacks,
    pub(super) memory: Memory,
    pub(super) launches: Launches,
    /// What the program may write over.
    pub(super) pages: Mutex<Pages>,
    /// Files whose reserved rest could not be given back yet.
    pub(super) late: Mutex<Vec<(DatasetKey, String)>>,
    /// Files that the cache could not open: the PFS will have them as soon as the open is asked for
    /// again.
    pub(super) kept_out: Mutex<BTreeSet<String>>,
}
