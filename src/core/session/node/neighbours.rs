//! The ranks of a node see at once what each does with names (docs/internals/names.md): a log in
//! shared memory, told when the state is let go, heard when it is taken. Nobody waits for anybody.
//! Who looks where a name leads, to change that, claims the name first: the log takes a claim only
//! from one who has heard all. A rank may be stopped after its claim; so that says what is to be
//! done, and who cannot go on without it does it ([`Node::honour`]).

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use crate::error::Result;
use crate::machine::{DatasetState, FileRef};
use crate::namespace::{Claimed, Neighbours, NodeNews, Notice, WriteClaim};
use crate::session::node::{
    Node, State,
    shared::{Guarded, Publishing},
};
use crate::system::{HeardInLog, thread_id};

impl Node {
    pub(crate) fn hear_neighbours(&self, state: &mut State) -> NodeNews {
        let mut news = NodeNews::default();
        let Neighbours { log, place: heard_to, .. } = &self.neighbours;
        let Some(log) = log.get() else { return news };
        let mut place = heard_to.load(Ordering::Relaxed);
        loop {
            match log.hear(&mut place) {
                HeardInLog::Nothing => break,
                HeardInLog::Missed => {
                    news.missed = true;
                    state.mates.claims.clear();
                    state.mates.turns.clear();
                    state.view.forget_told(self.neighbours.ranks());
                    state.machine.forget_near();
                    state.note_all_co_writers();
                    state.own.checksums.doubt_all();
                }
                HeardInLog::Message(bytes) => match Notice::from_bytes(&bytes) {
                    Some((rank, told)) if rank != self.site.rank => {
                        self.listen(state, &mut news, rank, told);
                    }
                    _ => {}
                },
            }
        }
        heard_to.store(place, Ordering::Relaxed);
        news
    }

    fn listen(&self, state: &mut State, news: &mut NodeNews, rank: usize, told: Notice) {
        let of = match &told {
            Notice::Made(name) | Notice::OnPrefix(name) | Notice::Unclaimed(name) => name.clone(),
            Notice::Claimed(claim) => claim.name.clone(),
            _ => String::new(),
        };
        let of = (of, rank);
        if matches!(told, Notice::Made(_) | Notice::OnPrefix(_))
            && let Some(claimed) = state.mates.claims.get_mut(&of)
        {
            claimed.heard = true;
            if claimed.honoured {
                return;
            }
        }
        if matches!(told, Notice::Claimed(_) | Notice::Made(_) | Notice::OnPrefix(_)) {
            state.note_co_writer(&of.0, rank);
            state.doubt(&of.0);
            news.written.push(of.clone());
        }
        match told {
            Notice::Claimed(claim) => {
                let claimed = Claimed { claim, honoured: false, heard: false };
                drop(state.mates.claims.insert(of, claimed));
            }
            Notice::Unclaimed(_) => {
                let undone = state.mates.claims.remove(&of).is_some_and(|claimed| !claimed.heard);
                if undone && state.mates.co_writers.get(&of.0) == Some(&Some(rank)) {
                    state.mates.co_writers.remove(&of.0);
                }
            }
            Notice::Turn(names) => state.mates.turns.begin(rank, names),
            Notice::TurnOver => state.mates.turns.end(rank),
            told => self.heed(state, rank, told),
        }
    }

    /// Tells whether `rank` is this one or one of the same node.
    pub(crate) fn is_near(&self, rank: usize) -> bool {
        rank == self.site.rank || self.neighbours.ranks().contains(&rank)
    }

    /// Tells that a file is about to be written. `false`: this rank has not heard all, and nobody
    /// was told.
    pub(crate) fn claim(&self, claim: &WriteClaim) -> bool {
        let told = Notice::Claimed(claim.clone());
        self.rank.is_child() || self.neighbours.announce(&told, self.site.rank)
    }

    pub(crate) fn unclaim(&self, claim: &WriteClaim) {
        if !self.rank.is_child() {
            self.neighbours.tell(&[Notice::Unclaimed(claim.name.clone())], self.site.rank);
        }
    }

