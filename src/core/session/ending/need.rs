//! Whether a checkpoint is due (`machine/program/need.rs`), for programs that ask.

use crate::comm::Comm;
use crate::error::{Error, Result};
use crate::machine::NeedLimits;
use crate::session::{ending::Ending, rank::lock};
use crate::system::monotonic_ms;

impl Ending {
    /// Tells whether the program should write a checkpoint now: rank 0 decides. Collective. Costs
    /// one broadcast and, on rank 0, a look at the halt file once a second: 8 us on a local disk.
    /// An error of communication, now or before, means that no rank may ask any more.
    pub fn need_checkpoint(&self, limits: &NeedLimits) -> Result<bool> {
        let ended = || Error::Comm("the ranks do not agree on anything any more".to_string());
        let links = self.rank.links().ok_or_else(ended)?;
        self.site.host.inside(|| {
            let halting = self.site.rank == 0 && self.halt.conditions.is_pending();
            let own = lock(&self.conference.need).ask(monotonic_ms(), limits, halting);
            decision_of_root(links.world.as_ref(), own)
        })
    }
}

/// Collective.
fn decision_of_root(world: &dyn Comm, own: bool) -> Result<bool> {
    let mut word = vec![u8::from(own)];
    world.broadcast(&mut word, 0)?;
    Ok(word == [1])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::comm::threads::run;
    use crate::machine::Need;

    #[test]
    fn every_nth_call_and_the_same_on_all_ranks() {
        let limits = NeedLimits { calls: 3, since_last: Duration::ZERO, percent: 0.0 };
        let answers = run(4, |comm| {
            let mut need = Need::new(0);
            // Only rank 0's clock and halt file count.
            let halting = comm.rank() == 2;
            let ask = |_| decision_of_root(&*comm, need.ask(7, &limits, halting)).unwrap();
            (0..7).map(ask).collect::<Vec<_>>()
        });
        let expected = [false, false, true, false, false, true, false];
        assert!(answers.iter().all(|answer| answer == &expected), "{answers:?}");
    }
}
