//! A file without the id beside others (a pointer) that was changed on the prefix since the run
//! ended: somebody chooses where to begin, or the program has gone on without us. One that names a
//! checkpoint that is not there is what the run left when it died, and would lead past the
//! roll-back.

use crate::cache::{Offered, RebuildReport};
use crate::log::messages;
use crate::records::FileMeta;
use crate::restart::index::Index;
use crate::restart::pointer::{is_edited, names_another, names_id};
use crate::session::restart::Restorer;

impl Restorer {
    /// Gives the prefix the last word on edited pointers, in the newest checkpoint that has them.
    pub(crate) fn heed_pointers(&self, report: &mut RebuildReport, known: &Index) {
        let mut left = Vec::new();
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
                let ids = ids(one, report, known);
                let is_there = |text: &str| {
                    let (prefix, series) = (&self.site.prefix, &self.rank.series);
                    ids.iter().any(|id| names_id(text, id))
                        || names_another(text, prefix, series, &one.files)
                };
                if !is_newest || !is_edited(&self.site.prefix, file, is_there) {
                    continue;
                }
                match self.site.filemap.leave(&one.key, &file.name) {
                    Ok(()) => left.push((at, file.name.clone())),
                    Err(error) => self.rank.complain(messages::OPERATION_FAILED, &error),
                }
            }
        }
        for (at, name) in left {
            let path = self.site.on_prefix(&name);
            self.rank
                .mention(format_args!("{} was edited since: it is read there", path.display()));
            report.offered[at].left.insert(name);
        }
    }
}

/// The checkpoints of its series that a run can begin with.
fn ids<'a>(one: &'a Offered, report: &'a RebuildReport, known: &'a Index) -> Vec<&'a str> {
    let cached = report.offered.iter().map(|other| &other.key);
    let all = cached.chain(known.restorable().map(|(_, key)| key));
    all.filter(|key| key.series == one.key.series).map(|key| &*key.id).collect()
}
