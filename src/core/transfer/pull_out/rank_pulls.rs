//! What a rank has to do with files that all ranks bring to the prefix: which it has brought, takes
//! part in, was asked for, and whose turn it sees.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::pull::{have_left, leave};
use super::turn::{PullTurn, PullTurns};
use crate::bytes::{Reader, Writer};
use crate::comm::Comm;
use crate::error::{Error, Result};
use crate::files::remove_tree;
use crate::kvtree::KvTree;
use crate::log;

/// So long a rank waits for the others, which may be in a call that does not end, and until all
/// bytes are there.
pub const PULL_DEADLINE: Duration = Duration::from_secs(180);
/// The same for a rank that ends without MPI_Finalize: others may be gone.
pub const EXIT_DEADLINE: Duration = Duration::from_secs(15);
/// Between two looks at whose turn it is.
const PAUSE: Duration = Duration::from_millis(50);
/// Between two looks of a node at the prefix while no such file is known.
const LOOK: Duration = Duration::from_secs(2);

/// One rank's, for all its threads.
#[derive(Debug)]
pub struct RankPulls {
    turns: PullTurns,
    /// Where the node's first rank notes for the others whose turn it is.
    note: PathBuf,
    rank: usize,
    leads_node: bool,
    state: Mutex<PullState>,
}

#[derive(Debug, Default)]
struct PullState {
    /// Whether they have come to the prefix.
    done: BTreeMap<PullTurn, bool>,
    /// Those that have come there while ranks may still be about to open them there, by name.
    settling: BTreeSet<PullTurn>,
    /// Of those the ones of which this rank has nothing open on its node's file.
    left: BTreeSet<PullTurn>,
    /// This rank takes part: no other rank comes to an end without it.
    under_way: Option<PullTurn>,
    /// Those that this rank was asked to bring there, or has asked the others to.
    asked: BTreeSet<PullTurn>,
    /// A dataset is being sealed: this rank takes part in nothing new.
    still: bool,
    looked: Option<Instant>,
}

