//! Directories that the program has removed, and in which files wait for their real deletion.

use super::hidden_dir::HiddenDir;
use super::view::View;
use crate::namespace::told::notices::Notice;

impl View {
    pub fn remove_dir(&mut self, name: &str) {
        self.gone.insert(name.to_string());
        self.far.changed = true;
        self.news.push(Notice::DirGone(name.to_string()));
    }

    pub fn is_removed_dir(&self, name: &str) -> bool {
        self.gone.contains(name)
            || self.gone_by.has(name)
            || self.hidden_dirs.get(name).is_some_and(HiddenDir::is_as_it_was)
    }

    /// Notes that the directory is about to be removed for real. What waits for its deletion below
    /// it may be flushed before.
    pub fn note_rmdir(&mut self, name: &str) {
        let below = |one: &str| one.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'));
        if self.deleted().any(below) {
            self.flushed_back.insert(name.to_string());
        }
    }

    /// Gives directories that a flush may have brought back, innermost last.
    pub fn flushed_back(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.flushed_back.iter().map(String::as_str)
    }

    /// Gives removed directories that files still keep, innermost last.
    pub fn removed_dirs(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.gone.iter().map(String::as_str)
    }

    /// Tells whether the directory, which is there again or really gone, was a hidden one.
    pub fn settle_dir(&mut self, name: &str) -> bool {
        if self.gone.remove(name) || self.gone_by.has(name) {
            self.gone_by.forget(name);
            self.far.changed = true;
            self.news.push(Notice::DirSettled(name.to_string()));
        }
        self.flushed_back.remove(name);
        self.hidden_dirs.remove(name).is_some()
    }
}
