//! Which content of a name is the newest, and where that is.

use super::facts::RunFacts;
use super::file::OnPfs;
use crate::machine::terms::DatasetKey;

impl RunFacts {
    /// Tells whether the PFS holds newer content of the file from this rank, or a thread brings it:
    /// what `key` holds must not replace it.
    pub fn has_newer_on_prefix(&self, key: &DatasetKey, name: &str) -> bool {
        self.has_newer(key, name, OnPfs::Coming)
    }

    pub fn has_newer(&self, key: &DatasetKey, name: &str, least: OnPfs) -> bool {
        let newer = self.series[key.series].newer(key);
        let mut newer = newer.filter_map(|newer| Some((newer, newer.files.get(name)?)));
        newer.any(|(newer, file)| {
            let flushed = self.shared.find(&newer.key).is_some_and(|shared| shared.flushed);
            flushed || file.on_prefix.is_some() || file.published >= least
        })
    }

    /// Tells whether, without ids, the program has made the name again for a later checkpoint. The
    /// PFS is to have that one: the program never saw the rest of its files together with what may
    /// be there.
    pub fn is_remade(&self, key: &DatasetKey, name: &str) -> bool {
        let mut newer = self.series[key.series].newer(key);
        !self.config.series[key.series].has_id && newer.any(|newer| newer.holds(name))
    }

    /// Tells whether a newer dataset has the pointer file, too: that one has the last word.
    pub fn is_older_pointer(&self, key: &DatasetKey, name: &str) -> bool {
        let mut newer = self.series[key.series].newer(key);
        let bare = self.file(key, name).is_some_and(|file| file.named.bare);
        bare && self.config.series[key.series].has_id
            && newer.any(|newer| newer.files.get(name).is_some_and(|file| file.open == 0))
    }
}
