//! The name space of one rank, and where a name is. A layer is a cached dataset; newer layers hide
//! older ones. Files of ranks on this node are found by stat in the layer's directory, those of
//! other nodes in the layer's catalog.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use scr_abi::wire::FileStat;

use super::hidden_dir::HiddenDir;
use super::layer::{Layer, files_below};
use super::place::{Place, Sought};
use crate::cache::NodeCatalog;
use crate::machine::DatasetKey;
use crate::namespace::told::by_others::ByOthers;
use crate::namespace::told::far_news::FarNews;
use crate::namespace::told::notices::Notice;
use crate::records::FileMeta;

#[derive(Debug, Default)]
pub struct View {
    pub(super) prefix: PathBuf,
    pub(super) layers: Vec<Layer>,
    pub(super) deleted: BTreeSet<String>,
    private: BTreeMap<String, PathBuf>,
    /// Directories that the program removed, kept by files that wait for their real deletion.
    pub(super) gone: BTreeSet<String>,
    /// Directories that are really removed, and that the flush of a file below them would bring
    /// back.
    pub(super) flushed_back: BTreeSet<String>,
    pub(super) evicted_names: BTreeMap<String, FileStat>,
    /// Files on the PFS that the program is not to find: damaged, or newer than it shall see.
    /// What the PFS had under these names when it was hidden.
    pub(super) hidden: BTreeMap<String, Option<FileMeta>>,
    pub(super) hidden_dirs: BTreeMap<String, HiddenDir>,
    /// What the PFS had under names when they were deleted, by this rank or another one.
    pub(super) old: BTreeMap<String, FileMeta>,
    /// When a flush has given files their names on the PFS that were deleted by then.
    pub(super) brought: BTreeMap<String, u64>,
    /// Files and directories that other ranks have deleted, as they tell.
    pub(super) deleted_by: ByOthers,
    pub(super) gone_by: ByOthers,
    thrown_away: bool,
    pub(super) news: Vec<Notice>,
    pub(super) far: FarNews,
    /// Files that are what the PFS has, whatever a layer holds.
    left_alone: BTreeSet<String>,
}

impl View {
    pub fn of(prefix: PathBuf) -> View {
        View { prefix, ..View::default() }
    }

    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    pub fn layer(&self, key: &DatasetKey) -> Option<&Layer> {
        self.layers.iter().find(|layer| layer.key == *key)
    }

    pub fn layer_mut(&mut self, key: &DatasetKey) -> Option<&mut Layer> {
        self.layers.iter_mut().find(|layer| layer.key == *key)
    }

    /// Adds the newest layer, or replaces the one of the same key in its place.
    pub fn put(&mut self, layer: Layer) {
        match self.layer_mut(&layer.key) {
            Some(old) => *old = layer,
            None => self.layers.push(layer),
        }
    }

    pub fn begin(&mut self, layer: Layer) {
        self.news.push(Notice::Begun(layer.key.clone(), layer.dir.clone()));
        match self.layer_mut(&layer.key) {
            Some(known) => known.dir = layer.dir, // by what others have told of it
            None => self.layers.push(layer),
        }
    }

    pub fn remove(&mut self, key: &DatasetKey) -> Option<Layer> {
        let position = self.layers.iter().position(|layer| layer.key == *key)?;
        Some(self.layers.remove(position))
    }

    pub fn remove_floating(&mut self, series: usize, keep: impl Fn(&DatasetKey) -> bool) {
        self.layers.retain(|layer| {
            let floats = layer.key.series == series && layer.key.id.is_empty();
            !floats || keep(&layer.key)
        });
    }

