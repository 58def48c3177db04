//! What is said of the run.

use std::fmt::Display;
use std::path::Path;

use crate::error::{Error, Result};
use crate::log::{self, Id, messages};
use crate::session::rank::Rank;

impl Rank {
    /// Warns by rank 0.
    pub(crate) fn tell(&self, id: Id, text: impl Display) {
        if self.site.rank == 0 {
            log::warn(id, text);
        }
    }

    /// Warns by rank 0, once for this cause.
    pub(crate) fn tell_once(&self, id: Id, text: impl Display) {
        if self.site.rank == 0 {
            log::warn_once(id, text);
        }
    }

    /// Does the same once for each dataset of that `title`, with which the line begins.
    pub(crate) fn tell_once_of(&self, id: Id, title: &str, text: impl Display) {
        if self.site.rank == 0 {
            log::warn_once_for(id, title, format_args!("{title}{text}"));
        }
    }

    /// Warns, once for this cause, of what has failed on this rank.
    pub(crate) fn complain(&self, id: Id, error: impl Display) {
        log::warn_once(id, format_args!("rank {}: {error}", self.site.rank));
    }

    /// Complains, as [`Rank::complain`], if it has failed.
    pub(crate) fn complain_if_failed(&self, id: Id, done: Result<()>) {
        if let Err(error) = done {
            self.complain(id, error);
        }
    }

    /// Mentions a failure on this rank, for those who want to know.
    pub(crate) fn mention_if_failed(&self, done: Result<()>) {
        if let Err(error) = done {
            log::message(1, format_args!("rank {}: {error}", self.site.rank));
        }
    }

    /// Mentions something by rank 0, for those who want to know.
    pub(crate) fn mention(&self, text: impl Display) {
        if self.site.rank == 0 {
            log::message(1, text);
        }
    }

    pub(crate) fn tell_unpublished(&self, name: &str, source: &Path, error: &Error) {
        log::warn_once_for(
            messages::FILE_NOT_WRITTEN,
            name,
            format_args!(
                "rank {}: {name} could not be written to {}: {error}; it is still in {}",
                self.site.rank,
                self.site.prefix.display(),
                source.display()
            ),
        );
    }
}
