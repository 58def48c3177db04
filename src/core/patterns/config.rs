//! What the series of a run are made from.

use std::path::{Path, PathBuf};

use crate::params::{Settings, keys};

/// One pattern list and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternText {
    /// The parameter, as in `SCR_CHECKPOINT_PATTERN_2`.
    pub name: String,
    /// `file:line` or the like, for messages.
    pub place: String,
    /// The list.
    pub text: String,
}

/// What a `SeriesSet` is made from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatternConfig {
    /// The prefix directory, absolute, symlinks resolved.
    pub prefix: PathBuf,
    /// The prefix as the user wrote it, when that differs; absolute patterns may begin with either.
    pub prefix_as_written: Option<PathBuf>,
    /// The series of checkpoints.
    pub checkpoint: Vec<PatternText>,
    /// The series of output.
    pub output: Vec<PatternText>,
    /// What is never ours.
    pub ignore: Vec<PatternText>,
    /// Separator of lists in the classic form.
    pub token: String,
    /// World rank of this process; the classic form can name ranks.
    pub rank: u64,
}

impl PatternConfig {
    /// Takes the patterns out of the settings; `prefix` is `SCR_PREFIX`, symlinks resolved.
    #[must_use]
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
