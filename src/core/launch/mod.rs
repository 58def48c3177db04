//! What is settled before there is a session: what it is built from, the settings and directories,
//! and whether all ranks of the launch are there, without a collective.

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
pub use roll_call::herald::Herald;
pub(crate) use roll_call::meeting;
pub use start::prepare::{Arrival, program_setting};
