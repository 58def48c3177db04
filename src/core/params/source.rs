//! Who sets parameters.

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

    pub(super) fn from_name(name: &str) -> Option<Source> {
        use Source::{Default, Environment, Program, SystemFile, UserFile};
        [Environment, UserFile, Program, SystemFile, Default]
            .into_iter()
            .find(|source| source.name() == name)
    }
}
