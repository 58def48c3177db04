//! Why checkpoints are not protected: what is wrong with the settings, with the places that they
//! name, and with the last run. Each finding has the line to type.
//!
//! | file | looks at |
//! |---|---|
//! | `settings.rs` | config file, environment, patterns, descriptors |
//! | `places.rs` | the prefix, and this node's control and cache directories |
//! | `past.rs` | what the last run has recorded |
//!
//! Nothing is changed, and nothing stays where it was tried to write.

mod past;
mod places;
mod settings;

use std::fmt;

pub use past::look_at_past;
pub use places::{look_at_prefix, look_at_stores};
pub use settings::{LookedSettings, look_at_settings};

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Checkpoints are not protected, or a run would fail: something is to be done.
    Fault,
    /// Worth to know; a run may be well all the same.
    Advice,
}

impl Level {
    /// Returns the word that is printed for it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Level::Fault => "fault",
            Level::Advice => "advice",
        }
    }
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// A name that stays the same, for scripts.
    pub id: &'static str,
    /// How much it matters.
    pub level: Level,
    /// A sentence without its full stop.
    pub what: String,
    /// The line to type.
    pub cure: String,
}

impl Finding {
    /// Makes a finding of something that is to be repaired.
    pub fn fault(id: &'static str, what: impl fmt::Display, cure: impl fmt::Display) -> Finding {
        Finding { id, level: Level::Fault, what: what.to_string(), cure: cure.to_string() }
    }

    /// Makes a finding of something that is worth to know.
    pub fn advice(id: &'static str, what: impl fmt::Display, cure: impl fmt::Display) -> Finding {
        Finding { level: Level::Advice, ..Finding::fault(id, what, cure) }
    }
}

/// A path as a shell has to see it.
fn shell(path: impl fmt::Display) -> String {
    super::run::quoted(&path.to_string())
}
