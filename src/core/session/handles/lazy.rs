//! Openers of a sealed file that could write and mostly only read (docs/internals/handles.md): they
//! get the sealed copy itself, and a private one before the first change. The shim sees all changes
//! but those of code that calls the kernel by itself; those are found at the close.

use crate::files::size_at;
use crate::handles::{LiesAt, Tracked, stamp};
use crate::log::messages;
use crate::machine::{Intent, Placement};
use crate::namespace::{self as ns, Place};
use crate::session::{contents::co_writers::CopyChange, handles::Handles, node::State};
use crate::system::monotonic_ms;

impl Handles {
    /// Makes a change behind our back a version of its own; the sealed one fails its checksum
    /// from now on.
    pub(crate) fn closed_lazy(&self, state: &mut State, tracked: &Tracked) {
        let LiesAt::Lazy { stamp: before, kept } = &tracked.way else { return };
        if let Some(kept) = kept {
            if !tracked.is_orphan() && stamp(kept) != *before && state.is_evicted(tracked) {
                self.rank.complain_if_failed(
                    messages::CHANGE_LOST,
                    self.publish_evicted(state, &tracked.name, kept),
                );
            }
            return state.let_go(Some(kept));
        }
        let Some(before) = *before else { return };
        let Place::Cached(key, here) = state.view.place(&tracked.name) else { return };
        let Some(file) = self.rank.file_ref(&tracked.name) else { return };
        if key != tracked.key || stamp(&here).is_none_or(|now| now == before) {
            return;
        }
        if let Some(of) = state.of_another(&file) {
            let kept = self.keep_change_of_another(state, &file, &of, &here);
            return self.rank.complain_if_failed(messages::CHANGE_LOST, kept);
        }
        let now = monotonic_ms();
        match state.machine.write_open(&file, Intent::UPDATE, now) {
            // In progress again: others may change it in place.
            Placement::Dataset(placed) => {
                let size = size_at(&here);
                let begun =
                    self.stores.record_begin(state, &placed.key, placed.begin, placed.revoke);
                if begun.is_err() {
                    state.machine.failed(&placed.key, "its record cannot be changed", now);
                }
                state.machine.write_closed(&placed.key, &tracked.name, size, now);
            }
            Placement::CopyUp { .. } => {
                let base = self.contents.begin_copy(state, &tracked.name, &here);
                let kept = self.private_copy(state, &key, &tracked.name, &here).and_then(|copy| {
                    let (name, base) = (tracked.name.as_str(), base.as_ref());
                    let change = CopyChange { name, key: None, copy: &copy, base };
                    let kept = self.adopt_copy(state, change, true);
                    let _ = ns::remove(&copy);
                    kept
                });
                self.rank.complain_if_failed(messages::CHANGE_LOST, kept);
            }
            Placement::Pass => {}
        }
    }
}
