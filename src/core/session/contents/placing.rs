//! What an open is made of: where the file is that a name leads to, and how a new content of it
//! gets its place, in a dataset's directory or on the PFS.

use std::path::Path;

use scr_abi::accesses::{Access, AccessLog, Deed, Within, trait_bit};

use crate::account::tally::Count;
use crate::error::{Error, Result};
use crate::files::mode_at;
use crate::handles::{LiesAt, Room, Tracked};
use crate::log::{self, messages};
use crate::machine::{DatasetKey, FileRef, Placed, Reason};
use crate::namespace::{
    self as ns, Answer, FoundTarget, OnPrefix, OpenIntent, Place, WriteClaim, WriteStart,
};
use crate::params::keys;
use crate::session::{
    contents::Contents,
    node::{State, neighbours::Locked},
    rank::lock,
};
use crate::system::{may_write, monotonic_ms, user_attributes_at};

impl Contents {
    /// Lets the machine learn who reads what.
    pub(crate) fn note_read(&self, state: &mut State, name: &str, place: &Place) {
        let file = self.rank.file_ref(name).filter(|_| !self.rank.is_child());
        file.into_iter().for_each(|file| state.note_read(&file, place));
    }

    pub(crate) fn refuse_evicted(&self, name: &str) -> Answer {
        self.rank.complain(
            messages::EVICTED_NAME,
            format_args!(
                "{name} belonged to a checkpoint that was not due for a flush and has \
                 left the cache; it cannot be opened (without SCR_FLUSH it would be kept)"
            ),
        );
        Answer::Fail(libc::ENOENT)
    }

    /// Looks at what the program sees under a name, by the rules of open(2); `Err` is the answer.
    pub(crate) fn look(
        &self,
        state: &State,
        sought: ns::Sought<'_>,
        intent: OpenIntent,
    ) -> std::result::Result<FoundTarget, Answer> {
        let (name, path) = (sought.name, self.site.on_prefix(sought.name));
        let (place, on_prefix) = (state.view.place(sought), ns::on_prefix(&path));
        let exists = match place {
            Place::Deleted => false,
            Place::Prefix => on_prefix != OnPrefix::Absent,
            _ => true,
        };
        let answer = match &place {
            // The PFS has the last word on links, special files and permissions of its own.
            Place::Prefix if on_prefix == OnPrefix::Other => Some(Answer::PASS),
            _ if exists && intent.makes == ns::Makes::OnlyNew => Some(Answer::Fail(libc::EEXIST)),
            Place::Prefix if exists && !may_write(&path) => Some(Answer::PASS),
            Place::Prefix | Place::Deleted if !exists && intent.makes == ns::Makes::No => {
                Some(Answer::Fail(libc::ENOENT))
            }
            Place::Prefix | Place::Deleted if state.view.is_removed_dir(ns::parent(name)) => {
                Some(Answer::Fail(libc::ENOENT))
            }
            Place::Prefix | Place::Deleted if !exists && !ns::may_create(&path) => {
                Some(Answer::PASS)
            }
            Place::Evicted(_) if !intent.truncate => Some(self.refuse_evicted(name)),
            _ => None,
        };
        match answer {
            Some(answer) => Err(answer),
            None => Ok(FoundTarget { place, on_prefix, exists }),
        }
    }

    /// Puts the file into the dataset `placed.key`. `None` as in `Names::try_open_for_writing`.
    pub(crate) fn put_into(
        &self,
        mut state: Locked<'_>,
        name: &str,
        placed: Placed,
        found: &FoundTarget,
        intent: OpenIntent,
        room: Room,
    ) -> Option<Answer> {
        self.tell_behind(&placed);
        let way = self.begin_way(&mut state, name, &placed, found, intent);
        let on_prefix = way == LiesAt::OnPrefix;
        let parted = self.is_parted(&state, name) && !placed.is_on_prefix();
        if parted && on_prefix {
            // The other ranks have to bring what they have of it there before.
            lock(&self.stores.kept_out).insert(name.to_string());
            state.machine.open_failed(&placed.key, name, monotonic_ms());
            return None;
        }
        let mut enter = |state: &mut State| {
            match placed.joined {
                true => state.join_file(&placed.key, name, on_prefix, self.site.rank),
                false => state.enter_file(&placed.key, name, on_prefix),
            }
            Ok(())
        };
        let told = on_prefix && !placed.joined;
        let makes_in = (!found.exists && !on_prefix).then(|| placed.key.clone());
        let removes = makes_in.as_ref().filter(|_| !parted);
        let removes = removes.and_then(|key| state.outdated_in(key, name));
        let claim =
            WriteClaim { name: name.into(), makes_in, on_prefix: told, removes, rename: None };
        let done = if on_prefix {
            self.bring_to_prefix(&mut state, claim, found, intent, &mut enter)
        } else {
            let writing = WriteStart::new(&claim, found);
            self.write_in_turn(&mut state, writing, &mut || Ok(()), &mut enter)
        };
        match done {
            Ok(true) => {}
            Ok(false) => {
                state.machine.open_failed(&placed.key, name, monotonic_ms());
                return None;
            }
            // The PFS refuses, or what the cache has cannot be read.
            Err(error) => {
                let why = format!("opening {name} failed: {error}");
                state.machine.open_refused(&placed.key, name, &why, monotonic_ms());
                return Some(Answer::Fail(error.errno()));
            }
        }
        if intent.may_change {
            self.rank.tally.one(if on_prefix { Count::OnPrefix } else { Count::Cached });
        }
        let made = !found.exists;
        let room = if on_prefix { Room::default() } else { room };
        let tracked = Tracked { made, room, ..Tracked::new(&placed.key, name, way) };
        let log = match parted {
            true => self.open_part(&mut state, name, &placed.key, found, intent),
            false => self.log_for(&mut state, name, &placed, intent),
        };
        let token = state.own.issue(tracked, log);
        let path = match (&found.place, state.view.layer(&placed.key)) {
            (Place::Private(here), _) => here.clone(),
            (_, Some(layer)) if !on_prefix => layer.dir.join(name),
            _ => return Some(Answer::Pass { token }),
        };
        Some(Answer::Redirect { path, token })
    }

