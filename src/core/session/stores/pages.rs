//! Pages for the large files that the program makes next, from those that have left the cache
//! ([`Blanks`]). They are kept only while memory is plenty.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::cache::{Blanks, Ctx, Store, Whose, dress_as_new};
use crate::handles::{LiesAt, Room, Tracked};
use crate::machine::DatasetKey;
use crate::params::keys;
use crate::redundancy::Spares;
use crate::session::{node::RankFiles, node::State, rank::lock, stores::Stores};
use crate::system::space;

impl Stores {
    /// Makes the file of `token`, which the program is about to make at `path` with `mode`, of one
    /// that has its pages. True: it is there, and empty.
    pub fn make_in_place(&self, token: u64, path: &Path, mode: u32) -> bool {
        let mut state = self.node.state_to_look();
        let of_cache = |one: &&Tracked| {
            one.way == LiesAt::Cached && !one.doubted && !one.room.wanted && one.room.reserved == 0
        };
        let Some(one) = state.own.tokens.get(token).filter(of_cache) else { return false };
        let dir = path.parent().unwrap_or(path);
        let made = self
            .make_of_blank(&state, &one.key, &one.name, path, |new| dress_as_new(new, dir, mode));
        let RankFiles { tokens, parted, .. } = &mut state.own;
        if let Some((bytes, one)) = made.zip(tokens.get_mut(token))
            && !parted.knows(&one.name)
        {
            one.room = Room { reserved: bytes, ..Room::default() };
        }
        made.is_some()
    }

    /// Makes the file `name` of dataset `key` at `path` of one that has its pages, and returns for
    /// how many bytes that has some; `dress` gives it its rights.
    pub(crate) fn make_of_blank(
        &self,
        state: &State,
        key: &DatasetKey,
        name: &str,
        path: &Path,
        dress: impl FnOnce(&File) -> io::Result<()>,
    ) -> Option<u64> {
        let file = self.rank.file_ref(name)?;
        let whole = state.machine.expected_bytes(file.series, &file.masked);
        let (whose, bytes) = match state.machine.is_parted(&file) {
            true => (Whose::Node, whole / self.site.size as u64 * self.ranks_here(state)),
            false => (Whose::Rank(self.site.rank), whole),
        };
        if bytes < Blanks::BYTES_MIN || !self.site.settings.get(keys::CACHE_REUSE) {
            return None;
        }
        let store = self.site.layout.store(&self.store_for(state, key))?;
        Blanks::beside(&store.cache_dir).make(whose, bytes, path, dress)
    }

    fn ranks_here(&self, state: &State) -> u64 {
        let nodes = state.machine.nodes();
        nodes.iter().filter(|node| **node == nodes[self.site.rank]).count() as u64
    }

    /// Takes large files out of a dataset that is about to be evicted, for new ones to have their
    /// pages; they may take `left` bytes.
    pub(super) fn pages_of(
        &self,
        state: &State,
        store: &Store,
        ctx: &Ctx,
        key: &DatasetKey,
        left: u64,
    ) {
        let in_memory = space(&store.cache_dir).is_ok_and(|space| space.in_memory);
        let (Some(layer), Some(holding)) = (state.view.layer(key), state.own.holdings.get(key))
        else {
            return;
        };
        if !in_memory || !self.site.settings.get(keys::CACHE_REUSE) {
            return;
        }
        let own = Whose::Rank(self.site.rank);
        let mut names: Vec<_> = holding.files.iter().map(|name| (own, name.clone())).collect();
        let mut mine = vec![own];
        if ctx.node.rank() == 0 {
            mine.push(Whose::Node);
            let record = ctx.filemap.get(&self.rank.record_key(key));
            let files = record.into_iter().flat_map(|record| record.files);
            let parts = files.filter_map(|file| file.part.filter(|part| part.live));
            names.extend(parts.map(|part| (Whose::Node, part.of)));
        }
        // What the program has open gets a second name where it is.
        let open = state.own.tokens.readers_of(key);
        names.retain(|(_, name)| !open.contains(name));
        let old = names.into_iter().map(|(whose, name)| (whose, layer.dir.join(name))).collect();
        let (blanks, host) = (Blanks::beside(&store.cache_dir), self.site.host.clone());
        lock(&self.emptying).begin(&blanks, &mine, old, left, move || host.enter_thread());
    }

    /// Gives back the room of what is kept, and of what belongs to all ranks of the node.
    pub(crate) fn clear_spares(&self, store: &Store) {
        self.rank.mention_if_failed(self.spares(store).clear());
        lock(&self.emptying).end();
        Blanks::beside(&store.cache_dir).end(&[Whose::Rank(self.site.rank), Whose::Node]);
    }

    pub(super) fn spares(&self, store: &Store) -> Spares {
        Spares::beside(&store.cache_dir.join("x"), self.site.rank)
    }
}
