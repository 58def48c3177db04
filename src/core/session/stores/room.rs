//! Room for a file in the store: looked for before the file is routed, set aside when it is open,
//! and given back where it was not needed. Redundancy data count, too: without them a checkpoint
//! cannot be sealed.
//!
//! On a RAM disk a reservation costs a tenth of the time of the write itself (each page is touched
//! twice), so it is made only when room is scarce. On other file systems it costs nothing.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use crate::cache::{self, Ctx, Setback, Store};
use crate::descriptors::Overhead;
use crate::handles::{LiesAt, Room, Tracked};
use crate::log;
use crate::machine::{DatasetKey, FileRef};
use crate::namespace::Place;
use crate::records::FileMeta;
use crate::redundancy::Spares;
use crate::session::{node::State, rank::lock, stores::Stores};
use crate::system::{allocated, release_excess, reserve, space};

/// Room is plenty if it is so many times what the open files are going to take.
const PLENTY: u64 = 4;

/// A file needs itself, its directories, a record and what takes its place, redundancy, catalogs.
const FILES_MIN: u64 = 8;

struct RoomLeft {
    bytes: u64,
    files: u64,
    in_memory: bool,
}

impl Stores {
    /// Returns `None` if the store cannot take a file that is as large as it was last time.
    pub(crate) fn has_room(&self, state: &State, file: &FileRef) -> Option<Room> {
        if !self.rank.is_routing() && !state.machine.goes_with_cached(file) {
            return None;
        }
        let number = state.machine.number_for(file);
        let descriptor = self.descriptor(file.series, number);
        if descriptor.bypass {
            return None;
        }
        // One of all ranks is so long as a whole, and where each of them writes is not known.
        let is_parted = state.machine.is_parted(file);
        let share = if is_parted { self.site.size as u64 } else { 1 };
        let expected = state.machine.expected_bytes(file.series, &file.masked) / share;
        let store = self.site.layout.store(&descriptor.base.display().to_string())?;
        let open = state.own.tokens.all().map(|(_, one)| one.room.expected);
        let wanted = open.fold(expected, u64::saturating_add);
        let beside = self.overhead(file.series, number).of(expected);
        let beside = beside.saturating_add(self.redundancy_to_come(state, store));
        let wanted = wanted.saturating_add(beside);
        let mut left = self.left(state, store, wanted)?;
        if left.bytes <= wanted || left.files < FILES_MIN {
            self.rank.mention_if_failed(cache::remove_evicted(&store.cache_dir));
            left = self.left(state, store, u64::MAX)?;
        }
        if left.bytes <= wanted || left.files < FILES_MIN {
            self.rank.mention_if_failed(self.spares(store).clear());
            left = self.left(state, store, u64::MAX)?;
        }
        if left.files < FILES_MIN {
            self.setbacks.met(Setback::NoInodes(store.cache_dir.clone()));
            return None;
        }
        if left.bytes <= wanted {
            self.setbacks.met(Setback::NoRoom(store.cache_dir.clone()));
            return None;
        }
        let useful = || left.bytes / PLENTY < wanted || !left.in_memory;
        Some(Room { expected, wanted: !is_parted && expected > 0 && useful(), reserved: 0 })
    }

    /// For what this rank has in the store and is not sealed yet, open files included.
    fn redundancy_to_come(&self, state: &State, store: &Store) -> u64 {
        let overhead = |key: &DatasetKey| {
            let overhead = self.overhead(key.series, state.machine.number_of(key));
            (overhead != Overhead::NONE).then_some(overhead)
        };
        let unsealed =
            state.own.holdings.iter().filter(|(_, one)| one.store == store.name && one.id == 0);
        let closed = unsealed
            .filter_map(|(key, _)| Some(overhead(key)?.of(state.machine.cached_bytes(key))));
        let open = state.own.tokens.all().filter_map(|(_, one)| {
            let bytes = one.room.expected.max(one.room.reserved);
            (bytes > 0).then(|| overhead(&one.key)).flatten().map(|overhead| overhead.of(bytes))
        });
        closed.chain(open).fold(0, u64::saturating_add)
    }

    fn overhead(&self, series: usize, number: u64) -> Overhead {
        let index = self.descriptor(series, number).index;
        self.site.overheads.get(index).copied().unwrap_or(Overhead::NONE)
    }

    /// `None`: the store does not say what this rank may take, of which it wants so many bytes.
    fn left(&self, state: &State, store: &Store, wanted: u64) -> Option<RoomLeft> {
        let sharers = self.sharers(store);
        match space(&store.cache_dir) {
            Ok(space) => {
                let bytes = self.memory.room(&space, wanted.saturating_mul(sharers));
                Some(RoomLeft {
                    bytes: (bytes / sharers).min(self.capacity_left(state, store)),
                    files: space.free_files / sharers,
                    in_memory: space.in_memory,
                })
            }
            Err(error) => {
                self.setbacks.met(Setback::of(&store.cache_dir, &error));
                None
            }
        }
    }

    /// Tells whether a store has no room for two more datasets like the largest of this rank,
    /// besides those that wait there for their deletion.
    pub(crate) fn is_scarce(&self, state: &State) -> bool {
        if !self.rank.series.series().iter().any(|series| self.site.keeps(series)) {
            return false;
        }
        let mut largest: BTreeMap<&str, u64> = BTreeMap::new();
        for (key, holding) in &state.own.holdings {
            let bytes = state.machine.cached_bytes(key).saturating_add(holding.redundancy_bytes);
            let known = largest.entry(&holding.store).or_default();
            *known = bytes.max(*known);
        }
        largest.into_iter().any(|(name, bytes)| {
            let (store, wanted) = (self.site.layout.store(name), bytes.saturating_mul(2));
            let left = store.and_then(|store| self.left(state, store, wanted));
            left.is_some_and(|left| left.bytes < wanted)
        })
    }

