//! What dies in a crash.

use super::job::{Sim, trace};

impl Sim {
    pub fn crash(&mut self) {
        if let Some(rank) = self.victim.take().filter(|_| self.rng.u8(..4) > 0) {
            self.lose_node(self.cluster.node_of[rank]);
            return;
        }
        match self.rng.u8(..10) {
            0..3 => {
                trace!(self, "-- all processes are killed");
                self.ranks.iter_mut().for_each(|rank| rank.dead = true);
            }
            3 => {
                let rank = self.rng.usize(..self.ranks.len());
                trace!(self, "-- rank {rank} is killed");
                self.ranks[rank].dead = true;
            }
            kind => {
                let nodes = self.cluster.nodes.len();
                let losses = if kind < 9 { 1 } else { 2.min(nodes) };
                for _ in 0..losses {
                    let node = self.rng.usize(..nodes);
                    self.lose_node(node);
                }
            }
        }
    }

    fn lose_node(&mut self, node: usize) {
        trace!(self, "-- node {node} is lost");
        self.cluster.lose(node);
        for (rank, home) in self.cluster.node_of.iter().enumerate() {
            self.ranks[rank].dead |= *home == node;
        }
    }
}
