//! Files that are open.
//!
//! | file | job |
//! |---|---|
//! | `closing.rs` | a descriptor is open, or closed |
//! | `checksums.rs` | checksums that were taken while the program wrote |
//! | `lazy.rs` | openers that could write and mostly only read |
//! | `shadow.rs` | private copies of sealed files |
//! | `others.rs` | changes of another rank's file |
//! | `lent.rs` | files that processes of the rank share with it |
//! | `waking.rs` | private copies, before a name means something else |

mod checksums;
mod closing;
pub(super) mod lazy;
pub(super) mod lent;
pub(super) mod others;
pub(super) mod shadow;
mod waking;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lent::Lent;

use crate::session::contents::Contents;
use crate::session::node::Node;
use crate::session::rank::Rank;
use crate::session::stores::Stores;
use crate::session::unsealed::Unsealed;

/// What the program has open.
pub struct Handles {
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) stores: Arc<Stores>,
    pub(super) contents: Arc<Contents>,
    pub(super) unsealed: Arc<Unsealed>,
    /// What children have open beside others.
    pub(super) lent: Mutex<Vec<Lent>>,
    /// Number of private copies made.
    pub(super) copies: AtomicU64,
}

impl Handles {
    /// Returns a number for one more private copy, which no other rank has.
    pub(in crate::session) fn copy_number(&self) -> String {
        let made = self.copies.fetch_add(1, Ordering::Relaxed) + 1;
        format!("{}.{made}", self.rank.site.rank)
    }
}
