//! The way out for a file that ranks of several nodes write into their caches: when one of them
//! needs what its node has not, or its store cannot take more, all bring the file to the PFS
//! together, and go on there (docs/internals/shared_files.md).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

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
    /// Whether each file has come to the PFS.
    done: BTreeMap<Turn, bool>,
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
        while !self.turns().take(self.site.rank, &turn)? {
            if self.is_over(&turn).is_some() {
                return Ok(());
            }
            if Instant::now() > until {
                let why = "another file is on its way out of the cache".to_string();
                return Err(Error::Refused(why));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn turn_of(&self, key: &DatasetKey, name: &str) -> Turn {
        (self.rank.record_key(key).directory_name(), name.to_owned())
    }

    /// `None`: it is still to come.
    fn is_over(&self, turn: &Turn) -> Option<Result<()>> {
        let done = lock(&self.pulled).done.get(turn).copied()?;
        let lost = || Error::Refused(format!("{} has not come to the prefix", turn.1));
        Some(if done { Ok(()) } else { Err(lost()) })
    }

    /// Brings the file to the PFS together with all other ranks. This rank's writers stand still.
    /// `why`: later files of that name do not come to the cache.
    ///
    /// # Errors
    /// The file is not there, and the checkpoint is lost: told here, once for each rank.
    pub(crate) fn pull_out(&self, key: &DatasetKey, name: &str, why: Option<Why>) -> Result<()> {
        let turn = self.turn_of(key, name);
        if let Some(over) = self.is_over(&turn) {
            return over;
        }
        if let Some((why, file)) = why.zip(self.rank.file_ref(name)) {
            self.node.state().machine.mark_unsafe(&file, why);
        }
        let done = self.take_turn(key, name).and_then(|()| self.bring_out(key, name));
        match &done {
            Ok(()) => self.go_on_outside(key, name),
            Err(error) => {
                let text = format!("{name} could not be brought to the prefix: {error}");
                self.node.state().machine.failed(key, &text, monotonic_ms());
                self.rank.tell_unpublished(name, &self.site.on_prefix(name), error);
            }
        }
        lock(&self.pulled).done.insert(turn.clone(), done.is_ok());
        self.turns().end(&turn);
        done
    }

    fn bring_out(&self, key: &DatasetKey, name: &str) -> Result<()> {
        let state = self.node.state();
        let (log, nodes) = (state.own.parted.get(key, name), state.machine.nodes().to_vec());
        let log = log.and_then(|file| file.log).map_or_else(NodeLog::default, PartedFile::node_log);
        let layer = state.view.layer(key).map(|layer| layer.dir.join(name));
        drop(state);
        let container = layer.filter(|path| path.exists());
        let meeting =
            self.turns().meeting(name_hash(&format!("{} {name}", self.turn_of(key, name).0)));
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
        if self.is_over(&turn).is_some() {
            return;
        }
        let key = records::DatasetKey::from_directory_name(&turn.0);
        let Some(key) = key.and_then(|key| self.rank.machine_key(&key)) else { return };
        let name = turn.1;
        let mut state = self.node.state();
        state.own.parted.leave(&key, &name);
        let token = state.own.tokens.all().find(|(_, one)| one.key == key && one.name == name);
        let token = token.map(|(token, _)| token);
        drop(state);
        // It stops the writers, and comes back to `pull_out`.
        token.into_iter().for_each(|token| self.site.host.move_out(token));
        if token.is_none() {
            let _ = self.pull_out(&key, &name, None);
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
