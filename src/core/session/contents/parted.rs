//! A node's part of a file that ranks of several nodes write together: a file in the dataset's
//! directory with the bytes that the node's ranks write, at their places.

use scr_abi::accesses::{Access, AccessLog, Deed, Within, trait_bit};

use crate::machine::DatasetKey;
use crate::namespace::{FoundTarget, OpenIntent, Remote};
use crate::session::{contents::Contents, node::State};

impl Contents {
    /// Tells whether each node has its part of such files.
    pub(super) fn is_parted(&self, state: &State, name: &str) -> bool {
        if !state.machine.knows_parted() {
            return false;
        }
        let file = self.rank.file_ref(name);
        file.is_some_and(|file| state.machine.is_parted(&file) || state.own.parted.knows(name))
    }

    /// Returns the log of such a file, which this rank is about to open, with what that does.
    pub(super) fn open_part(
        &self,
        state: &mut State,
        name: &str,
        key: &DatasetKey,
        found: &FoundTarget,
        intent: OpenIntent,
    ) -> Option<&'static AccessLog> {
        let known = state.own.parted.get(key, name).and_then(|file| file.log);
        let log = known.or_else(|| state.own.logs.take())?;
        state.own.parted.entry(key, name).log = Some(log);
        if let Some(layer) = state.view.layer_mut(key) {
            let meta = found.part_meta(&layer.dir, name);
            layer.put_elsewhere(Remote { owner: self.site.rank, meta });
        }
        log.mark(trait_bit::PARTED);
        if intent.truncate && found.exists {
            let stamp = state.moment();
            let (deed, within) = (Deed::Cut, Within::Nothing);
            log.add(Access { deed, within, stamp, start: 0, end: 0 });
        }
        if intent.append || intent.special {
            log.mark(trait_bit::UNSEEN);
        }
        state.machine.note_parted();
        Some(log)
    }
}
