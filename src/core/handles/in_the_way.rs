//! What is in the way of a new file: an older one that the program has deleted.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::handles::State;
use crate::machine::DatasetKey;
use crate::namespace::{self as ns, OnPrefix};
use crate::records::FileMeta;
use crate::transfer::is_published;

/// A file on the PFS, of a name that is deleted or hidden.
#[derive(Debug)]
pub struct InTheWay {
    path: PathBuf,
    /// Nothing if that is not known, or there is no other node that may make another file of it.
    known: Vec<FileMeta>,
}

impl State {
    /// Returns what the PFS has at `path` under a name that is deleted or hidden.
    pub fn in_the_way(&self, name: &str, path: PathBuf) -> Option<InTheWay> {
        let nodes = self.machine.nodes();
        let alone = nodes.iter().all(|node| *node == nodes[0]);
        self.view.is_absent(name).then(|| InTheWay {
            path,
            known: if alone { Vec::new() } else { self.view.contents_in_the_way(name) },
        })
    }

    /// Returns where the cache has an older file of such a name, which another one is to replace.
    /// What has no such reason to be there, another rank of the node has made.
    pub fn outdated_in(&self, key: &DatasetKey, name: &str) -> Option<PathBuf> {
        let layer = self.view.layer(key)?;
        let outdated = self.view.is_absent(name) || layer.is_on_prefix(name);
        outdated.then(|| layer.dir.join(name))
    }
}

impl InTheWay {
    /// Tells whether another node has made another file under the name, on the PFS, since.
    pub fn is_made_anew(&self) -> bool {
        let is_known = || self.known.iter().any(|meta| is_published(&self.path, meta));
        let is_file = matches!(ns::on_prefix(&self.path), OnPrefix::File { .. });
        !self.known.is_empty() && is_file && !is_known()
    }

    /// Removes it. What a rank of another node has made there since stays: both open one file, and
    /// of those that come at the same time one removes the old one, with the file `lock`. `enter`
    /// is what a thread does first.
    ///
    /// # Errors
    /// The lock cannot be made, or the file not removed.
    pub fn remove(&self, lock: &Path, enter: impl Fn() + Clone + Send + 'static) -> Result<()> {
        if self.known.is_empty() {
            return ns::remove(&self.path);
        }
        let is_there = || !self.is_made_anew() && self.path.symlink_metadata().is_ok();
        ns::remove_once(&self.path, is_there, lock, enter)
    }
}
