//! What the prefix has, by its index, and what of the cache can be had beside it.

use std::collections::BTreeMap;
use std::path::Path;

use crate::cache::{RebuildReport, Withheld};
use crate::comm::{Comm, trees};
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::launch::site::Site;
use crate::log::{self, messages};
use crate::patterns::{PROGRAM, SeriesSet};
use crate::records::{self, CourseTurn, FileNames};
use crate::restart::{gone, theirs};
use crate::transfer::{
    ListedDataset, Repaired, finish_returns, ids_with_folder, incomplete_files, last_turn,
    list_in_cache, list_prefix, repair_prefix, returned_to,
};

#[derive(Debug, Default)]
pub(crate) struct Index {
    pub last_id: u64,
    pub flushed: Vec<u64>,
    pub last_numbers: Vec<u64>,
    pub gone: Vec<u64>,
    pub listed: Vec<IndexedDataset>,
    current: Option<u64>,
    /// No dataset is current, since the run went back to this one, which only the cache had.
    pub returned_to: Option<u64>,
    pub turn: Option<CourseTurn>,
    /// By series, what is not offered since somebody has removed older datasets.
    pub removed: BTreeMap<usize, CourseTurn>,
    /// By cached checkpoint, when somebody has removed its directories from the prefix: nanoseconds
    /// since 1970.
    pub dirs_removed: BTreeMap<u64, u64>,
    /// The newest of each series, as far as they are gone: on rank 0, and at the start.
    pub gone_now: Vec<records::RecordKey>,
    /// Id and name of the complete ones that only the cache had when the last launch ended.
    pub in_cache: Vec<(u64, String)>,
    pub partial: Vec<String>,
}

impl Index {
    #[cfg(test)]
    pub fn of(listed: Vec<IndexedDataset>, current: Option<u64>) -> Index {
        Index { listed, current, ..Index::default() }
    }

    /// Returns id and key of all that is whole, newest first.
    pub fn restorable(&self) -> impl Iterator<Item = (u64, &records::RecordKey)> {
        let whole = self.listed.iter().filter(|one| self.flushed.contains(&one.id));
        whole.map(|one| (one.id, &one.key))
    }

    /// Tells whether nothing of the dataset is to be written to the prefix any more: it is there,
    /// or it was, and a whole newer one has taken names of it, which it would take back.
    pub fn has_had(&self, id: u64) -> bool {
        let replaced = self.listed.iter().find(|one| one.id == id && one.file_names.are_taken());
        self.flushed.contains(&id)
            || replaced.is_some_and(|old| {
                let same = |key: &records::RecordKey| {
                    (&key.series, &key.id) == (&old.key.series, &old.key.id)
                };
                self.restorable().any(|(newer, key)| newer > id && same(key))
            })
    }

