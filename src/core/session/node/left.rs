//! Files of complete datasets that the program has changed or deleted since: their records say so.

use crate::files::size_at;
use crate::handles::{LiesAt, Tracked};
use crate::log::messages;
use crate::machine::DatasetKey;
use crate::session::node::{Node, State};

impl Node {
    /// Gives the prefix the last word on `name`: datasets of calls that have it note that. If they
    /// cannot, a crash undoes what the program has done.
    pub(crate) fn note_left(&self, state: &State, name: &str) {
        let series = self.rank.series.series();
        for key in state.own.holdings.keys().filter(|key| series[key.series].is_explicit()) {
            self.rank.complain_if_failed(
                messages::RECORD_NOT_WRITTEN,
                self.site.filemap.leave(&self.rank.record_key(key), name),
            );
        }
    }

    /// Notes a deletion in the record of the rank that has the file, and on each node, so that no
    /// loss of one brings it back.
    pub(crate) fn note_gone(&self, state: &State, key: &DatasetKey, name: &str) {
        let leads =
            || self.rank.links().is_some_and(|it| it.node_ranks.first() == Some(&self.site.rank));
        let own = state.own.holdings.get(key).is_some_and(|holding| holding.files.contains(name));
        if own || leads() {
            let noted = self.site.filemap.note_left(&self.rank.record_key(key), name);
            self.rank.complain_if_failed(messages::RECORD_NOT_WRITTEN, noted);
        }
    }

    pub(crate) fn size_of(&self, state: &State, tracked: &Tracked) -> u64 {
        let path = match (&tracked.way, state.view.layer(&tracked.key)) {
            (LiesAt::Cached, Some(layer)) => layer.dir.join(&tracked.name),
            _ => self.site.on_prefix(&tracked.name),
        };
        size_at(&path)
    }
}
