//! A dataset that the program writes between SCR_Start_output and SCR_Complete_output, or the same
//! for a checkpoint. From the last call on it is sealed, flushed and evicted as under the shim.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::consent::no_communication;
use super::{DatasetWriting, Flags};
use crate::account::tally::Count;
use crate::error::{Error, Result};
use crate::machine::{DatasetKey, DatasetState, FileRef, Reason, SyncKind};
use crate::namespace as ns;
use crate::session::{node::State, program::Program};
use crate::system::monotonic_ms;

impl Program {
    /// Names the dataset by its number if it has no `name`. Collective, with equal arguments.
    pub fn start_dataset(&self, name: Option<&str>, flags: Flags) -> Result<()> {
        let name = name.map(ns::dataset_name).transpose()?;
        self.site.host.inside(|| {
            // What others have to say comes first: a halt, a fall-back, files of other series.
            self.ending.sync(self.conference.calls(), SyncKind::Constructor);
            if self.rank.links().is_none() {
                return Err(no_communication());
            }
            let series = self.rank.series.program(flags.checkpoint);
            let mut state = self.node.state();
            let default = || format!("scr.dataset.{}", state.machine.next_id());
            let name = name.unwrap_or_else(default);
            let now_ms = monotonic_ms();
            let key = state.machine.begin_explicit(series, &name, flags.output, now_ms);
            if let Err(error) = self.stores.record_begin(&mut state, &key, true, false) {
                self.stores.fall_back(&mut state, &error.to_string());
            }
            drop(state);
            let writing = DatasetWriting { key, files: BTreeMap::new() };
            self.progress().writing = Some(writing);
            Ok(())
        })
    }

    /// Returns where the program is to write the file `path`; its directory is there. Local. Fails
    /// if the file cannot be a part of a dataset.
    pub fn route_output(&self, path: &Path) -> Result<PathBuf> {
        self.site.host.inside(|| {
            let name = ns::name_below_prefix(&self.site.prefix, path)?;
            let mut progress = self.progress();
            let Some(writing) = &mut progress.writing else {
                return Err(Error::Missing("no dataset is being written".to_string()));
            };
            if let Some(known) = writing.files.get(&name) {
                return Ok(known.clone());
            }
            let place = self.place_output(&writing.key, &name)?;
            writing.files.insert(name.clone(), place.clone());
            self.rank.calls.claimed().insert(name);
            Ok(place)
        })
    }

    fn place_output(&self, key: &DatasetKey, name: &str) -> Result<PathBuf> {
        let on_prefix = self.site.on_prefix(name);
        fits(&on_prefix)?;
        let file = FileRef::explicit(key, name);
        let mut state = self.node.state();
        let cached = state.view.layer(key).map(|layer| layer.dir.join(name));
        let cached = cached.filter(|path| fits(path).is_ok());
        let keep = cached.is_none() || self.stores.has_room(&state, &file).is_none();
        let keep = keep.then_some(Reason::NoRoom);
        let placed = state.machine.add_explicit(&file, key, keep, monotonic_ms());
        let cached = cached.filter(|_| !placed.is_on_prefix());
        let made = cached.as_ref().map(|_| self.make_place(&state, key, name));
        let cached = match made {
            Some(Err(error)) => {
                self.stores.set_back(&mut state, key, name, &error);
                None
            }
            _ => cached,
        };
        state.enter_file(key, name, cached.is_none());
        state.view.take_back(name);
        drop(state);
        // The shim asks anew about names of calls: it may have been told that no pattern has them.
        self.site.host.names_changed();
        self.rank.tally.one(if cached.is_some() { Count::Cached } else { Count::OnPrefix });
        match cached {
            Some(path) => Ok(path),
            None => {
                let dir = on_prefix.parent().unwrap_or(&self.site.prefix);
                std::fs::create_dir_all(dir)
                    .map_err(|e| Error::io("cannot create the directory", dir, e))?;
                Ok(on_prefix)
            }
        }
    }

    fn make_place(&self, state: &State, key: &DatasetKey, name: &str) -> Result<()> {
        let Some(layer) = state.view.layer(key) else { return Ok(()) };
        // What is there, another rank of the node has been told of before: it is one file for both.
        ns::make_parents(&layer.dir, name)
    }

    /// Takes the word that this rank has written the dataset, or could not. `false`: it is
    /// not valid on some rank, or could not be sealed; a message has said why. Collective.
    pub fn complete_dataset(&self, valid: bool) -> Result<bool> {
        self.site.host.inside(|| {
            let writing = self.progress().writing.take();
            let Some(writing) = writing else {
                return Err(Error::Missing("no dataset is being written".to_string()));
            };
            let links = self.rank.links().ok_or_else(no_communication)?;
            self.close_files(&writing, valid);
            if let Err(error) = self.conference.confer(&links) {
                self.conference.stop_agreements(&error);
                return Ok(false);
            }
            // What a rank does from now on comes after what all have done before.
            self.node.state().machine.conferred();
            self.site.host.names_changed(); // other ranks' files have come
            // A halt that is due with it is carried out here: the program may not call again soon.
            self.ending.sync(self.conference.calls(), SyncKind::Constructor);
            // Scripts read it when the run is gone.
            self.flush.record_places();
            Ok(self.is_complete(&writing.key))
        })
    }

    fn close_files(&self, writing: &DatasetWriting, valid: bool) {
        let (mut sizes, mut trouble) = (Vec::new(), None);
        if !valid {
            trouble = Some("the program says that it has not written its part".to_string());
        }
        for (name, path) in &writing.files {
            match path.metadata() {
                Ok(found) if found.is_file() => sizes.push((name.clone(), found.len())),
                Ok(_) => trouble = trouble.or_else(|| Some(format!("{name} is no file"))),
                Err(error) => {
                    let text = format!("{name} was routed, and is not there: {error}");
                    trouble = trouble.or(Some(text));
                }
            }
        }
        let (mut state, now_ms) = (self.node.state(), monotonic_ms());
        state.machine.complete_explicit(&writing.key, &sizes, now_ms);
        if let Some(trouble) = trouble {
            state.machine.failed(&writing.key, &trouble, now_ms);
        }
    }

    /// Output that is on the prefix has left the cache; what has no file at all is nothing.
    fn is_complete(&self, key: &DatasetKey) -> bool {
        let state = self.node.state().machine.state_of(key);
        state.is_none_or(|state| state == DatasetState::Confirmed)
    }
}

fn fits(path: &Path) -> Result<()> {
    let length = path.as_os_str().len();
    if length < ns::FILENAME_MAX {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "the path has {length} bytes, SCR_MAX_FILENAME allows {}: {}",
        ns::FILENAME_MAX - 1,
        path.display()
    )))
}