    /// Makes the file's place in the cache, if it is to lie there and can.
    fn begin_way(
        &self,
        state: &mut State,
        name: &str,
        placed: &Placed,
        found: &FoundTarget,
        intent: OpenIntent,
    ) -> LiesAt {
        if self.stores.begin_in_cache(state, placed, name) {
            match self.make_target(state, name, &placed.key, found, intent) {
                Ok(()) => return LiesAt::Cached,
                Err(error) => self.stores.set_back(state, &placed.key, name, &error),
            }
        }
        LiesAt::OnPrefix
    }

    /// Returns the log of a file that is watched, with what its open does to it.
    fn log_for(
        &self,
        state: &mut State,
        name: &str,
        placed: &Placed,
        intent: OpenIntent,
    ) -> Option<&'static AccessLog> {
        let is_watched = placed.on_prefix == Some(Reason::Watched);
        if !is_watched || !self.site.settings.get(keys::SHARED) {
            return None;
        }
        let log = state.own.logs.take()?;
        let found = self.site.on_prefix(name).metadata();
        let stamp = state.moment();
        let barriers = state.machine.barriers_entered();
        let add = |deed: Deed, start: u64, end: u64| {
            log.add(Access { deed, within: Within::Nothing, stamp, start, end });
        };
        let empties = intent.truncate && found.as_ref().is_ok_and(|found| found.len() > 0);
        match () {
            () if found.as_ref().map_or(0, |found| found.len()) == 0 => log.mark(trait_bit::MADE),
            () if empties => add(Deed::Cut, 0, 0),
            () => {}
        }
        // By MPI-IO all make it.
        let together = state.own.making.as_deref() == Some(name);
        match intent.makes {
            _ if empties || together || (intent.makes != ns::Makes::No && found.is_err()) => {
                add(Deed::Made, 0, barriers);
            }
            ns::Makes::No => add(Deed::Found, 0, barriers),
            _ => add(Deed::Found, 1, barriers),
        }
        if intent.append {
            log.mark(trait_bit::APPENDS);
        }
        if self.rank.file_ref(name).is_some_and(|file| state.machine.is_tried(&file)) {
            log.mark(trait_bit::TRIED);
        }
        if intent.special {
            log.mark(trait_bit::UNSEEN);
        }
        Some(log)
    }

    /// Once: the program waits for the PFS again, and nobody would know why.
    fn tell_behind(&self, placed: &Placed) {
        let keeps = self.site.keeps(&self.rank.series.series()[placed.key.series]);
        if keeps && placed.on_prefix == Some(Reason::WaitsForFlush) {
            log::warn_once(
                messages::FLUSH_BEHIND,
                format_args!(
                    "{} goes straight to {}: the cache is full of checkpoints that wait to be \
                     written there",
                    self.rank.title(&placed.key),
                    self.site.prefix.display()
                ),
            );
        }
    }

    /// Brings the file's present content to the PFS, or makes room for it there; `enter` tells that
    /// it will be written there. What another rank may be changing there is left alone. `false`:
    /// see [`Self::write_in_turn`].
    pub(crate) fn bring_to_prefix(
        &self,
        state: &mut State,
        claim: WriteClaim,
        found: &FoundTarget,
        intent: OpenIntent,
        enter: &mut dyn FnMut(&mut State) -> Result<()>,
    ) -> Result<bool> {
        let name = claim.name.as_str();
        let target = self.site.on_prefix(name);
        let modified = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
        let is_there =
            |here: &Path| modified(&target) > modified(here) || self.rank.has_the_same(name, here);
        match &found.place {
            Place::Cached(_, here) if !intent.truncate && !is_there(here) => {
                let mut in_turn = |staged: &Path, publish: &mut dyn FnMut() -> Result<()>| {
                    let rename = Some((staged.to_path_buf(), target.clone()));
                    let claim = WriteClaim { rename, ..claim.clone() };
                    let writing = WriteStart { copies: true, ..WriteStart::new(&claim, found) };
                    self.write_in_turn(state, writing, publish, enter)
                };
                self.rank.publish_in_turn(here, &target, Reason::Follows, &mut in_turn)
            }
            place => {
                let copies = matches!(place, Place::Cached(..)) && !intent.truncate;
                let removes = state.in_the_way(name, target).filter(|_| !found.exists);
                let claim = WriteClaim { removes, ..claim };
                let writing = WriteStart { copies, ..WriteStart::new(&claim, found) };
                self.write_in_turn(state, writing, &mut || Ok(()), enter)
            }
        }
    }

    /// Makes the dataset's directory such that the program's own open finds there what it would
    /// have found.
    pub(crate) fn make_target(
        &self,
        state: &State,
        name: &str,
        key: &DatasetKey,
        found: &FoundTarget,
        intent: OpenIntent,
    ) -> Result<()> {
        let Some(layer) = state.view.layer(key) else {
            return Err(Error::Missing(format!("no directory for {name}")));
        };
        if self.is_parted(state, name) {
            return ns::make_part(&self.site.prefix, &layer.dir, name, found, intent);
        }
        if matches!(&found.place, Place::Cached(held, _) if held == key) {
            return Ok(());
        }
        let target = layer.dir.join(name);
        ns::make_parents_like(&self.site.prefix, &layer.dir, name)?;
        if !found.exists {
            return Ok(());
        }
        let path = self.site.on_prefix(name);
        let made = match (&found.place, found.on_prefix) {
            (Place::Cached(_, here), _) if !intent.truncate => ns::copy_up(here, &target),
            (Place::Cached(_, here), _) => {
                ns::make_empty(&target, mode_at(here), &user_attributes_at(here))
            }
            (Place::Elsewhere(_, remote), _) => {
                ns::make_empty(&target, remote.meta.mode & 0o7777, &remote.meta.attributes)
            }
            (_, OnPrefix::File { .. }) if !intent.truncate => ns::copy_up(&path, &target),
            (_, OnPrefix::File { mode }) => {
                ns::make_empty(&target, mode, &user_attributes_at(&path))
            }
            _ => ns::remove(&target),
        };
        if made.is_err() {
            let _ = ns::remove(&target);
        }
        made
    }

    /// Brings a file that only another node has to the prefix; `Err` is what the open says if it
    /// does not come. Not with the state locked while it waits.
    pub(crate) fn bring_near<'a>(
        &'a self,
        state: Locked<'a>,
        name: &str,
        found: &mut FoundTarget,
    ) -> std::result::Result<Locked<'a>, Answer> {
        let Place::Elsewhere(key, remote) = &found.place else { return Ok(state) };
        drop(state);
        let answer = self.updates.wait_for_remote(name, key, remote);
        if answer != Answer::PASS {
            return Err(answer);
        }
        let on_prefix = ns::on_prefix(&self.site.on_prefix(name));
        *found = FoundTarget { place: Place::Prefix, on_prefix, exists: true };
        Ok(self.node.state())
    }

    /// Does so for all of `names`, which are to be moved. `None`: one of them does not come.
    pub(crate) fn bring_all_near<'a>(
        &'a self,
        mut state: Locked<'a>,
        names: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Option<Locked<'a>> {
        for name in names {
            let name = name.as_ref();
            // Another content may be told meanwhile.
            while let place @ Place::Elsewhere(key, remote) = &state.view.place_now(name) {
                self.note_read(&mut state, name, place);
                let turn = state.turn.clone();
                drop(state);
                if self.updates.wait_for_remote(name, key, remote) != Answer::PASS {
                    return None;
                }
                state = self.node.state_again(turn);
            }
        }
        Some(state)
    }

    /// Leaves what is under `name` to the PFS from now on, and to no dataset in progress.
    pub(crate) fn leave_to_prefix(&self, state: &mut State, name: &str) -> Result<()> {
        self.rank.file_refs(name).iter().try_for_each(|file| self.withdraw(state, file))?;
        let held: Vec<_> = state.own.holdings.keys().cloned().collect();
        held.iter().for_each(|key| state.leave_file(key, name));
        state.view.tell_on_prefix(name);
        state.view.moved_to_prefix(name);
        state.view.revive(name);
        Ok(())
    }

    fn withdraw(&self, state: &mut State, file: &FileRef) -> Result<()> {
        for gone in state.machine.changed_by_child(file, monotonic_ms()) {
            if gone.revoke {
                self.site.filemap.revoke(&self.rank.record_key(&gone.key))?;
            }
            if let Some(layer) = state.view.layer(&gone.key) {
                ns::remove(&layer.dir.join(&file.name))?;
            }
        }
        Ok(())
    }
}
