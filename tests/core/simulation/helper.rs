//! The helper threads of the ranks: what no agreement comes for.

use super::job::{Sim, Task, trace};

impl Sim {
    pub fn helpers(&mut self) {
        for rank in 0..self.ranks.len() {
            let own = &self.ranks[rank];
            let rests = matches!(own.task, Task::Finished) || own.dead;
            let late = self.clock_ms > own.looked_ms + self.style.unsealed_ms / 4;
            if !rests && (late || self.rng.u8(..200) == 0) {
                self.ranks[rank].looked_ms = self.clock_ms;
                self.helper_step(rank);
            }
        }
    }

    fn helper_step(&mut self, rank: usize) {
        let now_ms = self.clock_ms;
        for overdue in self.ranks[rank].machine.overdue(now_ms) {
            trace!(self, "{now_ms} r{rank} publishes {} early", overdue.file);
            self.truth[overdue.key.series].in_place = true;
            let part = (rank, overdue.key.clone());
            let content = self
                .cluster
                .node(rank)
                .files
                .get(&part)
                .and_then(|files| files.get(&overdue.file).copied());
            if let Some(content) = content {
                self.cluster.pfs.insert(overdue.file.clone(), content);
            }
            self.ranks[rank].machine.published(&overdue.key, &overdue.file);
        }
        for gone in self.ranks[rank].machine.overdue_deletions(now_ms) {
            trace!(self, "{now_ms} r{rank} removes {gone:?}");
            let files = self.cluster.node(rank).files.get_mut(&(rank, gone.key));
            files.map(|files| files.remove(&gone.file));
            if gone.everywhere {
                self.cluster.pfs.remove(&gone.file);
            }
        }
    }
}