    /// Returns what the cache should have and cannot give, but for what the prefix has, and for
    /// checkpoints that were being written when the run ended.
    pub fn lost<'a>(&self, report: &'a RebuildReport) -> impl Iterator<Item = &'a Withheld> {
        let known = report.withheld.iter().filter(|one| one.id > 0 || !one.deleted);
        known.filter(|one| !self.flushed.contains(&one.id))
    }

    /// Tells whether the newest dataset in the cache is the newest of its series, on the prefix,
    /// too.
    pub fn newest_is_cached(&self, report: &RebuildReport) -> bool {
        report.offered.last().is_some_and(|last| {
            let newer = |(id, key): (u64, &records::RecordKey)| {
                id > last.id && key.series == last.key.series
            };
            !self.restorable().any(newer)
        })
    }

    /// Returns the current dataset, if it is whole: a restart from the prefix begins there.
    pub fn current(&self) -> Option<&IndexedDataset> {
        let current = self.listed.iter().find(|one| Some(one.id) == self.current)?;
        self.flushed.contains(&current.id).then_some(current)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct IndexedDataset {
    pub id: u64,
    /// `None` if the patterns do not have it any more.
    pub series: Option<usize>,
    pub key: records::RecordKey,
    pub name: String,
    /// Its number in the series, if a program restarts from it.
    pub checkpoint: Option<u64>,
    pub file_names: FileNames,
    /// The first that came to the prefix after the run had left this one.
    pub abandoned_by: Option<u64>,
    /// When somebody, not the program, has removed it: nanoseconds since 1970. Known of the newest
    /// of each series that the cache has.
    pub removed: Option<u64>,
    pub refused: bool,
}

impl IndexedDataset {
    /// Returns series, captured id and number, if the patterns have the series.
    pub fn short(&self) -> Option<(usize, String, u64)> {
        Some((self.series?, self.key.id.clone(), self.id))
    }
}

impl Index {
    /// Reads what the index says, and what has become of it since the cache got what it offers, on
    /// rank 0, for all. Collective.
    pub fn read(
        world: &dyn Comm,
        site: &Site,
        series: &SeriesSet,
        report: Option<&RebuildReport>,
    ) -> Result<Index> {
        let (mut tree, mut gone_now) = (KvTree::new(), Vec::new());
        if site.rank == 0 {
            let listed = list(site, series, report.is_some(), &mut tree);
            if let Some(report) = report {
                gone::sweep(&site.prefix, &listed, report);
                gone::tell(&site.prefix, &listed, report, &mut tree);
                gone_now = gone::checkpoints(&site.prefix, &listed);
            }
            if let Some(id) = returned_to(&site.prefix).ok().flatten() {
                tree.set_value("RETURNED", id);
            }
            if let Some(turn) = last_turn(&site.prefix).ok().flatten() {
                tree.set_value("TURN_TO", turn.to);
                tree.set_value("TURN_FROM", turn.from);
            }
            for one in &listed {
                let entry = tree.child_mut("ID").child_mut(one.id);
                entry.set_flag("WHOLE", one.restorable);
                entry.set_value("SERIES", &one.key.series);
                entry.set_value("CAPTURED", &one.key.id);
                entry.set_value("GENERATION", one.key.generation);
                entry.set_value("NAME", &one.name);
                entry.set_flag("NAMES", one.file_names == FileNames::Own);
                entry.set_flag("REPLACED", one.file_names.are_taken());
                entry.set_flag("KEPT", one.file_names == FileNames::Kept);
                entry.set_flag("REFUSED", one.refused);
                if let Some(by) = one.abandoned_by {
                    entry.set_value("ABANDONED", by);
                }
                if let Some(number) = one.checkpoint_id {
                    entry.set_value("NUMBER", number);
                }
                if one.current {
                    tree.set_value("CURRENT", one.id);
                }
            }
        }
        if site.rank == 0 && !site.purges() {
            let cached = list_in_cache(&site.prefix).unwrap_or_else(|error| {
                log::warn(
                    messages::RECORD_UNREADABLE,
                    format_args!("{error}; a checkpoint that was lost may not be told of"),
                );
                Vec::new()
            });
            for (id, name) in cached {
                tree.child_mut("CACHED").child_mut(id).set_value("NAME", name);
            }
        }
        let index = Index::of_tree(&trees::from_root(world, &tree, 0)?, series);
        Ok(Index { gone_now, ..index })
    }

    fn of_tree(tree: &KvTree, patterns: &SeriesSet) -> Index {
        let series = patterns.series();
        let named = |(id, entry): (&str, &KvTree)| {
            Some((id.parse::<u64>().ok()?, entry.get_value("NAME")?.to_string()))
        };
        let turn = tree.get_u64("TURN_TO").zip(tree.get_u64("TURN_FROM"));
        let turn = turn.map(|(to, from)| CourseTurn { to, from });
        let mut index = Index {
            // No id is used again, though no record of it may be left.
            last_id: tree.get_u64("LAST").unwrap_or(0).max(turn.map_or(0, |turn| turn.from)),
            turn,
            partial: tree.child("PARTIAL").keys().map(str::to_string).collect(),
            in_cache: tree.child("CACHED").iter().filter_map(named).collect(),
            last_numbers: vec![0; series.len()],
            current: tree.get_u64("CURRENT"),
            returned_to: tree.get_u64("RETURNED"),
            ..Index::default()
        };
        for (name, turn) in tree.child("REMOVED").iter() {
            let turn = CourseTurn::from_tree(turn).zip(patterns.series_index(name));
            index.removed.extend(turn.map(|(turn, series)| (series, turn)));
        }
        let is_out =
            |id: u64, series: usize| index.removed.get(&series).is_some_and(|turn| turn.leaves(id));
        index.in_cache.retain(|(id, name)| {
            let series = name.split_once('.').and_then(|(name, _)| patterns.series_index(name));
            !series.or(patterns.series_index(PROGRAM)).is_some_and(|series| is_out(*id, series))
        });
        index.last_id = index.removed.values().fold(index.last_id, |id, turn| id.max(turn.from));
        let gone = tree.child("DIRS_REMOVED").keys();
        index.dirs_removed = gone
            .filter_map(|id| Some((id.parse().ok()?, tree.child("DIRS_REMOVED").get_u64(id)?)))
            .collect();
        for (id, entry) in tree.child("ID").iter() {
            let Ok(id) = id.parse::<u64>() else { continue };
            index.last_id = index.last_id.max(id);
            if entry.get_flag("WHOLE") {
                index.flushed.push(id);
            }
            let text = |key: &str| entry.get_value(key).unwrap_or_default().to_string();
            let at = entry.get_value("SERIES").and_then(|name| patterns.series_index(name));
            index.listed.push(IndexedDataset {
                id,
                series: at,
                key: records::RecordKey {
                    series: text("SERIES"),
                    id: text("CAPTURED"),
                    generation: entry.get_u64("GENERATION").unwrap_or(0),
                },
                name: text("NAME"),
                checkpoint: entry.get_u64("NUMBER"),
                file_names: file_names(entry),
                abandoned_by: entry.get_u64("ABANDONED"),
                removed: entry.get_u64("GONE_SINCE"),
                refused: entry.get_flag("REFUSED"),
            });
            if let (Some(at), Some(number)) = (at, entry.get_u64("NUMBER")) {
                index.last_numbers[at] = index.last_numbers[at].max(number);
            }
        }
        index.listed.sort_by_key(|one| std::cmp::Reverse(one.id));
        index
    }

    /// Says which complete checkpoint is newer than all that can be had; the same on all ranks.
    /// `title` is what people call it, if the patterns have its series.
    pub fn lost_checkpoint(
        &self,
        report: &RebuildReport,
        title: impl Fn(&records::RecordKey) -> Option<String>,
    ) -> Option<String> {
        let withheld = report.withheld.iter().filter(|one| one.id > 0);
        let withheld = withheld.map(|one| (one.id, &one.key));
        let damaged = self
            .listed
            .iter()
            .filter(|one| one.file_names == FileNames::Own && one.checkpoint.is_some());
        let damaged = damaged.filter(|one| !self.flushed.contains(&one.id));
        let damaged = damaged.filter(|one| !self.gone.contains(&one.id));
        let damaged = damaged.map(|one| (one.id, &one.key));
        let lost = withheld.chain(damaged);
        let lost = lost.filter(|(id, key)| *id > newest_left(&key.series, report, self));
        let lost = lost.map(|(id, key)| (id, title(key).unwrap_or_else(|| key.series.clone())));
        let vanished = vanished(report, self).map(|(id, name)| (id, name.to_string()));
        let (id, title) = lost.chain(vanished).max_by_key(|(id, _)| *id)?;
        Some(format!("{title} (dataset {id})"))
    }
}

/// Lists what the index has, and adds to `tree` what is not to be touched. At a start, on a prefix
/// of the C implementation, ours begins beside its index.
fn list(site: &Site, series: &SeriesSet, starts: bool, tree: &mut KvTree) -> Vec<ListedDataset> {
    repair(&site.prefix);
    let begun = if starts { theirs::begin(site, series) } else { Ok(0) };
    let read = begun.and_then(|last| Ok((last, list_prefix(&site.prefix)?)));
    let (last, listed) = read.unwrap_or_else(|error| {
        log::warn_once(
            messages::RECORD_UNREADABLE,
            format_args!("{error}; the index is left as it is"),
        );
        (0, Vec::new())
    });
    for name in incomplete_files(&site.prefix) {
        tree.child_mut("PARTIAL").child_mut(name);
    }
    // Also those of an index that cannot be read: nothing of them is written over.
    let folders = ids_with_folder(&site.prefix).last().copied();
    tree.set_value("LAST", last.max(folders.unwrap_or(0)));
    listed
}

/// Returns whose the names are by the flags of `entry`.
fn file_names(entry: &KvTree) -> FileNames {
    match ["NAMES", "REPLACED", "KEPT"].map(|key| entry.get_flag(key)) {
        [_, _, true] => FileNames::Kept,
        [_, true, _] => FileNames::Taken,
        [true, ..] => FileNames::Own,
        [false, ..] => FileNames::Unknown,
    }
}

fn repair(prefix: &Path) {
    match repair_prefix(prefix) {
        Ok(repaired) => repaired.iter().for_each(|Repaired { path, what, instead, kept }| {
            let path = path.display();
            let aside = match kept {
                true => format!("set aside as {path}.damaged and "),
                false => String::new(),
            };
            log::warn(
                messages::RECORD_DAMAGED,
                format_args!("{path} is damaged ({what}): {aside}{instead}"),
            );
        }),
        Err(error) => log::warn(
            messages::RECORD_IN_THE_WAY,
            format_args!("a damaged file stays in the way: {error}"),
        ),
    }
    match finish_returns(prefix) {
        // Who lists the index tells it.
        Ok(()) | Err(Error::Corrupt { .. }) => {}
        Err(error) => log::warn(
            messages::RETURN_UNFINISHED,
            format_args!("{error}; an older checkpoint is only partly back in place"),
        ),
    }
}

pub(crate) fn newest_left(series: &str, report: &RebuildReport, known: &Index) -> u64 {
    let cached = report.offered.iter().filter(|one| one.key.series == series);
    let listed = known.listed.iter().filter(|one| one.key.series == series);
    let listed = listed.map(|one| one.id).filter(|id| known.flushed.contains(id));
    cached.map(|one| one.id).chain(listed).max().unwrap_or(0)
}

/// Id and name of complete datasets that only the cache had, and that are newer than all of their
/// series that can be had.
fn vanished<'a>(report: &RebuildReport, known: &'a Index) -> impl Iterator<Item = (u64, &'a str)> {
    let is_offered = |id: u64| report.offered.iter().any(|one| one.id == id);
    known.in_cache.iter().filter(move |one| !is_offered(one.0)).filter_map(|(id, name)| {
        // Any other name is one that the program has given.
        let series = name.split_once('.').map_or(PROGRAM, |(series, _)| series);
        let of_pattern = ["checkpoint", "output"].iter().any(|stem| series.starts_with(stem));
        let series = if of_pattern { series } else { PROGRAM };
        (*id > newest_left(series, report, known)).then_some((*id, name.as_str()))
    })
}

