//! The program changes a file that another rank has written (DESIGN section 5: own files and those
//! of ranks on the node at once, those of other nodes through the PFS).

use std::path::Path;

use super::rivals::{Base, Standing};
use crate::error::Result;
use crate::session::machine::{DatasetKey, FileRef, Intent as Wish, Placed, Placement};
use crate::session::names::opening::{Found, Manner};
use crate::session::namespace::answer::Answer;
use crate::session::namespace::{self as ns, Claim, Intent, Place};
use crate::session::rank::books::Room;
use crate::session::rank::runtime::{Session, State};
use crate::session::updates::neighbours::Locked;
use crate::system::{has_writers, monotonic_ms};

impl Session {
    /// Opens `file`, which another rank has written into the cached dataset `of`. `None`: it has
    /// changed meanwhile.
    pub(in crate::session) fn open_of_another<'a>(
        &'a self,
        mut state: Locked<'a>,
        (file, of): (&FileRef, &DatasetKey),
        mut found: Found,
        (intent, wish): (Intent, Wish),
        manner: Manner,
    ) -> Option<Answer> {
        let name = file.name.as_str();
        let mut origin = self.site.on_prefix(name);
        if !intent.truncate {
            state = match self.bring_near(state, name, &mut found) {
                Ok(state) => state,
                Err(answer) => return Some(answer),
            };
        }
        if let Place::Cached(_, here) = &found.place {
            origin = here.clone();
        }
        let cached = matches!(found.place, Place::Cached(..));
        let written = cached && has_writers(&origin).is_ok_and(|found| found == Some(true));
        if manner == Manner::Lazy && !intent.truncate && !written {
            return Some(self.open_lazily(&mut state, name, of, &origin));
        }
        let placement = match written {
            true => state.machine.join(file, of, monotonic_ms()),
            false => state.machine.take_over(file, of, wish, monotonic_ms()),
        };
        if let Placement::Dataset(placed) = placement {
            return self.put_into(state, name, placed, &found, intent, Room::default());
        }
        let mut enter = |state: &mut State| {
            state.view.tell_on_prefix(name);
            state.view.moved_to_prefix(name);
            Ok(())
        };
        let claim = Claim { name: name.to_string(), on_prefix: true, rename: None };
        match self.bring_to_prefix(&mut state, claim, &found, intent, &mut enter) {
            Ok(true) => Some(Answer::PASS),
            Ok(false) => None,
            Err(error) => {
                self.tell_unpublished(name, &origin, &error);
                Some(Answer::Fail(libc::EIO))
            }
        }
    }

    /// This rank changes `file`, which it has sealed itself in `of`: on the PFS, too, and not in a
    /// private copy, if others are known to change such files.
    pub(in crate::session) fn take_over_own(
        &self,
        state: &mut State,
        file: &FileRef,
        of: &DatasetKey,
        wish: Wish,
    ) -> Option<Placed> {
        if !state.machine.is_shared(file, of) {
            return None;
        }
        for key in state.machine.taken_just_now(file) {
            state.books.entry(key).or_default().files.insert(file.name.clone(), true);
        }
        match state.machine.take_over(file, of, wish, monotonic_ms()) {
            Placement::Dataset(placed) => Some(placed),
            Placement::Pass | Placement::CopyUp { .. } => None,
        }
    }

    /// A file that is on another node only is on the prefix afterwards, or this is what the open
    /// says. Not with the state locked while it waits.
    pub(in crate::session) fn bring_near<'a>(
        &'a self,
        state: Locked<'a>,
        name: &str,
        found: &mut Found,
    ) -> std::result::Result<Locked<'a>, Answer> {
        let Place::Elsewhere(key, remote) = &found.place else { return Ok(state) };
        drop(state);
        let answer = self.wait_for_remote(name, key, remote);
        if answer != Answer::PASS {
            return Err(answer);
        }
        let on_prefix = ns::on_prefix(&self.site.on_prefix(name));
        *found = Found { place: Place::Prefix, on_prefix, exists: true };
        Ok(self.state())
    }

    /// Those of `names` that are on another node only are on the prefix afterwards, where they can
    /// be moved. `None`: one of them does not come. Not with the state locked while it waits.
    pub(in crate::session) fn bring_all_near<'a>(
        &'a self,
        mut state: Locked<'a>,
        names: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Option<Locked<'a>> {
        for name in names {
            let (name, place) = (name.as_ref(), state.view.place(name.as_ref()));
            let Place::Elsewhere(key, remote) = &place else { continue };
            self.note_read(&mut state, name, &place);
            drop(state);
            if self.wait_for_remote(name, key, remote) != Answer::PASS {
                return None;
            }
            state = self.state();
        }
        Some(state)
    }

    /// The file at `here`, which another rank has written into the cached dataset `of`, was changed
    /// by this one behind our back.
    pub(in crate::session) fn keep_change_of_another(
        &self,
        state: &mut State,
        (file, of): (&FileRef, &DatasetKey),
        here: &Path,
    ) -> Result<()> {
        let (name, now) = (file.name.as_str(), monotonic_ms());
        let base = Base::of(here, false);
        let placement = state.machine.take_over(file, of, Wish::UPDATE, now);
        let Placement::Dataset(placed) = placement else {
            return self.publish_copy(state, (None, name, base.as_ref()), here).map(drop);
        };
        self.record_begin(state, &placed.key, placed.begin, placed.revoke)?;
        let size = here.metadata().map_or(0, |found| found.len());
        match self.publish_copy(state, (Some(&placed.key), name, base.as_ref()), here)? {
            Standing::Free => {
                state.machine.replaced_on_prefix(&placed.key, name);
                state.machine.write_closed(&placed.key, name, size, now);
            }
            Standing::Gone => state.machine.open_failed(&placed.key, name, now),
            Standing::Taken => self.give_up_change(state, file, Some(&placed)),
        }
        Ok(())
    }
}
