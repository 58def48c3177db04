//! What is settled before there is a session: what it is built from, the settings and directories,
//! and whether all ranks of the launch are there, without a collective.
//!
//! | room or file | job |
//! |---|---|
//! | `roll_call` | whether all ranks of the launch are there |
//! | `places` | who we are, and where things lie |
//! | `host.rs` | what a session is built from: door, process, machine |
//! | `prepare.rs` | settings, directories, launch check |
//! | `required.rs` | SCR_RESTART_REQUIRED where the start fails |
//! | `aliases.rs` | directories of the patterns that are symbolic links |
//! | `ineffective.rs` | settings that do nothing for want of another one |
//! | `join.rs` | the ranks come together |
//! | `together.rs` | settings, locks and troubles of all ranks |
//! | `earlier.rs` | purges, and the cache of a run with another number of ranks |

pub(crate) mod aliases;
pub(crate) mod earlier;
pub(crate) mod host;
pub(crate) mod ineffective;
pub(crate) mod join;
mod places;
pub(crate) mod prepare;
pub(crate) mod required;
mod roll_call;
pub(crate) mod together;

pub use aliases::Alias;
pub use host::{Door, Host, Surroundings};
pub use places::job::JobPlaces;
pub(crate) use places::{job, site};
pub use prepare::{Arrival, program_setting};
pub use required::Required;
pub use roll_call::check::Herald;
pub(crate) use roll_call::meeting;
