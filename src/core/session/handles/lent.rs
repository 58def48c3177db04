//! Cached files that a child of this rank writes because somebody else has them open: one file for
//! all. What the child does passes no engine, so its descriptor counts as one of this rank's until
//! the kernel says that nobody can write the file any more. Until then its dataset is in progress.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::handles::{LiesAt, Room, Tracked};
use crate::log::{self, messages};
use crate::namespace::Place;
use crate::session::rank::runtime::{Session, State};
use crate::session::updates::neighbours::Locked;
use crate::system::has_writers;

/// The child opens the file as soon as it has the answer, if it lives.
const GRACE: Duration = Duration::from_secs(1);

/// Pause between two looks at the end.
const PAUSE: Duration = Duration::from_millis(10);

/// A token for what a child has open.
#[derive(Debug)]
pub(in crate::session) struct Lent {
    token: u64,
    /// The process that asked; 0 if it cannot be seen.
    child: i32,
    since: Instant,
}

impl Lent {
    pub fn new(token: u64, child: i32) -> Lent {
        Lent { token, child, since: Instant::now() }
    }

    /// The child may be about to open the file.
    fn is_new(&self) -> bool {
        let lives = || self.child == 0 || Path::new(&format!("/proc/{}", self.child)).exists();
        self.since.elapsed() < GRACE && lives()
    }
}

impl State {
    fn is_written(&self, token: u64) -> bool {
        let Some(one) = self.tokens.get(token) else { return false };
        let here = match (&one.way, self.view.place(&one.name)) {
            (LiesAt::Shadow { copy, .. }, _) => copy.clone(),
            (_, Place::Cached(_, here) | Place::Private(here)) => here,
            _ => return false, // on the PFS, as what a child writes should be
        };
        has_writers(&here).is_ok_and(|written| written != Some(false))
    }
}

impl Session {
    /// Notes that the process `child` opens the file that `token` stands for, too. After the end
    /// nothing waits for it any more.
    pub(in crate::session) fn lend(&self, state: &mut State, token: u64, child: i32) {
        let Some(twin) = state.tokens.get(token).filter(|_| !self.is_ended()).cloned() else {
            return;
        };
        state.machine.lent(&twin.key, &twin.name);
        state.doubt(&twin.name);
        let token = state.tokens.issue(Tracked { room: Room::default(), ..twin });
        state.lent.push(Lent::new(token, child));
    }

    /// Takes back what no child writes any more. Returns the state as it is then.
    pub(in crate::session) fn end_lent(&self) -> Locked<'_> {
        let mut state = self.state_to_look();
        if state.lent.is_empty() {
            return state;
        }
        let (last, over): (Vec<_>, Vec<_>) = std::mem::take(&mut state.lent)
            .into_iter()
            .partition(|lent_one| lent_one.is_new() || state.is_written(lent_one.token));
        state.lent = last;
        drop(state);
        over.iter().for_each(|lent_one| _ = self.closed(lent_one.token));
        self.state_to_look()
    }

    /// Waits for children that are about to open a file, or to end: the run ends.
    pub(in crate::session) fn await_lent(&self) {
        let begun = Instant::now();
        loop {
            if self.end_lent().lent.is_empty() || begun.elapsed() > 2 * GRACE {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Takes back what children still write, as it is: the engine has ended.
    pub(in crate::session) fn end_all_lent(&self) {
        let lent = std::mem::take(&mut self.state().lent);
        for lent_one in lent {
            let state = self.state();
            let name = state.tokens.get(lent_one.token).map(|one| one.name.clone());
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
