//! Pages of files that have left the cache, for the program to write its next ones over: on a RAM
//! disk that costs half of what new pages cost, and nobody has to give the old ones back.
//!
//! The file of a program shows no content but its own. So only such files are written over others
//! that the program has written from start to end the last time, as the door says
//! ([`Session::written`](crate::session::rank::runtime::Session)), and the door goes on to see to
//! it (`preload/src/fd/reuse.rs`). They are kept only while memory is plenty.

use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::os::fd::IntoRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::room::in_memory;
use super::space::open_alike;
use crate::cache::Store;
use crate::handles::{LiesAt, Tracked};
use crate::log;
use crate::machine::DatasetKey;
use crate::params::keys;
use crate::session::rank::runtime::{Session, State};
use crate::system::{has_kernel_queues, is_open_elsewhere, user_attributes_at};

/// Smaller files gain nothing.
const BYTES_MIN: u64 = 8 << 20;

/// What this rank may take of the store has to be so many times what is kept.
const PLENTY: u64 = 2;

/// Evictions, one after the other, at which nobody had taken what was kept: nothing more is.
const UNUSED_MAX: u32 = 2;

/// What a rank knows of files that may be written over.
#[derive(Debug, Default)]
pub struct Pages {
    /// Files that were written from start to end the last time: series and masked name.
    in_order: BTreeSet<(usize, String)>,
    /// Evictions at which nobody had taken what was kept.
    unused: u32,
    /// Bytes that were kept at the last one.
    kept: u64,
}

impl Session {
    /// Opens, for the token's descriptor `fd`, which is on a new and empty file, one with old
    /// content to be written over. Returns its descriptor, -1: there is none.
    pub fn reuse(&self, token: u64, fd: i32) -> i32 {
        let lent = self.wanted_pages(token).and_then(|(store, bytes)| {
            self.spares(store).lend(bytes, |spare| open_in_place_of(fd, spare))
        });
        lent.map_or(-1, File::into_raw_fd)
    }

    /// Where the token's file lies and how many bytes it will have, if it can be written over
    /// another one.
    fn wanted_pages(&self, token: u64) -> Option<(&Store, u64)> {
        let state = self.state_to_look();
        let one =
            state.tokens.get(token).filter(|one| one.way == LiesAt::Cached && !one.doubted)?;
        let room = one.room;
        if state.pages.kept == 0 || room.wanted || room.reserved > 0 {
            return None;
        }
        let file = self.file_ref(&one.name).filter(|_| state.tokens.count(&one.name) == 1)?;
        let bytes = state.machine.expected_bytes(file.series, &file.masked);
        let known = state.pages.in_order.contains(&(file.series, file.masked));
        let store = self.site.layout.store(&self.store_for(&state, &one.key))?;
        drop(state);
        let fits = known && bytes >= BYTES_MIN && in_memory(store) && !has_kernel_queues();
        fits.then_some((store, bytes))
    }

    /// Learns from a close whether the file was written from start to end.
    pub(in crate::session) fn learn_order(&self, state: &mut State, tracked: &Tracked) {
        let of_cache = tracked.way == LiesAt::Cached && self.site.settings.get(keys::CACHE_REUSE);
        let Some(file) = Some(&tracked.name).filter(|_| of_cache).and_then(|it| self.file_ref(it))
        else {
            return;
        };
        let name = (file.series, file.masked);
        match tracked.in_order {
            true => state.pages.in_order.insert(name),
            false => state.pages.in_order.remove(&name),
        };
    }

