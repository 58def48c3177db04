//! What ranks of other nodes are to see of this rank's files before their dataset is sealed, and
//! when they are told (DESIGN section 5: from the next agreement on).

use super::Machine;
use super::keys::DatasetKey;
use super::local::Status;
use super::shared::SharedSeries;

/// Complete checkpoints of another series after which a file that floats is not just early.
const STRAY_AFTER: usize = 2;

/// What there is to tell, by rank; the most that any of them has counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum News {
    /// Nothing.
    #[default]
    None,
    /// Files of a dataset in progress. Its seal tells of them, too.
    Files,
    /// Names that are gone, or there again. Nothing else tells of that.
    Names,
    /// A directory that has been renamed: also told to the ranks of its own node, which may have
    /// missed it.
    Moves,
}

/// What all ranks together have to tell since the last agreement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Due {
    pub news: News,
    /// A conference follows: all know whether it leaves something in progress.
    pub confers: bool,
}

impl News {
    /// Above the count of datasets in progress in that word of an agreement. A rank with news
    /// counts as one that has such a dataset: the maximum leaves nothing of the others' counts.
    const SHIFT: u32 = 32;

    pub fn to_word(self, in_progress: u64) -> u64 {
        in_progress.min((1 << Self::SHIFT) - 1) | ((self as u64) << Self::SHIFT)
    }

    pub fn of_word(word: i64) -> News {
        match word >> Self::SHIFT {
            0 => News::None,
            1 => News::Files,
            2 => News::Names,
            _ => News::Moves,
        }
    }
}

impl Machine {
    /// Notes that a file of a dataset has come, changed or gone.
    pub(super) fn note_name(&mut self) {
        self.news = self.news.max(News::Files);
    }

    /// Notes that the program has deleted a name on this rank, or made it again. `false`: nobody is
    /// to hear.
    pub fn note_deletions(&mut self) -> bool {
        self.news = self.news.max(News::Names);
        !self.is_on_one_node()
    }

    /// Ranks of one node see at once what each of them does.
    fn is_on_one_node(&self) -> bool {
        let nodes = &self.config.nodes;
        nodes.iter().all(|node| *node == nodes[0])
    }

    /// Takes what this rank has to tell.
    pub(super) fn take_news(&mut self) -> News {
        match std::mem::take(&mut self.news) {
            News::Moves => News::Moves,
            _ if self.is_on_one_node() => News::None,
            News::Files if self.in_progress_here().next().is_none() => News::None,
            news => news,
        }
    }

    /// Tells whether the ranks tell one another of names now, after an agreement, before or after
    /// what follows from it; the same on all. Of deletions before: what is sealed cannot be told
    /// from what the deletion meant.
    #[must_use]
    pub fn tells_names(&self, before_conference: bool) -> bool {
        let open = || self.shared.series.iter().any(|series| series.open().next().is_some());
        let left = || self.due.confers && (open() || self.left_over);
        match (self.due.news, before_conference) {
            (News::None, _) | (News::Files, true) => false,
            (News::Files, false) => !self.due.confers || left(),
            (News::Names | News::Moves, true) => true,
            (News::Names | News::Moves, false) => left(), // files may belong elsewhere since then
        }
    }

    /// Returns, by dataset, this rank's files in cache that are not sealed, and whether they are
    /// closed.
    #[must_use]
    pub fn visible(&self) -> Vec<(DatasetKey, Vec<(String, bool)>)> {
        let datasets = self.in_progress_here().map(|dataset| {
            let there =
                dataset.files.iter().filter(|(_, file)| file.on_prefix.is_none() && !file.deleted);
            let files = there.map(|(name, file)| (name.clone(), file.open == 0));
            (dataset.key.clone(), files.collect())
        });
        datasets.collect()
    }

    /// Finds a file without id of this rank that is in the cache alone, with its series, if it
    /// waits for a checkpoint of that series in vain: there is none yet, while those of another one
    /// are complete. It may name one of them, but belongs to none, and would be lost in a crash.
    #[must_use]
    pub fn stray(&self) -> Option<(usize, &str)> {
        let sealed = |series: &SharedSeries| {
            let own = series.datasets.iter().filter(|one| one.seals > 0 && !one.restored);
            own.count() >= STRAY_AFTER
        };
        if !self.shared.series.iter().any(sealed) {
            return None;
        }
        let lacks = |key: &DatasetKey| self.shared.series[key.series].datasets.is_empty();
        let mut floating = self
            .in_progress_here()
            .filter(|dataset| self.is_floating(&dataset.key) && lacks(&dataset.key));
        floating.find_map(|dataset| {
            let (name, _) = dataset.files.iter().find(|(_, file)| file.is_pending())?;
            Some((dataset.key.series, name.as_str()))
        })
    }

    /// Datasets that are open on this rank, floating ones included.
    fn in_progress_here(&self) -> impl Iterator<Item = &super::local::LocalDataset> {
        let all = self.series.iter().flat_map(|series| series.datasets.iter());
        all.filter(|dataset| dataset.begun && self.status(&dataset.key) == Status::Open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{FileRef, Intent, MachineConfig, Next, SeriesConfig, SyncKind, WORDS};
    use crate::streams::WORLD;

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
        let crate::machine::Placement::Dataset(placed) = placed else { panic!() };
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
