//! A descriptor is open, or closed by its last holder.

use crate::handles::{LiesAt, Tracked};
use crate::session::rank::runtime::{Session, State};
use crate::session::updates::neighbours::Locked;
use crate::system::monotonic_ms;

impl Session {
    /// Notes that the real open for `token` returned. `false`: the store cannot take the file. It
    /// is to be evacuated, or if there is no descriptor, asked for once more.
    pub fn opened(&self, token: u64, fd: i32, errno: i32) -> bool {
        if fd < 0 {
            return !self.not_opened(token, errno);
        }
        self.forget_checksum(fd);
        self.set_aside(token, fd)
    }

    /// Notes that the last descriptor of `token` was closed. `false`: what it has written is lost.
    pub fn closed(&self, token: u64) -> bool {
        let being_named = |state: &State| {
            state.tokens.get(token).is_some_and(|one| state.publishing.has(&one.name))
        };
        let mut state = self.state_when(|state| !being_named(state));
        let Some(mut tracked) = state.tokens.take(token) else { return true };
        self.give_back(&mut state, &tracked);
        self.learn_order(&mut state, &tracked);
        let kept = !tracked.distrusted || self.leave_distrusted(&mut state, &mut tracked);
        self.settle_closed(state, &tracked);
        kept
    }

    pub(in crate::session) fn settle_closed(&self, mut state: Locked<'_>, tracked: &Tracked) {
        match tracked.way {
            LiesAt::Shadow { .. } if state.tokens.shadow_of(&tracked.name).is_some() => return,
            LiesAt::Shadow { .. } => return self.settle_shadow(&mut state, tracked),
            LiesAt::Lazy { .. } => return self.closed_lazy(&mut state, tracked),
            LiesAt::Temporary => return self.closed_private(&mut state, &tracked.name),
            LiesAt::Cached | LiesAt::OnPrefix => {}
        }
        if state.view.is_private(&tracked.name) && state.tokens.count(&tracked.name) == 0 {
            self.publish_private(&mut state, &tracked.name);
        }
        let size = self.size_of(&state, tracked);
        if tracked.way == LiesAt::OnPrefix
            && let Some(reason) = state.machine.reason_of(&tracked.key, &tracked.name)
        {
            self.tally.passed(reason, &tracked.name, size);
        }
        state.machine.write_closed(&tracked.key, &tracked.name, size, monotonic_ms());
        drop(state);
        if self.is_ended() || self.is_exiting() {
            self.publish_overdue();
        }
    }
}
