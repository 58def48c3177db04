//! Settings: one table of parameters, their sources, and the values in force.
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
pub(crate) use file::DescriptorLine;
pub use file::LineKind;
pub use param::{Key, Param, ParamStatus};
pub(crate) use param::{OptionalKey, Typed};
pub use query::Query;
pub(crate) use query::SettingName;
pub use resolved::{Setting, Settings};
pub use source::Source;
pub use sources::{Inputs, SYSTEM_FILE, load};
pub(crate) use sources::{Problems, SCR_CONFIG};
pub(crate) use suggest::{did_you_mean, nearest, similarity};
pub use table::{Named, PARAMS, find, keys};
pub use template::template;
pub use text::{escaped, words};
pub use value::{Kind, Value, parse_bytes};
