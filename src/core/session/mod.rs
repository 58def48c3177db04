//! The life of a launch: start, name space, datasets, agreements, the end.
//!
//! Each room has one owner, a struct with the state that is its own. An owner asks those of the
//! rooms above it in this table, never one below. Collective methods fail when communication does.
//!
//! | room | owner | job |
//! |---|---|---|
//! | `rank/` | `Rank` | what a rank knows of itself, and says |
//! | `node/` | `Node` | the state, as the ranks of a node see it at once |
//! | `report/` | `Reporter` | what a launch tells of itself |
//! | `stores/` | `Stores` | where a dataset lies on a node; what if there is no room |
//! | `updates/` | `Updates` | what ranks of other nodes tell each other of names |
//! | `contents/` | `Contents` | where names lead, and the steps that change it |
//! | `unsealed/` | `Unsealed` | files that no agreement comes for |
//! | `handles/` | `Handles` | files that are open |
//! | `names/` | `Names` | calls that name a file: open, rename, unlink, link, look-ups |
//! | `flush/` | `Flusher` | datasets on their way to the prefix |
//! | `halt/` | `Halt` | conditions under which the run is to end |
//! | `conference/` | `Conference` | sync points: the agreement, a conference and what it does |
//! | `ending/` | `Ending` | the end of a run |
//! | `prefix/` | `Inspector` | checkpoints on the prefix: which to trust, to fetch, to hide |
//! | `restart/` | `Restorer` | what an earlier launch left, and how the program goes on with it |
//! | `program/` | `Program` | programs that call SCR themselves |
//! | `door/`, `launch/` | `Session` | all of them; the start, and the threads of a rank |

#[cfg(test)]
#[path = "../../../tests/core/support/alone.rs"]
mod alone;
mod conference;
mod contents;
mod door;
mod ending;
mod flush;
mod halt;
mod handles;
mod launch;
mod names;
mod node;
mod prefix;
mod program;
mod rank;
mod report;
mod restart;
mod stores;
mod unsealed;
mod updates;

pub use crate::handles::TOKEN_LAZY;
pub use crate::launch::program_setting;
pub use crate::launch::{Alias, Arrival, Door, Herald, Host, Required, Surroundings};
pub use crate::machine::{Call, Need, NeedLimits, ProgramState};
pub use crate::namespace::{Answer, Entry, FILENAME_MAX};
pub use door::Session;
pub use door::hooked::Note;
pub use program::{Consent, Flags, Program};
