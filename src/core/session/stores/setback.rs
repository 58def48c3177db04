//! The cache cannot take a file: its store is full, without inodes, or fails. The file goes to the
//! PFS, and that is told once for the whole launch.

use std::path::Path;

use crate::cache::{NodeCatalog, Setback, is_about_the_file, leaves_a_gap};
use crate::error::{Error, Result};
use crate::events::Event;
use crate::handles::{LiesAt, Tracked};
use crate::launch::site::Links;
use crate::log::{self, messages};
use crate::machine::{DatasetKey, FileRef, Intent, Placed, Placement, Reason};
use crate::namespace::{self as ns, OnPrefix, Place};
use crate::restart::removal::note_direct;
use crate::session::rank::stage::Milestone;
use crate::session::{node::State, rank::lock, stores::Stores};
use crate::system::monotonic_ms;

fn reason(name: &str, errno: i32) -> String {
    format!("opening {name} failed: {}", std::io::Error::from_raw_os_error(errno))
}

impl Stores {
    /// Lets one rank tell, once. Collective only if files are on the PFS, which all ranks see in
    /// the catalog.
    pub(crate) fn tell_setback(
        &self,
        links: &Links,
        title: &str,
        catalog: &NodeCatalog,
    ) -> Result<()> {
        let setbacks = &self.setbacks;
        if !catalog.has_files_on_prefix() || setbacks.is_told() {
            return Ok(());
        }
        let own = self.site.rank as i64;
        let setback = setbacks.first();
        let mut teller = [if setback.is_some() { own } else { -1 }];
        links.world.all_max(&mut teller)?;
        if teller[0] < 0 {
            return Ok(());
        }
        setbacks.tell();
        if let Some(setback) = setback.filter(|_| teller[0] == own) {
            self.warn_of(&setback, title);
        }
        Ok(())
    }

    fn warn_of(&self, setback: &Setback, title: &str) {
        let (node, prefix) = (&self.site.node_name, self.site.prefix.display());
        match setback {
            Setback::NoRoom(place) => log::warn(
                messages::NO_ROOM,
                format_args!(
                    "{node}: {} has no room for all of {title}; the rest goes straight to \
                     {prefix}. A smaller SCR_CACHE_SIZE or a larger store makes room",
                    place.display()
                ),
            ),
            Setback::NoInodes(place) => log::warn(
                messages::NO_INODES,
                format_args!(
                    "{node}: {} has too few inodes for all of {title}; the rest goes straight to \
                 {prefix}. A smaller SCR_CACHE_SIZE, or a store with more inodes (nr_inodes= for a \
                 RAM disk), makes room",
                    place.display()
                ),
            ),
            Setback::Failed(why) => log::warn(
                messages::STORE_FAILED,
                format_args!(
                    "{node}: {why}; what the cache cannot take of {title} goes straight to {prefix}"
                ),
            ),
        }
    }

    pub(crate) fn set_back(&self, state: &mut State, key: &DatasetKey, name: &str, error: &Error) {
        let store = self.store_for(state, key);
        let setback = Setback::of(self.site.layout.cache_dir(&store), error);
        state.machine.moved_to_prefix(key, name, setback.reason());
        self.setbacks.met(setback);
    }

    /// Returns `false` if the file must not go to the cache. A rank that cannot write records goes
    /// straight to the PFS, with this file first; the dataset is as good with it there.
    pub(crate) fn begin_in_cache(&self, state: &mut State, placed: &Placed, name: &str) -> bool {
        let mut begun = self.record_begin(state, &placed.key, placed.begin, placed.revoke);
        if placed.is_on_prefix() && placed.key.id.is_empty() {
            // Else a restart takes what it leaves half written for another run's whole files.
            begun = begun.and_then(|()| self.site.filemap.write_begun_now());
        }
        let Err(error) = begun else { return !placed.is_on_prefix() };
        if placed.revoke {
            // The record on the disk speaks of files that are about to change.
            let text = format!("its record cannot be changed: {error}");
            state.machine.failed(&placed.key, &text, monotonic_ms());
        }
        state.machine.moved_to_prefix(&placed.key, name, Reason::FallenBack);
        self.fall_back(state, &error.to_string());
        false
    }

    /// Calls `put` with the file's place in the cache. `false`: the file is to be on the PFS.
    pub(crate) fn put_in_cache(
        &self,
        state: &mut State,
        placed: &Placed,
        name: &str,
        put: impl FnOnce(&Path) -> Result<()>,
    ) -> bool {
        if !self.begin_in_cache(state, placed, name) {
            return false;
        }
        let Some(layer) = state.view.layer(&placed.key) else { return false };
        let (dir, target) = (layer.dir.clone(), layer.dir.join(name));
        let Err(error) = ns::make_parents(&dir, name).and_then(|()| put(&target)) else {
            return true;
        };
        self.set_back(state, &placed.key, name, &error);
        false
    }

