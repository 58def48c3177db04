//! What is settled before there is a session: what it is built from, the settings and directories,
//! and whether all ranks of the launch are there, without a collective.
//!
//! | file | job |
//! |---|---|
//! | `host.rs` | what a session is built from: door, process, machine |
//! | `prepare.rs` | settings, directories, launch check |
//! | `check.rs` | whether we are in all ranks of this launch |
//! | `check_files.rs` | the files by which ranks tell each other of a launch |
//! | `verdict.rs` | how a rank waits for the verdict of that check |
//! | `census.rs` | which ranks are ready, and where the missing ones are |
//! | `required.rs` | SCR_RESTART_REQUIRED where the start fails |
//! | `aliases.rs` | directories of the patterns that are symbolic links |
//! | `ineffective.rs` | settings that do nothing for want of another one |
//! | `job.rs` | where a job has its directories |
//! | `resources.rs` | what the resource manager tells of the job |
//! | `join.rs` | the ranks come together |
//! | `together.rs` | settings, locks and troubles of all ranks |
//! | `owner.rs` | which prefix this is, and so whose caches count |
//! | `earlier.rs` | purges, and the cache of a run with another number of ranks |
//! | `meeting.rs` | ranks that meet without MPI when they exit |
//! | `site_stores.rs` | its stores |
//! | `site.rs` | what stays the same for the life of a launch |

pub(crate) mod aliases;
pub(crate) mod census;
pub(crate) mod check;
pub(crate) mod check_files;
pub(crate) mod earlier;
pub(crate) mod host;
pub(crate) mod ineffective;
pub(crate) mod job;
pub(crate) mod join;
pub(crate) mod meeting;
mod owner;
pub(crate) mod prepare;
pub(crate) mod required;
pub(crate) mod resources;
pub(crate) mod site;
mod site_stores;
pub(crate) mod together;
pub(crate) mod verdict;

pub use aliases::Alias;
pub use check::Herald;
pub use host::{Door, Host, Surroundings};
pub use job::JobPlaces;
pub use prepare::{Arrival, program_setting};
pub use required::Required;
