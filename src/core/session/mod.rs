//! The life of a launch: start, name space, datasets, agreements, the end.
//!
//! | room | job |
//! |---|---|
//! | `program/` | programs that call SCR themselves |
//! | `rank/` | the session of one rank: its state |
//! | `launch/` | the collective start, and the helper thread of a rank |
//! | `restart/` | what an earlier launch left, and how the program goes on with it |
//! | `prefix/` | checkpoints that a start finds on the prefix: which to trust, to fetch, to hide |
//! | `stores/` | where a dataset lies on a node, and what happens where it finds no room |
//! | `names/` | calls that name a file: open, rename, unlink, link, and look-ups |
//! | `handles/` | files that are open, in this rank and in processes that it has started |
//! | `updates/` | what ranks of a node and of the job tell each other of names |
//! | `conference/` | sync points: the agreement, and what a conference decides, done |
//! | `flush/` | datasets on their way to the prefix |
//! | `ending/` | when a run is to end, and its end |
//! | `report/` | what a launch tells of itself |

mod conference;
mod ending;
mod flush;
mod handles;
mod launch;
mod names;
mod prefix;
mod program;
mod rank;
mod report;
mod restart;
mod stores;
mod updates;
/// The contract with children of a rank, compiled into the shim, too.
#[allow(dead_code, reason = "each side uses its half of the contract")]
#[path = "../../../preload/src/child/wire.rs"]
mod wire;

use std::time::Duration;

use crate::bytes;

pub use crate::handles::TOKEN_LAZY;
pub use crate::launch::program_setting;
pub use crate::launch::{Alias, Arrival, Door, Herald, Host, Required, Surroundings};
pub use crate::machine::{Call, Need, NeedLimits, ProgramState};
pub use crate::namespace::{Answer, Entry, StatAttributes};
pub use program::{Consent, FILENAME_MAX, Flags};
pub use rank::hooked::Note;
pub use rank::runtime::Session;

/// Longest wait of an open for a file of another node to reach the prefix.
const REMOTE_DEADLINE: Duration = Duration::from_secs(60);
