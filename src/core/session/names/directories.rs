//! How the program calls directories, and files of several ranks, before they are complete: learned
//! from one rename, told to all ranks at the agreement that follows.

use crate::namespace::{LOOKED_AT_MAX, RenamedKind, first_below, series_below};
use crate::patterns::Match;
use crate::session::{names::Names, node::State};

impl Names {
    /// Learns from a rename how the program names its checkpoints until they are complete. All
    /// ranks hear of it at the next agreement.
    pub(crate) fn notice_directory(&self, state: &mut State, dir: &str, last: &str) {
        let Some(text) = RenamedKind::Directory.learn(dir, last) else { return };
        if !self.rank.series.could_match_below(last) {
            return;
        }
        let series = |rest: &str| series_below(&self.rank.series, dir, last, rest);
        let cached = state.view.names_below(dir);
        let mut cached = cached.iter().filter_map(|name| series(name.strip_prefix(dir)?));
        let mut left = LOOKED_AT_MAX;
        let path = self.site.on_prefix(dir);
        let found = cached.next().or_else(|| first_below(&path, "", &mut left, &series));
        if let Some(series) = found {
            state.moves.learned.push((series, text));
            state.machine.note_move();
        }
    }

    /// Does so where one rank renames a file that others write, too. Returns whether it shows.
    pub(crate) fn notice_file(&self, state: &mut State, from: &str, to: &str, of: &Match) -> bool {
        let learned = RenamedKind::File.learn(from, to).filter(|_| of.id.is_some());
        let shows = learned.is_some() && self.rank.match_name(from).is_none();
        if let Some(text) = learned.filter(|_| shows) {
            state.moves.learned.push((of.series, text));
            state.machine.note_move();
        }
        shows
    }
}
