//! Settings: one table of parameters, their sources, and the values in force.
//!
//! | file | job |
//! |---|---|
//! | `table.rs`, `param.rs` | every parameter once: name, type, unit, default, meaning ([`keys`]) |
//! | `value.rs` | types of values, how they are read and written |
//! | `text.rs`, `file.rs` | the grammar of a line and of the config file |
//! | `environment.rs` | a process's variables as text |
//! | `source.rs` | who has set a parameter |
//! | `sources.rs` | environment > user file > program > system file > default ([`load`]) |
//! | `resolved.rs` | the outcome ([`Settings`]), which rank 0 broadcasts |
//! | `query.rs` | what a program says to SCR_Config |
//! | `suggest.rs` | "did you mean" |
//! | `template.rs` | the commented config file, made from the table |
//!
//! Nothing here reads the process's environment; the caller hands it in.

mod environment;
mod file;
mod param;
mod query;
mod resolved;
mod source;
mod sources;
mod suggest;
mod table;
mod template;
mod text;
mod value;

pub use environment::{Environment, read_environment};
pub use file::{DescriptorLine, LineKind};
pub use param::{Key, OptionalKey, Param, Status, Typed};
pub use query::{Asked, Query};
pub use resolved::{Origin, Setting, Settings};
pub use source::Source;
pub(crate) use sources::SCR_CONFIG;
pub use sources::{Inputs, Problems, SYSTEM_FILE, load};
pub use suggest::{did_you_mean, nearest, similarity};
pub use table::{Named, PARAMS, find, keys};
pub use template::template;
pub use text::{escaped, words};
pub use value::{Kind, Value, parse_bytes};
