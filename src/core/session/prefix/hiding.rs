//! What lies on the prefix and is not to be seen: checkpoints that are damaged, and those newer
//! than the one that the user chose (SCR_CURRENT) or that is current in the index. A program that
//! scans for its newest checkpoint then finds a good one (DESIGN section 5).
//!
//! A start looks at the current one, then backwards (001, scr_fetch_sync), and at newer ones only
//! when none of these is good; so, too, at those that the run has left: it has gone back, and has
//! flushed others since. One that an earlier start found damaged has its turn like the others,
//! unlike in 003: what failed for a passing reason would be lost for good.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::os::unix::fs::MetadataExt as _;
use std::time::Instant;

use super::abandoned::InPlace;
use super::index::{Index, Listed};
use crate::cache::{Offered, RebuildReport};
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::log;
use crate::params::keys;
use crate::records::Turn;
use crate::session::machine::Rejected;
use crate::session::namespace::{self as ns, HiddenDir};
use crate::session::rank::runtime::Session;
use crate::session::rank::site::Links;
use crate::transfer::{
    Check, names_on_prefix, note_return, note_success, put_back, verify_on_prefix,
};

/// Checkpoints of a series that a start looks at, newest first, until one is good.
const LOOKED_AT_MAX: usize = 16;

/// What a restart leaves out.
#[derive(Debug, Default)]
pub(in crate::session) struct Hidden {
    /// Files on the prefix.
    pub names: BTreeSet<String>,
    /// Cached datasets.
    pub rejected: Vec<Rejected>,
    /// Of what is newer than the index's current one: name, and whether it was found damaged.
    pub after_current: Vec<(String, bool)>,
    /// The newest checkpoint that the program reads where it is.
    pub(in crate::session) in_place: Option<InPlace>,
    /// Ids of those on the prefix that are of another course than what the program starts from.
    pub(in crate::session) passed_over: BTreeSet<u64>,
    /// Files, such as pointers, that are what they were with the checkpoint that the program starts
    /// from, though hidden ones have files of these names, too.
    restored: BTreeSet<String>,
    /// The newest checkpoint on the prefix that the program starts from; 0 if the cache has newer
    /// ones of all series.
    pub(in crate::session) restart: u64,
}

/// The newest that a restart is to see.
#[derive(Debug, Clone, Copy)]
struct Limit {
    id: u64,
    /// The user has named it; else it is only where the search begins.
    is_chosen: bool,
}

impl Session {
    /// Takes out of `report` and `index` what is not to be offered. Collective.
    pub(in crate::session) fn choose_hidden(
        &self,
        links: &Links,
        index: &mut Index,
        report: &mut RebuildReport,
    ) -> Result<Hidden> {
        let mut hidden = Hidden::default();
        let current = index.current().cloned();
        let begin = current.as_ref().map(|current| current.id).or(index.returned_to);
        let begin = begin.unwrap_or(u64::MAX);
        let chosen = self.hide_newer(links, index, report, &mut hidden)?;
        if chosen.is_none() {
            self.hide_left_in_cache(index, report, &mut hidden);
        }
        let turn = index.turn;
        let limit = Limit { id: chosen.unwrap_or(begin), is_chosen: chosen.is_some() };
        let looks = self.site.settings.get(keys::FETCH);
        for series in (0..self.series.series().len()).filter(|_| looks) {
            self.hide_damaged(links, index, report, &mut hidden, (series, limit))?;
        }
        let mut cached = report.offered.iter();
        let is_last = |turn: &Turn| current.as_ref().is_none_or(|one| one.id <= turn.to);
        let turned = index.returned_to.or(turn.filter(is_last).map(|turn| turn.to));
        let returned = cached.find(|one| Some(one.id) == turned).map(|one| one.key.name());
        let name = returned.or(current.map(|one| one.name));
        if let Some(name) = name {
            self.tell_after_current(&name, &hidden);
        }
        hidden.names.retain(|name| !hidden.restored.contains(name));
        let newest = chosen.or(index.returned_to).unwrap_or(u64::MAX);
        self.prefer_staying(links, index, report, &mut hidden, newest)?;
        // Only the user's word, or that of a damaged one, takes it back to an older one.
        let changes = index.current().is_none_or(|current| match limit.is_chosen {
            true => current.id != hidden.restart,
            false => current.id < hidden.restart,
        });
        let from_prefix = report.offered.iter().all(|one| one.fetched || one.is_on_prefix());
        if hidden.restart > 0 && from_prefix && changes {
            self.note_fetch(note_success, hidden.restart);
        } else if begin > limit.id && turn.is_some_and(|turn| turn.to == limit.id) {
            // From the cache: what comes next is not to follow the one that is current now.
            let older = |one: &&Listed| one.id <= limit.id && index.flushed.contains(&one.id);
            match index.listed.iter().filter(older).find(|one| one.checkpoint.is_some()) {
                Some(one) => self.note_fetch(note_success, one.id),
                None => self.note_fetch(note_return, limit.id),
            }
        }
        Ok(hidden)
    }

