//! What ranks of other nodes are to see of this rank's files before their dataset is sealed, and
//! when they are told (from the next agreement on).

use crate::machine::state::{RunFacts, SharedSeries};
use crate::machine::terms::DatasetKey;

/// Complete checkpoints of another series after which a file that floats is not just early.
const STRAY_AFTER: usize = 2;

/// What there is to tell, by rank; the most that any of them has counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum ToTell {
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
struct Due {
    pub news: ToTell,
    /// A conference follows: all know whether it leaves something in progress.
    pub confers: bool,
}

impl ToTell {
    /// Above the count of datasets in progress in that word of an agreement. A rank with news
    /// counts as one that has such a dataset: the maximum leaves nothing of the others' counts.
    const SHIFT: u32 = 32;

    pub fn to_word(self, in_progress: u64) -> u64 {
        in_progress.min((1 << Self::SHIFT) - 1) | ((self as u64) << Self::SHIFT)
    }

    pub fn of_word(word: i64) -> ToTell {
        match word >> Self::SHIFT {
            0 => ToTell::None,
            1 => ToTell::Files,
            2 => ToTell::Names,
            _ => ToTell::Moves,
        }
    }
}

/// The matter of names that other nodes are to hear of.
#[derive(Debug, Clone, Default)]
pub struct NamesToTell {
    /// What they have not heard of names on this rank.
    news: ToTell,
    /// What this rank has told in the agreement that is under way.
    asked: ToTell,
    /// What all have to tell, by the last agreement.
    due: Due,
    /// The last conference met files that do not know their dataset yet.
    pub left_over: bool,
}

impl NamesToTell {
    /// Notes that a file of a dataset has come, changed or gone.
    pub fn note_name(&mut self) {
        self.news = self.news.max(ToTell::Files);
    }

    /// Does what `Machine::note_deletions` does.
    pub fn note_deletions(&mut self, facts: &RunFacts) -> bool {
        self.news = self.news.max(ToTell::Names);
        !facts.is_on_one_node()
    }

    /// Notes that all ranks are to hear at the next agreement that this one has renamed a
    /// directory.
    pub fn note_move(&mut self) {
        self.news = ToTell::Moves;
    }

    /// Begins an agreement, without anything to tell yet.
    pub fn begin(&mut self) {
        self.asked = ToTell::None;
    }

    /// Notes that the agreement was none: there is still to tell what was to be told then.
    pub fn postponed(&mut self) {
        self.news = self.news.max(self.asked);
    }

    /// Notes what all have to tell, by an agreement's word, and whether a conference follows.
    pub fn agreed(&mut self, word: i64, confers: bool) {
        self.due = Due { news: ToTell::of_word(word), confers };
    }

    /// Returns the word of an agreement that says how many datasets are in progress, and what this
    /// rank has to tell.
    pub fn take_word(&mut self, facts: &RunFacts) -> u64 {
        self.asked = self.news;
        self.take_news(facts).to_word(facts.in_progress().count() as u64)
    }

    fn take_news(&mut self, facts: &RunFacts) -> ToTell {
        match std::mem::take(&mut self.news) {
            ToTell::Moves => ToTell::Moves,
            _ if facts.is_on_one_node() => ToTell::None,
            ToTell::Files if facts.in_progress_here().next().is_none() => ToTell::None,
            news => news,
        }
    }

    /// Does what `Machine::tells_names` does.
    pub fn tells_names(&self, facts: &RunFacts, before_conference: bool) -> bool {
        let open = || facts.shared.series.iter().any(|series| series.open().next().is_some());
        let left = || self.due.confers && (open() || self.left_over);
        match (self.due.news, before_conference) {
            (ToTell::None, _) | (ToTell::Files, true) => false,
            (ToTell::Files, false) => !self.due.confers || left(),
            (ToTell::Names | ToTell::Moves, true) => true,
            // Files may belong elsewhere since then.
            (ToTell::Names | ToTell::Moves, false) => left(),
        }
    }
}

/// Does what `Machine::visible` does.
pub fn visible(facts: &RunFacts) -> Vec<(DatasetKey, Vec<(String, bool)>)> {
    let datasets = facts.in_progress_here().map(|dataset| {
        let there = dataset.files.iter();
        let there = there.filter(|(_, file)| file.on_prefix.is_none() && !file.is_deleted());
        let files = there.map(|(name, file)| (name.clone(), file.open == 0));
        (dataset.key.clone(), files.collect())
    });
    datasets.collect()
}

/// Does what `Machine::stray` does.
pub fn stray(facts: &RunFacts) -> Option<(usize, &str)> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::state::DatasetState;
    use crate::machine::state::testing::{facts, file, share, write};

    #[test]
    fn names_are_told_when_and_as_often_as_it_takes() {
        // What there is to tell, whether a conference follows, and whether it leaves something in
        // progress; whether the ranks tell before it, and after it.
        let rows = [
            (ToTell::None, false, true, false, false),
            (ToTell::Files, false, true, false, true),
            (ToTell::Files, true, true, false, true),
            (ToTell::Files, true, false, false, false),
            (ToTell::Names, false, true, true, false),
            (ToTell::Moves, true, true, true, true),
        ];
        for (news, confers, leaves, before, after) in rows {
            let (mut facts, mut telling) = (facts(true), NamesToTell::default());
            let key = DatasetKey::new(0, "1", 0);
            write(&mut facts, &key, &file("1", "s1"), 1);
            share(&mut facts, &key, DatasetState::Open);
            telling.news = news;
            let word = i64::try_from(telling.take_word(&facts)).unwrap();
            assert_eq!(word & 0xffff_ffff, 1, "datasets in progress");
            telling.agreed(word, confers);
            if !leaves {
                facts.shared.series[0].datasets[0].state = DatasetState::Provisional;
            }
            let told = [true, false].map(|first| telling.tells_names(&facts, first));
            assert_eq!(told, [before, after], "{news:?} {confers} {leaves}");
            telling.postponed();
            assert_eq!(telling.news, news, "still to be told");
        }
    }
}
