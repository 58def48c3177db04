//! What a run may begin with, in the order in which it is to be tried; who tries one says whether
//! the next one has its turn. The same for a start, and for a program that asks by itself.

/// Where a run begins, and so what is of another course than its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begin {
    /// The newest that counts.
    pub id: u64,
    /// What the run writes itself has this id or a larger one.
    pub next_id: u64,
    /// Somebody has said so, and nothing beyond is offered. Else it is only the current one of the
    /// index, and what is beyond has its turn when nothing else is good.
    pub is_firm: bool,
}

/// One that may be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RestartCandidate {
    /// Dataset id.
    pub id: u64,
    /// The cache has it.
    pub is_cached: bool,
    /// The run has gone back to an older one, and has come to where it counts no more.
    pub is_left: bool,
}

/// Candidates, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidates<T> {
    /// Of the run's own course.
    pub own: Vec<T>,
    /// Of another one: they have their turn if none of its own is good.
    pub beyond: Vec<T>,
}

impl Begin {
    /// Everything counts.
    pub const ANYWHERE: Begin = Begin { id: u64::MAX, next_id: u64::MAX, is_firm: false };

    /// Tells whether `id` is newer than what the run begins with, and was there by then.
    pub fn is_before(self, id: u64) -> bool {
        id > self.id && id < self.next_id
    }

    /// Sorts what there is, newest first.
    pub fn course<T>(
        self,
        all: impl IntoIterator<Item = T>,
        candidate: impl Fn(&T) -> RestartCandidate,
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
    /// Gives all of them, in the order in which they have their turn.
    pub fn in_turn(self) -> impl Iterator<Item = T> {
        self.own.into_iter().chain(self.beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids, newest first; "c": the cache has it; "l": it was left.
    fn course(begin: Begin, all: &str) -> (Vec<u64>, Vec<u64>) {
        let candidate = |word: &&str| RestartCandidate {
            id: word.trim_matches(['c', 'l']).parse().unwrap(),
            is_cached: word.contains('c'),
            is_left: word.contains('l'),
        };
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
        let all: Vec<&str> = begin
            .course("6 5".split(' '), |word| RestartCandidate {
                id: word.parse().unwrap(),
                is_cached: false,
                is_left: false,
            })
            .in_turn()
            .collect();
        assert_eq!(all, ["5", "6"]);
    }
}
