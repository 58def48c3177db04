//! Directories that rank 0 renames when all ranks have written into them, and how the others hear
//! of it. The simulated files have one name all the time: what counts is when a checkpoint may be
//! called complete, and that nobody waits for ever.

use scr_core::machine::{DatasetKey, FileRef, Reason};

use super::job::{Moment, Sim, trace};

impl Sim {
    /// The program's rename, on rank 0.
    pub fn move_dir(&mut self, rank: usize, series: usize, step: u32) {
        trace!(self, "{} r{rank} renames the directory of {series}/{step}", self.clock_ms);
        let at = self.ranks[rank].passed;
        self.moves.push((at, series, step));
        self.truth[series].moved.insert((self.launch, step));
        self.hear_moves(rank, at);
        self.ranks[rank].machine.note_move();
    }

    /// Ranks of its node hear of it when they do something; here: sooner or later.
    pub fn hear_neighbour(&mut self, rank: usize) {
        let heard = self.ranks[rank].moves == self.moves.len();
        if !heard && self.cluster.node_of[rank] == self.cluster.node_of[0] && self.rng.bool() {
            self.hear_moves(rank, usize::MAX);
        }
    }

    /// A rank has left the collective `at`, in which all hear of what rank 0 did before it.
    pub fn hear_moves(&mut self, rank: usize, at: usize) {
        let heard = self.ranks[rank].moves;
        let new = self.moves[heard..].iter().take_while(|(before, ..)| *before <= at);
        let new: Vec<_> = new.map(|(_, series, step)| (*series, *step)).collect();
        self.ranks[rank].moves += new.len();
        new.into_iter().for_each(|(series, step)| self.hear_move(rank, series, step));
    }

    fn hear_move(&mut self, rank: usize, series: usize, step: u32) {
        let now_ms = self.clock_ms;
        let records = self.cluster.node(rank).records.keys();
        let own = records.filter(|(owner, key)| {
            (*owner, key.series) == (rank, series) && key.id == step.to_string()
        });
        let keys: Vec<DatasetKey> = own.map(|(_, key)| key.clone()).collect();
        for key in keys {
            for file in self.ranks[rank].machine.seal_files(&key) {
                let written = self.style.series[series].written(rank, step);
                let Some(last) = written.into_iter().find(|one| one.name == file.name) else {
                    continue;
                };
                let last = FileRef { temporary: false, ..last };
                let machine = &mut self.ranks[rank].machine;
                let on_prefix = file.on_prefix.then_some(Reason::DirectoryMoved);
                let moved = machine.moved(&key, &file.name, &last, on_prefix, now_ms);
                if moved == Some(true) {
                    self.moment(rank, Moment::Revoked);
                    let part = (rank, key.clone());
                    if let Some(record) = self.cluster.node(rank).records.get_mut(&part) {
                        record.prepared = false;
                        self.cluster.written(rank);
                    }
                }
            }
        }
    }

    /// What the program has not renamed goes to the PFS, before a conference.
    pub fn release_left_behind(&mut self, rank: usize) {
        for left in self.ranks[rank].machine.left_behind() {
            let part = (rank, left.key.clone());
            let files = self.cluster.node(rank).files.get_mut(&part);
            if let Some(content) = files.and_then(|files| files.remove(&left.name)) {
                self.cluster.pfs.insert(left.name.clone(), content);
            }
            self.ranks[rank].machine.withdrawn(&left.key, &left.name);
        }
    }
}
