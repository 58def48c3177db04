//! A descriptor is open, or closed by its last holder.

use scr_abi::accesses::AccessLog;

use crate::handles::{LiesAt, PartedFile, Tracked};
use crate::machine::{Accesses, FileShare};
use crate::session::{
    handles::Handles,
    node::{State, neighbours::Locked},
};
use crate::system::monotonic_ms;

impl Handles {
    /// Takes the answer of the real open. `false`: the store cannot take the file. It is to be
    /// evacuated, or if there is no descriptor, asked for once more.
    pub fn opened(&self, token: u64, fd: i32, errno: i32) -> bool {
        if fd < 0 {
            return !self.stores.not_opened(token, errno);
        }
        self.forget_checksum(fd);
        self.stores.set_aside(token, fd)
    }

    /// Returns `false` if what the descriptors have written is lost.
    pub fn closed(&self, token: u64) -> bool {
        let mut state = self.node.state_when(|state, publishing| {
            state.own.tokens.get(token).is_none_or(|one| !publishing.has(&one.name))
        });
        let Some(mut tracked) = state.own.tokens.take(token) else { return true };
        if tracked.way.is_older() {
            state.own.logs.drop_of(token);
            return true;
        }
        let log = state.own.logs.end(token, Accesses::of);
        self.stores.give_back(&mut state, &tracked);
        self.stores.learn_order(&tracked);
        let kept = !tracked.distrusted || self.stores.leave_distrusted(&mut state, &mut tracked);
        let seen = log.as_ref().and_then(Accesses::share);
        self.learn_of(&mut state, &tracked, log);
        self.settle_closed(state, &tracked, seen);
        kept
    }

    /// Tells the machine what was done to a file that is watched.
    fn learn_of(&self, state: &mut State, tracked: &Tracked, log: Option<Accesses>) {
        let (Some(log), Some(file)) = (log, self.rank.file_ref(&tracked.name)) else { return };
        let bytes = self.node.size_of(state, tracked);
        state.machine.watched(&tracked.key, &file, Accesses { bytes, ..log });
    }

    /// Returns the log of a descriptor that is about to be used.
    pub fn log(&self, token: u64) -> Option<&'static AccessLog> {
        self.node.state_to_look().own.logs.of(token)
    }

    fn settle_closed(&self, mut state: Locked<'_>, tracked: &Tracked, seen: Option<FileShare>) {
        match tracked.way {
            LiesAt::Shadow { .. } if state.own.tokens.shadow_of(&tracked.name).is_some() => return,
            LiesAt::Shadow { .. } => return self.settle_shadow(&mut state, tracked),
            LiesAt::Lazy { .. } => return self.closed_lazy(&mut state, tracked),
            LiesAt::Temporary => return self.contents.closed_private(&mut state, &tracked.name),
            LiesAt::Cached | LiesAt::OnPrefix | LiesAt::Part(_) | LiesAt::Older => {}
        }
        if state.view.is_private(&tracked.name) && state.own.tokens.count(&tracked.name) == 0 {
            self.contents.publish_private(&mut state, &tracked.name);
        }
        let part = state.own.parted.get(&tracked.key, &tracked.name);
        let size = match part.map(PartedFile::own_bytes) {
            Some(bytes) if tracked.way == LiesAt::Cached => bytes,
            _ => self.node.size_of(&state, tracked),
        };
        if tracked.way == LiesAt::OnPrefix
            && let Some((reason, share)) =
                state.machine.share_of(&tracked.key, &tracked.name, size, seen)
        {
            self.rank.tally.passed_share(reason, &tracked.name, share);
        }
        state.machine.write_closed(&tracked.key, &tracked.name, size, monotonic_ms());
        if tracked.way == LiesAt::Cached && !state.own.has(&tracked.key, &tracked.name) {
            // Who answers for it may have brought it to the PFS meanwhile.
            state.view.revive(&tracked.name);
        }
        drop(state);
        if self.rank.is_ended() || self.rank.is_exiting() {
            self.unsealed.publish_overdue();
        }
    }
}
