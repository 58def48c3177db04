//! What is asked of the machine, without a change.

use std::collections::{BTreeMap, BTreeSet};

use super::matters::{others, telling, unsealed};
use super::parts::Machine;
use super::prefix::{places, reasons};
use super::state::{DatasetState, Routing, SharedDataset, Standing};
use super::terms::{DatasetKey, FileRef, Overdue, Reason, SealFile, Why, name_hash};

impl Machine {
    /// Tells whether any dataset is known, of this launch or an earlier one, wherever it is; the
    /// same on all ranks.
    pub fn knows_datasets(&self) -> bool {
        let all = (0..self.facts.config.series.len()).any(|at| !self.datasets(at).is_empty());
        all || self.facts.shared.next_id > 1
    }

    /// Returns the sealed datasets and those known to be in progress, oldest first.
    #[must_use]
    pub fn datasets(&self, series: usize) -> &[SharedDataset] {
        &self.facts.shared.series[series].datasets
    }

    /// Tells where the files of the series go.
    #[must_use]
    pub fn routing(&self, series: usize) -> Routing {
        self.facts.shared.series[series].routing
    }

    /// Returns the largest size that a file of this masked name had so far on this rank, bytes; 0
    /// if unknown.
    #[must_use]
    pub fn expected_bytes(&self, series: usize, masked: &str) -> u64 {
        self.facts.series[series].sizes.get(&name_hash(masked)).copied().unwrap_or(0)
    }

    /// Counts the bytes of this rank's closed files of a dataset that lie in cache.
    #[must_use]
    pub fn cached_bytes(&self, key: &DatasetKey) -> u64 {
        self.facts.cached_bytes(key)
    }

    /// Tells whether the dataset is not sealed yet, as this rank must treat it.
    #[must_use]
    pub fn is_in_progress(&self, key: &DatasetKey) -> bool {
        self.facts.status(key) == Standing::Open
    }

    /// Tells whether a pointer file names a checkpoint of which this rank, or one that has not
    /// heard of a fall-back, has files in the cache: on the PFS it would be there before them, and
    /// outlive them if a node is lost.
    #[must_use]
    pub fn goes_with_cached(&self, file: &FileRef) -> bool {
        reasons::goes_with_cached(&self.facts, file)
    }

    /// Tells what became of a dataset; `None` if it has gone, or never was.
    #[must_use]
    pub fn state_of(&self, key: &DatasetKey) -> Option<DatasetState> {
        self.facts.shared.find(key).map(|dataset| dataset.state)
    }

    /// Tells whether the program calls the dataset output.
    #[must_use]
    pub fn is_output(&self, key: &DatasetKey) -> bool {
        self.facts.shared.find(key).is_some_and(|dataset| dataset.word.output)
    }

    /// Returns the number that the next dataset gets.
    #[must_use]
    pub fn next_id(&self) -> u64 {
        self.facts.shared.next_id
    }

    /// Tells whether the program has touched the dataset on this rank since the last report, or
    /// could not.
    #[must_use]
    pub fn is_touched(&self, key: &DatasetKey) -> bool {
        let own = self.facts.own(key);
        own.is_some_and(|dataset| dataset.touched || dataset.why_invalid().is_some())
    }

    /// Tells when this rank began to write the dataset, ms, if it did.
    #[must_use]
    pub fn begun_ms(&self, key: &DatasetKey) -> Option<u64> {
        let dataset = self.facts.own(key).filter(|dataset| dataset.begun);
        dataset.map(|dataset| dataset.begun_ms)
    }

    /// Returns the dataset's number; 0 if it has none.
    #[must_use]
    pub fn id_of(&self, key: &DatasetKey) -> u64 {
        self.facts.id_of(key)
    }

    /// Returns this rank's files of a dataset, by name; also those that the program has deleted
    /// since they were complete.
    #[must_use]
    pub fn seal_files(&self, key: &DatasetKey) -> Vec<SealFile> {
        self.facts.seal_files(key)
    }

    /// Tells whether a flush of the dataset must not write this file of ours: the program's
    /// deletion of it has become real (a newer dataset is confirmed, or the run ends), the PFS has
    /// it under another name, or holds a newer content of it from this rank, or it is never quiet.
    #[must_use]
    pub fn is_left_out(&self, key: &DatasetKey, name: &str) -> bool {
        self.left_out().is_left_out(key, name)
    }

