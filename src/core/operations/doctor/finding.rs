//! What is wrong, and the line to type.

use std::fmt;

use crate::operations::run::quoted;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Checkpoints are not protected, or a run would fail.
    Fault,
    /// Worth to know; a run may be well all the same.
    Advice,
}

impl Level {
    /// Returns the word that is printed for it.
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

pub(super) fn shell(path: impl fmt::Display) -> String {
    quoted(&path.to_string())
}