    /// Keeps files of redundancy, if there is room for another checkpoint beside them, and what the
    /// program may write its next one over ([`Self::pages_of`]).
    pub(crate) fn keep_spares(&self, state: &mut State, ctx: &Ctx, key: &DatasetKey, id: u64) {
        let Some(holding) = state.own.holdings.get(key) else { return };
        let Some(store) = self.site.layout.store(&holding.store) else { return };
        let like_it = state.machine.cached_bytes(key).saturating_add(holding.redundancy_bytes);
        let fits = |left: &RoomLeft| left.bytes.saturating_sub(holding.redundancy_bytes) >= like_it;
        let left = self.left(state, store, like_it);
        let protective =
            holding.redundancy_bytes >= Spares::BYTES_MIN && left.as_ref().is_some_and(fits);
        let pages = self.pages_of(state, store, key, left.map_or(0, |left| left.bytes));
        let wanted = |file: &FileMeta| pages.contains(&file.name);
        let done = match protective || !pages.is_empty() {
            true => cache::keep_spares(ctx, id, protective, &wanted),
            false => self.spares(store).clear(),
        };
        self.rank.mention_if_failed(done);
    }

    /// Reserves what the open file is expected to take, if it is to be. `false`: there is no room
    /// after all, or another rank has taken the file to the PFS meanwhile.
    pub(crate) fn set_aside(&self, token: u64, fd: i32) -> bool {
        let state = self.node.state_to_look();
        let Some(one) = state.own.tokens.get(token) else { return true };
        lock(&self.kept_out).remove(&one.name);
        if one.way == LiesAt::Cached && state.view.is_taken(&one.key, &one.name) {
            return false;
        }
        let room = one.room;
        drop(state);
        !room.wanted || self.reserve_now(token, fd, 0, room.expected)
    }

    /// Reserves room for a write that cannot be made again elsewhere. `false`: there is none.
    pub fn reserve(&self, token: u64, fd: i32, offset: u64, bytes: u64) -> bool {
        let in_store =
            |one: &&Tracked| self.is_in_store(one) && !matches!(one.way, LiesAt::Lazy { .. });
        let state = self.node.state_to_look();
        let Some(one) = state.own.tokens.get(token).filter(in_store) else { return true };
        let name = self.store_for(&state, &one.key);
        let Some(store) = self.site.layout.store(&name) else { return true };
        let Some(left) = self.left(&state, store, bytes) else { return false };
        if left.bytes <= bytes.saturating_sub(allocated(fd).unwrap_or(0)) {
            self.setbacks.met(Setback::NoRoom(store.cache_dir.clone()));
            return false;
        }
        drop(state);
        self.reserve_now(token, fd, offset, bytes)
    }

    /// Without the lock: it takes a while for a large file.
    fn reserve_now(&self, token: u64, fd: i32, offset: u64, bytes: u64) -> bool {
        let done = reserve(fd, offset, bytes);
        let full = |kind| matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
        if done.as_ref().is_err_and(|error| full(error.kind())) {
            let state = self.node.state_to_look();
            if let Some(one) = state.own.tokens.get(token) {
                let name = self.store_for(&state, &one.key);
                self.setbacks.met(Setback::full(self.site.layout.cache_dir(&name)));
            }
            return false;
        }
        if let Some(one) = self.node.state_to_look().own.tokens.get_mut(token) {
            one.room.wanted = false;
            // A file system that cannot reserve leaves it at what was found free.
            if done.is_ok() {
                let end = offset.saturating_add(bytes);
                one.room = Room { reserved: one.room.reserved.max(end), ..Room::default() };
            }
        }
        true
    }

    /// Gives back, with the last descriptor, what is reserved beyond the file's end.
    pub(crate) fn give_back(&self, state: &mut State, tracked: &Tracked) {
        let reserved = tracked.room.reserved;
        if reserved == 0 {
            return;
        }
        if let Some(twin) = state.own.tokens.twin(tracked) {
            twin.room.reserved = twin.room.reserved.max(reserved);
            return;
        }
        let path = match (&tracked.way, state.view.place(&tracked.name)) {
            (LiesAt::Shadow { copy, .. }, _) => copy.clone(),
            (LiesAt::Cached, Place::Cached(_, here))
            | (LiesAt::Temporary, Place::Private(here)) => here,
            _ => return,
        };
        let unused = path.metadata().is_ok_and(|found| found.len() < reserved);
        if unused && !release(&path) && tracked.way == LiesAt::Cached {
            lock(&self.late).push((tracked.key.clone(), tracked.name.clone()));
        }
    }

    /// Gives back, before a seal, what a child still held at the close.
    pub(crate) fn give_back_late(&self, key: &DatasetKey) {
        let state = self.node.state();
        let ready = lock(&self.late).extract_if(.., |(of, _)| of == key).collect::<Vec<_>>();
        for (_, name) in ready {
            if let Some(layer) = state.view.layer(key) {
                release(&layer.dir.join(name));
            }
        }
    }
}

/// What cannot be given back is only room: the file is as it should be.
fn release(path: &std::path::Path) -> bool {
    release_excess(path).unwrap_or_else(|error| {
        log::message(1, format_args!("{}: reserved room stays taken: {error}", path.display()));
        true
    })
}