    pub fn place<'a>(&self, sought: impl Into<Sought<'a>>) -> Place {
        let sought = sought.into();
        let name = sought.name;
        if let Some(path) = self.private.get(name) {
            return Place::Private(path.clone());
        }
        if self.left_alone.contains(name) {
            return Place::Prefix;
        }
        if self.deleted.contains(name) || self.deleted_by.has(name) {
            return Place::Deleted;
        }
        for layer in self.layers_for(sought) {
            let known = layer.known(name);
            if known.on_prefix {
                return Place::Prefix;
            }
            if let Some(remote) = known.remote.clone().filter(|remote| remote.meta.is_shared) {
                return Place::Elsewhere(layer.key.clone(), remote); // here is a part of it at most
            }
            if let Some(here) = layer.here(name) {
                return Place::Cached(layer.key.clone(), here);
            }
            if let Some(remote) = known.remote {
                return Place::Elsewhere(layer.key.clone(), remote);
            }
        }
        if self.hidden.contains_key(name) {
            return Place::Deleted;
        }
        match self.evicted_names.get(name) {
            Some(evicted) if self.prefix.join(name).symlink_metadata().is_err() => {
                Place::Evicted(*evicted)
            }
            _ => Place::Prefix,
        }
    }

    /// Returns the layers that may have the file, the newest first.
    fn layers_for<'a>(&self, sought: Sought<'a>) -> impl Iterator<Item = &Layer> + use<'_, 'a> {
        let may_have = move |layer: &Layer| sought.file.is_none_or(|file| layer.may_have(file));
        self.layers.iter().rev().filter(move |layer| !layer.hidden && may_have(layer))
    }

    /// Finds the dataset that has the newest content of `name` in cache. One that a flush has
    /// brought to the PFS for this rank counts.
    pub fn cached_in<'a>(&self, sought: impl Into<Sought<'a>>) -> Option<&DatasetKey> {
        let sought = sought.into();
        let newest = self.layers_for(sought).find(|layer| layer.knows(sought.name))?;
        let known = newest.known(sought.name);
        let cached = !known.on_prefix || known.remote.is_some();
        cached.then_some(&newest.key)
    }

    pub fn is_in_a_layer(&self, name: &str) -> bool {
        self.layers.iter().any(|layer| layer.knows(name))
    }

    /// Tells whether a layer above that of `key` has the file. One that `is_final` has no file that
    /// its catalog has not.
    pub fn is_in_newer(
        &self,
        key: &DatasetKey,
        name: &str,
        is_final: impl Fn(&DatasetKey) -> bool,
    ) -> bool {
        let newer = self.layers.iter().rev().take_while(|layer| layer.key != *key);
        let mut newer = newer.filter(|layer| !layer.hidden);
        newer.any(|layer| !(layer.lacks(name) && is_final(&layer.key)) && layer.has(name))
    }

    pub fn tell_on_prefix(&mut self, name: &str) {
        if self.layers.iter().any(|layer| layer.has(name)) {
            self.news.push(Notice::OnPrefix(name.to_string()));
            self.far.on_prefix.insert(name.to_string());
            self.far.changed = true;
        }
    }

    pub fn moved_to_prefix(&mut self, name: &str) {
        for layer in self.layers.iter_mut().filter(|layer| layer.has(name)) {
            layer.drop_elsewhere(name);
            layer.set_on_prefix(name, true);
        }
    }

    pub fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for layer in self.layers.iter().filter(|layer| !layer.hidden) {
            names.extend(layer.names_here());
            names.extend(elsewhere_below(layer, ""));
        }
        names
    }

    /// Returns what is not just on the PFS below `dir`: cached files, those of other nodes, and
    /// names that stand for something else than what the PFS has.
    pub fn names_below(&self, dir: &str) -> BTreeSet<String> {
        let below = format!("{dir}/");
        let mut names = BTreeSet::new();
        for layer in self.layers.iter().filter(|layer| !layer.hidden) {
            files_below(&layer.dir, dir, &mut names);
            names.extend(elsewhere_below(layer, dir));
        }
        let others = self.deleted.iter().chain(self.hidden.keys()).chain(self.private.keys());
        let others = others.chain(self.evicted_names.keys());
        let others = others.chain(self.deleted_by.names());
        names.extend(others.filter(|name| name.starts_with(&below)).cloned());
        names.retain(|name| self.is_private(name) || !self.left_alone.contains(name));
        names
    }

    pub fn leave_alone(&mut self, name: &str) {
        self.left_alone.insert(name.to_string());
    }

    pub fn take_back(&mut self, name: &str) {
        self.left_alone.remove(name);
    }

    pub fn is_left_alone(&self, name: &str) -> bool {
        self.left_alone.contains(name)
    }

    pub fn put_private(&mut self, name: &str, path: PathBuf) {
        self.private.insert(name.to_string(), path);
    }

    pub fn take_private(&mut self, name: &str) -> Option<PathBuf> {
        self.private.remove(name)
    }

    pub fn private_names(&self) -> impl Iterator<Item = &str> {
        self.private.keys().map(String::as_str)
    }

    pub fn private(&self) -> impl Iterator<Item = (&str, &PathBuf)> {
        self.private.iter().map(|(name, path)| (name.as_str(), path))
    }

    pub fn is_private(&self, name: &str) -> bool {
        self.private.contains_key(name)
    }

    /// Tells whether `name` stands for something else than what the PFS has, whatever the patterns
    /// say: a directory may have moved such names to where none matches.
    pub fn changes(&self, name: &str) -> bool {
        self.private.contains_key(name)
            || self.deleted.contains(name)
            || self.deleted_by.has(name)
            || self.hidden.contains_key(name)
            || self.evicted_names.contains_key(name)
    }

    pub fn delete(&mut self, name: &str) {
        // An evicted name stands for nothing, but some layer may have an older file of its name.
        if !self.lay(name) || self.layers.iter().any(|layer| layer.has(name)) {
            self.deleted.insert(name.to_string());
        }
        self.far.changed = true;
        self.thrown_away = true;
        self.news.push(Notice::Deleted(name.to_string()));
    }

    /// Removes an evicted file; tells whether there was one.
    pub fn lay(&mut self, name: &str) -> bool {
        let laid = self.evicted_names.remove(name).is_some();
        if laid {
            self.far.laid.insert(name.to_string());
            self.far.changed = true;
        }
        laid
    }

    /// Tells whether this rank has deleted something since this was asked last.
    pub fn take_thrown_away(&mut self) -> bool {
        std::mem::take(&mut self.thrown_away)
    }

    pub fn revive(&mut self, name: &str) {
        self.made(name);
        self.news.push(Notice::Made(name.to_string()));
    }

    pub(super) fn made(&mut self, name: &str) {
        self.far.changed |= self.deleted.remove(name);
        self.old.remove(name);
        self.brought.remove(name);
        self.lay(name);
        self.hidden.remove(name);
        self.forget_others(name);
    }

    pub fn forget_others(&mut self, name: &str) {
        self.deleted_by.forget(name);
    }

    /// Hides what the PFS has under `name`: that, if it is known. What is made there later is
    /// another file.
    pub fn hide(&mut self, name: &str, that: Option<FileMeta>) {
        self.hidden.insert(name.to_string(), that);
    }

    pub fn unhide(&mut self, name: &str) -> Option<FileMeta> {
        self.hidden.remove(name).flatten()
    }

    /// Returns what the PFS may have under a name that is hidden, or waits for its deletion;
    /// nothing if that is not known.
    pub fn contents_in_the_way(&self, name: &str) -> Vec<FileMeta> {
        let old = self.old.get(name);
        let in_catalog = |layer: &Layer| {
            let entries = layer.catalog().map(|all| all.named(name)).unwrap_or_default();
            let metas = entries.into_iter().map(|entry| entry.meta);
            // What else lay there may have been made, and sealed, since the deletion.
            metas.filter(|meta| old.is_none() || !meta.on_prefix).collect::<Vec<_>>()
        };
        let hidden = self.hidden.get(name).and_then(Option::as_ref);
        let known = hidden.into_iter().chain(old).cloned();
        known.chain(self.layers.iter().flat_map(in_catalog)).collect()
    }

    /// Notes what the PFS has under a name that is deleted.
    pub fn note_old(&mut self, name: &str, that: FileMeta) {
        self.old.insert(name.to_string(), that);
    }

    pub fn old(&self, name: &str) -> Option<&FileMeta> {
        self.old.get(name)
    }

    pub fn show(&mut self, key: &DatasetKey, catalog: &NodeCatalog) {
        self.hidden.retain(|name, _| catalog.named(name).is_empty());
        if let Some(layer) = self.layer_mut(key) {
            layer.show(catalog.clone());
        }
    }

    pub fn hide_dir(&mut self, name: &str, dir: HiddenDir) {
        self.hidden_dirs.insert(name.to_string(), dir);
    }

    pub fn is_absent(&self, name: &str) -> bool {
        self.is_deleted(name)
            || self.deleted_by.has(name)
            || (self.hidden.contains_key(name) && self.place(name) == Place::Deleted)
    }

    pub fn deleted(&self) -> impl Iterator<Item = &str> {
        self.deleted.iter().map(String::as_str)
    }

    /// Settles a deletion that only hid the copy of `name` in the layer `key`, which is about to
    /// go.
    pub fn settle_in(&mut self, key: &DatasetKey, name: &str) {
        if !self.deleted.contains(name) {
            return;
        }
        let mut others = self.layers.iter().filter(|layer| layer.key != *key);
        let held = others.any(|layer| layer.dir.join(name).exists() || layer.is_elsewhere(name));
        if !held {
            self.settle(name);
        }
    }

    pub fn settle(&mut self, name: &str) {
        self.old.remove(name);
        self.brought.remove(name);
        if self.deleted.remove(name) {
            self.far.changed = true;
            self.news.push(Notice::Settled(name.to_string()));
        }
    }

    pub fn is_deleted(&self, name: &str) -> bool {
        self.deleted.contains(name)
    }
}

