//! Directories of a checkpoint that the run before had begun and whose files are lost. A program
//! that goes on from its newest directory would choose one with nothing in it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_dir;
use std::path::PathBuf;

use crate::cache::{Offered, RebuildReport};
use crate::files::{has_no_file, modified, remove_empty_dirs};
use crate::namespace as ns;
use crate::patterns::Match;
use crate::records::RunRecord;
use crate::session::prefix::Inspector;
use crate::transfer::mark_removed;

/// Files of a checkpoint on the prefix that are looked at to know when it was written.
const LOOKED_AT_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct InPlace {
    pub captured: String,
    pub names: Vec<String>,
}

/// A part of a path that carries the captured id.
pub(crate) struct IdPart {
    /// What is above it, relative to the prefix.
    pub parent: String,
    /// What it has before the id, and after it.
    pub before: String,
    pub after: String,
    /// Of a file below it, or of that name.
    matched: Match,
}

pub(crate) struct Newest<'a> {
    pub captured: &'a str,
    names: Vec<Cow<'a, str>>,
    /// When the last of its files was written: seconds, nanoseconds.
    written: Option<(i64, i64)>,
}

impl Newest<'_> {
    fn of_cache(offered: &Offered) -> Newest<'_> {
        let files = || offered.catalog.entries().map(|entry| entry.meta);
        Newest {
            captured: &offered.key.id,
            names: files().map(|file| file.name.into()).collect(),
            written: files().map(|file| (file.mtime_seconds, file.mtime_nanoseconds)).max(),
        }
    }
}

impl Inspector {
    /// Removes empty directories beside the newest checkpoint's that carry another id, younger than
    /// its files, but not than a run that ended by itself; and what a rename has left. For rank 0.
    pub(crate) fn remove_begun_dirs(&self, report: &RebuildReport, in_place: Option<&InPlace>) {
        let offered = |name: &str| report.offered.iter().any(|offered| offered.holds(name));
        ns::MoveNotes::take_back(&self.site.state_dir(), &self.site.prefix, offered);
        let Some(newest) = self.newest(report, in_place) else { return };
        let Some(written) = newest.written else { return };
        let ended = RunRecord::ended(&self.site.state_dir()).unwrap_or((i64::MAX, 0));
        for (dir, (series, id)) in self.siblings(&newest) {
            let Ok(found) = dir.symlink_metadata() else { continue };
            if (written..ended).contains(&modified(&found)) && has_no_file(&dir) {
                // No word of the user, if a node comes back that has its files.
                let series = &self.rank.series.series()[series].name;
                let _ = mark_removed(&self.site.prefix, series, &id);
                remove_empty_dirs(&dir);
            }
        }
    }

    /// Returns that of the cache, or the one that is read on the prefix.
    pub(crate) fn newest<'a>(
        &self,
        report: &'a RebuildReport,
        in_place: Option<&'a InPlace>,
    ) -> Option<Newest<'a>> {
        let newest = report.offered.last().map(Newest::of_cache);
        newest.or_else(|| Some(self.newest_in_place(in_place?)))
    }

    fn newest_in_place<'a>(&self, found: &'a InPlace) -> Newest<'a> {
        let some = found.names.iter().take(LOOKED_AT_MAX);
        let times = some.filter_map(|name| self.site.on_prefix(name).symlink_metadata().ok());
        Newest {
            captured: &found.captured,
            names: found.names.iter().map(Cow::from).collect(),
            written: times.map(|found| modified(&found)).max(),
        }
    }

    fn siblings(&self, newest: &Newest) -> BTreeMap<PathBuf, (usize, String)> {
        let mut found = BTreeMap::new();
        for one in self.id_parts(newest, false) {
            let parent = self.site.on_prefix(&one.parent);
            let Ok(entries) = read_dir(&parent) else { continue };
            for entry in entries.flatten() {
                let Ok(own) = entry.file_name().into_string() else { continue };
                let id = self.other_id(&one, &own).filter(|id| *id != newest.captured);
                if let Some(id) = id.map(str::to_owned) {
                    found.insert(parent.join(own), (one.matched.series, id));
                }
            }
        }
        found
    }

    /// Finds the parts of the files' paths that carry the captured id first: directories, and if
    /// `files`, names of files.
    pub(crate) fn id_parts(&self, newest: &Newest, files: bool) -> Vec<IdPart> {
        let mut seen = BTreeSet::new();
        let mut parts = Vec::new();
        for name in newest.names.iter().map(|name| &**name) {
            let Some(matched) = self.rank.match_name(name) else { continue };
            let dir = crate::namespace::own_dirs(name, &matched.masked).next();
            let Some(own) = dir.or(files.then_some(name)) else { continue };
            let parent = ns::parent(own);
            let depth = own.matches('/').count();
            let Some(part) = matched.masked.split('/').nth(depth) else { continue };
            let Some((before, after)) = part.split_once("{id}") else { continue };
            if seen.insert((parent.to_string(), part.to_string())) {
                parts.push(IdPart {
                    parent: parent.to_string(),
                    before: before.to_string(),
                    after: after.to_string(),
                    matched,
                });
            }
        }
        parts
    }

    /// Returns the id that `own` carries as the same part of a path of the same series.
    pub(crate) fn other_id<'a>(&self, part: &IdPart, own: &'a str) -> Option<&'a str> {
        let id = own.strip_prefix(&part.before)?.strip_suffix(&part.after)?;
        let other = self.rank.match_name(&part.matched.masked.replace("{id}", id))?;
        (other.series == part.matched.series && other.id.as_deref() == Some(id)).then_some(id)
    }
}
