//! Conditions under which the run is to end: rank 0 tests them at the start and after each
//! checkpoint, and the next agreement tells the others. `ending/halting.rs` carries the halt out.

use std::sync::Arc;

use crate::events::Event;
use crate::launch::HaltConditions;
use crate::launch::site::Site;
use crate::log::{self, messages};
use crate::session::{node::Node, rank::Rank};

/// A word of the agreement that asks for a halt.
const HALT: i64 = 1;

pub(crate) struct Halt {
    pub(super) site: Arc<Site>,
    pub(super) rank: Arc<Rank>,
    pub(super) node: Arc<Node>,
    pub(super) conditions: HaltConditions,
}

impl Halt {
    /// Asks for the halt if one is due after a checkpoint. For rank 0.
    pub(crate) fn check(&self, is_checkpoint: bool) {
        if self.site.rank != 0 || self.rank.is_finishing() {
            return;
        }
        if is_checkpoint {
            self.conditions.count_checkpoint();
        }
        // Asked for, or told of and left alone (SCR_HALT_EXIT=0).
        if self.conditions.reason().is_none()
            && let Some(reason) = self.conditions.due()
        {
            self.ask(reason);
        }
    }

    /// Asks on all ranks, or on rank 0.
    pub(crate) fn ask(&self, reason: String) {
        *self.conditions.reason() = Some(reason);
        if self.site.rank == 0 {
            self.node.state().machine.request_halt(HALT);
        }
    }

    /// Notes in the halt file that a condition is met and everything sealed and flushed. Returns
    /// whether the launch is to end here.
    pub(crate) fn tell_and_record(&self) -> bool {
        let by_calls = self.rank.calls.is_in_use();
        let exits = self.conditions.exits(by_calls) && !self.rank.is_finishing();
        if self.site.rank == 0 {
            let reason = self.conditions.reason().clone().unwrap_or_default();
            let then = match exits {
                true => "the run ends here",
                false if by_calls => "SCR_Should_exit says so to the program",
                false => "the program goes on (SCR_HALT_EXIT=0)",
            };
            let path = self.conditions.path();
            let path = path.display();
            log::warn(messages::HALT, format_args!("halt condition {reason} (see {path}): {then}"));
            self.rank.event(|| Event::new("HALT").note(format!("{reason}: {then}")));
            self.conditions.change(|file| file.carried_out(&reason));
            self.node.state().machine.request_halt(0);
        }
        exits
    }
}

#[cfg(test)]
mod tests {
    use crate::session::alone::Alone;

    #[test]
    fn checkpoints_are_counted_down_and_the_last_one_asks_for_the_halt() {
        let one = Alone::new();
        let halt = &one.session.conference.halt;
        halt.conditions.change(|file| file.checkpoints_left = Some(2));
        halt.check(false);
        halt.check(true);
        assert!(!halt.conditions.is_pending());
        halt.check(true);
        assert!(halt.conditions.is_pending());
    }
}
