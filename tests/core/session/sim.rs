//! A tiny simulation: a vector a rank, a step that mixes it through the world, a checkpoint a file
//! a rank, a restart from the newest checkpoint that all can read. What it comes to depends on
//! every step, so a wrong restart shows.

use super::cluster::Rank;

const CELLS: usize = 64;

/// The state of one rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sim {
    pub rank: usize,
    pub step: u64,
    pub cells: Vec<u64>,
}

impl Sim {
    pub fn new(rank: &Rank) -> Sim {
        let cells = (0..CELLS as u64).map(|at| (rank.rank as u64 + 1) * 2_654_435_761 + at);
        Sim { rank: rank.rank, step: 0, cells: cells.collect() }
    }

    /// One step of all ranks, with one collective call.
    pub fn step(&mut self, rank: &Rank) {
        let carry = xor(rank, self.cells[self.step as usize % CELLS]);
        for (at, cell) in self.cells.iter_mut().enumerate() {
            let mixed = cell.wrapping_mul(6_364_136_223_846_793_005);
            *cell = mixed.wrapping_add(carry).wrapping_add(at as u64);
        }
        self.step += 1;
    }

    pub fn bytes(&self) -> Vec<u8> {
        let head = [self.step, self.rank as u64];
        head.iter().chain(&self.cells).flat_map(|word| word.to_le_bytes()).collect()
    }

    pub fn of_bytes(bytes: &[u8]) -> Option<Sim> {
        let word = |piece: &[u8]| piece.try_into().ok().map(u64::from_le_bytes);
        let words: Vec<u64> = bytes.chunks(8).map(word).collect::<Option<_>>()?;
        let (head, cells) = words.split_at_checked(2)?;
        let whole = cells.len() == CELLS;
        whole.then(|| Sim { step: head[0], rank: head[1] as usize, cells: cells.to_vec() })
    }

    /// Writes this rank's file; no communication.
    pub fn checkpoint(&self, rank: &Rank) {
        rank.files.make_dir("ckpt").unwrap();
        rank.files.make_dir(&format!("ckpt/step_{}", self.step)).unwrap();
        rank.files.write_file(&file(self.step, self.rank), &self.bytes()).unwrap();
    }

    /// This rank's file of `step`, if it is whole.
    pub fn read(rank: &Rank, step: u64) -> Option<Sim> {
        let bytes = rank.files.read_file(&file(step, rank.rank)).ok()?;
        let right = |sim: &Sim| sim.step == step && sim.rank == rank.rank;
        Sim::of_bytes(&bytes).filter(right)
    }

    /// Goes on from the largest multiple of `every` up to `steps` that every rank can read.
    pub fn restart(&mut self, rank: &Rank, steps: u64, every: u64) -> u64 {
        for step in (1..=steps / every).rev().map(|at| at * every) {
            let own = Sim::read(rank, step);
            if -rank.all_max(-i64::from(own.is_some())).unwrap() == 1 {
                *self = own.unwrap();
                return step;
            }
        }
        0
    }

    /// What all ranks have come to.
    pub fn checksum(&self, rank: &Rank) -> u64 {
        let own =
            self.cells.iter().fold(0u64, |sum, cell| sum.wrapping_mul(31).wrapping_add(*cell));
        xor(rank, own)
    }
}

pub fn file(step: u64, rank: usize) -> String {
    format!("ckpt/step_{step}/rank_{rank}.dat")
}

fn xor(rank: &Rank, own: u64) -> u64 {
    let all = rank.gather(&own.to_le_bytes());
    all.iter().fold(0, |sum, bytes| sum ^ u64::from_le_bytes(bytes[..].try_into().unwrap()))
}

/// A program that steps, and writes a checkpoint now and then.
#[derive(Debug, Clone, Copy)]
pub struct Steady {
    steps: u64,
    every: u64,
    killed_at: Option<u64>,
}

/// What a run of it came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Went {
    /// The step that it went on from.
    pub restart: u64,
    /// `None`: it was killed.
    pub checksum: Option<u64>,
}

pub fn steady(steps: u64, every: u64) -> Steady {
    Steady { steps, every, killed_at: None }
}

impl Steady {
    /// The same, but all ranks are killed at that step.
    pub fn killed_at(self, step: u64) -> Steady {
        Steady { killed_at: Some(step), ..self }
    }

    pub fn run(&self, rank: &Rank) -> Went {
        self.run_and(rank, |_| ())
    }

    /// The same; `then` is called after each checkpoint that is complete.
    pub fn run_and(&self, rank: &Rank, then: impl Fn(&Sim)) -> Went {
        let mut sim = Sim::new(rank);
        let restart = sim.restart(rank, self.steps, self.every);
        while sim.step < self.steps {
            sim.step(rank);
            if sim.step.is_multiple_of(self.every) {
                sim.checkpoint(rank);
                rank.calm();
                then(&sim);
            }
            if self.killed_at == Some(sim.step) {
                rank.calm();
                return Went { restart, checksum: None };
            }
        }
        let checksum = sim.checksum(rank);
        rank.finish();
        Went { restart, checksum: Some(checksum) }
    }
}

/// What a program finds that looks for its newest checkpoint: a line for each directory.
pub fn scan(rank: &Rank) -> Vec<String> {
    let mut lines = Vec::new();
    if rank.rank == 0 {
        let number = |name: &String| name.trim_start_matches(|c: char| !c.is_ascii_digit()).parse();
        let mut steps: Vec<String> = rank.files.list("ckpt").into_iter().collect();
        steps.sort_by_key(|name| number(name).unwrap_or(0u64));
        for step in steps {
            let names = rank.files.list(&format!("ckpt/{step}")).into_iter();
            let of = |name: String| match rank.files.exists(&format!("ckpt/{step}/{name}")) {
                true => format!(" {name}"),
                false => format!(" {name} (no stat)"),
            };
            lines.push(step.clone() + &names.map(of).collect::<String>());
        }
    }
    rank.finish();
    lines
}

/// The directories of [`scan`].
pub fn steps(lines: &[String]) -> Vec<&str> {
    lines.iter().filter_map(|line| line.split(' ').next()).collect()
}
