//! What a rank knows of itself, and of a name; nothing here waits, or needs the state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::runtime::{Session, State};
use crate::handles::{LiesAt, Tracked};
use crate::launch::site::Links;
use crate::machine::{DatasetKey, FileRef, Need};
use crate::namespace as ns;
use crate::patterns::Match;
use crate::records;
use crate::transfer::{AsyncFlush, Background};

impl Session {
    /// Returns the program's directory, symlinks resolved.
    pub fn prefix(&self) -> &Path {
        &self.site.prefix
    }

    /// Returns `path` relative to the prefix; `None` if it has no name there that is text.
    pub(in crate::session) fn name_of<'a>(&self, path: &'a Path) -> Option<&'a str> {
        ns::relative(&self.site.prefix, path)
    }

    pub(in crate::session) fn match_name(&self, name: &str) -> Option<Match> {
        if self.program.has_claimed(name) {
            return None;
        }
        let waiting = self
            .directories
            .waiting(&self.series, name)
            .map(|it| Match { temporary: true, ..it.matched });
        let matched = waiting.or_else(|| self.series.match_path(name));
        matched.filter(|matched| !self.silenced.has(matched))
    }

    /// Returns the key as records have it.
    pub(in crate::session) fn record_key(&self, key: &DatasetKey) -> records::DatasetKey {
        let series = self.series.series().get(key.series);
        records::DatasetKey {
            series: series.map(|series| series.name.clone()).unwrap_or_default(),
            id: key.id.clone(),
            generation: key.generation,
        }
    }

    /// Returns the machine's key for one of a record; `None` for a series that the patterns no
    /// longer have.
    pub(in crate::session) fn machine_key(&self, key: &records::DatasetKey) -> Option<DatasetKey> {
        let series = self.series.series_index(&key.series)?;
        Some(DatasetKey::new(series, key.id.clone(), key.generation))
    }

    /// Returns what people call the dataset of a record; `None` as [`Session::machine_key`].
    pub(in crate::session) fn title_of(&self, key: &records::DatasetKey) -> Option<String> {
        self.machine_key(key).map(|key| self.title(&key))
    }

    pub(in crate::session) fn links(&self) -> Option<Arc<Links>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(in crate::session) fn is_child(&self) -> bool {
        self.child.load(Ordering::Relaxed)
    }

    pub(in crate::session) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(in crate::session) fn is_exiting(&self) -> bool {
        self.exiting.load(Ordering::Relaxed)
    }

    pub(in crate::session) fn is_routing(&self) -> bool {
        self.routing.load(Ordering::Relaxed)
    }

    pub(in crate::session) fn size_of(&self, state: &State, tracked: &Tracked) -> u64 {
        let path = match (&tracked.way, state.view.layer(&tracked.key)) {
            (LiesAt::Cached, Some(layer)) => layer.dir.join(&tracked.name),
            _ => self.site.on_prefix(&tracked.name),
        };
        path.metadata().map_or(0, |found| found.len())
    }

    /// Finds name, series and id of a file of ours.
    pub(in crate::session) fn file_ref(&self, name: &str) -> Option<FileRef> {
        self.match_name(name).map(|matched| file_ref(name, &matched))
    }

    /// Finds `name` in each series that may have a file of that name: that of its pattern, or those
    /// of calls.
    pub(in crate::session) fn file_refs(&self, name: &str) -> Vec<FileRef> {
        if let Some(matched) = self.file_ref(name) {
            return vec![matched];
        }
        let all = self.series.series().iter().enumerate();
        let of_calls = all.filter(|(_, series)| series.explicit);
        let named = |(series, _)| FileRef {
            series,
            id: None,
            name: name.to_string(),
            masked: String::new(),
            temporary: false,
        };
        of_calls.map(named).collect()
    }

    /// Locks the flush in the background, with the dataset's id.
    pub(in crate::session) fn background(&self) -> MutexGuard<'_, Option<(u64, Background)>> {
        self.background.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Flushes by threads, by dataset.
    pub(in crate::session) fn flushes(&self) -> MutexGuard<'_, BTreeMap<u64, AsyncFlush>> {
        self.flushes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells where the PFS is to have the file `name`, when no agreement comes: one that waits in a
    /// directory that another rank has renamed belongs where that is now.
    pub(in crate::session) fn on_prefix_now(&self, name: &str) -> PathBuf {
        let path = self.site.on_prefix(name);
        match self.directories.waiting(&self.series, name) {
            Some(waiting)
                if !self.site.on_prefix(&waiting.dir).is_dir()
                    && self.site.on_prefix(&waiting.last_dir).is_dir() =>
            {
                self.site.on_prefix(&waiting.last)
            }
            _ => path,
        }
    }

    /// Locks what the decision rests on; rank 0's counts.
    pub(in crate::session) fn need(&self) -> MutexGuard<'_, Need> {
        self.need.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts a matched name into the machine's words.
pub(in crate::session) fn file_ref(name: &str, matched: &Match) -> FileRef {
    FileRef {
        series: matched.series,
        id: matched.id.clone(),
        name: name.to_string(),
        masked: matched.masked.clone(),
        temporary: matched.temporary,
    }
}