    /// Does what [`Machine::is_left_out`] does, for a thread that has its turn to give the file its
    /// name. Newer flushes that have begun since come after it, and must not keep it back: the
    /// other ranks' threads may have given theirs, and the PFS would have a part of this one.
    #[must_use]
    pub fn is_left_out_now(&self, key: &DatasetKey, name: &str) -> bool {
        self.left_out().is_left_out_now(key, name)
    }

    /// Finds this rank's files of `along`, with the newest dataset of them that has it, that a
    /// flush of `head` publishes along with its own: those of which neither it nor another complete
    /// dataset before it has a newer content.
    #[must_use]
    pub fn files_along(
        &self,
        along: &[DatasetKey],
        head: &DatasetKey,
    ) -> Vec<(DatasetKey, Vec<String>)> {
        self.left_out().files_along(along, head)
    }

    /// Tells when this rank last opened, closed or changed a file of the dataset, ms, if it has
    /// begun to write it.
    #[must_use]
    pub fn changed_ms(&self, key: &DatasetKey) -> Option<u64> {
        let dataset = self.facts.own(key).filter(|dataset| dataset.begun);
        dataset.map(|dataset| dataset.changed_ms)
    }

    /// Tells why this rank's file of a dataset is on the prefix; `None`: it is in the cache, or
    /// unknown.
    #[must_use]
    pub fn reason_of(&self, key: &DatasetKey, name: &str) -> Option<Reason> {
        self.facts.file(key, name)?.on_prefix
    }

    /// Returns the number in series that the dataset has, or will have if those before it are
    /// sealed: from it follow store and redundancy descriptor. The seal settles any difference.
    #[must_use]
    pub fn number_of(&self, key: &DatasetKey) -> u64 {
        places::number_of(&self.facts, &self.encodings, key)
    }

    /// Does what [`Machine::number_of`] does for the dataset that a write of `file` would go to.
    #[must_use]
    pub fn number_for(&self, file: &FileRef) -> u64 {
        self.number_of(&self.facts.target(file))
    }

    /// Tells whether what the dataset has of this rank's file lies on the PFS, as its record is to
    /// say; `None` if it does not have the file (any more).
    #[must_use]
    pub fn lies_on_prefix(&self, key: &DatasetKey, name: &str) -> Option<bool> {
        let file = self.facts.file(key, name)?;
        Some(file.on_prefix.is_some() && !file.keeps_copy)
    }

    /// Tells whether of some file of the dataset this rank's newest content is in the cache.
    #[must_use]
    pub fn has_cached(&self, key: &DatasetKey) -> bool {
        let own = self.facts.own(key);
        own.is_some_and(|own| own.files.values().any(|file| file.on_prefix.is_none()))
    }

    /// Tells whether this file of a [`Step::Spill`](super::Step::Spill) is still to be written: a
    /// thread of the program may have opened or deleted it since.
    #[must_use]
    pub fn is_spilled(&self, key: &DatasetKey, name: &str) -> bool {
        let file = self.facts.file(key, name);
        file.is_some_and(|file| file.open == 0 && file.on_prefix.is_none() && !file.is_deleted())
    }

