//! What ranks of other nodes are to see of this rank's files before their dataset is sealed, and
//! when they are told: from the next agreement on.

use crate::machine::state::RunFacts;

/// What a rank has to tell; the most of any rank counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum ToTell {
    #[default]
    None,
    /// Files of a dataset in progress. Its seal tells of them, too.
    Files,
    /// Names that are gone, or there again. Nothing else tells of that.
    Names,
    /// A directory that has been renamed: told to the ranks of its own node, too, which may have
    /// missed it.
    Moves,
}

impl ToTell {
    /// It stands above the count of datasets in progress in that word of an agreement. The maximum
    /// leaves nothing of the counts of ranks without news.
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

#[derive(Debug, Clone, Default)]
pub struct NamesToTell {
    news: ToTell,
    /// What this rank has told in the agreement that is under way.
    asked: ToTell,
    /// What all ranks together have to tell since the last agreement.
    due: ToTell,
    /// A conference follows: all know whether it leaves something in progress.
    confers: bool,
    /// The last conference met files that do not know their dataset yet.
    pub left_over: bool,
}

impl NamesToTell {
    pub fn note_name(&mut self) {
        self.news = self.news.max(ToTell::Files);
    }

    pub fn note_deletions(&mut self, facts: &RunFacts) -> bool {
        self.news = self.news.max(ToTell::Names);
        !facts.is_on_one_node()
    }

    pub fn note_move(&mut self) {
        self.news = ToTell::Moves;
    }

    pub fn begin(&mut self) {
        self.asked = ToTell::None;
    }

    pub fn postponed(&mut self) {
        self.news = self.news.max(self.asked);
    }

    pub fn agreed(&mut self, word: i64, confers: bool) {
        (self.due, self.confers) = (ToTell::of_word(word), confers);
    }

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

    pub fn tells_names(&self, facts: &RunFacts, before_conference: bool) -> bool {
        let open = || facts.shared.series.iter().any(|series| series.open().next().is_some());
        let left = || self.confers && (open() || self.left_over);
        match (self.due, before_conference) {
            (ToTell::None, _) | (ToTell::Files, true) => false,
            (ToTell::Files, false) => !self.confers || left(),
            (ToTell::Names | ToTell::Moves, true) => true,
            // Files may belong elsewhere since then.
            (ToTell::Names | ToTell::Moves, false) => left(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::state::DatasetState;
    use crate::machine::state::testing::{facts, file, share, write};
    use crate::machine::terms::DatasetKey;

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
