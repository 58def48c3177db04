//! How what the ranks of a node, those of others, and flushes tell about names changes the view.

use std::path::Path;

use super::layer::{KnownName, Layer, Remote};
use super::place::{Place, Sought};
use super::view::View;
use crate::machine::{DatasetKey, FileRef};
use crate::namespace::told::far_news::FarNews;
use crate::namespace::told::notices::{Move, Notice};
use crate::records::FileMeta;

impl View {
    pub fn take_news(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.news)
    }

    pub fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    pub fn delete_by(&mut self, rank: usize, name: &str) {
        if self.evicted_names.remove(name).is_none() {
            self.deleted_by.insert(name, rank);
        }
    }

    /// Returns what [`View::place`] does to who does something to the name: what this rank has
    /// found on the PFS of a file that several nodes have in parts lies there.
    pub fn place_now(&self, name: &str) -> Place {
        match self.place(name) {
            Place::Elsewhere(key, remote) if self.has_come(&key, &remote.meta) => Place::Prefix,
            place => place,
        }
    }

    /// Tells whether this rank has found the file of `key` with this content on the PFS.
    pub fn has_come(&self, key: &DatasetKey, content: &FileMeta) -> bool {
        self.layer(key).is_some_and(|layer| layer.has_come(content))
    }

    pub fn tell_move(&mut self, one: Move) {
        self.news.push(Notice::Moved(one));
    }

    /// Follows a directory that has moved, with the files of datasets for which `is_open` holds.
    pub fn follow(&mut self, one: &Move, is_open: impl Fn(&DatasetKey) -> bool) {
        for layer in self.layers.iter_mut().filter(|layer| is_open(&layer.key)) {
            layer.change(|name, mut known| {
                let name = one.new_name(&name).unwrap_or(name);
                known.remote.iter_mut().for_each(|remote| remote.meta.name.clone_from(&name));
                (name, known)
            });
        }
    }

    /// Hears that another rank of this node makes a file in the cache, in the dataset `key`.
    pub fn hear_of_making(&mut self, key: &DatasetKey, name: &str) {
        if self.is_absent(name)
            && let Some(layer) = self.layer_mut(key)
        {
            layer.note_coming(name);
        }
    }

    /// Notes that no open of another rank is under way.
    pub fn forget_coming(&mut self) {
        self.layers.iter_mut().for_each(Layer::forget_coming);
    }

    /// Hears what `rank` of this node tells, of `file` if its name is that of one.
    pub fn hear(&mut self, rank: usize, told: Notice, file: Option<&FileRef>) {
        match told {
            Notice::Begun(key, dir) => {
                if self.layer(&key).is_none() {
                    self.put(Layer::new(key, dir));
                }
            }
            Notice::Deleted(name) => {
                self.layers.iter_mut().for_each(|layer| layer.forget_maker(&name));
                self.delete_by(rank, &name);
            }
            Notice::Settled(name) => {
                self.deleted_by.remove(&name, rank);
                if !self.is_absent(&name) {
                    self.old.remove(&name);
                }
            }
            Notice::Made(name) => {
                self.made(&name);
                if let Some(key) = self.cached_in(Sought { name: &name, file }).cloned()
                    && let Some(layer) = self.layer_mut(&key)
                {
                    layer.note_maker(&name, rank);
                }
            }
            Notice::OnPrefix(name) => self.moved_to_prefix(&name),
            Notice::Cached(name) => self.moved_back(&name),
            Notice::DirGone(name) => self.gone_by.insert(&name, rank),
            Notice::Moved(_) => {} // the datasets follow, too
            // Nothing has changed yet.
            Notice::Claimed(_) | Notice::Unclaimed(_) | Notice::Turn(_) | Notice::TurnOver => {}
            Notice::Answers(_) => {} // seen where it was
            Notice::DirSettled(name) => {
                self.gone.remove(&name);
                self.gone_by.forget(&name);
                self.flushed_back.remove(&name);
            }
        }
    }

    /// The cache of this node has the newest content of `name` again.
    fn moved_back(&mut self, name: &str) {
        let mut layers = self.layers.iter_mut().rev().filter(|layer| !layer.hidden);
        if let Some(layer) = layers.find(|one| one.dir.join(name).symlink_metadata().is_ok()) {
            layer.set_on_prefix(name, false);
        }
    }

    pub fn enter(&mut self, key: &DatasetKey, name: &str, on_prefix: bool) {
        if on_prefix {
            // Before it is forgotten here that another node has it in cache.
            self.tell_on_prefix(name);
        }
        if let Some(layer) = self.layer_mut(key) {
            let is_back = !on_prefix && layer.is_on_prefix(name);
            layer.drop_elsewhere(name);
            layer.set_on_prefix(name, on_prefix);
            if is_back {
                self.news.push(Notice::Cached(name.to_string()));
            }
        }
        self.revive(name);
    }

    /// Tells whether this rank, which writes the cached file `name` of `key`, too, is the lowest of
    /// those on the node that are known to.
    pub fn is_lowest(&self, rank: usize, key: &DatasetKey, name: &str) -> bool {
        let maker = self.layer(key).and_then(|layer| layer.maker(name));
        maker.is_none_or(|maker| rank < maker)
    }

    /// Tells whether another rank of the node is known to have made the file in the dataset `key`.
    pub fn is_made(&self, key: &DatasetKey, name: &str) -> bool {
        self.layer(key).is_some_and(|layer| layer.maker(name).is_some())
    }

    /// Tells whether that was since the seal of `key`, if it is sealed.
    pub fn is_added(&self, key: &DatasetKey, name: &str) -> bool {
        let is_new = |layer: &Layer| layer.catalog().is_none_or(|all| all.named(name).is_empty());
        self.is_made(key, name) && self.layer(key).is_some_and(is_new)
    }

    /// Tells the others of the node that this rank answers for a file that one of them has made.
    pub fn tell_answers(&mut self, name: &str) {
        self.news.push(Notice::Answers(name.to_string()));
    }

    /// Returns whether another rank writes `name` of the dataset `key` on the PFS, as far as was
    /// heard.
    pub fn is_taken(&self, key: &DatasetKey, name: &str) -> bool {
        self.layer(key).is_some_and(|layer| layer.is_on_prefix(name)) && !self.is_absent(name)
    }

    pub fn forget_told(&mut self, ranks: &[usize]) {
        self.deleted_by.retain(|rank| !ranks.contains(&rank));
        self.gone_by.retain(|rank| !ranks.contains(&rank));
    }

    /// Ends all counting on news: of what ranks of other nodes have said before, only what is
    /// sealed counts. The rest they write to the PFS. `is_near` tells the ranks of this node.
    pub fn forget_far(
        &mut self,
        is_near: impl Fn(usize) -> bool,
        is_sealed: impl Fn(&DatasetKey) -> bool,
    ) {
        self.deleted_by.retain(is_near);
        for layer in self.layers.iter_mut().filter(|layer| !is_sealed(&layer.key)) {
            layer.change(|name, known| {
                let on_prefix = known.on_prefix || known.remote.is_some();
                (name, KnownName { remote: None, on_prefix })
            });
        }
    }

    pub fn has_far_news(&self) -> bool {
        self.far.changed
    }

    pub fn take_far_news(&mut self) -> FarNews {
        std::mem::take(&mut self.far)
    }

    pub fn deleted_elsewhere(&mut self, rank: usize, name: &str) {
        self.evicted_names.remove(name);
        self.deleted_by.insert(name, rank);
    }

    pub fn laid_elsewhere(&mut self, name: &str) {
        self.evicted_names.remove(name);
    }

    pub fn left_elsewhere(&mut self, name: &str) {
        for layer in self.layers.iter_mut().filter(|layer| layer.comes_from_elsewhere(name)) {
            layer.drop_elsewhere(name);
            layer.set_on_prefix(name, true);
        }
    }

    pub fn made_elsewhere(&mut self, key: &DatasetKey, remote: Remote) {
        let name = remote.meta.name.clone();
        self.is_there_again(&name);
        if let Some(layer) = self.layer_mut(key) {
            layer.set_on_prefix(&name, false);
            layer.put_elsewhere(remote);
        }
    }

    /// Hears that a rank of another node has made the file.
    pub fn is_there_again(&mut self, name: &str) {
        self.evicted_names.remove(name);
        self.hidden.remove(name);
        self.old.remove(name);
        self.forget_others(name);
    }

    pub fn gone_elsewhere(&mut self, key: &DatasetKey, name: &str, rank: usize) {
        if let Some(layer) = self.layer_mut(key) {
            let remote = layer.known(name).remote;
            if remote.is_some_and(|remote| remote.owner == rank) {
                layer.drop_elsewhere(name);
            }
        }
    }

    /// Notes that a flush has given the file its name on the PFS; `time` tells when that was. If it
    /// was deleted by then, a restart may need it still, and must not show it.
    pub fn note_brought(&mut self, name: &str, time: impl FnOnce(&Path) -> u64) {
        if self.is_deleted(name) {
            self.brought.insert(name.to_string(), time(&self.prefix.join(name)));
        }
    }

    /// Returns when that was, unless the deletion is over or the program has made the file again.
    pub fn brought(&self, name: &str) -> Option<u64> {
        self.brought.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scr_abi::wire::FileStat;

    use crate::namespace::Place;
    use crate::records::FileMeta;

    fn remote(owner: usize, name: &str, size: u64) -> Remote {
        Remote { owner, meta: FileMeta { name: name.into(), size, ..FileMeta::default() } }
    }

    #[test]
    fn the_newest_word_of_another_node_counts() {
        let key = |generation| DatasetKey::new(0, "", generation);
        let mut view = View::default();
        for generation in 0..2 {
            view.put(Layer::new(key(generation), format!("/none/{generation}").into()));
        }
        let size = |view: &View| match view.place("x") {
            Place::Elsewhere(_, remote) => remote.meta.size,
            place => panic!("{place:?}"),
        };
        view.made_elsewhere(&key(0), remote(3, "x", 1));
        view.layer_mut(&key(0)).unwrap().set_on_prefix("x", true);
        assert_eq!(view.place("x"), Place::Prefix);
        view.made_elsewhere(&key(0), remote(3, "x", 2));
        assert_eq!(size(&view), 2, "written again since it was brought to the prefix");
        view.made_elsewhere(&key(1), remote(4, "x", 5));
        view.gone_elsewhere(&key(1), "x", 3);
        assert_eq!(size(&view), 5, "another rank's file");
        view.gone_elsewhere(&key(1), "x", 4);
        assert_eq!(size(&view), 2);
        view.left_elsewhere("x");
        assert_eq!(view.place("x"), Place::Prefix);
    }

    #[test]
    fn what_is_in_the_cache_again_is_seen_there() {
        let (dir, key) = (tempfile::tempdir().unwrap(), DatasetKey::new(0, "7", 0));
        let here = dir.path().join("x");
        std::fs::write(&here, "x").unwrap();
        let mut views = [View::default(), View::default()];
        let all = &mut views;
        all.iter_mut().for_each(|view| view.put(Layer::new(key.clone(), dir.path().into())));
        let cached = Place::Cached(key.clone(), here);
        for (on_prefix, place) in [(true, Place::Prefix), (false, cached)] {
            all[0].enter(&key, "x", on_prefix);
            all[0].take_news().into_iter().for_each(|told| all[1].hear(0, told, None));
            assert_eq!([all[0].place("x"), all[1].place("x")], [place.clone(), place]);
        }
    }

    /// Else it took the older file on the PFS for it, and there were two.
    #[test]
    fn what_another_rank_makes_anew_is_in_the_cache_before_its_open_is_over() {
        let (key, mut view) = (DatasetKey::new(0, "", 2), View::default());
        view.put(Layer::new(key.clone(), "/none".into()));
        view.hear_of_making(&key, "x");
        assert_eq!(view.place("x"), Place::Prefix, "nobody has deleted it");
        view.hear(1, Notice::Deleted("x".into()), None);
        view.hear_of_making(&key, "x");
        view.hear(1, Notice::Made("x".into()), None);
        assert_eq!(view.place("x"), Place::Cached(key.clone(), "/none/x".into()));
        assert!(view.is_made(&key, "x") && view.cached_in("x") == Some(&key));
        view.forget_coming();
        assert_eq!(view.place("x"), Place::Prefix, "its open has failed");
    }

    #[test]
    fn what_is_known_of_other_nodes_moves_with_its_directory() {
        let key = |id: &str| DatasetKey::new(0, id, 0);
        let mut view = View::default();
        for id in ["10", "20"] {
            view.put(Layer::new(key(id), format!("/none/{id}").into()));
            view.made_elsewhere(&key(id), remote(3, "new/x", 5));
        }
        view.layer_mut(&key("10")).unwrap().set_on_prefix("new/y", true);
        let (from, to) = ("new".to_string(), "10".to_string());
        view.follow(&Move { number: 1, from, to, landed: false }, |of| *of == key("10"));
        let Place::Elsewhere(of, found) = view.place("10/x") else { panic!() };
        assert_eq!((of, found.meta.name.as_str()), (key("10"), "10/x"));
        assert!(view.layer(&key("10")).unwrap().is_on_prefix("10/y"));
        let Place::Elsewhere(of, _) = view.place("new/x") else { panic!() };
        assert_eq!(of, key("20"), "sealed under that name");
    }

    #[test]
    fn a_file_deleted_elsewhere_is_gone_until_it_is_made_again() {
        let key = DatasetKey::new(0, "7", 0);
        let mut view = View::default();
        view.leave_evicted("x".into(), FileStat::default());
        view.deleted_elsewhere(2, "x");
        assert_eq!(
            view.place("x"),
            Place::Deleted,
            "the newer file, and the evicted one of an older"
        );
        view.forget_told(&[0, 1]);
        assert_eq!(view.place("x"), Place::Deleted, "told at an agreement: nothing was missed");
        view.put(Layer::new(key.clone(), "/none".into()));
        view.made_elsewhere(&key, remote(3, "x", 1));
        assert!(matches!(view.place("x"), Place::Elsewhere(..)));
        assert!(!view.has_far_news(), "what is heard is not told");
        view.leave_evicted("g".into(), FileStat::default());
        view.delete("g");
        assert!(view.has_far_news() && view.take_far_news().laid.contains("g"));
        assert!(!view.has_far_news());
    }

    #[test]
    fn what_is_brought_counts_while_that_deletion_waits() {
        let mut view = View::default();
        view.note_brought("x", |_| 1);
        assert_eq!(view.brought("x"), None, "nobody has deleted it");
        for over in [View::settle, View::revive] {
            view.delete("x");
            view.note_brought("x", |_| 2);
            assert_eq!(view.brought("x"), Some(2));
            over(&mut view, "x");
            view.delete("x");
            assert_eq!(view.brought("x"), None, "another file was deleted now");
        }
    }
}
