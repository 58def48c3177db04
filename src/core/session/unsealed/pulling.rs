//! The way out for a file that ranks of several nodes write into their caches: when one of them
//! needs what its node has not, or its store cannot take more, all bring the file to the PFS
//! together, and go on there (docs/internals/shared_files.md).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::bytes::{Reader, Writer};
use crate::comm::Comm;
use crate::error::{Error, Result};
use crate::files::remove_tree;
use crate::handles::PartedFile;
use crate::kvtree::KvTree;
use crate::log::messages;
use crate::machine::{DatasetKey, Reason, Why, name_hash};
use crate::namespace as ns;
use crate::parts::NodeLog;
use crate::records;
use crate::session::{rank::lock, unsealed::Unsealed};
use crate::system::monotonic_ms;
use crate::transfer::{PullOut, PullTurns, Turn};

/// So long a rank waits for the others, which may be in a call that does not end, and until all
/// bytes are there.
const DEADLINE: Duration = Duration::from_secs(180);
/// Between two looks at whose turn it is.
const PAUSE: Duration = Duration::from_millis(50);
/// Between two looks of a node at the prefix while no such file is known.
const LOOK: Duration = Duration::from_secs(2);

/// What a rank has seen of the turns.
#[derive(Debug, Default)]
pub(crate) struct Pulled {
    /// Whether they have come to the PFS.
    done: BTreeMap<Turn, bool>,
    /// This rank takes part: no other rank comes to an end without it.
    under_way: Option<Turn>,
    /// Those that this rank was asked to bring there, or has asked the others to.
    asked: BTreeSet<Turn>,
    /// A dataset is being sealed: this rank takes part in nothing new.
    still: bool,
    looked: Option<Instant>,
}

impl Unsealed {
    fn turns(&self) -> PullTurns {
        PullTurns::new(self.site.state_dir().join("pulled"))
    }

    /// Where the node's first rank notes for the others whose turn it is.
    fn turn_here(&self) -> PathBuf {
        self.site.layout.control_dir.join("pulled")
    }

    /// Removes what an earlier launch has left.
    pub(crate) fn sweep_turns(&self) {
        if self.site.rank == 0 {
            self.turns().sweep();
        }
        if self.site.leads_node {
            let _ = remove_tree(&self.turn_here());
        }
    }

    /// Waits until it is the turn of this file; nobody opens it in the cache any more. The rank's
    /// writers need not stand still yet.
    ///
    /// # Errors
    /// Another file keeps the turn for too long, or the prefix cannot be written.
    pub(crate) fn take_turn(&self, key: &DatasetKey, name: &str) -> Result<()> {
        self.node.state().own.parted.leave(key, name);
        let (turn, until) = (self.turn_of(key, name), Instant::now() + DEADLINE);
        let is_done = || self.has_come(&turn).is_some();
        while !is_done() && !self.turns().take(self.site.rank, &turn)? {
            if Instant::now() > until {
                let why = "another file is on its way out of the cache".to_string();
                return Err(Error::Refused(why));
            }
            std::thread::sleep(PAUSE);
        }
        if is_done() {
            self.turns().end(&turn); // another thread was faster: nobody else would give it back
        }
        Ok(())
    }

    fn turn_of(&self, key: &DatasetKey, name: &str) -> Turn {
        (self.rank.record_key(key).directory_name(), name.to_owned())
    }

    /// Notes why later files of that name are not for the cache, as far as this rank knows.
    pub(crate) fn note_why(&self, key: &DatasetKey, name: &str, why: Why) {
        let is_asked = !lock(&self.pulled).asked.insert(self.turn_of(key, name));
        if let Some(file) = self.rank.file_ref(name).filter(|_| !is_asked) {
            self.node.state().machine.mark_unsafe(&file, why);
        }
    }

    /// Tells whether the file has come to the PFS, if that was tried.
    fn has_come(&self, turn: &Turn) -> Option<bool> {
        lock(&self.pulled).done.get(turn).copied()
    }

    /// Brings the file to the PFS together with all other ranks, and what this rank has open on it.
    ///
    /// # Errors
    /// As [`Unsealed::pull_out`].
    pub(crate) fn leave_cache(&self, key: &DatasetKey, name: &str) -> Result<()> {
        self.take_turn(key, name)?;
        let state = self.node.state();
        let token = state.own.tokens.all().find(|(_, one)| one.key == *key && one.name == name);
        let token = token.map(|(token, _)| token);
        drop(state);
        lock(&self.pulled).asked.insert(self.turn_of(key, name));
        // It stops the writers, and comes back to `pull_out`.
        token.into_iter().for_each(|token| self.site.host.move_out(token));
        self.pull_out(key, name)
    }

    /// Brings the file to the PFS together with all other ranks. This rank's writers stand still.
    ///
    /// # Errors
    /// The file is not there, and the checkpoint is lost: told here, once for each rank.
    pub(crate) fn pull_out(&self, key: &DatasetKey, name: &str) -> Result<()> {
        let turn = self.turn_of(key, name);
        let done = match self.has_come(&turn) {
            Some(true) => return Ok(()),
            Some(false) => return Err(Error::Refused(format!("{name} has not come"))),
            None => self.take_turn(key, name).and_then(|()| self.begin(&turn)),
        };
        if self.has_come(&turn).is_some() {
            return self.pull_out(key, name); // another thread has done it meanwhile
        }
        if !self.may_begin(key, name) {
            lock(&self.pulled).under_way = None;
            self.turns().end(&turn);
            return Ok(());
        }
        let done = done.and_then(|()| self.bring_out(key, name));
        match &done {
            Ok(()) => self.go_on_outside(key, name),
            Err(error) => {
                let text = format!("{name} could not be brought to the prefix: {error}");
                self.node.state().machine.failed(key, &text, monotonic_ms());
                self.rank.tell_unpublished(name, &self.site.on_prefix(name), error);
            }
        }
        let mut pulled = lock(&self.pulled);
        pulled.done.insert(turn.clone(), done.is_ok());
        pulled.under_way = None;
        drop(pulled);
        // By one rank: else a slow one could end another file's.
        if self.site.rank == 0 {
            self.turns().end(&turn);
        }
        done
    }