impl RankPulls {
    /// Begins with none. `turns` is a folder of the job, `note` a file of the node.
    #[must_use]
    pub fn new(turns: PathBuf, note: PathBuf, rank: usize, leads_node: bool) -> Self {
        RankPulls { turns: PullTurns::new(turns), note, rank, leads_node, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, PullState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns where the ranks meet for a file.
    #[must_use]
    pub fn meeting(&self, hash: u64) -> PathBuf {
        self.turns.meeting(hash)
    }

    /// Removes what an earlier launch has left.
    pub fn sweep(&self) {
        if self.rank == 0 {
            self.turns.sweep();
        }
        if self.leads_node {
            let _ = remove_tree(&self.note);
        }
    }

    /// Waits until it is the turn of this file, for so long.
    ///
    /// # Errors
    /// Another file keeps the turn for too long, or the prefix cannot be written.
    pub fn take(&self, turn: &PullTurn, deadline: Duration) -> Result<()> {
        let until = Instant::now() + deadline;
        let is_done = || self.has_come(turn).is_some();
        while !is_done() && !self.turns.take(self.rank, turn)? {
            if Instant::now() > until {
                let why = "another file is on its way out of the cache".to_string();
                return Err(Error::Refused(why));
            }
            std::thread::sleep(PAUSE);
        }
        if is_done() {
            self.turns.end(turn); // another thread was faster: nobody else would give it back
        } else {
            // The node's first rank may be about to wait for this very file.
            self.tell_node(turn);
        }
        Ok(())
    }

    fn tell_node(&self, (key, name): &PullTurn) {
        let mut tree = KvTree::new();
        tree.set_value("KEY", key);
        tree.set_value("NAME", name);
        self.mention(tree.write_file(&self.note));
    }

    fn mention(&self, done: Result<()>) {
        if let Err(error) = done {
            log::message(1, format_args!("rank {}: {error}", self.rank));
        }
    }

    /// Tells whether the file has come to the prefix, if that was tried.
    pub fn has_come(&self, turn: &PullTurn) -> Option<bool> {
        self.state().done.get(turn).copied()
    }

    /// Notes that this rank was asked for the file, or asks the others. Tells whether it is new.
    pub fn ask(&self, turn: &PullTurn) -> bool {
        self.state().asked.insert(turn.clone())
    }

    /// Notes that this rank takes part from here on; one thread of it.
    pub fn begin(&self, turn: &PullTurn) {
        loop {
            let mut state = self.state();
            if state.done.contains_key(turn) {
                return;
            }
            if !state.still && state.under_way.is_none() {
                state.under_way = Some(turn.clone());
                return;
            }
            drop(state);
            std::thread::sleep(PAUSE);
        }
    }

    /// Ends what [`RankPulls::begin`] has begun; `done`: whether the file has come, if that was
    /// tried.
    pub fn end(&self, turn: &PullTurn, done: Option<bool>) {
        let mut state = self.state();
        if let Some(done) = done {
            state.done.insert(turn.clone(), done);
        }
        if done == Some(true) {
            state.settling.insert(turn.clone());
        }
        state.under_way = None;
        drop(state);
        // By one rank: else a slow one could end another file's.
        if self.rank == 0 && done != Some(true) {
            self.turns.end(turn);
        }
    }

    /// Notes that nothing of this rank is open on its node's file any more; the meeting of `ranks`
    /// ranks was in `meeting`. The turn lasts until that is so on all, since they open the file by
    /// its name.
    pub fn has_left(&self, turn: &PullTurn, meeting: &Path, ranks: usize) {
        if self.state().left.insert(turn.clone()) {
            self.mention(leave(meeting, self.rank));
        }
        if self.rank == 0 && have_left(meeting, ranks) {
            self.turns.end(turn);
        }
    }

    /// Waits until all ranks that were to have opened a file of that name where it has come to: it
    /// may be removed, or get another name.
    ///
    /// # Errors
    /// One has not in time.
    pub fn settle(&self, name: &str) -> Result<()> {
        let until = Instant::now() + PULL_DEADLINE;
        let of_name = |turn: &&PullTurn| turn.1 == name;
        while let Some(turn) = { self.state().settling.iter().find(of_name).cloned() } {
            if self.turns.now().as_ref() != Some(&turn) {
                self.state().settling.remove(&turn);
            } else if Instant::now() > until {
                let why = format!("some rank has not opened {name} on the prefix");
                return Err(Error::Refused(why));
            } else {
                std::thread::sleep(PAUSE);
            }
        }
        Ok(())
    }

    /// Returns when all ranks have what they have begun behind them: none begins anything until
    /// [`RankPulls::go_on`]. All ranks have come to a sync point. Collective.
    ///
    /// # Errors
    /// Those of the communication.
    pub fn stand_still(&self, world: &dyn Comm) -> Result<()> {
        loop {
            let mut state = self.state();
            state.still = true;
            let own = state.under_way.clone();
            drop(state);
            let told = own.map_or_else(Vec::new, |(key, name)| {
                Writer::new().counted(key.as_bytes()).counted(name.as_bytes()).take()
            });
            let all = world.all_gather(&told)?;
            let turn = all.iter().find_map(|one| {
                let mut from = Reader::new(one);
                from.text().zip(from.text())
            });
            let Some(turn) = turn else { return Ok(()) };
            self.go_on();
            let until = Instant::now() + PULL_DEADLINE;
            while self.has_come(&turn).is_none() && Instant::now() < until {
                std::thread::sleep(PAUSE / 10);
            }
        }
    }

    /// Lets this rank take part again.
    pub fn go_on(&self) {
        self.state().still = false;
    }

    /// Looks whose turn it is: at the prefix for the whole node, more often if such files are known
    /// (`busy`), or where that is noted.
    pub fn seen(&self, busy: bool) -> Option<PullTurn> {
        if self.leads_node { self.look(busy) } else { read_note(&self.note) }
    }

    fn look(&self, busy: bool) -> Option<PullTurn> {
        let mut state = self.state();
        if !busy && state.looked.is_some_and(|last| last.elapsed() < LOOK) {
            return None;
        }
        state.looked = Some(Instant::now());
        drop(state);
        let turn = self.turns.now();
        match &turn {
            Some(turn) => self.tell_node(turn),
            None if self.note.exists() => self.mention(remove_tree(&self.note)),
            None => {}
        }
        turn
    }
}

fn read_note(note: &Path) -> Option<PullTurn> {
    let tree = KvTree::read_file(note).ok()??;
    Some((tree.get_value("KEY")?.to_owned(), tree.get_value("NAME")?.to_owned()))
}
