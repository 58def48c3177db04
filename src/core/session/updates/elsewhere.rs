//! What ranks of other nodes have done with names (docs/internals/names.md), told at the agreement
//! that follows: what has changed since the last time of closed files of datasets in progress,
//! which no catalog has yet, and names that the program has deleted. It changes only what is seen.

use std::collections::{BTreeMap, BTreeSet};

use crate::cache::{agree::any, disk::describe};
use crate::error::Result;
use crate::handles::LiesAt;
use crate::kvtree::KvTree;
use crate::launch::site::Links;
use crate::log;
use crate::machine::DatasetKey;
use crate::namespace::{FarFiles, FarMessage, Remote, ToldElsewhere};
use crate::records::{FileMeta, files_from_list, files_to_list};
use crate::session::{
    node::State,
    updates::{Updates, parted::tell_parts},
};

impl Updates {
    /// Tells them if it is time for it. Collective.
    pub(crate) fn tell_names(&self, links: &Links, before_conference: bool) -> Result<()> {
        let mut state = self.node.state();
        if !state.machine.tells_names(before_conference) {
            return Ok(());
        }
        let passed_on = std::mem::take(&mut state.moves.elsewhere.passed_on);
        let own = self.news(&mut state);
        drop(state);
        self.exchange(links, &own, &passed_on)
    }

    /// Tells the conference at the end what directories are called: no agreement comes before.
    /// Collective.
    pub(crate) fn tell_moves(&self, links: &Links) -> Result<()> {
        let mut state = self.node.state();
        let untold = !state.moves.untold.is_empty() || !state.moves.learned.is_empty();
        let mut own = FarMessage(KvTree::new());
        state.take_moves(&mut own);
        drop(state);
        let due = any(links.world.as_ref(), untold)?;
        if due { self.exchange(links, &own, &BTreeSet::new()) } else { Ok(()) }
    }

    /// Of the deletions in `own` those in `passed` are other ranks'. Collective.
    fn exchange(&self, links: &Links, own: &FarMessage, passed: &BTreeSet<String>) -> Result<()> {
        let deletes = own.named("DELETED").filter(|name| !passed.contains(name)).collect();
        let all = links.world.all_gather(&own.to_bytes())?;
        let (mut heard, mut near) = (Vec::new(), Vec::new());
        for (rank, bytes) in all.iter().enumerate().filter(|(_, bytes)| !bytes.is_empty()) {
            let is_near = links.node_ranks.contains(&rank);
            match FarMessage::from_bytes(bytes) {
                Some(news) if is_near => near.push((rank, news)),
                Some(news) => heard.push((rank, news)),
                None => log::message(1, format_args!("rank {rank}'s news cannot be read")),
            }
        }
        let mut state = self.node.state();
        for (name, old) in near.iter().chain(&heard).flat_map(|(_, news)| news.old()) {
            state.view.note_old(name, old);
        }
        let deleted = heard.iter().flat_map(|(_, news)| news.named("DELETED"));
        let is_here = |name: &String| state.is_made_here(name, &self.site.on_prefix(name));
        let made_here = deleted.filter(is_here).collect();
        for (rank, news) in &heard {
            state.hear_of_names(*rank, news, &made_here);
        }
        for (_, news) in near.iter().chain(&heard).filter(|(rank, _)| *rank != self.site.rank) {
            state.own.joined.hear(news.named("JOINED"));
        }
        for (rank, news) in &heard {
            self.hear_of_files(&mut state, *rank, news, &deletes);
        }
        // Files that are told by what they were called before.
        near.iter().chain(&heard).for_each(|(rank, news)| {
            self.hear_of_moves(&mut state, *rank, news);
        });
        // What is there may be so again.
        let parts = self.hear_of_parts(&mut state, near.iter().chain(&heard), &deletes);
        // Who has an older file of that name open is to see the new one.
        let moved = near.iter().chain(&heard).flat_map(|(_, news)| news.named("ON_PREFIX"));
        let moved: BTreeSet<String> = moved.collect();
        let older = state.own.tokens.lazy(|one| match one.way {
            LiesAt::Part(_) => parts.contains(&*one.name) || moved.contains(&*one.name),
            _ => one.way.is_older() && parts.contains(&*one.name),
        });
        let moves = near.iter().chain(&heard).any(|(_, news)| news.tells_moves());
        if heard.is_empty() && older.is_empty() && !moves {
            return Ok(());
        }
        state.moves.told = own.moves().last().map_or(state.moves.told, |one| one.number);
        drop(state);
        self.site.host.names_changed();
        self.site.host.wake_all(older);
        Ok(())
    }