    /// Does what others have claimed of `name` and may not have done yet: they may be stopped.
    /// Returns the last of them.
    pub(crate) fn honour(&self, state: &mut State, name: &str) -> Option<usize> {
        let all =
            state.mates.claims.range_mut((name.to_string(), 0)..=(name.to_string(), usize::MAX));
        let open: Vec<_> = all
            .filter(|(_, claimed)| !claimed.honoured)
            .map(|((_, rank), claimed)| {
                claimed.honoured = true;
                (*rank, claimed.claim.clone())
            })
            .collect();
        for (rank, claim) in &open {
            // Else its own open says what is wrong.
            let _ = claim.removes.as_ref().map(|old| self.site.remove_outdated(old));
            if let Some((from, to)) = &claim.rename {
                // What is not there any more has its name, or was given up; else the rank will hear
                // itself of what is in the way.
                let _ = std::fs::rename(from, to);
            }
            if claim.on_prefix {
                self.heed(state, *rank, Notice::OnPrefix(name.to_string()));
            }
            self.heed(state, *rank, Notice::Made(name.to_string()));
        }
        open.last().map(|(rank, _)| *rank)
    }

    pub(crate) fn tell_neighbours(&self, state: &mut State) {
        let told = state.view.take_news();
        if !told.is_empty() && !self.rank.is_child() {
            self.neighbours.tell(&told, self.site.rank);
        }
    }

    fn heed(&self, state: &mut State, rank: usize, told: Notice) {
        let name = match &told {
            Notice::Deleted(name) | Notice::Made(name) | Notice::Answers(name) => name.as_str(),
            Notice::OnPrefix(name) | Notice::DirGone(name) => name.as_str(),
            _ => "",
        };
        let file = self.rank.file_ref(name);
        let beside = |file: &FileRef| state.machine.answers_beside(file);
        let contested = matches!(&told, Notice::Made(_)) && file.as_ref().is_some_and(beside);
        match (&told, &file) {
            // It did not know yet that this rank writes the file, too, and gives it back.
            (Notice::Answers(_), _) if rank > self.site.rank => {}
            (Notice::Deleted(_), Some(file)) => state.machine.deleted_just_now(file),
            (Notice::Made(_) | Notice::Answers(_), Some(file)) => {
                let mut given_away = match told {
                    Notice::Made(_) => state.machine.made_just_now(file),
                    _ => state.machine.lower_answers_for(file),
                };
                if contested && rank < self.site.rank {
                    given_away = state.machine.lower_answers_for(file);
                } else if contested {
                    state.view.tell_answers(name);
                }
                if let Some(own) = given_away.and_then(|key| state.own.holdings.get_mut(&key)) {
                    own.files.remove(&file.name);
                }
            }
            (Notice::OnPrefix(_), _) => {
                for file in self.rank.file_refs(name) {
                    for key in state.machine.taken_just_now(&file) {
                        let holding = state.own.holdings.entry(key).or_default();
                        holding.files.insert(file.name.clone());
                    }
                }
                self.note_left(state, name);
            }
            (Notice::Moved(one), _) => self.see_move(state, rank, one),
            (Notice::Deleted(_) | Notice::DirGone(_), None) => self.site.host.names_changed(),
            _ => {}
        }
        if matches!(told, Notice::Made(_))
            && let Some(Claimed { claim, .. }) = state.mates.claims.get(&(name.to_string(), rank))
        {
            claim.makes_in.iter().for_each(|key| state.view.hear_of_making(key, name));
        }
        state.view.hear(rank, told, file.as_ref());
    }

    /// Opens the log; see [`Neighbours::meet`].
    pub(crate) fn meet_neighbours(&self) -> Result<()> {
        self.rank.links().map_or(Ok(()), |links| {
            let dir = &self.site.layout.control_dir;
            self.neighbours.meet(dir, links.node.as_ref(), &links.node_ranks)
        })
    }