    /// Tells whether this rank knows the file, or another one has begun. Else it was sealed before
    /// anybody could.
    fn may_begin(&self, key: &DatasetKey, name: &str) -> bool {
        self.node.state().own.parted.get(key, name).is_some() || self.meeting(key, name).exists()
    }

    /// Where the ranks meet for the file.
    fn meeting(&self, key: &DatasetKey, name: &str) -> PathBuf {
        self.turns().meeting(name_hash(&format!("{} {name}", self.turn_of(key, name).0)))
    }

    /// Notes that this rank takes part from here on; one thread of it.
    fn begin(&self, turn: &Turn) -> Result<()> {
        loop {
            let mut pulled = lock(&self.pulled);
            if pulled.done.contains_key(turn) {
                return Ok(());
            }
            if !pulled.still && pulled.under_way.is_none() {
                pulled.under_way = Some(turn.clone());
                return Ok(());
            }
            drop(pulled);
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns when all ranks have what they have begun behind them: none begins anything until
    /// [`Unsealed::go_on`]. All ranks have come to a sync point. Collective.
    ///
    /// # Errors
    /// Those of the communication.
    pub(crate) fn stand_still(&self, world: &dyn Comm) -> Result<()> {
        loop {
            let mut pulled = lock(&self.pulled);
            pulled.still = true;
            let own = pulled.under_way.clone();
            drop(pulled);
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
            let until = Instant::now() + DEADLINE;
            while self.has_come(&turn).is_none() && Instant::now() < until {
                std::thread::sleep(PAUSE / 10);
            }
        }
    }

    /// Lets ranks take part again.
    pub(crate) fn go_on(&self) {
        lock(&self.pulled).still = false;
    }

    fn bring_out(&self, key: &DatasetKey, name: &str) -> Result<()> {
        let state = self.node.state();
        let (log, nodes) = (state.own.parted.get(key, name), state.machine.nodes().to_vec());
        let log = log.and_then(|file| file.log).map_or_else(NodeLog::default, PartedFile::node_log);
        let layer = state.view.layer(key).map(|layer| layer.dir.join(name));
        drop(state);
        let container = layer.filter(|path| path.exists());
        let meeting = self.meeting(key, name);
        let pull = PullOut {
            prefix: &self.site.prefix,
            folder: &meeting,
            target: &self.site.on_prefix(name),
            rank: self.site.rank,
            nodes: &nodes,
            deadline: DEADLINE,
        };
        let pulled = pull.join(&log, container.as_deref())?;
        if !pulled.conflicts.is_empty() {
            let text = format!("several nodes have written the same bytes of {name} at a time");
            self.node.state().machine.failed(key, &text, monotonic_ms());
        }
        Ok(())
    }

    /// The file is one of the PFS from now on.
    fn go_on_outside(&self, key: &DatasetKey, name: &str) {
        let mut state = self.node.state();
        let opened = state.own.parted.leave_for_good(key, name);
        let container = state.view.layer(key).map(|layer| layer.dir.join(name));
        if opened {
            state.now_on_prefix(key, name, Reason::Follows);
        } else {
            state.view.tell_on_prefix(name);
            state.view.moved_to_prefix(name);
        }
        let removed = container.map_or(Ok(()), |path| ns::remove(&path));
        drop(state);
        self.rank.complain_if_failed(messages::DELETION_FAILED, removed);
    }

    /// Takes part if it is some file's turn. On the helper thread.
    pub(crate) fn serve_turn(&self) {
        if !self.node.state().machine.knows_parted() {
            return;
        }
        let Some(turn) = self.seen_turn() else { return };
        if self.has_come(&turn).is_some() {
            return;
        }
        let key = records::DatasetKey::from_directory_name(&turn.0);
        let Some(key) = key.and_then(|key| self.rank.machine_key(&key)) else { return };
        let name = turn.1;
        if self.may_begin(&key, &name) {
            let _ = self.leave_cache(&key, &name); // that was told
        }
    }

    /// Looks whose turn it is: at the prefix for the whole node, or where that is noted.
    fn seen_turn(&self) -> Option<Turn> {
        let note = self.turn_here();
        if !self.site.leads_node {
            let tree = KvTree::read_file(&note).ok()??;
            return Some((tree.get_value("KEY")?.to_owned(), tree.get_value("NAME")?.to_owned()));
        }
        let busy = !self.node.state().own.parted.is_empty();
        {
            let mut seen = lock(&self.pulled);
            if !busy && seen.looked.is_some_and(|last| last.elapsed() < LOOK) {
                return None;
            }
            seen.looked = Some(Instant::now());
        }
        let turn = self.turns().now();
        match &turn {
            Some((key, name)) => {
                let mut tree = KvTree::new();
                tree.set_value("KEY", key);
                tree.set_value("NAME", name);
                self.rank.mention_if_failed(tree.write_file(&note));
            }
            None if note.exists() => self.rank.mention_if_failed(remove_tree(&note)),
            None => {}
        }
        turn
    }
}
