//! What is asked of the machine, without a change.

use std::collections::{BTreeMap, BTreeSet};

use super::parts::Machine;
use super::state::{
    DatasetState, LocalDataset, LocalFile, Phase, Routing, SharedDataset, SharedSeries, Status,
};
use super::terms::{DatasetKey, FileRef, Overdue, Reason, SealFile, Why, name_hash};

/// So many complete checkpoints of another series say that a file which floats is not just early.
const STRAY_AFTER: usize = 2;

impl Machine {
    pub(crate) fn knows_datasets(&self) -> bool {
        let all = (0..self.facts.config.series.len()).any(|at| !self.datasets(at).is_empty());
        all || self.facts.shared.next_id > 1
    }

    /// Returns the sealed datasets and those known to be in progress, oldest first.
    pub fn datasets(&self, series: usize) -> &[SharedDataset] {
        &self.facts.shared.series[series].datasets
    }

    pub fn routing(&self, series: usize) -> Routing {
        self.facts.shared.series[series].routing
    }

    /// Returns 0 if nothing is known.
    pub(crate) fn expected_bytes(&self, series: usize, masked: &str) -> u64 {
        self.facts.series[series].sizes.get(&name_hash(masked)).copied().unwrap_or(0)
    }

    pub(crate) fn cached_bytes(&self, key: &DatasetKey) -> u64 {
        self.facts.cached_bytes(key)
    }

    /// Returns the node that each rank runs on.
    pub(crate) fn nodes(&self) -> &[usize] {
        &self.facts.config.nodes
    }

    pub(crate) fn is_in_progress(&self, key: &DatasetKey) -> bool {
        self.facts.status(key) == Status::Open
    }

    /// Tells whether a change of a file that another rank has in `key` is part of that: it is in
    /// progress, or the file was `added` to it. Without ids what this rank has written of it before
    /// is complete: all that have go on with the next checkpoint.
    pub(crate) fn goes_on_in(&self, key: &DatasetKey, file: &FileRef, added: bool) -> bool {
        let has_id = self.facts.config.series[file.series].has_id;
        match self.is_in_progress(key) {
            true => has_id || !self.facts.written_before(key, file),
            false => added,
        }
    }

    /// Tells whether a new file of that name would lie in the cache.
    pub(crate) fn caches(&self, file: &FileRef) -> bool {
        !self.facts.is_passive() && self.stays_on_prefix(file).is_none()
    }

    /// Tells whether the order of calls on the file matters: it is cached, or is watched.
    pub(crate) fn counts_calls_on(&self, file: &FileRef) -> bool {
        let stays = self.stays_on_prefix(file);
        !self.facts.is_passive() && stays.is_none_or(|why| why == Reason::Watched)
    }

    /// Returns the dataset to which a file that is written anew belongs.
    pub(crate) fn target(&self, file: &FileRef) -> DatasetKey {
        self.facts.target(file)
    }

    /// Returns the datasets whose seal this rank has voted for, of which the outcome is not known.
    pub(crate) fn voted(&self) -> impl Iterator<Item = &DatasetKey> {
        let all = self.facts.series.iter().filter(|_| !self.facts.is_passive());
        let voted = |dataset: &&LocalDataset| matches!(dataset.phase, Phase::Voted { .. });
        all.flat_map(|series| &series.datasets).filter(voted).map(|dataset| &dataset.key)
    }

    pub fn state_of(&self, key: &DatasetKey) -> Option<DatasetState> {
        self.facts.shared.find(key).map(|dataset| dataset.state)
    }

    pub fn is_output(&self, key: &DatasetKey) -> bool {
        self.facts.shared.find(key).is_some_and(|dataset| dataset.word.output)
    }

    pub fn next_id(&self) -> u64 {
        self.facts.shared.next_id
    }

    /// Tells whether the program has touched the dataset on this rank since the last report, or
    /// could not.
    pub(crate) fn is_touched(&self, key: &DatasetKey) -> bool {
        let own = self.facts.own(key);
        own.is_some_and(|dataset| dataset.touched || dataset.why_invalid().is_some())
    }

