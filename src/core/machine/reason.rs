//! Why a file that a pattern matches is on the prefix under its own name, and not in the cache.
//!
//! Whatever SCR leaves to the prefix has one of these reasons: it is kept with the file, counted,
//! and told to who asks.

use super::Machine;
use super::keys::{DatasetKey, FileRef};
use super::knowledge::{Why, name_hash};
use super::shared::Routing;

/// Why a file goes to the prefix by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Nobody has seen yet how the program writes files of this kind.
    Watched,
    /// A file of its series cannot be cached, and a roll-back without it would not be consistent.
    SeriesStays,
    /// It was seen what the program does with such files.
    Learned(Why),
    /// The rank, or the whole run, has given the cache up.
    FallenBack,
    /// Every place in the store is taken by datasets that wait for their flush.
    WaitsForFlush,
    /// No collective of all ranks is in sight.
    NoAgreement,
    /// Its dataset cannot be sealed in the cache.
    Unsealable,
    /// The store has no room or no inodes.
    NoRoom,
    /// The store has failed.
    StoreFailed,
    /// Another rank, or a process that a rank has started, writes it there.
    Shared,
    /// Another file of that name, or its older content, is open or lies there.
    Follows,
    /// The program makes a hard link of it.
    Linked,
    /// Its directory is renamed.
    DirectoryMoved,
    /// The program has renamed it to a name that no pattern matches.
    RenamedOut,
    /// It is under a temporary name that was not renamed.
    Temporary,
    /// Ranks open it together by MPI-IO.
    OpenedTogether,
    /// It is never quiet: a log.
    NeverQuiet,
    /// A rank of another node waits for it.
    Wanted,
    /// It is opened in a way that the cache cannot serve (O_DIRECT, O_TMPFILE).
    Special,
    /// The program has named it to a call of SCR, and changes it by other means.
    ChangedApart,
    /// Its dataset had left the cache while it was open.
    Evicted,
}

impl Reason {
    /// Every one.
    pub const ALL: [Reason; 24] = [
        Reason::Watched,
        Reason::SeriesStays,
        Reason::Learned(Why::Writers),
        Reason::Learned(Why::Readers),
        Reason::Learned(Why::GoesOn),
        Reason::Learned(Why::Stays),
        Reason::FallenBack,
        Reason::WaitsForFlush,
        Reason::NoAgreement,
        Reason::Unsealable,
        Reason::NoRoom,
        Reason::StoreFailed,
        Reason::Shared,
        Reason::Follows,
        Reason::Linked,
        Reason::DirectoryMoved,
        Reason::RenamedOut,
        Reason::Temporary,
        Reason::OpenedTogether,
        Reason::NeverQuiet,
        Reason::Wanted,
        Reason::Special,
        Reason::ChangedApart,
        Reason::Evicted,
    ];

    /// Says it in a clause that goes on from "it is there since".
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Reason::Watched => {
                "SCR watches how the program writes such files before it caches them"
            }
            Reason::SeriesStays => "another file of its series cannot be cached",
            Reason::Learned(Why::Writers) => "several ranks write it",
            Reason::Learned(Why::Readers) => "ranks of other nodes read it during the run",
            Reason::Learned(Why::GoesOn) => "a checkpoint goes on in it after a collective",
            Reason::Learned(Why::Stays) => "it gets its name by a rename that the cache cannot do",
            Reason::FallenBack => "the cache was given up after an error",
            Reason::WaitsForFlush => "the store is full of datasets that wait for their flush",
            Reason::NoAgreement => "no blocking collective of all ranks was in sight",
            Reason::Unsealable => "its checkpoint could not be sealed in the cache",
            Reason::NoRoom => "the store had no room",
            Reason::StoreFailed => "the store had failed",
            Reason::Shared => "another rank or a child process writes it there",
            Reason::Follows => "its older content was open or lay there",
            Reason::Linked => "the program made a hard link of it",
            Reason::DirectoryMoved => "its directory was renamed",
            Reason::RenamedOut => "it was renamed to a name that no pattern matches",
            Reason::Temporary => "it kept its temporary name",
            Reason::OpenedTogether => "ranks opened it together by MPI-IO",
            Reason::NeverQuiet => "no checkpoint can wait for it: it is written to all the time",
            Reason::Wanted => "a rank of another node waited for it",
            Reason::ChangedApart => "the program changed it other than by calls of SCR",
            Reason::Special => "it was opened with O_DIRECT or O_TMPFILE",
            Reason::Evicted => "its checkpoint had left the cache while it was open",
        }
    }

    /// Returns its place in [`Reason::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        Reason::ALL.iter().position(|one| *one == self).unwrap_or_default()
    }
}

