//! Sync points: the agreement, and what a conference decides, done.
//!
//! | file | job |
//! |---|---|
//! | `sync.rs` | the agreement, and the conference when there is something to do |
//! | `streams.rs` | where the calls on each communicator of the program agree |
//! | `encode.rs` | what a seal is asked for; encoding beside the program |
//! | `perform.rs` | what it has decided, done by all ranks in the same order |
//! | `eviction.rs` | a dataset leaves the cache |
//! | `trouble.rs` | checkpoints that cannot be completed in the cache; the end of its use |
//! | `contested.rs` | whether each file of a sealed dataset has one writer |

pub(super) mod contested;
pub(super) mod encode;
pub(super) mod eviction;
pub(super) mod perform;
pub(super) mod streams;
pub(super) mod sync;
pub(super) mod trouble;

use std::sync::{Arc, Mutex};

use encode::Encoders;
use streams::Meetings;
use trouble::Troubles;

use crate::cache::{Leftovers, Spare};
use crate::machine::Need;
use crate::session::contents::Contents;
use crate::session::flush::Flusher;
use crate::session::halt::Halt;
use crate::session::handles::Handles;
use crate::session::names::Names;
use crate::session::node::Node;
use crate::session::rank::Rank;
use crate::session::report::Report;
use crate::session::stores::Stores;
use crate::session::unsealed::Unsealed;
use crate::session::updates::Updates;

/// What all ranks agree on, and do.
pub struct Conference {
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) report: Arc<Report>,
    pub(super) stores: Arc<Stores>,
    pub(super) updates: Arc<Updates>,
    pub(super) contents: Arc<Contents>,
    pub(super) unsealed: Arc<Unsealed>,
    pub(super) handles: Arc<Handles>,
    pub(super) names: Arc<Names>,
    pub(super) flush: Arc<Flusher>,
    pub(super) halt: Arc<Halt>,
    /// Gone as the links of the rank.
    pub(super) meetings: Mutex<Meetings>,
    pub(super) encoders: Encoders,
    pub(super) spare: Spare,
    /// What the decision that a checkpoint is due rests on; rank 0's counts.
    pub(super) need: Mutex<Need>,
    /// Why seals fail.
    pub(super) troubles: Mutex<Troubles>,
    pub(super) evicted: Leftovers,
}
