//! What is settled before there is a session: what it is built from, the settings and directories,
//! and whether all ranks of the launch are there, without a collective.
//!
//! | room or file | job |
//! |---|---|
//! | `roll_call` | whether all ranks of the launch are there |
//! | `start` | settings, directories, the ranks come together |
//! | `places` | who we are, and where things lie |
//! | `host.rs` | what a session is built from: door, process, machine |
//! | `required.rs` | SCR_RESTART_REQUIRED where the start fails |
//! | `aliases.rs` | directories of the patterns that are symbolic links |

pub(crate) mod aliases;
pub(crate) mod host;
mod places;
pub(crate) mod required;
mod roll_call;
pub(crate) mod start;

pub use aliases::Alias;
pub use host::{Door, Host, Surroundings};
pub use places::job::JobPlaces;
pub(crate) use places::{halt_conditions::HaltConditions, job, site};
pub use required::Required;
pub use roll_call::check::Herald;
pub(crate) use roll_call::meeting;
pub use start::prepare::{Arrival, program_setting};
