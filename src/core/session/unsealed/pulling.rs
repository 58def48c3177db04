//! The way out for a file that ranks of several nodes write into their caches: when one of them
//! needs what its node has not, or its store cannot take more, all bring the file to the PFS
//! together, and go on there (docs/internals/shared_files.md).

use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::log::messages;
use crate::machine::{DatasetKey, Reason, Why, name_hash};
use crate::namespace as ns;
use crate::parts::NodeLog;
use crate::session::unsealed::Unsealed;
use crate::system::monotonic_ms;
use crate::transfer::{EXIT_DEADLINE, PULL_DEADLINE, PullOut, has_come};

impl Unsealed {
    /// Waits until it is the turn of this file; nobody opens it in the cache any more. The rank's
    /// writers need not stand still yet.
    ///
    /// # Errors
    /// Another file keeps the turn for too long, or the prefix cannot be written.
    pub(crate) fn take_turn(&self, key: &DatasetKey, name: &str) -> Result<()> {
        self.node.state().own.parted.leave(key, name);
        self.pulls.take(&self.turn_of(key, name), self.deadline())
    }

    fn deadline(&self) -> Duration {
        if self.rank.is_exiting() { EXIT_DEADLINE } else { PULL_DEADLINE }
    }

    fn turn_of(&self, key: &DatasetKey, name: &str) -> (String, String) {
        (self.rank.record_key(key).directory_name(), name.to_owned())
    }

    /// Notes why later files of that name are not for the cache, as far as this rank knows.
    pub(crate) fn note_why(&self, key: &DatasetKey, name: &str, why: Why) {
        let is_first = self.pulls.ask(&self.turn_of(key, name));
        if let Some(file) = self.rank.file_ref(name).filter(|_| is_first) {
            self.node.state().machine.mark_unsafe(&file, why);
        }
    }

    /// Brings the file to the PFS together with all other ranks, and what this rank has open on it.
    ///
    /// # Errors
    /// As [`Unsealed::pull_out`].
    pub(crate) fn leave_cache(&self, key: &DatasetKey, name: &str) -> Result<()> {
        self.take_turn(key, name)?;
        let state = self.node.state();
        // Not one on a sealed copy: it is what is about to change, and waits for this.
        let in_part =
            |token: &u64| state.part_of(*token).is_some_and(|of| of.0 == *key && of.1 == name);
        let token = state.own.tokens.all().map(|(token, _)| token).find(in_part);
        drop(state);
        self.pulls.ask(&self.turn_of(key, name));
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
        let begun = match self.pulls.has_come(&turn) {
            Some(true) => return Ok(()),
            Some(false) => return Err(Error::Refused(format!("{name} has not come"))),
            None => self.take_turn(key, name).map(|()| self.pulls.begin(&turn)),
        };
        if self.pulls.has_come(&turn).is_some() {
            return self.pull_out(key, name); // another thread has done it meanwhile
        }
        if !self.may_begin(key, name) {
            self.pulls.end(&turn, None);
            return Ok(());
        }
        let done = begun.and_then(|()| self.bring_out(key, name));
        match &done {
            Ok(()) => self.go_on_outside(key, name),
            Err(error) => {
                let text = format!("{name} could not be brought to the prefix: {error}");
                self.node.state().machine.failed(key, &text, monotonic_ms());
                self.rank.tell_unpublished(name, &self.site.on_prefix(name), error);
            }
        }
        self.pulls.end(&turn, Some(done.is_ok()));
        done
    }

    /// Tells whether this rank knows the file, or another one has begun. Else it was sealed before
    /// anybody could.
    fn may_begin(&self, key: &DatasetKey, name: &str) -> bool {
        self.node.state().is_parted(key, name) || self.meeting(key, name).exists()
    }

    /// Tells whether threads have brought the dataset as it was sealed, before it was opened again:
    /// the program may have changed it there since.
    pub(crate) fn has_come(&self, key: &DatasetKey) -> bool {
        let sealed = self.site.filemap.get(&self.rank.record_key(key));
        sealed.is_some_and(|it| has_come(&self.site.prefix, it.dataset_id, it.epoch))
    }

    /// Where the ranks meet for the file.
    fn meeting(&self, key: &DatasetKey, name: &str) -> PathBuf {
        self.pulls.meeting(name_hash(&format!("{} {name}", self.turn_of(key, name).0)))
    }

    fn bring_out(&self, key: &DatasetKey, name: &str) -> Result<()> {
        let state = self.node.state();
        let (log, nodes) = (state.own.parted.get(key, name), state.machine.nodes().to_vec());
        let written = log.and_then(|file| file.log).map(|log| NodeLog::of(log.all()));
        // One that was sealed in parts, and whose dataset is open again.
        let sealed = || self.site.filemap.get(&self.rank.record_key(key))?.part_log(name);
        let log = written.or_else(sealed).unwrap_or_default();
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
            deadline: self.deadline(),
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
        let opened = state.own.parted.leave_for_good(key, name) || state.machine.has(key, name);
        let container = state.view.layer(key).map(|layer| layer.dir.join(name));
        if opened {
            state.now_on_prefix(key, name, Reason::LeftCaches);
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
        let state = self.node.state();
        let busy = !state.own.parted.is_empty() || state.own.making.is_some();
        let knows = state.machine.knows_parted();
        drop(state);
        let Some(turn) = knows.then(|| self.pulls.seen(busy)).flatten() else { return };
        let Some(key) = self.rank.key_of_directory(&turn.0) else { return };
        match self.pulls.has_come(&turn) {
            None if self.may_begin(&key, &turn.1) => drop(self.leave_cache(&key, &turn.1)),
            None => {}
            Some(_) => {
                let state = self.node.state();
                let mut tokens = state.own.tokens.all().map(|(token, _)| token);
                let is_it = |(of, name)| of == key && name == turn.1;
                if !tokens.any(|token| state.part_of(token).is_some_and(is_it)) {
                    let ranks = state.machine.nodes().len();
                    self.pulls.has_left(&turn, &self.meeting(&key, &turn.1), ranks);
                }
            }
        }
    }
}
