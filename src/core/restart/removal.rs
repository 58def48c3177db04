//! What somebody has removed from the prefix since the run ended is his word for what is newer,
//! too: nothing of the series that is not older is offered from the cache. Only removals of the
//! newest count: who removes older ones makes room. What a run that went on wrote later is not
//! meant.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::index::Index;
use crate::cache::{Offered, RebuildReport};
use crate::comm::Comm;
use crate::error::Result;
use crate::files::{modified, write_ours};
use crate::launch::site::Site;
use crate::records::{CourseTurn, FileMeta, FileNames, nanoseconds};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CachedCheckpoint {
    pub id: u64,
    /// When its newest file was written, nanoseconds since 1970.
    pub written: u64,
}

/// A file in the control directory: the id that the next dataset would have had, of a run that
/// writes straight to the prefix from then on, and notes nothing of it any more.
const DIRECT: &str = "direct";

/// Notes that this run does so.
pub(crate) fn note_direct(site: &Site, next_id: u64) {
    // Where it cannot be written, a cache has hardly anything to offer.
    let _ = write_ours(&site.layout.control_dir.join(DIRECT), next_id.to_string().as_bytes());
}

/// Returns the series without ids whose files on the prefix were all written since the newest in
/// the cache, and by nobody of that run, which had begun no further one. Collective.
///
/// # Errors
/// Those of the communicator.
pub(crate) fn overwritten(
    world: &dyn Comm,
    site: &Site,
    report: &RebuildReport,
) -> Result<BTreeSet<String>> {
    let direct = fs::read_to_string(site.layout.control_dir.join(DIRECT)).ok();
    let direct = direct.and_then(|text| text.trim().parse::<u64>().ok());
    let without_id = report.offered.iter().filter(|one| one.key.id.is_empty());
    let newest: BTreeMap<&str, &Offered> =
        without_id.map(|one| (one.key.series.as_str(), one)).collect();
    let mut found = BTreeSet::new();
    for (series, one) in newest {
        if report.withheld.iter().any(|other| other.key.series == series && other.id == 0) {
            continue;
        }
        let since = one.written();
        let is_newer = |file: &FileMeta| {
            let name = file.part.as_ref().map_or(&file.name, |part| &part.of);
            let there = site.on_prefix(name).metadata().ok().filter(fs::Metadata::is_file);
            let time = there.map(|there| modified(&there));
            time.is_some_and(|(seconds, rest)| nanoseconds(seconds, rest) > since)
        };
        let own = one.files.iter().filter(|file| !file.on_prefix);
        // That run may have left them half written.
        let by_itself = direct.is_some_and(|next| one.id < next);
        let older = by_itself || own.clone().any(|file| !is_newer(file));
        let mut words = [i64::from(older), i64::from(own.count() > 0)];
        world.all_max(&mut words)?;
        found.extend((words == [0, 1]).then(|| series.to_owned()));
    }
    Ok(found)
}

impl Index {
    /// Returns that nothing of what the cache has `kept` of a series is offered.
    pub fn all_of(&self, kept: &[CachedCheckpoint]) -> Option<CourseTurn> {
        let (oldest, newest) = (kept.first()?, kept.last()?);
        let from = self.last_id.max(newest.id);
        Some(CourseTurn { to: oldest.id.saturating_sub(1), from })
    }

    /// Returns what of a series is not offered from the cache, which has `kept`, oldest first: by a
    /// removal that is new, or by an earlier one.
    pub fn removal(&self, series: usize, kept: &[CachedCheckpoint]) -> Option<CourseTurn> {
        let settled = self.removed.get(&series).copied();
        let newest = kept.last()?;
        let of_series = self.listed.iter().filter(|one| {
            let counts = one.file_names == FileNames::Own && one.checkpoint.is_some();
            let is_settled = settled.is_some_and(|turn| turn.leaves(one.id));
            one.series == Some(series) && counts && !is_settled
        });
        let listed = of_series.map_while(|one| Some((one.id, one.removed?)));
        let dirs = kept.iter().rev();
        let dirs = dirs.map_while(|one| Some((one.id, *self.dirs_removed.get(&one.id)?)));
        let (ids, times): (Vec<u64>, Vec<u64>) = listed.chain(dirs).unzip();
        let since = times.into_iter().max().unwrap_or(0);
        let oldest = ids.into_iter().min().filter(|_| newest.written < since);
        let Some(oldest) = oldest.filter(|oldest| newest.id >= *oldest) else { return settled };
        let to = settled.map_or(u64::MAX, |turn| turn.to).min(oldest.saturating_sub(1));
        Some(CourseTurn { to, from: self.last_id.max(newest.id) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restart::index::IndexedDataset;

    /// `listed`, newest first, and `cached`, oldest first, are ids; "r": removed, at 50. Returns
    /// after which id, and up to which, datasets are left out.
    fn removal(
        listed: &str,
        cached: &str,
        written: u64,
        settled: Option<CourseTurn>,
    ) -> Option<(u64, u64)> {
        let id = |word: &str| word.trim_end_matches('r').parse::<u64>().unwrap();
        let time = |word: &str| word.ends_with('r').then_some(50);
        let all = listed.split_whitespace().map(|word| IndexedDataset {
            id: id(word),
            series: Some(0),
            checkpoint: Some(id(word)),
            file_names: FileNames::Own,
            removed: time(word),
            ..IndexedDataset::default()
        });
        let mut index = Index::of(all.collect(), None);
        index.last_id = 9;
        index.removed.extend(settled.map(|turn| (0, turn)));
        let cached = || cached.split_whitespace();
        index.dirs_removed = cached().filter_map(|word| Some((id(word), time(word)?))).collect();
        let kept: Vec<CachedCheckpoint> =
            cached().map(|word| CachedCheckpoint { id: id(word), written }).collect();
        index.removal(0, &kept).map(|turn| (turn.to, turn.from))
    }

    #[test]
    fn what_is_newer_than_what_somebody_has_removed_is_left_out() {
        for (listed, cached, written, want) in [
            ("", "5 6", 40, None),
            ("4", "5 6", 40, None),
            ("4r", "5 6", 40, Some((3, 9))),
            // The user has gone back by one.
            ("4r 3", "5 6", 40, Some((3, 9))),
            ("4r 3r", "5 6", 40, Some((2, 9))),
            // An older one has made room.
            ("4 3r", "5 6", 40, None),
            // The run has gone on since.
            ("4r", "5 6", 60, None),
            // The cache has nothing that is newer.
            ("4r", "2 3", 40, None),
            // It has gone from the prefix, and is in the cache, too.
            ("4r", "3 4", 40, Some((3, 9))),
            // Nothing has come to the prefix but directories.
            ("", "5r 6r", 40, Some((4, 9))),
            ("", "5 6r", 40, Some((5, 9))),
            ("", "5r 6", 40, None),
            ("4r", "5r 6r", 40, Some((3, 9))),
        ] {
            assert_eq!(removal(listed, cached, written, None), want, "{listed}; {cached}");
        }
    }

    #[test]
    fn a_word_that_was_heard_holds_for_what_there_was() {
        let settled = Some(CourseTurn { to: 3, from: 6 });
        // Nothing of it is asked again, whatever has become of the directories since.
        assert_eq!(removal("4r", "5 6 7", 40, settled), Some((3, 6)));
        assert_eq!(removal("8r 4r", "6 9", 40, settled), Some((3, 9)));
    }
}
