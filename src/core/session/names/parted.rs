//! open(2) on a file that goes into a dataset, where each node may have its part of it.

use crate::account::tally::Count;
use crate::handles::Room;
use crate::machine::{DatasetKey, FileRef, Placed, Reason, Why};
use crate::namespace::{Answer, FoundTarget, OpenIntent};
use crate::session::{
    names::Names,
    node::{State, neighbours::Locked},
    rank::lock,
};
use crate::system::monotonic_ms;

impl Names {
    /// Opens, to be read, a file in progress of which each node has its part: what others have of
    /// it is asked for only when it is read. MPI-IO asks for the size of a file so, for instance.
    /// `None`: it has moved meanwhile.
    pub(super) fn open_part_to_read(&self, key: &DatasetKey, name: &str) -> Option<Answer> {
        let intent = OpenIntent::of(libc::O_RDONLY);
        let state = self.node.state_to_change(&[name]);
        let found = self.rank.file_ref(name).filter(|_| !self.rank.is_child()).and_then(|file| {
            let found = self.contents.look(&state, (&file).into(), intent).ok()?;
            Some((state.parted_in(&file, &found.place)?, file, found))
        });
        match found {
            Some((of, file, found)) => self.open_part(state, &file, &of, &found, intent),
            None => {
                drop(state);
                self.unsealed.note_why(key, name, Why::Readers);
                self.open_outside(key, name)
            }
        }
    }

    /// Opens a file in progress of which each node has its part.
    pub(super) fn open_part(
        &self,
        mut state: Locked<'_>,
        file: &FileRef,
        of: &DatasetKey,
        found: &FoundTarget,
        intent: OpenIntent,
    ) -> Option<Answer> {
        // Where its end is, no node knows.
        let needs_whole = intent.append || intent.special;
        let known = state.own.parted.get(of, &file.name);
        if known.is_some_and(|known| known.leaves || needs_whole) {
            drop(state);
            if needs_whole {
                self.unsealed.note_why(of, &file.name, Why::Unseen);
            }
            return self.open_outside(of, &file.name);
        }
        let near = state.view.is_made(of, &file.name);
        let placed = state.machine.open_parted(file, of, near, monotonic_ms());
        self.place(state, file, placed, found, intent)
    }

    /// Puts the file into its dataset.
    pub(super) fn place(
        &self,
        mut state: Locked<'_>,
        file: &FileRef,
        mut placed: Placed,
        found: &FoundTarget,
        intent: OpenIntent,
    ) -> Option<Answer> {
        let name = file.name.as_str();
        let room = match placed.is_on_prefix() {
            true => Ok(Room::default()),
            false => self.room_in_cache(&state, file, intent),
        };
        let was_cached = !placed.is_on_prefix();
        let room = state.settle_place(&mut placed, name, found, room);
        if was_cached && placed.is_on_prefix() {
            self.rank.tally.one(Count::FellBack);
        }
        // For these two reasons the others put it there, too.
        let agreed = matches!(placed.on_prefix, Some(Reason::WaitsForFlush | Reason::Follows));
        let is_parted = state.own.parted.get(&placed.key, name).is_some()
            || (!agreed && state.machine.is_parted(file));
        if placed.is_on_prefix() && is_parted && !state.is_outside(&placed.key, name) {
            // What others have in their caches must not come over what this rank writes there.
            state.machine.open_failed(&placed.key, name, monotonic_ms());
            drop(state);
            return self.open_outside(&placed.key, name);
        }
        self.contents.put_into(state, name, placed, found, intent, room)
    }

    /// Waits until all ranks have brought the file to the PFS, where it is opened then.
    fn open_outside(&self, key: &DatasetKey, name: &str) -> Option<Answer> {
        self.node.state().own.parted.entry(key, name); // it may be the first to know of the file
        match self.unsealed.leave_cache(key, name) {
            Ok(()) => None,
            Err(_) => Some(Answer::Fail(libc::EIO)),
        }
    }

    /// Returns what a file may fill in the cache.
    fn room_in_cache(
        &self,
        state: &State,
        file: &FileRef,
        intent: OpenIntent,
    ) -> std::result::Result<Room, Reason> {
        match () {
            () if lock(&self.stores.kept_out).contains(&file.name) => Err(Reason::StoreFailed),
            () if intent.special => Err(Reason::Special),
            () if !intent.may_change => Ok(Room::default()),
            () => self.stores.has_room(state, file).ok_or(Reason::NoRoom),
        }
    }
}
