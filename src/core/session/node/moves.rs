//! Directories that have got their final name (`names/moving.rs`): their files move in the cache.

use std::path::PathBuf;

use crate::error::Result;
use crate::log::messages;
use crate::machine::{DatasetKey, Reason, Why};
use crate::namespace::{self as ns, Move};
use crate::session::node::{Node, State};
use crate::system::monotonic_ms;

impl Node {
    /// Takes the rename that `rank`, of this node, has just done.
    pub(crate) fn see_move(&self, state: &mut State, rank: usize, one: &Move) {
        state.moves.heard.insert((rank, one.number));
        self.take_move(state, one);
    }

    /// Takes a rename that `rank` tells of before the agreement, unless that was seen already.
    pub(crate) fn hear_of_move(&self, state: &mut State, rank: usize, one: &Move) {
        if !state.moves.heard.remove(&(rank, one.number)) {
            self.take_move(state, one);
        }
    }

    pub(crate) fn take_move(&self, state: &mut State, one: &Move) {
        self.rank.complain_if_failed(messages::OPERATION_FAILED, state.rename_in_caches(one));
        self.follow(state, one);
    }

    pub(crate) fn follow(&self, state: &mut State, one: &Move) {
        let mut own = Vec::new();
        for (key, holding) in state.own.holdings.iter().filter(|(_, holding)| holding.id == 0) {
            let below = holding.files.iter().filter_map(|name| {
                let on_prefix = state.machine.lies_on_prefix(key, name)?;
                Some((key.clone(), name.clone(), one.new_name(name)?, on_prefix))
            });
            own.extend(below);
        }
        for (key, old, new, on_prefix) in own {
            let followed = self.follow_file(state, &key, [&old, &new], on_prefix, one.landed);
            if let Err(error) = followed {
                let reason = format!("{old}, which has become {new}: {error}");
                state.machine.failed(&key, &reason, monotonic_ms());
            }
        }
        let State { view, own, moves, .. } = state;
        let open = |key: &DatasetKey| own.holdings.get(key).is_none_or(|holding| holding.id == 0);
        own.parted.follow(one);
        own.tokens.follow(one, open);
        view.follow(one, open);
        moves.elsewhere.follow(one);
    }

    /// `landed`: the PFS has files of the directory.
    fn follow_file(
        &self,
        state: &mut State,
        key: &DatasetKey,
        [old, new]: [&str; 2],
        was_on_prefix: bool,
        landed: bool,
    ) -> Result<()> {
        let Some(file) = self.rank.file_ref(new) else { return Ok(()) };
        let here = state.view.layer(key).map(|layer| layer.dir.join(new));
        let (target, reason) = (self.site.on_prefix(new), Reason::DirectoryMoved);
        let is_there = |here: &PathBuf| {
            self.rank.has_the_same(new, here) || self.rank.publish(here, &target, reason).is_ok()
        };
        let may_land = landed && !was_on_prefix && state.own.tokens.count(old) == 0;
        let lands = may_land && here.as_ref().is_some_and(is_there);
        let on_prefix = was_on_prefix || lands;
        if landed && !was_on_prefix {
            state.machine.mark_unsafe(&file, Why::Stays);
        }
        let moved =
            state.machine.moved(key, old, &file, on_prefix.then_some(reason), monotonic_ms());
        let Some(revoke) = moved else { return Ok(()) };
        if revoke {
            self.site.filemap.revoke(&self.rank.record_key(key))?;
        }
        state.leave_file(key, old);
        if let Some(holding) = state.own.holdings.get_mut(key) {
            holding.files.insert(new.to_string());
        }
        if let Some(layer) = state.view.layer_mut(key)
            && on_prefix
        {
            layer.set_on_prefix(new, true);
        }
        match here.filter(|_| lands) {
            Some(here) => ns::remove(&here),
            None => Ok(()),
        }
    }

    /// Learns how the program calls a directory before it is complete, as all ranks have heard.
    pub(crate) fn learn_directory(&self, state: &mut State, series: usize, text: &str) {
        if series < self.rank.series.series().len() && self.rank.directories.add(series, text) {
            state.machine.learn_directory(series, text);
        }
    }
}
