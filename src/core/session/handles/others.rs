//! The program changes a file that another rank has written (own files and those of ranks on the
//! node at once, those of other nodes through the PFS).

use std::path::Path;

use crate::error::Result;
use crate::files::size_at;
use crate::handles::{Base, Room};
use crate::machine::{DatasetKey, FileRef, Intent as Wish, Placement};
use crate::namespace::{Answer, FoundTarget, Manner, OpenIntent, Place, WriteClaim};
use crate::session::{
    contents::co_writers::{CopyChange, CopyStanding},
    handles::Handles,
    node::{State, neighbours::Locked},
};
use crate::system::monotonic_ms;

impl Handles {
    /// Opens `file`, which another rank has written into the dataset `of`. `None`: it has changed
    /// meanwhile.
    pub(crate) fn open_of_another<'a>(
        &'a self,
        mut state: Locked<'a>,
        file: &FileRef,
        of: &DatasetKey,
        mut found: FoundTarget,
        intent: OpenIntent,
        manner: Manner,
    ) -> Option<Answer> {
        let wish = intent.as_wish(found.exists);
        let name = file.name.as_str();
        state.own.checksums.doubt(name);
        let mut origin = self.site.on_prefix(name);
        if !intent.truncate {
            state = match self.contents.bring_near(state, name, &mut found) {
                Ok(state) => state,
                Err(answer) => return Some(answer),
            };
        }
        if let Place::Cached(_, here) = &found.place {
            origin = here.clone();
        }
        // Whether that rank has it open is no matter: one that is about to has no descriptor yet.
        let cached = matches!(found.place, Place::Cached(..));
        let added = state.view.is_added(of, name);
        let in_progress = cached && state.machine.goes_on_in(of, file, added);
        let changes = intent.truncate || in_progress || state.machine.is_shared(file, of);
        if manner == Manner::Lazy && !changes {
            return Some(state.open_lazily(name, of, &origin));
        }
        let placement = match in_progress {
            true => state.machine.join(file, of, monotonic_ms()),
            false => state.machine.take_over(file, of, wish, monotonic_ms()),
        };
        if let Placement::Dataset(placed) = placement {
            return self.contents.put_into(state, name, placed, &found, intent, Room::default());
        }
        let mut enter = |state: &mut State| {
            state.view.tell_on_prefix(name);
            state.view.moved_to_prefix(name);
            Ok(())
        };
        let claim = WriteClaim { name: name.into(), on_prefix: true, ..WriteClaim::default() };
        match self.contents.bring_to_prefix(&mut state, claim, &found, intent, &mut enter) {
            Ok(true) => Some(Answer::PASS),
            Ok(false) => None,
            Err(error) => {
                self.rank.tell_unpublished(name, &origin, &error);
                Some(Answer::Fail(libc::EIO))
            }
        }
    }

    /// Keeps a change behind our back of the file at `here`, which another rank has written.
    pub(crate) fn keep_change_of_another(
        &self,
        state: &mut State,
        file: &FileRef,
        of: &DatasetKey,
        here: &Path,
    ) -> Result<()> {
        let (name, now) = (file.name.as_str(), monotonic_ms());
        let base = Base::of(here, false);
        let change = CopyChange { name, key: None, copy: here, base: base.as_ref() };
        let placement = state.machine.take_over(file, of, Wish::UPDATE, now);
        let Placement::Dataset(placed) = placement else {
            return self.publish_copy(state, change).map(drop);
        };
        self.stores.record_begin(state, &placed.key, placed.begin, placed.revoke)?;
        let size = size_at(here);
        match self.publish_copy(state, CopyChange { key: Some(&placed.key), ..change })? {
            CopyStanding::Free => {
                state.machine.replaced_on_prefix(&placed.key, name);
                state.machine.write_closed(&placed.key, name, size, now);
            }
            CopyStanding::Gone => state.machine.open_failed(&placed.key, name, now),
            CopyStanding::Taken => self.contents.give_up_change(state, file, Some(&placed)),
        }
        Ok(())
    }
}