    /// What is newer than the current one, and was not needed: the user went back, or it was found
    /// damaged. Whatever comes to the prefix becomes current, so this is of another course of the
    /// run; but not what somebody has written anew without us. Collective.
    fn hide_after_current(
        &self,
        links: &Links,
        one: &Listed,
        index: &Index,
        hidden: &mut Hidden,
    ) -> Result<()> {
        let found = verify_on_prefix(&links.ctx(&self.site), one.id, Check::Sizes)?;
        if !found.gone && !found.anew && !found.names.is_empty() {
            hidden.names.extend(found.names);
            hidden.passed_over.insert(one.id);
            let damaged = found.fault.is_some() || !index.flushed.contains(&one.id);
            hidden.after_current.push((one.name.clone(), damaged));
        }
        Ok(())
    }

    /// What the run has left for good; but not names that the newest of its course has, too, such
    /// as a pointer's. Collective.
    fn hide_left(
        &self,
        links: &Links,
        left: &[&Listed],
        course: &[Listed],
        hidden: &mut Hidden,
    ) -> Result<()> {
        let (Some(_), Some(newest)) = (left.first(), course.first()) else { return Ok(()) };
        let ctx = links.ctx(&self.site);
        let kept: BTreeSet<String> = names_on_prefix(&ctx, newest.id)?.into_iter().collect();
        for one in left {
            let found = verify_on_prefix(&ctx, one.id, Check::Sizes)?;
            if !found.gone && !found.anew {
                hidden.passed_over.insert(one.id);
                hidden.names.extend(found.names.into_iter().filter(|name| !kept.contains(name)));
                self.mention(format_args!("{} is of a course that the run has left", one.name));
            }
        }
        Ok(())
    }

    fn tell_after_current(&self, current: &str, hidden: &Hidden) {
        let Some((newest, _)) = hidden.after_current.first() else { return };
        let describe = |(name, damaged): &(String, bool)| match damaged {
            true => format!("{name} (found damaged)"),
            false => name.clone(),
        };
        let newer: Vec<String> = hidden.after_current.iter().map(describe).collect();
        self.tell(format_args!(
            "{current} is the current checkpoint of {}; newer ones are hidden from the program: \
             {}. SCR_CURRENT={newest} begins with that one instead",
            self.site.prefix.display(),
            newer.join(", "),
        ));
    }

    /// Looks at checkpoints of a series on the prefix until one is good; see the file's head for
    /// their order.
    fn hide_damaged(
        &self,
        links: &Links,
        index: &mut Index,
        report: &mut RebuildReport,
        hidden: &mut Hidden,
        (series, limit): (usize, Limit),
    ) -> Result<()> {
        let wanted = |one: &&Listed| {
            let counts = (one.holds_names || one.kept) && one.checkpoint.is_some();
            counts && one.series == Some(series) && (one.id <= limit.id || !limit.is_chosen)
        };
        let candidates: Vec<Listed> = index.listed.iter().filter(wanted).cloned().collect();
        // Of a course that the run to the limit has left, or is to leave.
        let left =
            |one: &Listed| one.id > limit.id || one.abandoned_by.is_some_and(|by| by <= limit.id);
        let offers = |one: &Listed| report.offered.iter().any(|cached| cached.id == one.id);
        let (newer, rest): (Vec<Listed>, Vec<Listed>) =
            candidates.into_iter().partition(|one| left(one) && !offers(one));
        // One that only the cache has is not among them.
        let of_series = |one: &Offered| self.series.series_index(&one.key.series) == Some(series);
        let returned = index.returned_to == Some(limit.id) && report.offered.iter().any(of_series);
        if self.find_good(links, index, report, hidden, &rest)? || returned {
            let there = newer.iter().filter(|one| one.holds_names);
            let (left, newer): (Vec<_>, Vec<_>) = there.partition(|one| one.id <= limit.id);
            self.hide_left(links, &left, &rest, hidden)?;
            let hide = |one: &Listed| self.hide_after_current(links, one, index, hidden);
            return newer.into_iter().try_for_each(hide);
        }
        self.find_good(links, index, report, hidden, &newer).map(drop)
    }

