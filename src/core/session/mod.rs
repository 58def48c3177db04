//! The life of a launch: start, name space, datasets, agreements, the end.
//!
//! | file | job |
//! |---|---|
//! | `host.rs` | what a session is built from: door, process, machine |
//! | `prepare.rs`, `launch.rs` | before any collective: settings, directories, launch check |
//! | `launch_files.rs` | the files by which ranks tell each other of a launch |
//! | `verdict.rs` | how a rank waits for the verdict of that check |
//! | `required.rs` | SCR_RESTART_REQUIRED where the start fails |
//! | `census.rs` | which ranks are ready, and where the missing ones are |
//! | `resources.rs` | what the resource manager tells of the job |
//! | `start.rs`, `lease.rs`, `restore.rs` | the collective start: locks, what the cache holds |
//! | `ineffective.rs` | settings that do nothing for want of another one |
//! | `telling.rs` | what a restart tells |
//! | `inspection.rs` | whether a checkpoint on the prefix is what it was |
//! | `arrival.rs` | what the settings ask of a start: purge, publish, drop |
//! | `hiding.rs`, `fetching.rs` | checkpoints on the prefix: which to hide, which to fetch |
//! | `half_there.rs` | parts on the prefix of checkpoints that cannot be offered |
//! | `generations.rs` | the way back to an older one without an id |
//! | `going_back.rs` | the user has a run go back to an older one |
//! | `offered.rs` | what of the cache the state machine begins with |
//! | `staying.rs` | those that are newer than what the cache has, and are read where they are |
//! | `stranded.rs` | those that the nodes have no room to move to their ranks |
//! | `abandoned.rs` | empty directories of a checkpoint that a lost run had begun |
//! | `trouble.rs` | checkpoints that cannot be completed in the cache; the end of its use |
//! | `aliases.rs` | directories of the patterns that are symbolic links |
//! | `links.rs` | symbolic links to a checkpoint that such a run had made the newest |
//! | `stores.rs` | which store a dataset goes to, room in it, stores of earlier configurations |
//! | `site.rs`, `protection.rs` | what stays the same for a launch; redundancy sets |
//! | `machine/` | the pure state machine: what belongs together, when it is complete |
//! | `runtime.rs`, `books.rs` | the state of a rank, and what the hooks report |
//! | `opening.rs`, `changing.rs`, `shadow.rs` | open; rename, unlink and look-ups; private copies |
//! | `rivals.rs` | ranks of a node that change one complete file at the same time |
//! | `intake.rs` | files on the PFS that join the cache when they are renamed |
//! | `landing.rs` | links and moving directories: what must be on the PFS first |
//! | `temporary.rs` | files under temporary names until they are renamed |
//! | `namespace/`, `answer.rs` | what the program sees below the prefix |
//! | `sync.rs`, `perform.rs`, `eviction.rs` | agreements and conferences; what they decide, done |
//! | `neighbours.rs`, `elsewhere.rs` | what ranks of this node and of others see of names |
//! | `tally.rs`, `events.rs`, `phases.rs` | what a launch did and what it cost; the log of events |
//! | `places.rs` | the flush file: where each dataset is |
//! | `flushing.rs`, `background.rs` | flushes of all ranks together; by threads |
//! | `publishing.rs` | threads that give files their names, while the program goes on |
//! | `salvage.rs` | what a job that died has left on its nodes, brought to the prefix |
//! | `transfers.rs` | flushes of a run that is gone |
//! | `halt.rs` | conditions under which the run is to end |
//! | `program/` | programs that call SCR themselves |
//! | `need.rs` | whether a checkpoint is due, for programs that ask |
//! | `children.rs`, `by_child.rs`, `loans.rs` | what processes of a rank ask, change, and share |
//! | `unprotected.rs` | a launch whose patterns match nothing, or that has none |
//! | `unsealed.rs` | files that no agreement comes for |
//! | `wanted.rs` | checkpoints whose files a rank of another node waits for |
//! | `finish.rs`, `helper.rs`, `space.rs` | the end; files without a sync point; a full store |

mod abandoned;
mod aliases;
mod answer;
mod arrival;
mod background;
mod books;
mod by_child;
mod census;
mod changing;
mod children;
mod contested;
mod directories;
mod elsewhere;
mod events;
mod eviction;
mod fetching;
mod finish;
mod flushing;
mod generations;
mod going_back;
mod half_there;
mod halt;
mod helper;
mod hiding;
mod host;
mod ineffective;
mod inspection;
mod intake;
mod knowledge;
mod landing;
mod launch;
mod launch_files;
mod lazy;
mod lease;
mod leaving;
mod links;
mod loans;
mod loud;
pub mod machine;
mod moving;
pub mod namespace;
mod need;
mod neighbours;
mod offered;
mod opening;
mod others;
mod perform;
mod phases;
mod places;
mod prepare;
mod program;
mod protection;
mod publishing;
mod required;
mod resources;
mod restore;
mod rivals;
mod room;
mod runtime;
mod salvage;
mod setback;
mod shadow;
mod site;
mod space;
mod spoiled;
mod start;
mod staying;
mod stores;
mod stranded;
mod sync;
mod tally;
mod telling;
mod temporary;
mod transfers;
mod trouble;
mod unprotected;
mod unsealed;
mod verdict;
mod wanted;
/// The contract with children of a rank, compiled into the shim, too.
#[allow(dead_code, reason = "each side uses its half of the contract")]
#[path = "../../../preload/src/wire.rs"]
mod wire;

use std::time::Duration;

pub use aliases::Alias;
pub use answer::{Answer, Attributes, Entry};
pub use books::TOKEN_LAZY;
pub use host::{Door, Host, Surroundings};
pub use launch::Herald;
pub use need::{Need, NeedLimits};
pub use prepare::{Arrival, JobPlaces, program_setting};
pub use program::{Call, Consent, FILENAME_MAX, Flags, ProgramState};
pub use required::Required;
pub use runtime::{Note, Session};
pub use salvage::{Copied, Salvaged, clear_copies, copy_node, publish_copies};
pub use transfers::{Finished, finish_transfers};

/// Longest wait of an open for a file of another node to reach the prefix.
const REMOTE_DEADLINE: Duration = Duration::from_secs(60);
