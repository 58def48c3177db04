//! What a rank knows of itself, and of a name; nothing here waits, or needs the state.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Result;
use crate::launch::site::Links;
use crate::machine::{DatasetKey, FileRef, Outcome};
use crate::namespace as ns;
use crate::patterns::Match;
use crate::records;
use crate::session::rank::{Rank, lock};

impl Rank {
    pub fn prefix(&self) -> &Path {
        &self.site.prefix
    }

    /// Returns `path` relative to the prefix; `None` if it has no name there that is text.
    pub(crate) fn name_of<'a>(&self, path: &'a Path) -> Option<&'a str> {
        ns::relative(&self.site.prefix, path)
    }

    pub(crate) fn match_name(&self, name: &str) -> Option<Match> {
        if self.calls.has_claimed(name) {
            return None;
        }
        let waiting = self
            .directories
            .waiting(&self.series, name)
            .map(|it| Match { temporary: true, ..it.matched });
        let matched = waiting.or_else(|| self.series.match_path(name));
        matched.filter(|matched| !self.silenced.has(matched))
    }

    pub(crate) fn record_key(&self, key: &DatasetKey) -> records::RecordKey {
        let series = self.series.series().get(key.series);
        records::RecordKey {
            series: series.map(|series| series.name.clone()).unwrap_or_default(),
            id: key.id.clone(),
            generation: key.generation,
        }
    }

    /// Returns `None` if the patterns do not have the series any more.
    pub(crate) fn machine_key(&self, key: &records::RecordKey) -> Option<DatasetKey> {
        let series = self.series.series_index(&key.series)?;
        Some(DatasetKey::new(series, key.id.clone(), key.generation))
    }

    /// Returns the dataset whose directory is called that, if the patterns still have its series.
    pub(crate) fn key_of_directory(&self, name: &str) -> Option<DatasetKey> {
        self.machine_key(&records::RecordKey::from_directory_name(name)?)
    }

    pub(crate) fn title_of(&self, key: &records::RecordKey) -> Option<String> {
        self.machine_key(key).map(|key| self.title(&key))
    }

    pub(crate) fn links(&self) -> Option<Arc<Links>> {
        lock(&self.links).clone()
    }

    pub(crate) fn file_ref(&self, name: &str) -> Option<FileRef> {
        self.match_name(name).map(|matched| file_ref(name, &matched))
    }

    /// Looks in each series that may have a file of that name: that of its pattern, or those of
    /// calls.
    pub(crate) fn file_refs(&self, name: &str) -> Vec<FileRef> {
        if let Some(matched) = self.file_ref(name) {
            return vec![matched];
        }
        let all = self.series.series().iter().enumerate();
        let of_calls = all.filter(|(_, series)| series.is_explicit());
        of_calls.map(|(series, _)| unmatched_ref(series, name)).collect()
    }

    /// Returns where the PFS is to have the file when no agreement comes: one that waits in a
    /// directory that another rank has renamed belongs where that is now.
    pub(crate) fn on_prefix_now(&self, name: &str) -> PathBuf {
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

    /// Finds the worst of all ranks' outcomes.
    pub(crate) fn all_agree(&self, links: &Links, own: Outcome) -> Result<Outcome> {
        let mut word = [own.to_word()];
        links.world.all_max(&mut word)?;
        Ok(Outcome::from_word(word[0]))
    }

    pub(crate) fn title(&self, key: &DatasetKey) -> String {
        self.record_key(key).title()
    }
}

pub(crate) fn file_ref(name: &str, matched: &Match) -> FileRef {
    FileRef {
        series: matched.series,
        id: matched.id.clone(),
        name: name.to_string(),
        masked: matched.masked.clone(),
        temporary: matched.temporary,
    }
}

/// Makes a file that no pattern matches, or not yet.
pub(crate) fn unmatched_ref(series: usize, name: &str) -> FileRef {
    let (name, masked) = (name.to_string(), String::new());
    FileRef { series, id: None, name, masked, temporary: false }
}
