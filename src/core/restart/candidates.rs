//! What a run may begin with, in the order in which it is to be tried; who tries one says whether
//! the next one has its turn. The same for a start, and for a program that asks by itself.

/// Where a run begins, and so which datasets are of another course than its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begin {
    /// The newest dataset that counts.
    pub id: u64,
    /// The first id that the run gives.
    pub next_id: u64,
    /// Somebody has said so, and nothing beyond is offered. Otherwise it is only the current one of
    /// the index, and what is beyond has its turn when nothing else is good.
    pub is_firm: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub id: u64,
    pub is_cached: bool,
    /// The run has gone back to an older one, and has come to where this one counts no more.
    pub is_left: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidates<T> {
    /// Of the run's own course.
    pub own: Vec<T>,
    /// Of another course: they have their turn if none of the run's own is good.
    pub beyond: Vec<T>,
}

impl Begin {
    pub const ANYWHERE: Begin = Begin { id: u64::MAX, next_id: u64::MAX, is_firm: false };

    /// Tells whether `id` is newer than what the run begins with, and was there by then.
    pub fn is_before(self, id: u64) -> bool {
        id > self.id && id < self.next_id
    }

    /// Sorts datasets, which are newest first.
    pub fn course<T>(
        self,
        all: impl IntoIterator<Item = T>,
        candidate: impl Fn(&T) -> Candidate,
    ) -> Candidates<T> {
        let counts = |one: &T| !(self.is_firm && self.is_before(candidate(one).id));
        let (own, beyond) = all.into_iter().filter(counts).partition(|one| {
            let one = candidate(one);
            one.is_cached || !(self.is_before(one.id) || one.is_left)
        });
        Candidates { own, beyond }
    }
}

impl<T> Candidates<T> {
    /// Gives them in the order in which they have their turn.
    pub fn in_turn(self) -> impl Iterator<Item = T> {
        self.own.into_iter().chain(self.beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids, newest first; "c": the cache has it; "l": the run has left it.
    fn candidate(word: &&str) -> Candidate {
        Candidate {
            id: word.trim_matches(['c', 'l']).parse().unwrap(),
            is_cached: word.contains('c'),
            is_left: word.contains('l'),
        }
    }

    fn course(begin: Begin, all: &str) -> (Vec<u64>, Vec<u64>) {
        let found = begin.course(all.split(' '), candidate);
        let ids = |all: &[&str]| all.iter().map(|word| candidate(word).id).collect();
        (ids(&found.own), ids(&found.beyond))
    }

    #[test]
    fn what_is_of_another_course_has_its_turn_last_or_never() {
        let begin = Begin { id: 5, next_id: 9, is_firm: false };
        assert_eq!(course(Begin::ANYWHERE, "7 6l 5"), (vec![7, 5], vec![6]));
        assert_eq!(course(begin, "9 8 7c 6 5 4l"), (vec![9, 7, 5], vec![8, 6, 4]));
        let firm = Begin { is_firm: true, ..begin };
        assert_eq!(course(firm, "9 8 7c 6 5 4l 3lc"), (vec![9, 5, 3], vec![4]));
        let ids = |begin: Begin| -> Vec<&str> {
            let all = "6 5".split(' ');
            begin.course(all, candidate).in_turn().collect()
        };
        assert_eq!(ids(begin), ["5", "6"]);
    }
}