    /// The program reads the checkpoint where it is. Collective.
    pub(in crate::session) fn put_back(
        &self,
        links: &Links,
        id: u64,
        hidden: &mut Hidden,
    ) -> Result<()> {
        match put_back(&links.ctx(&self.site), id) {
            Err(error @ Error::Comm(_)) => return Err(error),
            Err(error) => {
                self.tell(format_args!("{error}; it is not what it was with dataset {id}"))
            }
            Ok((restored, changed)) => {
                if !changed.is_empty() {
                    let files = changed.join(", ");
                    self.tell(format_args!("{files}: again as it was with dataset {id}"));
                }
                hidden.restored.extend(restored);
            }
        }
        Ok(())
    }

    /// Looks at one after the other until one is good, and hides the others. `false`: none is.
    fn find_good(
        &self,
        links: &Links,
        index: &mut Index,
        report: &mut RebuildReport,
        hidden: &mut Hidden,
        candidates: &[Listed],
    ) -> Result<bool> {
        // What the user has deleted or written anew he wants so.
        let (mut stays_so, mut damaged) = (false, false);
        for one in candidates.iter().take(LOOKED_AT_MAX) {
            let stays = stays_so || is_cached(one, report);
            if one.kept && (stays || !self.bring_back(links, one, index, damaged)?) {
                continue;
            }
            let begin = Instant::now();
            let is_fetch = self.fetch_plan(one, index, report).is_some();
            let restarts = !is_cached(one, report);
            let found = self.look_at(links, one, index, report)?;
            self.log_look((one, &found), is_fetch, report, begin);
            let cached = report.offered.iter().position(|offered| offered.id == one.id);
            if found.gone || found.fault.is_some() {
                index.flushed.retain(|id| *id != one.id);
            }
            stays_so |= found.gone;
            damaged |= found.fault.is_some();
            if found.gone {
                index.gone.push(one.id);
            }
            self.tell_unverified(one, &found, restarts);
            let Some(fault) = found.fault else {
                if found.gone && cached.is_none() {
                    continue;
                }
                if one.key.id.is_empty() {
                    // Newer ones, which are hidden, have the same names.
                    hidden.restored.extend(found.names.iter().cloned());
                }
                if restarts && !found.gone {
                    hidden.restart = hidden.restart.max(one.id);
                    if !report.offered.iter().any(|cached| cached.id == one.id) {
                        self.put_back(links, one.id, hidden)?;
                        if hidden.restart == one.id {
                            let captured = one.key.id.clone();
                            hidden.in_place = Some(InPlace { captured, names: found.names });
                        }
                    }
                    index.flushed.push(one.id); // whatever an earlier start has found
                }
                return Ok(true);
            };
            let is_cached = cached.filter(|at| !report.offered[*at].is_on_prefix());
            let remedy = match is_cached {
                Some(_) => "the copy in the cache is used",
                None if found.names.is_empty() => "which files it has is not known: none is hidden",
                None => "its files are hidden from the program",
            };
            self.tell_damaged(one, report, &format!("{fault}; {remedy}"));
            if is_cached.is_some() {
                return Ok(true);
            }
            hidden.names.extend(found.names);
            if let Some(at) = cached {
                let offered = report.offered.remove(at);
                self.reject(offered, hidden);
            }
        }
        Ok(false)
    }

    pub(in crate::session) fn reject(&self, offered: Offered, hidden: &mut Hidden) {
        let Some(key) = self.machine_key(&offered.key) else { return };
        hidden.rejected.push(Rejected { key, id: offered.id });
        let names = offered.catalog.entries().map(|entry| entry.meta.name);
        hidden.names.extend(names);
    }

