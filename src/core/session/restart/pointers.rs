//! A file without the id beside others (a pointer) that somebody has edited on the prefix since the
//! run ended, so that it names another checkpoint: he chooses where to begin, and the cache's own
//! one gives way. One that names a checkpoint that is not there is what the run left when it died,
//! and would lead past the roll-back.

use crate::cache::{Offered, RebuildReport};
use crate::files::join_relative;
use crate::log::messages;
use crate::records::FileMeta;
use crate::restart::index::Index;
use crate::session::rank::runtime::Session;

/// Bytes of a file that may name a checkpoint.
const POINTER_BYTES_MAX: u64 = 64 << 10;

impl Session {
    /// Notes that the prefix has the last word on this rank's pointers that were edited there, in
    /// the newest checkpoint that has them. Local.
    pub(in crate::session) fn heed_pointers(&self, report: &RebuildReport, known: &Index) {
        for (at, one) in report.offered.iter().enumerate() {
            let series = &one.key.series;
            let mut listed = known.listed.iter().filter(|other| other.key.series == *series);
            if listed.any(|other| other.id > one.id) {
                continue;
            }
            let newer = report.offered[at + 1..].iter().filter(|one| one.key.series == *series);
            let cached = |file: &&FileMeta| !file.on_prefix && one.key.is_shared_name(&file.name);
            for file in one.files.iter().filter(cached) {
                let is_newest = newer.clone().all(|one| one.catalog.named(&file.name).is_empty());
                if !is_newest || !self.is_edited(file, &ids(one, report, known)) {
                    continue;
                }
                match self.site.filemap.leave(&one.key, &file.name) {
                    Ok(()) => self.mention(format_args!(
                        "{} was edited since: it is read where it is",
                        self.site.on_prefix(&file.name).display()
                    )),
                    Err(error) => self.complain(messages::OPERATION_FAILED, &error),
                }
            }
        }
    }

    /// Whether the prefix has a newer one, which names one of these checkpoints.
    fn is_edited(&self, file: &FileMeta, ids: &[&str]) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let Ok(path) = join_relative(&self.site.prefix, &file.name) else { return false };
        let Ok(found) = path.metadata() else { return false };
        let is_newer =
            (found.mtime(), found.mtime_nsec()) > (file.mtime_seconds, file.mtime_nanoseconds);
        if !is_newer || !found.is_file() || found.len() > POINTER_BYTES_MAX {
            return false;
        }
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).into_owned();
        ids.iter().any(|id| names(&text, id))
    }
}

/// The checkpoints of its series that a run can begin with.
fn ids<'a>(one: &'a Offered, report: &'a RebuildReport, known: &'a Index) -> Vec<&'a str> {
    let cached = report.offered.iter().map(|other| &other.key);
    let all = cached.chain(known.restorable().map(|(_, key)| key));
    all.filter(|key| key.series == one.key.series).map(|key| &*key.id).collect()
}

/// Tells whether the text has the id, not as a part of a longer number or word.
fn names(text: &str, id: &str) -> bool {
    let is_part = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let ends = |at: usize| (text.as_bytes().get(..at).and_then(<[u8]>::last), at + id.len());
    !id.is_empty()
        && text.match_indices(id).any(|(at, _)| {
            let (before, behind) = ends(at);
            !is_part(before) && !is_part(text.as_bytes().get(behind))
        })
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_text_names_an_id_as_a_whole() {
        for (text, id, want) in [
            ("step_10\n", "10", true),
            ("step_100", "10", false),
            ("110 and 10.", "10", true),
            ("chk10.bin", "10", false),
            ("", "10", false),
            ("run.0001-01-06-00000.nc", "0001-01-06-00000", true),
            ("anything", "", false),
        ] {
            assert_eq!(names(text, id), want, "{text}");
        }
    }
}
