//! Random programs of several threads a rank. One order of all that happens is made first, and each
//! thread does its part of it in that order: so the earliest thing that has not happened can always
//! happen, and no program hangs by itself, however its threads interleave.

use std::collections::VecDeque;

use fastrand::Rng;
use scr_core::streams::SyncKind;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// A blocking collective call on a communicator.
    Call(usize, SyncKind),
    /// Frees a communicator.
    Free(usize),
    /// A message to whoever receives it, on any rank.
    Send(usize),
    Receive(usize),
    /// Does something else for so many moments.
    Pause(u32),
    /// Something is wrong on this rank: it agrees on nothing more.
    End,
}

/// What the threads of each rank do.
#[derive(Debug, Clone)]
pub struct Program {
    pub ranks: Vec<Vec<VecDeque<Op>>>,
    pub comms: usize,
}

struct Maker {
    rng: Rng,
    program: Program,
    threads: usize,
    /// The thread that makes the calls on each communicator, by rank; `None`: it is freed.
    owners: Vec<Option<Vec<usize>>>,
    messages: usize,
}

impl Program {
    /// Makes one from a seed. `ends`: a rank may agree on nothing more from some moment on.
    pub fn random(seed: u64, ends: bool) -> Program {
        let mut rng = Rng::with_seed(seed);
        let (ranks, threads) = (rng.usize(2..=4), rng.usize(1..=3));
        let program = Program { ranks: vec![vec![VecDeque::new(); threads]; ranks], comms: 1 };
        let owners = vec![Some(vec![0; ranks])];
        let mut maker = Maker { rng, program, threads, owners, messages: 0 };
        for _ in 0..maker.rng.usize(0..4) {
            maker.make();
        }
        for _ in 0..maker.rng.usize(20..100) {
            maker.some(ends);
        }
        maker.program
    }

    /// A thread of each rank makes `calls` calls on a communicator, one of each rank sits in one on
    /// another one until the first rank's comes when the calls are over.
    pub fn with_one_that_sits(ranks: usize, calls: usize) -> Program {
        let program = Program { ranks: vec![vec![VecDeque::new(); 2]; ranks], comms: 3 };
        let owners = vec![Some(vec![0; ranks]), Some(vec![0; ranks]), Some(vec![1; ranks])];
        let mut maker = Maker { rng: Rng::with_seed(1), program, threads: 2, owners, messages: 0 };
        // Both threads are known everywhere, before the one that will sit makes its first call.
        maker.call(1, SyncKind::Collective);
        (0..ranks).for_each(|rank| maker.message((rank, 0), (rank, 1)));
        (0..20).for_each(|at| maker.call(1 + at % 2, SyncKind::Collective));
        (0..calls).for_each(|_| maker.call(1, SyncKind::Collective));
        maker.message((0, 0), (0, 1));
        maker.call(2, SyncKind::Constructor); // which always carries
        maker.program
    }

    /// Two threads of each rank, each on a communicator of its own, all the time.
    pub fn of_two_threads(ranks: usize, calls: usize) -> Program {
        let mut program = Program { ranks: vec![vec![VecDeque::new(); 2]; ranks], comms: 3 };
        for threads in &mut program.ranks {
            for (thread, ops) in threads.iter_mut().enumerate() {
                ops.extend(vec![Op::Call(1 + thread, SyncKind::Collective); calls]);
            }
        }
        program
    }
}

impl Maker {
    fn add(&mut self, rank: usize, thread: usize, op: Op) {
        self.program.ranks[rank][thread].push_back(op);
    }

    fn all_ranks(&mut self, comm: usize, op: Op) {
        let owners = self.owners[comm].clone().expect("not freed");
        owners.into_iter().enumerate().for_each(|(rank, thread)| self.add(rank, thread, op));
    }

    fn call(&mut self, comm: usize, kind: SyncKind) {
        self.all_ranks(comm, Op::Call(comm, kind));
    }

    fn message(&mut self, from: (usize, usize), to: (usize, usize)) {
        let number = self.messages;
        self.messages += 1;
        self.add(from.0, from.1, Op::Send(number));
        self.add(to.0, to.1, Op::Receive(number));
    }

    fn some_comm(&mut self) -> usize {
        let live = self.owners.iter().enumerate().filter(|(_, owners)| owners.is_some());
        let live: Vec<usize> = live.map(|(comm, _)| comm).collect();
        live[self.rng.usize(..live.len())]
    }

    fn some_thread(&mut self) -> (usize, usize) {
        (self.rng.usize(..self.program.ranks.len()), self.rng.usize(..self.threads))
    }

    /// A new communicator, each rank's calls on it by any of its threads.
    fn make(&mut self) {
        let from = self.some_comm();
        self.call(from, SyncKind::Constructor);
        let owners = self.owners[from].clone();
        self.owners.push(owners);
        self.program.comms += 1;
        for rank in 0..self.program.ranks.len() {
            self.hand_over(self.owners.len() - 1, rank);
        }
    }

    /// From now on another thread of the rank makes the calls.
    fn hand_over(&mut self, comm: usize, rank: usize) {
        let to = self.rng.usize(..self.threads);
        let Some(owners) = &mut self.owners[comm] else { return };
        let from = std::mem::replace(&mut owners[rank], to);
        if from != to {
            self.message((rank, from), (rank, to));
        }
    }

    fn some(&mut self, ends: bool) {
        let kinds = [SyncKind::Collective, SyncKind::Barrier, SyncKind::Constructor];
        match self.rng.u32(..200) {
            0 if ends => {
                let (rank, thread) = self.some_thread();
                self.add(rank, thread, Op::End);
            }
            0..8 => self.make(),
            8..14 => {
                let comm = self.some_comm();
                if comm > 0 {
                    self.all_ranks(comm, Op::Free(comm));
                    self.owners[comm] = None;
                }
            }
            14..24 => {
                let (comm, (rank, _)) = (self.some_comm(), self.some_thread());
                self.hand_over(comm, rank);
            }
            24..50 => {
                let (from, to) = (self.some_thread(), self.some_thread());
                self.message(from, to);
            }
            50..70 => {
                let ((rank, thread), moments) = (self.some_thread(), self.rng.u32(1..60));
                self.add(rank, thread, Op::Pause(moments));
            }
            _ => {
                let comm = self.some_comm();
                for _ in 0..self.rng.usize(1..6) {
                    let kind = kinds[self.rng.usize(..kinds.len())];
                    self.call(comm, kind);
                }
            }
        }
    }
}
