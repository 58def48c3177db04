//! A rank opens a file that lies on another node, in mid-run: it asks for the whole dataset, and
//! the helper threads of the ranks that hold parts of it write them to the prefix, without MPI.
//!
//! The request is a folder, `<prefix>/.scr/wanted/<id>`, or `<prefix>/.scr/wanted/<key>` for a
//! dataset that is not sealed. One rank a node looks for it there, and repeats it in the node's
//! control directory for the others. All that is closed of the dataset goes, so that a reader of
//! many files waits once, and that the prefix never has a part of a checkpoint for long.

use std::path::PathBuf;
use std::time::Duration;

use crate::files::{create_dirs, remove_tree};
use crate::log::messages;
use crate::machine::DatasetKey;
use crate::namespace::{Answer, Place, Remote};
use crate::session::updates::Updates;
use crate::transfer::{Awaited, Waited, announce_background, is_flushed, is_published};

/// Longest wait of an open for a file of another node to reach the prefix.
const REMOTE_DEADLINE: Duration = Duration::from_secs(60);

impl Updates {
    pub(crate) fn wanted_folder(&self) -> PathBuf {
        self.site.state_dir().join("wanted")
    }

    /// Returns where the node's first rank notes for the others what it has found.
    pub(crate) fn wanted_here(&self) -> PathBuf {
        self.site.layout.control_dir.join("wanted")
    }

    pub(crate) fn wait_for_remote(&self, name: &str, key: &DatasetKey, remote: &Remote) -> Answer {
        let path = self.site.on_prefix(name);
        let (mut key, mut remote) = (key.clone(), remote.clone());
        loop {
            let holding =
                self.node.state().own.holdings.get(&key).map(|holding| (holding.id, holding.epoch));
            let (id, epoch) = holding.unwrap_or_default();
            // Once it has come in parts, others may have changed it there.
            let has_come = || {
                let is_seen = self.node.state().has_come(&key, &remote.meta);
                let by_threads = || is_flushed(&self.site.prefix, id, epoch);
                is_seen || remote.meta.is_shared && id != 0 && by_threads()
            };
            let there = is_published(&path, &remote.meta) || has_come();
            let request = if there { None } else { self.ask_for(&key, id) };
            let mut awaited = Awaited::new(&self.site.prefix, &path, id, epoch);
            // It comes otherwise if its dataset is open again.
            let is_whole = || self.node.state().view.place(name) == Place::Prefix || has_come();
            let waited = awaited.wait(&remote.meta, request.as_deref(), REMOTE_DEADLINE, is_whole);
            if waited == Waited::Come || has_come() {
                let mut state = self.node.state();
                if let Some(layer) = state.view.layer_mut(&key) {
                    layer.note_come(&remote.meta);
                }
                return Answer::PASS;
            }
            // Another thread of the program may have heard of another content meanwhile.
            let place = self.node.state().view.place(name);
            match place {
                Place::Elsewhere(of, now) if (&of, &now) != (&key, &remote) => {
                    (key, remote) = (of, now);
                }
                Place::Elsewhere(..) => return self.tell_missing(name, &remote, waited),
                Place::Cached(_, here) | Place::Private(here) => return Answer::at(here),
                Place::Prefix => return Answer::PASS,
                Place::Deleted | Place::Evicted(_) => return Answer::Fail(libc::ENOENT),
            }
        }
    }

    fn tell_missing(&self, name: &str, remote: &Remote, waited: Waited) -> Answer {
        let why = match waited {
            Waited::Answered => "what its node had to write there does not contain it".to_string(),
            _ => format!("nothing has come for {} s", REMOTE_DEADLINE.as_secs()),
        };
        self.rank.complain(
            messages::REMOTE_NOT_COME,
            format_args!(
                "{name} lies on the node of rank {} and has not reached {}: {why}",
                remote.owner,
                self.site.prefix.display()
            ),
        );
        Answer::Fail(libc::ENOENT)
    }

    /// Whoever waits for a file sees whether it comes. Returns the request, which is there until
    /// all has come. Local.
    fn ask_for(&self, key: &DatasetKey, id: u64) -> Option<PathBuf> {
        let name = match id {
            0 => self.rank.record_key(key).directory_name(),
            id => id.to_string(),
        };
        // Else announced when it is committed, or not at all.
        let announces = id != 0 && !self.rank.flushes_begun().contains_key(&id);
        let announced = match announces {
            true => announce_background(
                &self.site.prefix,
                &self.site.filemap.get_id(id)?,
                self.site.size,
                self.site.transfer.prefix_size,
            ),
            false => Ok(Vec::new()),
        };
        let request = self.wanted_folder().join(name);
        match announced.and_then(|_| create_dirs(&request, 0o755)) {
            Ok(()) => Some(request),
            Err(error) => {
                self.rank.complain(messages::REQUEST_FAILED, &error);
                None
            }
        }
    }

    /// Removes the request on rank 0.
    pub(crate) fn settle_wanted(&self, id: u64) {
        // One that stays is looked at again by nobody who has served it.
        let _ = remove_tree(&self.wanted_folder().join(id.to_string()));
        let _ = std::fs::remove_dir(self.wanted_folder());
    }

    /// Removes the requests of an earlier launch.
    pub(crate) fn sweep_wanted(&self) {
        if self.site.rank == 0 {
            let _ = remove_tree(&self.wanted_folder());
        }
        if self.site.leads_node {
            let _ = remove_tree(&self.wanted_here());
        }
    }
}
