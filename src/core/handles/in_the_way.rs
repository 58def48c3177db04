//! What is in the way of a new file: an older one that the program has deleted.

use std::path::{Path, PathBuf};

use crate::handles::State;
use crate::machine::DatasetKey;
use crate::namespace::{self as ns, OnPrefix, Outdated, Place};
use crate::transfer::is_published;

impl State {
    /// Returns what the PFS has at `path` under a name that is deleted or hidden, if it is not what
    /// another node has made there since.
    pub fn in_the_way(&self, name: &str, path: PathBuf) -> Option<Outdated> {
        let older = self.view.is_absent(name).then(|| Outdated::at(path.clone())).flatten();
        older.filter(|_| !self.is_made_anew(name, &path))
    }

    /// Tells whether another node has made another file under a deleted name, on the PFS, since.
    pub fn is_made_anew(&self, name: &str, path: &Path) -> bool {
        let nodes = self.machine.nodes();
        let known = self.view.contents_in_the_way(name);
        let is_known = || known.iter().any(|meta| is_published(path, meta));
        let is_file = || matches!(ns::on_prefix(path), OnPrefix::File { .. });
        let may_be = !known.is_empty() && nodes.iter().any(|node| *node != nodes[0]);
        may_be && self.view.is_absent(name) && is_file() && !is_known()
    }

    /// Tells whether another rank has made the file, which was deleted before, on the PFS: it is
    /// the one that both open by one call, or not what was deleted. From now on it is seen here,
    /// too.
    pub fn take_made_elsewhere(&mut self, name: &str, path: &Path) -> bool {
        let together = self.own.making.as_deref() == Some(name);
        let is_made = self.view.place(name) == Place::Deleted
            && ns::on_prefix(path) != OnPrefix::Absent
            && (together || self.is_made_anew(name, path));
        if is_made {
            self.view.revive(name);
        }
        is_made
    }

    /// Returns the dataset in progress of which each node has a part of the file.
    pub fn parted_in_progress(&self, name: &str) -> Option<DatasetKey> {
        if self.own.parted.is_empty() {
            return None;
        }
        let Place::Elsewhere(key, _) = self.view.place(name) else { return None };
        self.own.parted.get(&key, name).map(|_| key)
    }

    /// Returns an older file of such a name that the cache has, which another one is to replace.
    /// What has no such reason to be there, another rank of the node has made.
    pub fn outdated_in(&self, key: &DatasetKey, name: &str) -> Option<Outdated> {
        let layer = self.view.layer(key)?;
        let outdated = self.view.is_absent(name) || layer.is_on_prefix(name);
        outdated.then(|| Outdated::at(layer.dir.join(name))).flatten()
    }
}
