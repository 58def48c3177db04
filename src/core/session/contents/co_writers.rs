//! Ranks of a node that change one complete file at the same time. A rank that has a private copy
//! makes it the file only if what it was made from still is; one that writes on the PFS or in the
//! cache says so before it opens the file there. Both claim the name first (`neighbours.rs`), which
//! only one can who has heard what the others did: of two, the second sees what the first has done,
//! or does it. Changes that cannot be put together any more are given up, and that is told.

use std::path::Path;

use crate::comm::ranks::ranks_phrase;
use crate::error::Result;
use crate::handles::Base;
use crate::log::messages;
use crate::machine::{DatasetKey, FileRef, Placed, Why, contested_reason};
use crate::namespace::{Place, Sought, WriteClaim, WriteStart};
use crate::session::{contents::Contents, node::State};
use crate::system::{monotonic_ms, test_pause};

/// A private copy that is to become the file.
#[derive(Clone, Copy)]
pub(crate) struct CopyChange<'a> {
    pub name: &'a str,
    /// The dataset that gets it; `None` if it belongs to none.
    pub key: Option<&'a DatasetKey>,
    pub copy: &'a Path,
    pub base: Option<&'a Base>,
}

/// The rename that makes a private copy the file.
#[derive(Clone, Copy)]
pub(crate) struct Naming<'a> {
    pub from: &'a Path,
    pub to: &'a Path,
    /// `to` is on the PFS.
    pub on_prefix: bool,
}

/// How a private copy stands to what its name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyStanding {
    Free,
    /// Its file has been deleted: there is nothing to be changed.
    Gone,
    /// Another rank has changed the file.
    Taken,
}

impl Contents {
    /// Begins another private copy of `name`; returns the file that it will be made from.
    pub(crate) fn begin_copy(&self, state: &mut State, name: &str, origin: &Path) -> Option<Base> {
        self.node.honour(state, name);
        state.mates.co_writers.remove(name);
        Base::of(origin, origin == self.site.on_prefix(name))
    }

    /// Makes a private copy the file by `put`, if it still may be; `naming` lets other ranks do it.
    pub(crate) fn adopt_in_turn(
        &self,
        state: &mut State,
        change: CopyChange<'_>,
        naming: Naming<'_>,
        put: &mut dyn FnMut() -> Result<()>,
    ) -> Result<CopyStanding> {
        test_pause("change.adopt");
        let (CopyChange { name, key, base, .. }, on_prefix) = (change, naming.on_prefix);
        let rename = Some((naming.from.to_path_buf(), naming.to.to_path_buf()));
        let on_prefix = on_prefix && key.is_some();
        let claim = WriteClaim { name: name.into(), on_prefix, rename, ..WriteClaim::default() };
        self.node.tell_neighbours(state);
        loop {
            let heard = self.node.hear_neighbours(state);
            let claimed = self.node.honour(state, name);
            if claimed.is_some() || heard.of(name) {
                let writer = claimed.or_else(|| heard.writer_of(name));
                state.mates.co_writers.insert(name.to_string(), writer); // it is closed by now
            }
            let standing = self.standing(state, name, base);
            if standing != CopyStanding::Free {
                return Ok(standing);
            }
            if self.node.claim(&claim) {
                break;
            }
        }
        test_pause("change.claimed");
        self.carry_out(state, &claim, put, &mut |state| {
            match key {
                Some(key) => state.enter_file(key, name, on_prefix),
                None => state.view.revive(name),
            }
            Ok(())
        })?;
        Ok(CopyStanding::Free)
    }

    fn carry_out(
        &self,
        state: &mut State,
        claim: &WriteClaim,
        put: &mut dyn FnMut() -> Result<()>,
        enter: &mut dyn FnMut(&mut State) -> Result<()>,
    ) -> Result<()> {
        let cleared = claim.removes.as_ref().map_or(Ok(()), |old| self.site.remove_outdated(old));
        let done = cleared.and_then(|()| put()).and_then(|()| enter(state));
        self.node.tell_neighbours(state);
        self.node.unclaim(claim);
        done
    }

    fn standing(&self, state: &State, name: &str, base: Option<&Base>) -> CopyStanding {
        let leads_to = |path: &Path| base.is_none_or(|base| base.is_at(path));
        let is_free = match state.view.place(name) {
            Place::Deleted => return CopyStanding::Gone,
            Place::Cached(_, here) => leads_to(&here),
            Place::Prefix => leads_to(&self.site.on_prefix(name)),
            Place::Evicted(_) => true,
            Place::Private(_) | Place::Elsewhere(..) => false,
        };
        let is_free = is_free && !state.mates.co_writers.contains_key(name);
        if is_free { CopyStanding::Free } else { CopyStanding::Taken }
    }

    /// Gives up what this rank has written to its private copy, since another rank has changed the
    /// file; and with it the dataset that would have had the change.
    pub(crate) fn give_up_change(
        &self,
        state: &mut State,
        file: &FileRef,
        placed: Option<&Placed>,
    ) {
        let (name, now) = (file.name.as_str(), monotonic_ms());
        let co_writer = state.mates.co_writers.remove(name).flatten();
        let writer =
            co_writer.map_or_else(|| "another rank".to_string(), |rank| ranks_phrase(&[rank]));
        let why = contested_reason(name, &writer);
        if let Some(placed) = placed {
            state.machine.open_failed(&placed.key, name, now);
            state.machine.mark_unsafe(file, Why::Writers);
            state.machine.failed(&placed.key, &why, now);
        }
        if placed.is_none() || self.rank.is_ended() {
            self.rank.complain(messages::SEVERAL_WRITERS, &why);
        }
    }

    /// Claims what this rank is about to write: `enter` says so, after `put`. `false`: another rank
    /// was there before, so that all is to be looked at again.
    pub(crate) fn write_in_turn(
        &self,
        state: &mut State,
        writing: WriteStart<'_>,
        put: &mut dyn FnMut() -> Result<()>,
        enter: &mut dyn FnMut(&mut State) -> Result<()>,
    ) -> Result<bool> {
        let WriteStart { claim, found, copies } = writing;
        let (name, mut others) = (claim.name.as_str(), false);
        let file = self.rank.file_ref(name);
        let sought = || Sought { name, file: file.as_ref() };
        self.node.tell_neighbours(state);
        loop {
            others |= self.node.hear_neighbours(state).of(name);
            others |= self.node.honour(state, name).is_some();
            if others && (copies || state.view.place(sought()) != found.place) {
                return Ok(false);
            }
            let is_there = |key| state.view.is_taken(key, name) || state.view.is_made(key, name);
            if others && claim.makes_in.as_ref().is_some_and(is_there) {
                return Ok(false);
            }
            if self.node.claim(claim) {
                break;
            }
        }
        self.carry_out(state, claim, put, enter)?;
        Ok(true)
    }
}