    /// Returns the id of a series' newest complete dataset, and what `{id}` stands for.
    pub fn newest_complete(&self, series: usize) -> Option<(u64, String)> {
        let state = self.state();
        let mut all = state.machine.datasets(series).iter();
        let newest = all.rfind(|one| one.state == DatasetState::Confirmed);
        newest.map(|one| (one.id, one.key.id.clone()))
    }

    /// Locks the state. Whoever has it has heard what the other ranks of the node have done, and
    /// tells them what he did when he lets go. No thread gives a file its name on the PFS
    /// meanwhile.
    pub(crate) fn state(&self) -> Locked<'_> {
        self.state_when(|_, publishing| publishing.is_over())
    }

    /// Locks the state for who neither changes names nor looks where they lead: nobody waits.
    pub(crate) fn state_to_look(&self) -> Locked<'_> {
        self.state_when(|_, _| true)
    }

    /// Waits until threads have no more under way than is `allowed`.
    pub(crate) fn state_when(&self, allowed: impl Fn(&State, &Publishing) -> bool) -> Locked<'_> {
        let mut guarded = self.state.lock_when(allowed);
        let state = &mut guarded.state;
        state.machine.called_by(thread_id());
        state.machine.passed(self.idle.take_passed());
        self.hear_neighbours(state);
        Locked { guarded, node: self, turn: None }
    }
}

pub(crate) struct Locked<'a> {
    guarded: MutexGuard<'a, Guarded>,
    node: &'a Node,
    /// The names that nobody looks at meanwhile (`turns.rs`).
    pub(crate) turn: Option<Vec<String>>,
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.guarded.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.guarded.state
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let state = &mut self.guarded.state;
        if state.view.has_news() {
            self.node.tell_neighbours(state);
        }
        if self.turn.is_some() && !self.node.rank.is_child() {
            self.node.neighbours.tell(&[Notice::TurnOver], self.node.site.rank);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Outdated;
    use crate::session::alone::Alone;

    /// Two ranks may come to a file of a third one at the same moment, and each hear the other
    /// afterwards: nobody answered for it then, and its checkpoint was gone without a word.
    #[test]
    fn of_two_ranks_that_answer_for_a_file_the_lower_one_does() {
        let one = Alone::new();
        one.write("ck/1/file", "content");
        let mut state = one.session.node.state();
        one.session.node.heed(&mut state, 1, Notice::Answers("ck/1/file".into()));
        assert!(state.own.holdings.values().any(|holding| holding.files.contains("ck/1/file")));
    }

    /// Who opens a file while the open of another rank is under way does not see it yet.
    #[test]
    fn of_two_ranks_that_have_made_a_file_the_lower_one_answers_for_it() {
        let one = Alone::new();
        one.write("ck/1/file", "content");
        let mut state = one.session.node.state();
        state.view.take_news();
        let made = || Notice::Made("ck/1/file".into());
        one.session.node.heed(&mut state, 1, made());
        assert!(state.view.take_news().contains(&Notice::Answers("ck/1/file".into())));
        one.session.node.heed(&mut state, 2, Notice::Deleted("ck/1/file".into()));
        one.session.node.heed(&mut state, 2, made());
        assert_eq!(state.view.take_news(), [], "that rank has it");
    }

    /// It would open the older file otherwise, and the other rank a new one.
    #[test]
    fn what_a_rank_has_claimed_to_remove_is_gone_for_who_takes_the_new_file_for_there() {
        let one = Alone::new();
        let node = &one.session.node;
        let path = node.site.on_prefix("ck/1/file");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "older").unwrap();
        let removes = Outdated::at(path.clone());
        let name = "ck/1/file".to_string();
        let claim =
            WriteClaim { name: name.clone(), on_prefix: true, removes, ..WriteClaim::default() };
        let mut state = node.state();
        state.mates.claims.insert((name, 1), Claimed { claim, honoured: false, heard: false });
        assert_eq!(node.honour(&mut state, "ck/1/file"), Some(1));
        assert!(!path.exists());
    }
}
