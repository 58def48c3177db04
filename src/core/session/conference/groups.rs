//! What ranks tell one another that have opened a file without the others.

use crate::comm::Comm;
use crate::error::{Error, Result};
use crate::handles::group_number;
use crate::kvtree::KvTree;
use crate::namespace::FarMessage;
use crate::session::conference::Conference;

impl Conference {
    /// Tells what this rank has written to those with which it has opened a file, and hears of what
    /// they have: `ranks` of the world are about to make a blocking collective call on the file,
    /// which is open to them alone. Collective among them.
    ///
    /// # Errors
    /// None of them has heard all.
    pub fn tell_group(&self, comm: &dyn Comm, ranks: &[usize]) -> Result<()> {
        let (mut state, mut news) = (self.node.state(), FarMessage(KvTree::new()));
        state.own.groups.enter(group_number(ranks));
        for (key, name, done) in state.own.parted.take_group_news() {
            news.parted(&self.rank.record_key(&key).directory_name(), &name, 0, &done);
        }
        drop(state);
        let all = comm.all_gather(&news.to_bytes())?;
        let mut state = self.node.state();
        for (rank, news) in ranks.iter().zip(all) {
            let node = state.machine.nodes()[*rank];
            let unreadable = || Error::Unreadable(format!("what rank {rank} has written"));
            for (key, name, _, done) in
                FarMessage::from_bytes(&news).ok_or_else(unreadable)?.parts()
            {
                let Some(key) = self.rank.key_of_directory(key) else { continue };
                state.own.parted.hear_of_group(&key, name, node, done);
            }
        }
        Ok(())
    }
}