/// Returns id and name of the newest complete checkpoint that is nowhere any more, and that no
/// record tells of as withheld.
pub(crate) fn newest_vanished<'a>(
    report: &RebuildReport,
    known: &'a Index,
) -> Option<(u64, &'a str)> {
    let told = |id: u64| report.withheld.iter().any(|one| one.id == id);
    let newest = vanished(report, known).max_by_key(|(id, _)| *id);
    newest.filter(|(id, _)| !told(*id))
}

pub(crate) fn vanished_in_words(report: &RebuildReport, known: &Index) -> Option<String> {
    let (id, name) = newest_vanished(report, known)?;
    Some(format!(
        "{name} (dataset {id}) was complete, in the cache only, and cannot be had again: no node \
         of this job has anything of it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_newer_one_has_replaced_is_not_written_again() {
        let listed = |id: u64, captured: &str, replaced: bool| IndexedDataset {
            id,
            series: Some(0),
            key: records::RecordKey { series: "state".into(), id: captured.into(), generation: id },
            checkpoint: Some(id),
            file_names: if replaced { FileNames::Taken } else { FileNames::Own },
            ..IndexedDataset::default()
        };
        let all = vec![listed(4, "", false), listed(3, "", true), listed(2, "7", true)];
        let mut index = Index { flushed: vec![4], listed: all, ..Index::default() };
        let had = |index: &Index| [1, 2, 3, 4].map(|id| index.has_had(id));
        assert_eq!(had(&index), [false, false, true, true]);
        // The newer one is damaged: the older ones are all there is.
        index.flushed.clear();
        assert_eq!(had(&index), [false; 4]);
    }
}