    /// Heeds that the real open has failed with `errno`. `true`: the file has another place now,
    /// and the program's open is to be asked for once more.
    pub(crate) fn not_opened(&self, token: u64, errno: i32) -> bool {
        let mut state = self.node.state();
        let Some(tracked) = state.own.tokens.take(token) else { return false };
        let name = tracked.name.as_str();
        let first = !lock(&self.kept_out).remove(name);
        let again = first && !is_about_the_file(errno) && self.is_in_store(&tracked);
        if again {
            let error = Error::io("cannot open", name, std::io::Error::from_raw_os_error(errno));
            let store = self.store_for(&state, &tracked.key);
            self.setbacks.met(Setback::of(self.site.layout.cache_dir(&store), &error));
            lock(&self.kept_out).insert(name.to_string());
        }
        match &tracked.way {
            LiesAt::Shadow { copy, .. } => {
                if state.own.tokens.shadow_of(name).is_none() {
                    let _ = ns::remove(copy);
                }
            }
            LiesAt::Temporary => {
                if tracked.made {
                    state.view.take_private(name);
                }
            }
            LiesAt::Lazy { .. } | LiesAt::Part(_) | LiesAt::Older => {}
            LiesAt::Cached | LiesAt::OnPrefix => {
                if again || !leaves_a_gap(errno) {
                    state.machine.open_failed(&tracked.key, name, monotonic_ms());
                } else {
                    let why = reason(name, errno);
                    state.machine.open_refused(&tracked.key, name, &why, monotonic_ms());
                }
                if tracked.made {
                    state.leave_file(&tracked.key, name);
                }
            }
        }
        let twin = state.own.tokens.writer(name).filter(|_| again && tracked.way == LiesAt::Cached);
        drop(state);
        // What is open already is one file for all: it goes along.
        twin.into_iter().for_each(|twin| self.site.host.move_out(twin));
        again
    }

    pub(crate) fn is_in_store(&self, tracked: &Tracked) -> bool {
        match &tracked.way {
            LiesAt::Cached | LiesAt::Temporary => true,
            LiesAt::Shadow { copy, .. } => !copy.starts_with(self.site.fallback_dir()),
            LiesAt::Lazy { kept, .. } => kept.is_none(),
            LiesAt::OnPrefix | LiesAt::Part(_) | LiesAt::Older => false,
        }
    }

    /// Notes that the PFS will refuse to make `file`. A directory that is missing is
    /// not its last word, and what is no file is none of the dataset.
    pub(crate) fn note_refusal(&self, state: &mut State, file: &FileRef, wish: Intent) {
        let path = self.site.on_prefix(&file.name);
        let is_other = ns::on_prefix(&path) == OnPrefix::Other;
        if is_other || !path.parent().is_some_and(Path::is_dir) {
            return;
        }
        let now = monotonic_ms();
        if let Placement::Dataset(placed) = state.machine.write_open(file, wish, now) {
            let why = format!("{} cannot be made in its directory", file.name);
            state.machine.open_refused(&placed.key, &file.name, &why, now);
        }
    }

    /// Reads on the PFS what cannot be opened in the cache, if that is the same.
    pub(crate) fn unreadable(&self, path: &Path) {
        let Some(name) = self.rank.name_of(path) else { return };
        let mut state = self.node.state();
        if let Place::Cached(_, here) = state.view.place(name)
            && self.rank.has_the_same(name, &here)
        {
            state.view.moved_to_prefix(name);
        }
    }

    /// Sends new files to the PFS from now on, those of all ranks from the next agreement on; what
    /// is cached stays readable, agreements go on.
    pub fn give_up_routing(&self, reason: &str) {
        self.fall_back(&mut self.node.state(), reason);
    }

    /// Does what [`Self::give_up_routing`] does.
    pub(crate) fn fall_back(&self, state: &mut State, reason: &str) {
        if self.stop_routing(reason) {
            let (site, prefix) = (&self.site, self.site.prefix.display());
            log::warn_once(
                messages::CACHE_GIVEN_UP,
                format_args!(
                    "rank {}: node {}: {reason}; from now on it writes straight to {prefix}, and \
                     so do all others as soon as they hear of it",
                    site.rank, site.node_name
                ),
            );
        }
        note_direct(&self.site, state.machine.next_id());
        state.machine.fall_back();
    }

    /// Returns `false` if it had stopped before.
    pub(crate) fn stop_routing(&self, reason: &str) -> bool {
        let stops = !self.rank.reach(Milestone::OutOfCache);
        if stops {
            self.rank.event(|| Event::new("FALLBACK").note(reason));
        }
        stops
    }
}