impl Machine {
    /// Tells why this rank's file of a dataset is on the prefix; `None`: it is in the cache, or
    /// unknown.
    #[must_use]
    pub fn reason_of(&self, key: &DatasetKey, name: &str) -> Option<Reason> {
        self.series[key.series].find(key)?.files.get(name)?.on_prefix
    }

    /// Tells why a new open of `file` in the dataset `key` goes to the prefix; `None`: to the
    /// cache.
    pub(super) fn reason_for(&self, file: &FileRef, key: &DatasetKey) -> Option<Reason> {
        let own = self.series[key.series].find(key).and_then(|own| own.files.get(&file.name));
        if let Some(reason) = own.and_then(|own| own.on_prefix) {
            return Some(reason);
        }
        if self.is_open_in_cache(key, &file.name) {
            return None;
        }
        let stays = self.stays_on_prefix(file);
        if stays.is_some() {
            return stays;
        }
        if self.is_out_of_reach(file, key) {
            return Some(Reason::NoAgreement);
        }
        let spilled = self.shared.find(key).is_some_and(|dataset| dataset.prefix_only);
        (spilled || self.is_rest(key)).then_some(Reason::Unsealable)
    }

    /// Tells of the file for which its whole series stays there what the others do not have.
    fn why_series_stays(&self, file: &FileRef) -> Reason {
        let (shared, local) = (&self.shared.series[file.series], &self.series[file.series]);
        let is_marked = local.marked.as_deref() == Some(file.name.as_str());
        let mark = shared.marked.as_ref().filter(|_| is_marked);
        mark.map_or(Reason::SeriesStays, |mark| Reason::Learned(mark.why))
    }

    /// Tells why new files of that name go to the prefix, if they do.
    pub(super) fn stays_on_prefix(&self, file: &FileRef) -> Option<Reason> {
        let shared = &self.shared.series[file.series];
        let name = name_hash(&file.masked);
        match shared.routing {
            Routing::Learning => return Some(Reason::Watched),
            Routing::Prefix => return Some(self.why_series_stays(file)),
            Routing::Cache | Routing::Trial => {}
        }
        if (self.shared.fallen_back || self.falls_back) && !self.goes_with_cached(file) {
            return Some(Reason::FallenBack);
        }
        let learned = shared.unsafe_names.get(&name).copied();
        if let Some(why) = learned.or_else(|| self.series[file.series].mark_of(name)) {
            return Some(Reason::Learned(why));
        }
        if self.is_new(file) {
            return Some(Reason::Watched);
        }
        self.is_overfull(file.series).then_some(Reason::WaitsForFlush)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::machine::{Intent, MachineConfig, Placement, SeriesConfig};

    #[test]
    fn every_reason_has_its_place_and_words_of_its_own() {
        let places: Vec<usize> = Reason::ALL.iter().map(|reason| reason.index()).collect();
        assert_eq!(places, (0..Reason::ALL.len()).collect::<Vec<_>>());
        let texts: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.text()).collect();
        assert_eq!(texts.len(), Reason::ALL.len());
    }

    #[test]
    fn a_file_on_the_prefix_keeps_the_first_reason() {
        let file = |name: &str| FileRef {
            series: 0,
            id: Some("7".into()),
            name: format!("ckpt/7/{name}"),
            masked: format!("ckpt/{{id}}/{name}"),
            temporary: false,
        };
        let mut series = SeriesConfig::new("ckpt", true);
        let learning = MachineConfig::new(0, vec![0], vec![series.clone()]);
        let mut machine = Machine::new(learning, &[], 0);
        let placed = |machine: &mut Machine, name: &str| {
            let answer = machine.write_open(&file(name), Intent::REWRITE, 1);
            let Placement::Dataset(placed) = answer else { panic!("{answer:?}") };
            placed
        };
        assert_eq!(placed(&mut machine, "a").on_prefix, Some(Reason::Watched));

        series.learn = false;
        let mut machine = Machine::new(MachineConfig::new(0, vec![0], vec![series]), &[], 0);
        let first = placed(&mut machine, "a");
        assert_eq!(first.on_prefix, None);
        machine.moved_to_prefix(&first.key, "ckpt/7/a", Reason::NoRoom);
        machine.mark_unsafe(&file("a"), Why::Writers);
        machine.mark_unsafe(&file("b"), Why::Readers);
        assert_eq!(placed(&mut machine, "a").on_prefix, Some(Reason::NoRoom), "it lies there");
        assert_eq!(placed(&mut machine, "b").on_prefix, Some(Reason::Learned(Why::Readers)));
        assert_eq!(machine.reason_of(&first.key, "ckpt/7/a"), Some(Reason::NoRoom));
    }
}
