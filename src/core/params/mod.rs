//! Settings: one table of parameters, their sources, and the values in force.
//!
//! | file | job |
//! |---|---|
//! | `table.rs`, `param.rs` | every parameter once: name, type, unit, default, meaning ([`keys`]) |
//! | `value.rs` | types of values, how they are read and written |
//! | `text.rs`, `file.rs` | the grammar of a line and of the config file |
//! | `environment.rs` | a process's variables as text |
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
mod sources;
mod suggest;
mod table;
mod template;
mod text;
mod value;

use std::collections::BTreeMap;

pub use environment::read_environment;
pub use file::{DescriptorLine, LineKind};
pub use param::{Key, OptionalKey, Param, Status, Typed};
pub use query::{Asked, Query};
pub use resolved::{Origin, Setting, Settings};
pub(crate) use sources::SCR_CONFIG;
pub use sources::{Inputs, Problems, SYSTEM_FILE, load};
pub use suggest::{did_you_mean, nearest, similarity};
pub use table::{Named, PARAMS, find, keys};
pub use template::template;
pub use text::{escaped, words};
pub use value::{Kind, Value, parse_bytes};

/// A process's environment.
pub type Environment = BTreeMap<String, String>;

/// Who said something, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// An environment variable.
    Environment,
    /// The user's config file.
    UserFile,
    /// The program, through `SCR_Config`.
    Program,
    /// The system's config file.
    SystemFile,
    /// Nobody: the table's default.
    Default,
}

impl Source {
    /// Returns the source in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Source::Environment => "environment",
            Source::UserFile => "config file",
            Source::Program => "program",
            Source::SystemFile => "system file",
            Source::Default => "default",
        }
    }

    /// Finds the source by its words: the inverse of [`Source::name`].
    #[must_use]
    pub fn from_name(name: &str) -> Option<Source> {
        use Source::{Default, Environment, Program, SystemFile, UserFile};
        [Environment, UserFile, Program, SystemFile, Default]
            .into_iter()
            .find(|source| source.name() == name)
    }
}
