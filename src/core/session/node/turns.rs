//! Turns: what this rank does to names, the others of its node see as one step.
//!
//! A change of names is several steps, on the PFS, in the cache, and in what ranks know of both. So
//! who makes one first takes a turn on its names in the log, which takes that only from one who has
//! heard all; who has heard of a turn looks at none of its names before it is over. A rank may be
//! stopped in its turn: nobody waits for longer than [`PATIENCE`]. Who looked before he could hear
//! of it may find nothing: turns are counted, and a call that has found nothing while one was taken
//! is made again (`path/turns.rs` of the shim).
//!
//! A seal gives a dataset's directory its final name. Another thread of a rank that has not heard
//! yet that this is done would make the directory anew under the old one: it waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::namespace::Notice;
use crate::session::node::{Node, neighbours::Locked, shared::Publishing};

const PATIENCE: Duration = Duration::from_secs(5);

const PAUSE: Duration = Duration::from_micros(50);

impl Node {
    pub fn turns(&self) -> &AtomicU64 {
        self.neighbours.turns()
    }

    /// Locks the state for who looks where `names` lead, and changes none.
    pub(crate) fn state_to_look_at(&self, names: &[&str]) -> Locked<'_> {
        self.state_beside(names, |_| true)
    }

    /// Locks the state for who changes `names` only, and no more of them than others may see.
    pub(crate) fn state_to_change(&self, names: &[&str]) -> Locked<'_> {
        self.state_beside(names, |publishing| !publishing.meets(names))
    }

    /// Takes a turn on `names`, and what is below them, until the state is let go. Who may fail in
    /// it has to look before.
    pub(crate) fn turn_on(&self, names: &[&str]) -> Locked<'_> {
        let turn: Vec<String> = names.iter().map(|name| (*name).to_string()).collect();
        let told = Notice::Turn(turn.clone());
        loop {
            let mut state = self.state_to_change(names);
            if self.rank.is_child() || self.neighbours.announce(&told, self.site.rank) {
                self.turns().fetch_add(1, Ordering::SeqCst);
                state.turn = Some(turn);
                return state;
            }
        }
    }

    pub(crate) fn state_again(&self, turn: Option<Vec<String>>) -> Locked<'_> {
        match turn {
            Some(names) => self.turn_on(&names.iter().map(String::as_str).collect::<Vec<_>>()),
            None => self.state(),
        }
    }

    /// No other rank changes one of `names` then.
    fn state_beside(&self, names: &[&str], allowed: impl Fn(&Publishing) -> bool) -> Locked<'_> {
        let mut begun = None;
        loop {
            let mut state = self.state_when(|_, publishing| allowed(publishing));
            let turn = state.mates.turns.concerning(names);
            if turn.is_none() && !state.is_committing() {
                return state;
            }
            if begun.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                let Some(rank) = turn else { return state };
                state.mates.turns.end(rank);
                continue;
            }
            drop(state);
            self.site.host.outside(|| std::thread::sleep(PAUSE));
        }
    }
}
