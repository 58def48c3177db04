//! What the Rust examples share: arguments, the simulation itself, and the pause. File I/O is each
//! program's own.

use std::fmt::Display;
use std::fs::File;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use mpi::collective::SystemOperation;
use mpi::environment::Universe;
use mpi::point_to_point::send_receive_with_tags;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

/// Cells of a rank.
pub const CELLS: usize = 20_000;

/// Heat on a ring of cells, distributed over the ranks.
pub struct Heat {
    pub world: SimpleCommunicator,
    pub rank: i32,
    pub size: i32,
    pub step: i32,
    pub from: Option<i32>,
    pub cells: Vec<f64>,
    steps: i32,
    every: i32,
    delay: Duration,
    pause: (String, i32, String),
    total: f64,
}

impl Heat {
    /// Reads the arguments, and starts at step 0.
    pub fn new(universe: &Universe) -> Heat {
        let world = universe.world();
        let mut heat = Heat {
            rank: world.rank(),
            size: world.size(),
            world,
            step: 0,
            from: None,
            cells: Vec::new(),
            steps: 60,
            every: 10,
            delay: Duration::ZERO,
            pause: (String::new(), -1, String::new()),
            total: 0.0,
        };
        heat.begin_anew();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut next = || words.next().unwrap_or_default();
            match word.as_str() {
                "--steps" => heat.steps = heat.number(&next()),
                "--every" => heat.every = heat.number(&next()),
                "--delay" => heat.delay = Duration::from_millis(heat.number(&next())),
                "--from" => heat.from = Some(heat.number(&next())),
                "--pause" => heat.pause = (next(), heat.number(&next()), next()),
                _ => heat.fail(format!("unknown argument {word}")),
            }
        }
        heat
    }

    fn number<T: std::str::FromStr>(&self, word: &str) -> T {
        word.parse().unwrap_or_else(|_| self.fail(format!("not a number: {word}")))
    }

    /// Ends all ranks.
    pub fn fail(&self, why: impl Display) -> ! {
        eprintln!("{why}");
        self.world.abort(1)
    }

    /// Forgets what was computed.
    pub fn begin_anew(&mut self) {
        self.step = 0;
        let cell = |at| f64::from((self.rank * 31 + at * 7) % 101);
        self.cells = (0..CELLS as i32).map(cell).collect();
    }

    /// Lets rank 0 make the file and wait until somebody removes it.
    pub fn pause(&self, place: &str) {
        let (wanted, step, file) = &self.pause;
        if self.rank != 0 || self.step != *step || place != wanted {
            return;
        }
        let _ = File::create(file);
        while Path::new(file).exists() {
            sleep(Duration::from_millis(5));
        }
    }

    fn advance(&mut self) {
        let (world, cells) = (&self.world, &mut self.cells);
        let left = world.process_at_rank((self.rank + self.size - 1) % self.size);
        let right = world.process_at_rank((self.rank + 1) % self.size);
        let (from_left, _): (f64, _) =
            send_receive_with_tags(&cells[CELLS - 1], &right, 1, &left, 1);
        let (from_right, _): (f64, _) = send_receive_with_tags(&cells[0], &left, 2, &right, 2);
        let (mut before, mut sum) = (from_left, 0.0);
        for at in 0..CELLS {
            let after = cells.get(at + 1).copied().unwrap_or(from_right);
            let here = cells[at];
            let more = if at % 13 == self.step as usize % 13 { 0.01 } else { 0.0 };
            cells[at] = 0.25 * before + 0.5 * here + 0.25 * after + more;
            before = here;
            sum += cells[at];
        }
        world.all_reduce_into(&sum, &mut self.total, SystemOperation::max());
        self.step += 1;
        sleep(self.delay);
    }

    /// Goes on to the last step, or until `write_checkpoint`, which is called every few steps, says
    /// that the run is to stop; then prints what has become of it.
    pub fn run(&mut self, mut write_checkpoint: impl FnMut(&Heat) -> bool) {
        if self.rank == 0 && self.step > 0 {
            println!("going on from step {}", self.step);
        } else if self.rank == 0 {
            println!("starting at step 0");
        }
        let mut stop = false;
        while self.step < self.steps && !stop {
            self.advance();
            stop = self.step % self.every == 0 && write_checkpoint(self);
            self.pause("step");
        }
    }

    /// Prints bits of every cell of every rank, and the total.
    pub fn finish(&self) {
        let sum = |sum: u64, cell: &f64| (sum ^ cell.to_bits()).wrapping_mul(1_099_511_628_211);
        let mine = self.cells.iter().fold(1_469_598_103_934_665_603, sum);
        let root = self.world.process_at_rank(0);
        if self.rank != 0 {
            return root.reduce_into(&mine, SystemOperation::bitwise_xor());
        }
        let mut all = 0_u64;
        root.reduce_into_root(&mine, &mut all, SystemOperation::bitwise_xor());
        println!("step {} total {:.6} checksum {all:016x}", self.step, self.total);
    }

    /// Returns the step and the cells as a checkpoint has them.
    pub fn bytes(&self) -> Vec<u8> {
        let cells = self.cells.iter().flat_map(|cell| cell.to_ne_bytes());
        self.step.to_ne_bytes().into_iter().chain(cells).collect()
    }

    /// Goes on from such bytes; false, and nothing is changed, if they are not those of `step`.
    pub fn take(&mut self, step: i32, bytes: &[u8]) -> bool {
        let whole = bytes.len() == size_of::<i32>() + CELLS * size_of::<f64>();
        let Some((head, cells)) = bytes.split_first_chunk().filter(|_| whole) else { return false };
        if i32::from_ne_bytes(*head) != step {
            return false;
        }
        let (cells, _) = cells.as_chunks();
        self.cells = cells.iter().map(|cell| f64::from_ne_bytes(*cell)).collect();
        self.step = step;
        true
    }
}
