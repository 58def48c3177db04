//! A launch that protects nothing is told of it: no file matched a pattern.
//! Each rank remembers a few kinds of names while nothing has matched (`account/unmatched.rs`). At
//! the end the ranks agree on whose came nearest to a pattern, and rank 0 tells.

use std::path::Path;

use crate::account::unmatched::nothing_matched;
use crate::error::Result;
use crate::launch::site::Links;
use crate::log::{self, messages};
use crate::session::report::Reporter;

impl Reporter {
    pub(crate) fn note_unmatched(&self, name: &str) {
        // One that is left alone since it is never quiet does match.
        match self.unmatched.is_watching() && self.rank.series.match_path(name).is_some() {
            true => self.unmatched.matches(),
            false => self.unmatched.note(name),
        }
    }

    /// Tells of a name that is no text: such files stay on the PFS.
    pub(crate) fn tell_unnameable(&self, path: &Path) {
        let Ok(name) = path.strip_prefix(&self.site.prefix) else { return };
        let matched = self.rank.series.match_path(&name.to_string_lossy());
        if name.to_str().is_some() || matched.is_none() {
            return;
        }
        self.unmatched.matches();
        log::warn_once(
            messages::UNNAMEABLE,
            format_args!(
                "{name:?} matches a pattern, but its name is not UTF-8 text, which SCR's records \
                 need: such files are not cached, they are written straight to {}",
                self.site.prefix.display()
            ),
        );
    }

    pub(crate) fn note_names_moved(&self, from: &str, to: &str) {
        let names = self.unmatched.names();
        for rest in names.iter().filter_map(|name| name.strip_prefix(from)?.strip_prefix('/')) {
            self.note_unmatched(&format!("{to}/{rest}"));
        }
    }

    /// Tells by one rank. Returns whether a rank has told of files before. Collective.
    pub(crate) fn tell_unprotected(&self, links: &Links) -> Result<bool> {
        let names = self.unmatched.names();
        let own = match self.unmatched.is_matched() {
            true => None,
            false => self.rank.series.nearest(names.iter().map(String::as_str)),
        };
        // The best score, and of those that have it the lowest rank.
        let (rank, size) = (self.site.rank as i64, self.site.size as i64);
        let bid = own.as_ref().map_or(-1, |own| i64::from(own.score) * size + (size - 1 - rank));
        let told = i64::from(log::has_warned_of_files());
        let mut words = [i64::from(self.unmatched.is_matched()), bid, told];
        links.world.all_max(&mut words)?;
        let [matched, best, told] = words;
        if matched != 0 {
            self.tell_placeholders();
            return Ok(told != 0);
        }
        let mut text = own.map(|own| own.text).unwrap_or_default().into_bytes();
        if best >= 0 {
            let teller = size - 1 - best % size;
            links.world.broadcast(&mut text, teller as usize)?;
        } else if self.node.state().machine.knows_datasets() {
            // It went on from a checkpoint, and wrote nothing at all.
            return Ok(true);
        }
        if self.site.rank == 0 {
            let nearest = String::from_utf8_lossy(&text);
            self.rank.events.run.change(|record| record.unmatched = Some(nearest.to_string()));
            let (prefix, series) = (&self.site.prefix, &self.rank.series);
            let user_file = &self.site.settings.user_file;
            let text = nothing_matched(&nearest, prefix, &series.in_force(), user_file);
            log::warn(messages::NOTHING_MATCHED, text);
        }
        Ok(true)
    }

    /// Other patterns matched: those with a placeholder of another tool are in vain all the same.
    fn tell_placeholders(&self) {
        if self.site.rank == 0 {
            let told = self.rank.series.placeholders();
            told.iter().for_each(|text| log::warn(messages::PLACEHOLDER, text));
        }
    }
}
