//! How the program calls directories before they are complete: learned from one rename, told to
//! all ranks at the agreement that follows.

use crate::namespace::{LOOKED_AT_MAX, MARK, carries_id, first_below};
use crate::patterns::Template;
use crate::session::{names::Names, node::State};

impl Names {
    /// Learns from a rename how the program names its checkpoints until they are complete. All
    /// ranks hear of it at the next agreement.
    pub(crate) fn notice_directory(&self, state: &mut State, dir: &str, last: &str) {
        let follows = |template: &Template| template.final_name(dir).as_deref() == Some(last);
        let Some(template) = Template::learn(dir, last).filter(follows) else { return };
        if !self.rank.series.could_match_below(last) {
            return;
        }
        let series = |rest: &str| {
            let matched = self.rank.series.match_path(&format!("{last}{rest}"))?;
            let before = self.rank.series.match_path(&format!("{dir}{rest}"));
            // Another checkpoint's name is one that it gets: this is no temporary one.
            let same = before.is_none_or(|it| (it.series, &it.id) == (matched.series, &matched.id));
            (same && carries_id(last, &matched)).then_some(matched.series)
        };
        let cached = state.view.names_below(dir);
        let mut cached = cached.iter().filter_map(|name| series(name.strip_prefix(dir)?));
        let mut left = LOOKED_AT_MAX;
        let path = self.site.on_prefix(dir);
        let found = cached.next().or_else(|| first_below(&path, "", &mut left, &series));
        if let Some(series) = found {
            let learned = (series, format!("{MARK}{}", template.to_text()));
            state.moves.learned.push(learned);
            state.machine.note_move();
        }
    }
}