    /// Names the files of the dataset of `key`, which is about to be evicted, that are to be kept
    /// for the program, which may take `left` bytes more.
    pub(super) fn pages_of(
        &self,
        state: &mut State,
        store: &Store,
        key: &DatasetKey,
        left: u64,
    ) -> BTreeSet<String> {
        if !self.site.settings.get(keys::CACHE_REUSE) || state.pages.unused >= UNUSED_MAX {
            return BTreeSet::new();
        }
        if state.pages.kept > 0 {
            let all_there = self.spares(store).bytes() >= state.pages.kept;
            state.pages.unused = if all_there { state.pages.unused + 1 } else { 0 };
        }
        // What the program has open gets a second name where it is.
        let open = state.tokens.readers_of(key);
        let size = |name: &str| Some(state.view.layer(key)?.dir.join(name).metadata().ok()?.len());
        let wanted = |name: &String| {
            let file = self.file_ref(name)?;
            let known = state.pages.in_order.contains(&(file.series, file.masked));
            let bytes = size(name).filter(|bytes| known && *bytes >= BYTES_MIN)?;
            Some((name.clone(), bytes))
        };
        let files = state.holdings.get(key).into_iter().flat_map(|holding| &holding.files);
        let files = files.filter(|name| !open.contains(*name));
        let (names, sizes): (BTreeSet<String>, Vec<u64>) = files.filter_map(wanted).unzip();
        let bytes: u64 = sizes.iter().sum();
        let fits = left / PLENTY >= bytes && in_memory(store);
        state.pages.kept = if fits { bytes } else { 0 };
        if fits { names } else { BTreeSet::new() }
    }

    /// Gives up what is left of spares, and what was lent, at the end.
    pub(in crate::session) fn end_spares(&self, store: &Store) {
        if let Err(error) = self.spares(store).end() {
            log::message(1, format_args!("rank {}: {error}", self.site.rank));
        }
    }
}

/// Opens `spare` as `fd` is, with the attributes of that one's file; `None`: it cannot be that
/// file, or somebody may look at it still.
fn open_in_place_of(fd: i32, spare: &Path) -> Option<File> {
    let empty = PathBuf::from(format!("/proc/self/fd/{fd}"));
    let like = empty.metadata().ok()?;
    let file = open_alike(fd, spare).ok()?;
    let found = file.metadata().ok()?;
    let alike = (found.dev(), found.uid(), found.gid()) == (like.dev(), like.uid(), like.gid());
    let is_alone = found.is_file() && (found.nlink(), like.nlink()) == (1, 1);
    let is_plain = |path: &Path| user_attributes_at(path).is_empty();
    let fits = is_alone && alike && like.len() == 0 && is_plain(spare) && is_plain(&empty);
    if !fits || is_open_elsewhere(&file) != Some(false) {
        return None;
    }
    file.set_permissions(Permissions::from_mode(like.mode() & 0o7777)).ok()?;
    file.set_modified(SystemTime::now()).ok()?;
    Some(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    use super::*;

    struct Both(tempfile::TempDir, PathBuf, File);

    impl Both {
        /// An old file, and a new one that is open.
        fn new() -> Both {
            let dir = tempfile::tempdir_in("/dev/shm").unwrap();
            let spare = dir.path().join("old");
            fs::write(&spare, "old content").unwrap();
            let mut options = File::options();
            let new = options.write(true).create_new(true).mode(0o640);
            let new = new.open(dir.path().join("new")).unwrap();
            Both(dir, spare, new)
        }

        fn opened(&self) -> Option<File> {
            open_in_place_of(self.2.as_raw_fd(), &self.1)
        }
    }

    #[test]
    fn the_old_file_gets_the_attributes_of_the_new_one() {
        let both = Both::new();
        let long_ago = SystemTime::UNIX_EPOCH;
        File::options().write(true).open(&both.1).unwrap().set_modified(long_ago).unwrap();
        let (found, new) = (both.opened().unwrap().metadata().unwrap(), both.2.metadata().unwrap());
        assert_eq!((found.mode(), found.len()), (new.mode(), 11));
        assert!(found.modified().unwrap() > long_ago);
    }

    #[test]
    fn nothing_is_written_over_that_somebody_may_look_at() {
        let both = Both::new();
        let reader = File::open(&both.1).unwrap();
        assert!(both.opened().is_none(), "somebody reads it");
        drop(reader);
        let second = both.1.with_extension("second");
        fs::hard_link(&both.1, &second).unwrap();
        assert!(both.opened().is_none(), "it has a second name");
        fs::remove_file(&second).unwrap();
        fs::hard_link(both.0.path().join("new"), &second).unwrap();
        assert!(both.opened().is_none(), "the new one has");
        fs::remove_file(&second).unwrap();
        assert!(both.opened().is_some());
    }
}