    pub(crate) fn begun_ms(&self, key: &DatasetKey) -> Option<u64> {
        let dataset = self.facts.own(key).filter(|dataset| dataset.begun);
        dataset.map(|dataset| dataset.begun_ms)
    }

    /// Returns when the program has changed it last.
    pub(crate) fn touched_ms(&self, key: &DatasetKey) -> u64 {
        self.facts.own(key).map_or(0, |dataset| dataset.touched_ms)
    }

    pub(crate) fn id_of(&self, key: &DatasetKey) -> u64 {
        self.facts.id_of(key)
    }

    /// Returns this rank's files of a dataset by name, those that the program has deleted since
    /// they were complete included.
    pub fn seal_files(&self, key: &DatasetKey) -> Vec<SealFile> {
        self.facts.seal_files(key)
    }

    pub(crate) fn changed_ms(&self, key: &DatasetKey) -> Option<u64> {
        let dataset = self.facts.own(key).filter(|dataset| dataset.begun);
        dataset.map(|dataset| dataset.changed_ms)
    }

    /// Tells whether this rank has written such a file into the dataset.
    pub(crate) fn has(&self, key: &DatasetKey, name: &str) -> bool {
        self.facts.file(key, name).is_some()
    }

    pub(crate) fn reason_of(&self, key: &DatasetKey, name: &str) -> Option<Reason> {
        self.facts.file(key, name)?.on_prefix
    }

    /// Returns the number in series that the dataset has, or will have if those before it are
    /// sealed. Its store and redundancy descriptor follow from it; the seal settles any difference.
    pub(crate) fn number_of(&self, key: &DatasetKey) -> u64 {
        let facts = &self.facts;
        let series = &facts.shared.series[key.series];
        let joins = facts.config.series[key.series].joins_generations();
        let numbered = |other: &&SharedDataset| {
            other.number > 0 && (other.key == *key || (joins && other.key.same_group(key)))
        };
        if let Some(numbered) = series.datasets.iter().find(numbered) {
            return numbered.number;
        }
        let waits = |other: &DatasetKey| {
            let shared = facts.shared.find(other);
            let is_first = |found: &SharedDataset| {
                found.number == 0 || self.encodings.planned(&found.key).is_some()
            };
            let unsealed =
                shared.is_none_or(|found| is_first(found) && found.state == DatasetState::Open);
            unsealed && !facts.is_floating(other) && !(joins && other.same_group(key))
        };
        let before = facts.series[key.series].datasets.iter().take_while(|one| one.key != *key);
        let ahead = before.filter(|one| one.phase == Phase::Open && waits(&one.key));
        series.next_number + ahead.count() as u64
    }

    pub(crate) fn number_for(&self, file: &FileRef) -> u64 {
        self.number_of(&self.facts.target(file))
    }

    /// Tells whether this rank's file of the dataset lies on the PFS; `None` if the dataset does
    /// not have it (any more).
    pub fn lies_on_prefix(&self, key: &DatasetKey, name: &str) -> Option<bool> {
        let file = self.facts.file(key, name)?;
        Some(file.on_prefix.is_some() && !file.keeps_copy)
    }

    pub fn has_cached(&self, key: &DatasetKey) -> bool {
        self.facts.files_of(key).any(|(_, file)| file.on_prefix.is_none())
    }

    /// Tells whether this file of a [`Step::Spill`](super::Step::Spill) is still to be written: a
    /// thread of the program may have opened or deleted it since.
    pub fn is_spilled(&self, key: &DatasetKey, name: &str) -> bool {
        let file = self.facts.file(key, name);
        file.is_some_and(|file| file.open == 0 && file.on_prefix.is_none() && !file.is_deleted())
    }

