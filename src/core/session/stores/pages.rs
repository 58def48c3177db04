//! Pages of files that have left the cache, for the program to write its next ones over: on a RAM
//! disk that costs half of what new pages cost, and nobody has to give the old ones back.
//!
//! The file of a program shows no content but its own. So only files are written over others that
//! the program has written from start to end the last time (`Handles::written`), and the door sees
//! to it (`preload/src/fd/reuse.rs`). They are kept only while memory is plenty.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::IntoRawFd as _;

use crate::cache::Store;
use crate::handles::open_in_place_of;
use crate::handles::{LiesAt, Tracked};
use crate::machine::DatasetKey;
use crate::params::keys;
use crate::redundancy::Spares;
use crate::session::{node::State, rank::lock, stores::Stores};
use crate::system::{has_kernel_queues, space};

/// Smaller files gain nothing.
const BYTES_MIN: u64 = 8 << 20;

/// So many times what is kept is to be left of the store.
const PLENTY: u64 = 2;

const UNUSED_MAX: u32 = 2;

impl Stores {
    /// Opens a file with old content in place of the new and empty one at `fd`. -1: there is none.
    pub fn reuse(&self, token: u64, fd: i32) -> i32 {
        let lent = self.wanted_pages(token).and_then(|(store, bytes)| {
            self.spares(store).lend(bytes, |spare| open_in_place_of(fd, spare))
        });
        lent.map_or(-1, File::into_raw_fd)
    }

    /// `None`: the file is not to be written over another one.
    fn wanted_pages(&self, token: u64) -> Option<(&Store, u64)> {
        let state = self.node.state_to_look();
        let one =
            state.own.tokens.get(token).filter(|one| one.way == LiesAt::Cached && !one.doubted)?;
        if state.own.parted.get(&one.key, &one.name).is_some() {
            return None; // nobody writes all of it
        }
        let room = one.room;
        if lock(&self.pages).kept == 0 || room.wanted || room.reserved > 0 {
            return None;
        }
        let file =
            self.rank.file_ref(&one.name).filter(|_| state.own.tokens.count(&one.name) == 1)?;
        let bytes = state.machine.expected_bytes(file.series, &file.masked);
        let known = lock(&self.pages).in_order.contains(&(file.series, file.masked));
        let store = self.site.layout.store(&self.store_for(&state, &one.key))?;
        drop(state);
        let fits = known && bytes >= BYTES_MIN && in_memory(store) && !has_kernel_queues();
        fits.then_some((store, bytes))
    }

    pub(crate) fn learn_order(&self, tracked: &Tracked) {
        let of_cache = tracked.way == LiesAt::Cached && self.site.settings.get(keys::CACHE_REUSE);
        let Some(file) =
            Some(&tracked.name).filter(|_| of_cache).and_then(|it| self.rank.file_ref(it))
        else {
            return;
        };
        let name = (file.series, file.masked);
        let in_order = &mut lock(&self.pages).in_order;
        match tracked.in_order {
            true => in_order.insert(name),
            false => in_order.remove(&name),
        };
    }

    /// Names files of a dataset that is about to be evicted which the program may write over; it
    /// may take `left` bytes more.
    pub(super) fn pages_of(
        &self,
        state: &mut State,
        store: &Store,
        key: &DatasetKey,
        left: u64,
    ) -> BTreeSet<String> {
        let mut pages = lock(&self.pages);
        if !self.site.settings.get(keys::CACHE_REUSE) || pages.unused >= UNUSED_MAX {
            return BTreeSet::new();
        }
        if pages.kept > 0 {
            let all_there = self.spares(store).bytes() >= pages.kept;
            pages.unused = if all_there { pages.unused + 1 } else { 0 };
        }
        // What the program has open gets a second name where it is.
        let open = state.own.tokens.readers_of(key);
        let size = |name: &str| Some(state.view.layer(key)?.dir.join(name).metadata().ok()?.len());
        let wanted = |name: &String| {
            let file = self.rank.file_ref(name)?;
            let known = pages.in_order.contains(&(file.series, file.masked));
            let bytes = size(name).filter(|bytes| known && *bytes >= BYTES_MIN)?;
            Some((name.clone(), bytes))
        };
        let files = state.own.holdings.get(key).into_iter().flat_map(|holding| &holding.files);
        let files = files.filter(|name| !open.contains(*name));
        let (names, sizes): (BTreeSet<String>, Vec<u64>) = files.filter_map(wanted).unzip();
        let bytes: u64 = sizes.iter().sum();
        let fits = left / PLENTY >= bytes && in_memory(store);
        pages.kept = if fits { bytes } else { 0 };
        if fits { names } else { BTreeSet::new() }
    }

    pub(crate) fn end_spares(&self, store: &Store) {
        self.rank.mention_if_failed(self.spares(store).end());
    }

    pub(super) fn spares(&self, store: &Store) -> Spares {
        Spares::beside(&store.cache_dir.join("x"), self.site.rank)
    }
}

fn in_memory(store: &Store) -> bool {
    space(&store.cache_dir).is_ok_and(|space| space.in_memory)
}