    /// Finds the names that ranks of different nodes have in their caches, with those ranks;
    /// `names` are what each rank has.
    #[must_use]
    pub fn parted<'a>(&self, names: &[Vec<&'a str>]) -> BTreeMap<&'a str, Vec<usize>> {
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

    /// Returns the names of files of older datasets that the program has deleted, as far as this
    /// rank knows: a run that begins with `key` is not to have them.
    #[must_use]
    pub fn gone_before(&self, key: &DatasetKey) -> BTreeSet<String> {
        self.deletions.gone_before(&self.facts, key)
    }

    /// Returns the newest sealed dataset of each series.
    #[must_use]
    pub fn newest_sealed(&self) -> Vec<DatasetKey> {
        self.facts.newest_sealed()
    }

    /// Tells whether anything is being encoded beside the program; the same on all ranks.
    #[must_use]
    pub fn encodes(&self) -> bool {
        self.encodings.encodes()
    }

    /// Tells whether others write such files, too, or have begun to write this one, which this rank
    /// has in `of`: no private copy of it could be put together with what they write.
    #[must_use]
    pub fn is_shared(&self, file: &FileRef, of: &DatasetKey) -> bool {
        self.watch.why(file.series, name_hash(&file.masked)).is_some()
            || self.facts.file(of, &file.name).is_some_and(|held| held.moved)
    }

    /// Tells whether, as far as is known here, only the PFS has the file, as part of a dataset that
    /// is older than a complete one there: nothing keeps a deletion of it from being real at once.
    /// If it waited for a newer one to be complete, a crash would undo it. (While the newer one is
    /// in the cache only, this may be all that is left when the cache is lost, and what a pointer
    /// file there names.)
    #[must_use]
    pub fn is_left_behind(&self, file: &FileRef) -> bool {
        others::is_left_behind(&self.facts, file)
    }

    /// Tells whether the program is about to begin the second checkpoint after one since which it
    /// has passed no sync point. That one goes to the PFS before ([`Machine::overdue_before`]), and
    /// so do those that follow: a crash must not cost more than one.
    #[must_use]
    pub fn outruns(&self, file: &FileRef) -> bool {
        self.unsealed.outruns(&self.facts, file)
    }

    /// Finds the closed files of the dataset `key`, not sealed, that a rank of another node waits
    /// for: as [`Machine::overdue`], at once. Pointer files come last.
    #[must_use]
    pub fn wanted(&self, key: &DatasetKey) -> Vec<Overdue> {
        unsealed::wanted(&self.facts, key)
    }

    /// Finds the sealed datasets that the PFS does not have and that it is to have at the end,
    /// oldest first: of each series the newest confirmed one, and newer ones, and what the program
    /// keeps. The same on all ranks.
    #[must_use]
    pub fn unsaved(&self) -> Vec<DatasetKey> {
        unsealed::unsaved(&self.facts)
    }

    /// Tells whether there was no agreement for so long that files are overdue; later ones may
    /// still come.
    #[must_use]
    pub fn is_unheard(&self, now_ms: u64) -> bool {
        unsealed::is_unheard(&self.facts, now_ms)
    }

    /// Templates, with their series, that this rank has still to leave alone.
    #[must_use]
    pub fn restless_ahead(&self) -> Vec<(usize, u64)> {
        self.logs.restless_ahead()
    }

    /// Tells whether files of the template are left alone on this rank.
    #[must_use]
    pub fn is_silenced(&self, series: usize, template: u64) -> bool {
        self.logs.is_silenced(series, template)
    }

    /// Tells why no file of the series is cached, with the file of this rank that is the reason.
    #[must_use]
    pub fn unprotected(&self, series: usize) -> Option<(Why, &str)> {
        let awaited = |name| !self.facts.ending && self.verdicts.is_awaited(series, name);
        let mark = self.watch.shared()[series].marked.as_ref();
        if mark.is_some_and(|mark| awaited(mark.name)) {
            return None; // why is not known yet
        }
        self.watch.unprotected(series)
    }

    /// Tells whether the ranks tell one another of names now, after an agreement, before or after
    /// what follows from it; the same on all. Of deletions before: what is sealed cannot be told
    /// from what the deletion meant.
    #[must_use]
    pub fn tells_names(&self, before_conference: bool) -> bool {
        self.telling.tells_names(&self.facts, before_conference)
    }

    /// Returns, by dataset, this rank's files in cache that are not sealed, and whether they are
    /// closed.
    #[must_use]
    pub fn visible(&self) -> Vec<(DatasetKey, Vec<(String, bool)>)> {
        telling::visible(&self.facts)
    }

    /// Finds a file without id of this rank that is in the cache alone, with its series, if it
    /// waits for a checkpoint of that series in vain: there is none yet, while those of another one
    /// are complete. It may name one of them, but belongs to none, and would be lost in a crash.
    #[must_use]
    pub fn stray(&self) -> Option<(usize, &str)> {
        telling::stray(&self.facts)
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

    /// An agreement of both; what follows from it.
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
