//! What ranks have written to files of several nodes, told at sync points.

use std::collections::{BTreeMap, BTreeSet};

use crate::cache::disk::describe;
use crate::machine::DatasetKey;
use crate::namespace::{FarMessage, Layer, Move};
use crate::session::{node::State, rank::Rank, updates::Updates};

/// Adds what this rank has written since it was last told.
pub(super) fn tell_parts(state: &mut State, rank: &Rank, news: &mut FarMessage) {
    let now = state.machine.points_entered();
    for (key, name, done) in state.own.parted.take_news(now) {
        let here = state.view.layer(&key).map(|layer| layer.dir.join(&name));
        let mode = here.and_then(|here| describe(&here, &name).ok()).map_or(0o600, |it| it.mode);
        news.parted(&rank.record_key(&key).directory_name(), &name, mode, &done);
    }
}

impl Updates {
    /// Takes in what all ranks, this one as well, have told; returns the names of the files.
    pub(super) fn hear_of_parts<'a>(
        &self,
        state: &mut State,
        all: impl Iterator<Item = &'a (usize, FarMessage)> + Clone,
        deletes: &BTreeSet<String>,
    ) -> BTreeSet<String> {
        let mut files: BTreeMap<(DatasetKey, String), Vec<_>> = BTreeMap::new();
        // Who has not heard of it tells what a file was called before.
        let moves: Vec<Move> = all.clone().flat_map(|(_, news)| news.moves()).collect();
        for (rank, news) in all {
            for (key, name, mode, done) in news.parts() {
                let Some(key) = self.rank.key_of_directory(key) else { continue };
                let name = moves.iter().find_map(|one| one.new_name(name)).unwrap_or(name.into());
                files.entry((key, name)).or_default().push((*rank, mode, done));
            }
        }
        let names = files.keys().map(|(_, name)| name.clone()).collect();
        for ((key, name), mut told) in files {
            told.sort_by_key(|one| one.0);
            if !state.view.layer(&key).is_some_and(|layer| layer.is_parted(&name)) {
                self.revive(state, &name, deletes);
                state.view.is_there_again(&name);
            }
            self.begin_layer(state, &key);
            if let Some(layer) = state.view.layer_mut(&key) {
                layer.put_parted(&name, told[0].0, told[0].1);
            }
            let State { machine, own, .. } = state;
            let told = told.into_iter().map(|(rank, _, done)| (machine.nodes()[rank], done));
            own.parted.hear(&key, &name, told);
        }
        names
    }

    /// Takes back this rank's deletion of a file that another one has made anew: it had heard of
    /// the deletion, unless it is one that this rank `deletes` and tells of just now.
    pub(super) fn revive(&self, state: &mut State, name: &str, deletes: &BTreeSet<String>) {
        let deleted = state.view.is_deleted(name) && !deletes.contains(name);
        if let Some(file) = self.rank.file_ref(name).filter(|_| deleted) {
            state.machine.made_elsewhere(&file);
            state.view.revive(name);
            state.moves.elsewhere.deleted.remove(name);
        }
    }

    /// Lets files of the dataset be seen.
    pub(super) fn begin_layer(&self, state: &mut State, key: &DatasetKey) {
        if state.view.layer(key).is_none() {
            let store = self.stores.store_for(state, key);
            let dir = self.site.layout.open_dir(&store, &self.rank.record_key(key));
            state.view.put(Layer::new(key.clone(), dir));
        }
    }
}