    /// One line, by one rank.
    pub(in crate::session) fn tell(&self, text: impl Display) {
        if self.site.rank == 0 {
            log::warn(text);
        }
    }

    /// Takes names and their directories out of what the program sees. Collective: rank 0 looks at
    /// the directories, so that all see the same.
    pub(in crate::session) fn hide(
        &self,
        links: &Links,
        hidden: &Hidden,
        report: &RebuildReport,
    ) -> Result<()> {
        if hidden.names.is_empty() {
            return Ok(());
        }
        let mut tree = KvTree::new();
        if self.site.rank == 0 {
            for (name, dir) in self.hidden_dirs(&hidden.names, report) {
                let entry = tree.child_mut(name);
                entry.set_value("SECONDS", dir.mtime.0);
                entry.set_value("NANOSECONDS", dir.mtime.1);
            }
        }
        let mut bytes = tree.encode();
        links.world.broadcast(&mut bytes, 0)?;
        let tree = KvTree::decode(&bytes)?;
        let mut state = self.state();
        for (name, entry) in tree.iter() {
            let time = |key: &str| entry.get_i64(key).unwrap_or(0);
            let mtime = (time("SECONDS"), time("NANOSECONDS"));
            let path = self.site.on_prefix(name);
            state.view.hide_dir(name, HiddenDir { path, mtime });
        }
        hidden.names.iter().for_each(|name| state.view.hide(name));
        Ok(())
    }

    /// Directories that belong to one checkpoint (the captured id is in their names) and have
    /// nothing but hidden files in them.
    fn hidden_dirs(
        &self,
        names: &BTreeSet<String>,
        report: &RebuildReport,
    ) -> BTreeMap<String, HiddenDir> {
        let mut wanted = BTreeSet::new();
        for name in names {
            let Some(matched) = self.match_name(name) else { continue };
            wanted.extend(own_dirs(name, &matched.masked).map(str::to_string));
        }
        let mut dirs: BTreeMap<String, HiddenDir> = BTreeMap::new();
        // The innermost first: an outer one may have nothing but those.
        for dir in wanted.into_iter().rev() {
            let path = self.site.on_prefix(&dir);
            let (Ok(found), Ok(entries)) = (path.metadata(), path.read_dir()) else { continue };
            let is_hidden = |entry: std::io::Result<std::fs::DirEntry>| {
                let name = entry.ok()?.file_name().into_string().ok()?;
                let name = format!("{dir}/{name}");
                Some(ns::is_ours(&name) || names.contains(&name) || dirs.contains_key(&name))
            };
            let holds = report.offered.iter().any(|offered| offered.holds(&dir));
            if !holds && entries.into_iter().all(|entry| is_hidden(entry) == Some(true)) {
                let mtime = (found.mtime(), found.mtime_nsec());
                dirs.insert(dir, HiddenDir { path, mtime });
            }
        }
        dirs
    }
}

/// Whether the cache offers a checkpoint, or a newer one of its series.
pub(in crate::session) fn is_cached(one: &Listed, report: &RebuildReport) -> bool {
    let series = &one.key.series;
    report.offered.iter().any(|cached| cached.id >= one.id && cached.key.series == *series)
}

/// The directories of `name` whose own part of the path differs from that of `masked`: they carry
/// the captured id, or lie in one that does.
pub(in crate::session) fn own_dirs<'a>(
    name: &'a str,
    masked: &str,
) -> impl Iterator<Item = &'a str> {
    let same = name.split('/').zip(masked.split('/')).take_while(|(own, all)| own == all).count();
    let ends = name.match_indices('/').map(|(at, _)| at);
    ends.skip(same).map(|at| &name[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_one_checkpoint_are_hidden() {
        let dirs = |name, masked| own_dirs(name, masked).collect::<Vec<_>>();
        assert_eq!(dirs("c/step_20/a/r", "c/step_{id}/a/r"), ["c/step_20", "c/step_20/a"]);
        assert!(dirs("c/step_20.dat", "c/step_{id}.dat").is_empty());
        assert!(dirs("c/latest", "c/latest").is_empty());
    }
}
