//! What the series of a run are made from.

use std::path::{Path, PathBuf};

use crate::params::{Settings, keys};

/// A pattern list and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternText {
    /// As in `SCR_CHECKPOINT_PATTERN_2`.
    pub name: String,
    /// `file:line` or the like, for messages.
    pub place: String,
    /// The list.
    pub text: String,
}

/// What a [`crate::patterns::SeriesSet`] is made from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatternConfig {
    /// Absolute, symlinks resolved.
    pub prefix: PathBuf,
    /// The prefix as the user wrote it; absolute patterns may begin with either.
    pub prefix_as_written: Option<PathBuf>,
    /// The series of checkpoints.
    pub checkpoint: Vec<PatternText>,
    /// The series of output.
    pub output: Vec<PatternText>,
    /// What is never ours.
    pub ignore: Vec<PatternText>,
    /// Separator of lists in the classic form.
    pub token: String,
    /// World rank; the classic form can name ranks.
    pub rank: u64,
}

impl PatternConfig {
    /// Takes the patterns from the settings; `prefix` is `SCR_PREFIX`, symlinks resolved.
    pub fn from_settings(settings: &Settings, prefix: &Path, rank: usize) -> PatternConfig {
        let texts = |family: Vec<(String, String)>| {
            let place = |name: &str| {
                settings.setting(name).map(|s| s.origin.place.clone()).unwrap_or_default()
            };
            let text = |(name, text): (String, String)| {
                let place = place(&name);
                PatternText { name, place, text }
            };
            family.into_iter().map(text).collect()
        };
        PatternConfig {
            prefix: prefix.to_path_buf(),
            prefix_as_written: Some(settings.get(keys::PREFIX)),
            checkpoint: texts(settings.family(keys::CHECKPOINT_PATTERN)),
            output: texts(settings.family(keys::OUTPUT_PATTERN)),
            ignore: texts(settings.family(keys::IGNORE_PATTERN)),
            token: settings.get(keys::CHECKPOINT_PATTERN_TOKEN),
            rank: rank as u64,
        }
    }
}