fn elsewhere_below(layer: &Layer, dir: &str) -> impl Iterator<Item = String> + use<> {
    let known = layer.known_below(dir).into_iter();
    known.filter(|(_, known)| known.remote.is_some()).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::cache::Catalog;
    use crate::machine::FileRef;

    fn layer(generation: u64, dir: &std::path::Path) -> Layer {
        let key = DatasetKey::new(0, "", generation);
        Layer::new(key, dir.to_path_buf())
    }

    #[test]
    fn the_newest_layer_that_has_a_name_wins_and_the_prefix_can_be_newer() {
        let dirs = tempfile::tempdir().unwrap();
        let (old, new) = (dirs.path().join("0"), dirs.path().join("1"));
        for dir in [&old, &new] {
            std::fs::create_dir(dir).unwrap();
            std::fs::write(dir.join("x"), "").unwrap();
        }
        let mut view = View::default();
        view.put(layer(0, &old));
        view.put(layer(1, &new));
        let Place::Cached(key, path) = view.place("x") else { panic!() };
        assert_eq!((key.generation, path), (1, new.join("x")));
        view.layer_mut(&key).unwrap().set_on_prefix("x", true);
        assert_eq!(view.place("x"), Place::Prefix);
        view.layer_mut(&key).unwrap().hidden = true;
        assert!(matches!(view.place("x"), Place::Cached(key, _) if key.generation == 0));
    }

    #[test]
    fn layers_that_cannot_have_a_file_are_not_asked() {
        let top = tempfile::tempdir().unwrap();
        let mut view = View::default();
        let keys = ["1", "2"].map(|id| DatasetKey::new(0, id, 0));
        for key in &keys {
            // Whoever asks finds it.
            let dir = top.path().join(&key.id);
            std::fs::create_dir(&dir).unwrap();
            std::fs::write(dir.join("x"), "").unwrap();
            view.put(Layer::new(key.clone(), dir));
        }
        let file = |series, id: Option<&str>| {
            let (name, id) = ("x".to_string(), id.map(String::from));
            FileRef { series, id, name, masked: String::new(), temporary: false }
        };
        let found = |view: &View, file: &FileRef| match view.place(file) {
            Place::Cached(key, _) => Some(key.id),
            _ => None,
        };
        let seen = |view: &View| {
            let files = [(0, Some("1")), (0, Some("3")), (0, None), (1, Some("3"))];
            let all = files.map(|(series, id)| found(view, &file(series, id)));
            all.map(|id| id.unwrap_or_default())
        };
        assert_eq!(seen(&view), ["1", "", "2", "2"], "in progress: series may share a directory");
        for key in &keys {
            view.show(key, &NodeCatalog::of(&Catalog::default(), &[]));
        }
        assert_eq!(seen(&view), ["1", "", "2", ""], "sealed: the catalog has all of others");
        view.layer_mut(&keys[0]).unwrap().set_on_prefix("x", false);
        assert_eq!(seen(&view), ["1", "1", "2", "1"], "entered since");
        assert_eq!(view.cached_in(&file(0, Some("3"))), Some(&keys[0]));
    }

    #[test]
    fn a_hidden_file_is_found_again_where_it_is_made_anew() {
        let dirs = tempfile::tempdir().unwrap();
        let mut view = View::default();
        view.hide("x", None);
        assert_eq!((view.place("x"), view.is_absent("x")), (Place::Deleted, true));
        // Its real deletion is not due: the program has not asked for it.
        assert_eq!(view.deleted().count(), 0);
        view.put(layer(0, dirs.path()));
        std::fs::write(dirs.path().join("x"), "").unwrap();
        assert!(matches!(view.place("x"), Place::Cached(..)) && !view.is_absent("x"));
        view.remove(&DatasetKey::new(0, "", 0));
        view.revive("x");
        assert_eq!(view.place("x"), Place::Prefix);
    }

    #[test]
    fn a_hidden_directory_is_there_again_when_any_rank_makes_it() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().to_path_buf();
        let found = path.metadata().unwrap();
        let mut view = View::default();
        view.hide_dir("d", HiddenDir { path, mtime: (found.mtime(), found.mtime_nsec()) });
        assert!(view.is_removed_dir("d"));
        let past = std::time::SystemTime::UNIX_EPOCH;
        std::fs::File::open(base.path()).unwrap().set_modified(past).unwrap();
        assert!(!view.is_removed_dir("d"));
        assert!(view.settle_dir("d"));
    }

    #[test]
    fn a_deleted_name_is_gone_until_it_is_made_again() {
        let mut view = View::default();
        view.leave_evicted("g".into(), FileStat::default());
        assert!(matches!(view.place("g"), Place::Evicted(_)));
        view.delete("g");
        assert_eq!(view.place("g"), Place::Prefix);
        view.delete("f");
        assert_eq!(view.place("f"), Place::Deleted);
        view.revive("f");
        assert_eq!(view.place("f"), Place::Prefix);
    }
}
