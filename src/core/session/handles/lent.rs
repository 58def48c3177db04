//! Cached files that a child of this rank writes because somebody else has them open: one file for
//! all. What the child does passes no engine, so its descriptor counts as one of this rank's until
//! the kernel says that nobody can write the file any more. Until then its dataset is in progress.

use std::time::{Duration, Instant};

use crate::handles::{GRACE, LiesAt, Loan, Room, Tracked};
use crate::log::{self, messages};
use crate::namespace::Place;
use crate::session::{
    handles::Handles,
    node::{State, neighbours::Locked},
    rank::lock,
};
use crate::system::has_writers;

const PAUSE: Duration = Duration::from_millis(10);

impl State {
    fn is_written(&self, token: u64) -> bool {
        let Some(one) = self.own.tokens.get(token) else { return false };
        let here = match (&one.way, self.view.place(&one.name)) {
            (LiesAt::Shadow { copy, .. }, _) => copy.clone(),
            (_, Place::Cached(_, here) | Place::Private(here)) => here,
            _ => return false, // on the PFS, as what a child writes should be
        };
        has_writers(&here).is_ok_and(|written| written != Some(false))
    }
}

impl Handles {
    /// Lets the process `child` open the file of `token`, too. After the end nothing waits for it.
    pub(crate) fn lend(&self, state: &mut State, token: u64, child: i32) {
        let Some(twin) = state.own.tokens.get(token).filter(|_| !self.rank.is_ended()).cloned()
        else {
            return;
        };
        state.machine.lent(&twin.key, &twin.name);
        state.doubt(&twin.name);
        let token = state.own.tokens.issue(Tracked { room: Room::default(), ..twin });
        lock(&self.lent).push(Loan::new(token, child));
    }

    /// Takes back what no child writes any more.
    pub(crate) fn end_lent(&self) -> Locked<'_> {
        let state = self.node.state_to_look();
        let is_over = |one: &mut Loan| !one.is_new() && !state.is_written(one.token);
        let over = lock(&self.lent).extract_if(.., is_over).collect::<Vec<_>>();
        if over.is_empty() {
            return state;
        }
        drop(state);
        over.iter().for_each(|lent_one| _ = self.closed(lent_one.token));
        self.node.state_to_look()
    }

    pub(crate) fn await_lent(&self) {
        let begun = Instant::now();
        loop {
            drop(self.end_lent());
            if lock(&self.lent).is_empty() || begun.elapsed() > 2 * GRACE {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Settles what children still write, as it is: the engine has ended.
    pub(crate) fn end_all_lent(&self) {
        let lent = std::mem::take(&mut *lock(&self.lent));
        for lent_one in lent {
            let state = self.node.state();
            let name = state.own.tokens.get(lent_one.token).map(|one| one.name.clone());
            let written = state.is_written(lent_one.token);
            drop(state);
            if let Some(name) = name.filter(|_| written) {
                log::warn(
                    messages::CHILD_WRITES,
                    format_args!(
                        "rank {}: a child still writes {name}; what it writes from now on does not \
                     reach {}. Wait for it before the rank ends",
                        self.site.rank,
                        self.site.prefix.display()
                    ),
                );
            }
            self.closed(lent_one.token);
        }
    }
}
