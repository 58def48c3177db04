//! What is said of the run, by one rank, and how a dataset is called there.

use std::fmt::Display;

use crate::log;
use crate::session::machine::DatasetKey;
use crate::session::rank::runtime::Session;

impl Session {
    /// A dataset in words.
    pub(in crate::session) fn title(&self, key: &DatasetKey) -> String {
        self.record_key(key).title()
    }

    /// One line, by one rank.
    pub(in crate::session) fn tell(&self, text: impl Display) {
        if self.site.rank == 0 {
            log::warn(text);
        }
    }

    /// One line, by one rank, for those who want to know.
    pub(in crate::session) fn mention(&self, text: impl Display) {
        if self.site.rank == 0 {
            log::message(1, text);
        }
    }
}