    pub(crate) fn parted<'a>(&self, names: &[Vec<&'a str>]) -> BTreeMap<&'a str, Vec<usize>> {
        let mut ranks: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (rank, name) in
            names.iter().enumerate().flat_map(|(at, all)| all.iter().map(move |one| (at, *one)))
        {
            ranks.entry(name).or_default().push(rank);
        }
        let node = |rank: &usize| self.facts.config.nodes[*rank];
        ranks.retain(|_, all| all.iter().any(|rank| node(rank) != node(&all[0])));
        ranks
    }

    /// Returns the names of deleted older files: a run that begins with `key` is not to have them.
    pub(crate) fn gone_before(&self, key: &DatasetKey) -> BTreeSet<String> {
        self.deletions.gone_before(&self.facts, key)
    }

    pub(crate) fn newest_sealed(&self) -> Vec<DatasetKey> {
        let sealed = |one: &&SharedDataset| {
            matches!(one.state, DatasetState::Provisional | DatasetState::Confirmed)
        };
        let newest = |series: &SharedSeries| series.datasets.iter().rev().find(sealed).cloned();
        self.facts.shared.series.iter().filter_map(newest).map(|dataset| dataset.key).collect()
    }

    pub(crate) fn encodes(&self) -> bool {
        self.encodings.encodes()
    }

    /// Tells whether others write such files, too, or this one: a private copy of it could not be
    /// put together with what they write.
    pub(crate) fn is_shared(&self, file: &FileRef, of: &DatasetKey) -> bool {
        self.watch.why_stays(file).is_some()
            || self.watch.has_co_writers(&self.facts, file)
            || self.facts.file(of, &file.name).is_some_and(|held| held.moved)
    }

    /// Tells whether only the PFS has the file, in a dataset older than a complete one there. Then
    /// its deletion is real at once: if it waited for a newer dataset, a crash would undo it.
    /// (While the newer one is only in the cache, this may be all that is left when the cache is
    /// lost.)
    pub fn is_left_behind(&self, file: &FileRef) -> bool {
        let facts = &self.facts;
        let Some(id) = &file.id else { return false };
        let (shared, local) = (&facts.shared.series[file.series], &facts.series[file.series]);
        let safe = |newer: &SharedDataset| {
            newer.state == DatasetState::Confirmed && newer.flushed && !newer.told.deleted_from
        };
        let newest = shared.datasets.iter().rfind(|newer| safe(newer)).map_or(0, |newer| newer.id);
        local.left.on_prefix(id).is_some_and(|number| number < newest)
            && !shared.datasets.iter().any(|dataset| dataset.key.id == *id)
            && !local.datasets.iter().any(|dataset| dataset.key.id == *id)
    }

    /// Tells whether the program is about to begin the second checkpoint after one since which it
    /// has passed no sync point. That one goes to the PFS first ([`Machine::overdue_before`]), and
    /// so do those that follow: a crash must not cost more than one.
    pub fn outruns(&self, file: &FileRef) -> bool {
        self.unsealed.outruns(&self.facts, file)
    }

    /// Finds the closed files of an unsealed dataset that a rank of another node waits for; pointer
    /// files last.
    pub(crate) fn wanted(&self, key: &DatasetKey) -> Vec<Overdue> {
        let facts = &self.facts;
        let dataset = facts.own(key).filter(|dataset| {
            dataset.begun && matches!(dataset.phase, Phase::Open | Phase::Dropped)
        });
        let files = dataset.into_iter().flat_map(|dataset| &dataset.files);
        let pending = files.filter(|(name, file)| {
            file.is_pending() && !file.is_deleted() && !facts.has_newer_on_prefix(key, name)
        });
        let has_id = facts.config.series[key.series].has_id;
        let wanted = |(name, file): (&String, &LocalFile)| Overdue {
            key: key.clone(),
            file: name.clone(),
            last: file.named.bare && has_id,
        };
        let mut wanted: Vec<Overdue> = pending.map(wanted).collect();
        wanted.sort_by_key(|one| one.last);
        wanted
    }

    /// Finds the sealed datasets that the PFS is to have at the end and does not, oldest first: the
    /// newest confirmed one of each series, newer ones, and what the program keeps.
    pub fn unsaved(&self) -> Vec<DatasetKey> {
        let facts = &self.facts;
        let all = (0..facts.series.len()).flat_map(|series| {
            let newest = facts.shared.newest_confirmed(series);
            let keeps = facts.is_kept_series(series);
            facts.shared.series[series].datasets.iter().filter(move |one| {
                let sealed =
                    matches!(one.state, DatasetState::Confirmed | DatasetState::Provisional);
                let wanted = one.id >= newest || (keeps && one.is_kept());
                sealed && wanted && !one.flushed && !one.on_prefix
            })
        });
        let mut all: Vec<_> = all.map(|one| (one.id, one.key.clone())).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, key)| key).collect()
    }

    /// Tells whether files are overdue for want of an agreement; later ones may still come.
    pub(crate) fn is_unheard(&self, now_ms: u64) -> bool {
        let facts = &self.facts;
        let agreed_ms = facts.agreement.agreed_ms;
        !facts.agreement.disabled && now_ms.saturating_sub(agreed_ms) >= facts.config.unsealed_ms
    }

    pub fn restless_ahead(&self) -> Vec<(usize, u64)> {
        self.logs.restless_ahead()
    }

    pub(crate) fn is_silenced(&self, series: usize, template: u64) -> bool {
        self.logs.is_silenced(series, template)
    }

    /// Tells why no file of the series is cached, and which file of this rank is the reason.
    pub fn unprotected(&self, series: usize) -> Option<(Why, &str)> {
        let awaited = |name| !self.facts.ending && self.verdicts.is_awaited(series, name);
        let mark = self.watch.shared()[series].marked.as_ref();
        if mark.is_some_and(|mark| awaited(mark.name)) {
            return None; // why is not known yet
        }
        self.watch.unprotected(series)
    }

    /// Tells whether all ranks tell one another of names now, before or after what follows from an
    /// agreement. Deletions come before: in what is sealed, they could not be told from others.
    pub fn tells_names(&self, before_conference: bool) -> bool {
        self.telling.tells_names(&self.facts, before_conference)
    }

    /// Returns this rank's unsealed files in cache, and whether each is closed.
    pub(crate) fn visible(&self) -> Vec<(DatasetKey, Vec<(String, bool)>)> {
        let facts = &self.facts;
        let datasets = facts.in_progress_here().map(|dataset| {
            let there = dataset.files.iter();
            let there = there.filter(|(_, file)| file.on_prefix.is_none() && !file.is_deleted());
            let files = there.map(|(name, file)| (name.clone(), file.open == 0));
            (dataset.key.clone(), files.collect())
        });
        datasets.collect()
    }

    /// Finds a file without id of this rank, in the cache alone, that waits in vain for a
    /// checkpoint of its series: there is none, while another series has complete ones. It would be
    /// lost in a crash.
    pub fn stray(&self) -> Option<(usize, &str)> {
        let facts = &self.facts;
        let sealed = |series: &SharedSeries| {
            let own = series.datasets.iter().filter(|one| one.seals.count > 0 && !one.restored);
            own.count() >= STRAY_AFTER
        };
        if !facts.shared.series.iter().any(sealed) {
            return None;
        }
        let lacks = |key: &DatasetKey| facts.shared.series[key.series].datasets.is_empty();
        let mut floating = facts
            .in_progress_here()
            .filter(|dataset| facts.is_floating(&dataset.key) && lacks(&dataset.key));
        floating.find_map(|dataset| {
            let (name, _) = dataset.files.iter().find(|(_, file)| file.is_pending())?;
            Some((dataset.key.series, name.as_str()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{
        FileRef, Intent, MachineConfig, Next, Placement, SeriesConfig, SyncKind, WORDS,
    };
    use crate::streams::WORLD;

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

    #[test]
    fn a_dataset_that_begins_before_others_are_sealed_has_the_number_after_theirs() {
        let mut series = SeriesConfig::new("ckpt", true);
        series.learn = false;
        let mut machine = Machine::new(MachineConfig::new(0, vec![0], vec![series]), &[], 0);
        let file = |id: &str| FileRef {
            series: 0,
            id: Some(id.into()),
            name: format!("ckpt/{id}"),
            masked: "ckpt/{id}".into(),
            temporary: false,
        };
        assert_eq!(machine.number_for(&file("10")), 1);
        machine.write_open(&file("10"), Intent::REWRITE, 1);
        machine.write_open(&file("20"), Intent::REWRITE, 2);
        let numbers = ["10", "20", "30"].map(|id| machine.number_for(&file(id)));
        assert_eq!(numbers, [1, 2, 3]);
    }

    fn machine(rank: usize, nodes: &[usize]) -> Machine {
        let series = SeriesConfig { learn: false, ..SeriesConfig::new("ckpt", true) };
        Machine::new(MachineConfig::new(rank, nodes.to_vec(), vec![series]), &[], 0)
    }

    fn file(name: &str) -> FileRef {
        FileRef {
            series: 0,
            id: Some("1".into()),
            name: name.into(),
            masked: name.into(),
            temporary: false,
        }
    }

    fn write(machine: &mut Machine, name: &str) {
        let key = DatasetKey::new(0, "1", 0);
        machine.write_open(&file(name), Intent::REWRITE, 1);
        machine.write_closed(&key, name, 3, 1);
    }

    fn agree(ranks: &mut [Machine; 2], now_ms: u64) -> Next {
        let words = ranks.each_mut().map(|one| one.sync_point(SyncKind::Constructor, now_ms));
        let words = words.map(Option::unwrap);
        let most: [i64; WORDS] = std::array::from_fn(|at| words[0][at].max(words[1][at]));
        let next = ranks.each_mut().map(|one| one.agreed(WORLD, most));
        let [own, other] = next;
        assert_eq!(own, other);
        own
    }

    fn tells(ranks: &[Machine; 2], before_conference: bool) -> bool {
        let tells = ranks.each_ref().map(|one| one.tells_names(before_conference));
        assert_eq!(tells[0], tells[1]);
        tells[0]
    }

    #[test]
    fn closed_files_are_told_at_the_next_agreement_and_once() {
        let mut ranks = [machine(0, &[0, 1]), machine(1, &[0, 1])];
        ranks[0].write_open(&file("open"), Intent::REWRITE, 1);
        write(&mut ranks[0], "a");
        agree(&mut ranks, 2);
        let reports = ranks.each_mut().map(|one| one.report(7, 2));
        assert!(ranks.iter_mut().all(|one| one.confer(&reports)));
        assert!(!tells(&ranks, true) && tells(&ranks, false), "it is still in progress");
        let files = [("a", true), ("open", false)].map(|(name, closed)| (name.into(), closed));
        assert_eq!(ranks[0].visible(), [(DatasetKey::new(0, "1", 0), files.to_vec())]);
        agree(&mut ranks, 3);
        assert!(!tells(&ranks, true) && !tells(&ranks, false), "nothing new");
        write(&mut ranks[1], "b");
        ranks[0].note_deletions();
        agree(&mut ranks, 4);
        assert!(tells(&ranks, true) && !tells(&ranks, false), "deletions first, and all at once");
    }

    #[test]
    fn a_file_that_waits_for_its_dataset_is_told() {
        let mut ranks = [machine(0, &[0, 1]), machine(1, &[0, 1])];
        let pointer = FileRef { id: None, ..file("latest") };
        let placed = ranks[0].write_open(&pointer, Intent::REWRITE, 1);
        let Placement::Dataset(placed) = placed else { panic!() };
        ranks[0].write_closed(&placed.key, "latest", 3, 1);
        assert_eq!(agree(&mut ranks, 2), Next::Confer);
        let reports = ranks.each_mut().map(|one| one.report(7, 2));
        assert!(ranks.iter_mut().all(|one| one.confer(&reports)));
        while ranks.each_mut().map(Machine::next_step) != [None, None] {}
        assert!(tells(&ranks, false), "no dataset takes it");
    }

    #[test]
    fn ranks_of_one_node_need_no_words() {
        let mut ranks = [machine(0, &[5, 5]), machine(1, &[5, 5])];
        write(&mut ranks[0], "a");
        assert!(!ranks[0].note_deletions());
        agree(&mut ranks, 2);
        assert!(!tells(&ranks, true) && !tells(&ranks, false));
    }
}