    /// From now on this counts as told.
    fn news(&self, state: &mut State) -> FarMessage {
        let mut news = FarMessage(KvTree::new());
        let mut files: BTreeMap<DatasetKey, FarFiles> = BTreeMap::new();
        tell_parts(state, &self.rank, &mut news);
        news.names("JOINED", state.own.joined.take_news());
        for (key, names) in state.machine.visible() {
            let parted = state.own.parted.names(&key);
            let Some(layer) = state.view.layer(&key) else { continue };
            let is_parted = |name: &String| parted.contains(name) || layer.is_parted(name);
            let names = names.into_iter().filter(|(name, _)| !is_parted(name));
            let before = state.moves.elsewhere.files.get(&key);
            let found = names.filter_map(|(name, closed)| {
                let meta = match closed {
                    true => describe(&layer.dir.join(&name), &name).ok()?,
                    false => before?.get(&name)?.clone(), // what it was stays to be seen
                };
                Some((name, meta))
            });
            let found = found.collect();
            files.insert(key, found);
        }
        for (key, now) in &files {
            let before = state.moves.elsewhere.files.get(key);
            let known = |name: &str| before.and_then(|before| before.get(name));
            let new = now.iter().filter(|(name, meta)| known(name) != Some(meta));
            let there: Vec<FileMeta> = new.map(|(_, meta)| meta.clone()).collect();
            let gone = before.into_iter().flatten().filter(|(name, _)| !now.contains_key(*name));
            let gone: Vec<&String> = gone.map(|(name, _)| name).collect();
            if there.is_empty() && gone.is_empty() {
                continue;
            }
            let mut tree = FarMessage(KvTree::new());
            tree.0.set("THERE", files_to_list(&there));
            tree.names("GONE", gone);
            news.0.child_mut("DSET").set(self.rank.record_key(key).directory_name(), tree.0);
        }
        let deleted: BTreeSet<String> = state.view.deleted().map(str::to_string).collect();
        let far = state.view.take_far_news();
        news.names("LAID", far.laid);
        news.names("ON_PREFIX", far.on_prefix);
        for name in deleted.difference(&state.moves.elsewhere.deleted) {
            news.deleted(name, state.view.old(name));
        }
        news.names("SETTLED", state.moves.elsewhere.deleted.difference(&deleted));
        let passed_on = BTreeSet::new();
        state.moves.elsewhere = ToldElsewhere { files, deleted, passed_on };
        state.take_moves(&mut news);
        news
    }

    fn hear_of_moves(&self, state: &mut State, rank: usize, news: &FarMessage) {
        if rank != self.site.rank {
            news.moves().iter().for_each(|one| self.node.hear_of_move(state, rank, one));
        }
        for (series, texts) in news.0.child("LEARNED") {
            let Ok(series) = series.parse() else { continue };
            texts.keys().for_each(|text| self.node.learn_directory(state, series, text));
        }
    }

    fn hear_of_files(
        &self,
        state: &mut State,
        rank: usize,
        news: &FarMessage,
        deletes: &BTreeSet<String>,
    ) {
        for (name, tree) in news.0.child("DSET") {
            let Some(key) = self.rank.key_of_directory(name) else { continue };
            let there = files_from_list(tree.child("THERE")).unwrap_or_default();
            if !there.is_empty() {
                self.begin_layer(state, &key);
            }
            for (name, _) in tree.child("GONE") {
                state.view.gone_elsewhere(&key, name, rank);
            }
            for meta in there {
                self.revive(state, &meta.name, deletes);
                state.view.made_elsewhere(&key, Remote { owner: rank, meta });
            }
        }
    }
}
