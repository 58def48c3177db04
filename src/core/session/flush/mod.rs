//! Datasets on their way to the prefix.
//!
//! | file | job |
//! |---|---|
//! | `together.rs` | flushes of all ranks together |
//! | `background.rs` | flushes by threads |
//! | `places.rs` | the flush file: where each dataset is |
//! | `run_record.rs` | the run record, for people |
//! | `serving.rs` | what ranks of other nodes wait for |

pub(super) mod background;
pub(super) mod places;
pub(super) mod run_record;
pub(super) mod serving;
pub(super) mod together;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use places::PlacesTold;

use crate::session::node::Node;
use crate::session::rank::Rank;
use crate::session::stores::Stores;
use crate::session::unsealed::Unsealed;
use crate::session::updates::Updates;
use crate::transfer::{AsyncFlush, Background};

/// Flushes, and what is told of them.
pub(in crate::session) struct Flusher {
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) stores: Arc<Stores>,
    pub(super) updates: Arc<Updates>,
    pub(super) unsealed: Arc<Unsealed>,
    /// In a flush of all ranks together.
    pub(super) flushing: AtomicBool,
    /// The flush that a restart has begun, with the dataset's id.
    pub(super) background: Mutex<Option<(u64, Background)>>,
    /// Flushes that go on while the program does.
    pub(super) flushes: Mutex<BTreeMap<u64, AsyncFlush>>,
    /// What the flush file says, as far as it is ours to say.
    pub(super) places: Mutex<PlacesTold>,
}
