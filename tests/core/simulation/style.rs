//! What a simulated program does: its series, and what all of them have in common. Drawn from a
//! seed, the same on all ranks.

use std::collections::VecDeque;

use fastrand::Rng;
use scr_core::machine::{FileRef, SeriesConfig};

use super::series::Series;

/// One step of a program on one rank.
#[derive(Debug, Clone)]
pub enum Op {
    /// Open for writing, truncating.
    Write(FileRef),
    /// Open for update; created if the rank's program does not see it.
    Update(FileRef),
    /// Close what the rank has open under this name; `true`: it will be written again.
    Close(String, bool),
    /// Write a temporary file, close it, rename it to its final name; a matched temporary name is
    /// known to belong to the dataset, another lies on the PFS.
    WriteAside {
        file: FileRef,
        matched: bool,
    },
    /// Rank 0 renames the directory of this checkpoint: from now on it has its final name.
    Move {
        series: usize,
        step: u32,
    },
    Delete(FileRef),
    /// A blocking collective.
    Sync {
        constructor: bool,
    },
    /// Computation, up to so many milliseconds.
    Pause(u64),
    /// A pause of rank 0 for which the others wait.
    Idle(u64),
    /// Tell rank 0, by a message, that all files of the checkpoint are written.
    Tell(u32),
    /// Rank 0 waits for these messages.
    Gather(u32),
    /// Rank 0 tells the others that the checkpoint is complete.
    Release(u32),
    /// They wait for that.
    Await(u32),
    /// Hand operations to a background thread.
    Spawn(Vec<Op>),
    Join,
    Finalize,
}

#[derive(Debug, Clone)]
pub struct Style {
    /// A restart goes on from the newest checkpoint of the first one.
    pub series: Vec<Series>,
    /// A rank takes turns between the series that it writes at the same time, file by file.
    pub mixed: bool,
    pub steps: u32,
    pub syncs_between: u32,
    /// From this checkpoint on there are messages instead of collectives.
    pub mute: Option<u32>,
    /// `SCR_UNSEALED_SECONDS`, in milliseconds.
    pub unsealed_ms: u64,
    /// Checkpoints are encoded beside the program.
    pub aside: bool,
}

impl Style {
    /// Draws a program for `ranks` ranks with one series, or with `several`.
    pub fn draw(rng: &mut Rng, ranks: usize, several: bool) -> Style {
        let mut style = Style {
            series: vec![Series::draw(rng, 0, ranks)],
            mixed: false,
            steps: 2 + rng.u32(..4),
            syncs_between: 1 + rng.u32(..4),
            mute: None,
            unsealed_ms: 1_000,
            aside: false,
        };
        if several {
            let count = 2 + usize::from(rng.u8(..4) == 0);
            style.series.extend((1..count).map(|index| Series::draw(rng, index, ranks)));
            style.series.iter_mut().for_each(|series| series.draw_rhythm(rng));
            style.mixed = rng.bool();
        }
        if rng.u8(..12) == 0 {
            return style.without_collectives(rng);
        }
        style.series.iter_mut().for_each(|series| series.draw_moves(rng));
        style
    }

    /// The same program with messages instead of collectives, from some checkpoint on.
    fn without_collectives(mut self, rng: &mut Rng) -> Style {
        self.mute = Some(1 + rng.u32(..3));
        self.unsealed_ms = *rng.choice(&[250, 500]).unwrap_or(&500);
        self.series.iter_mut().for_each(|series| series.mute(rng));
        self.steps = 3 + rng.u32(..8);
        self
    }

    /// The same program, all its series written by a thread.
    pub fn thread(&mut self) {
        self.mute = None;
        self.series.iter_mut().for_each(Series::thread);
    }

    /// What the machine is told of the series.
    pub fn rules(&self) -> Vec<SeriesConfig> {
        self.series.iter().map(|series| series.rule.clone()).collect()
    }

    pub fn due(&self, step: u32) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(move |series| series.is_due(step))
    }

    fn pause_ms(&self) -> u64 {
        self.series.iter().map(|series| series.pause_ms).max().unwrap_or(0)
    }

    /// A checkpoint without collectives: rank 0 hears of all files, writes the pointer, tells.
    fn mute_step(&self, rank: usize, step: u32) -> VecDeque<Op> {
        let pause_ms = self.pause_ms();
        let mut ops: Vec<Op> = vec![Op::Pause(pause_ms * 2)];
        let (mut deletions, mut pointer) = (Vec::new(), Vec::new());
        let pointers: Vec<String> = self.series.iter().map(Series::pointer_name).collect();
        for op in self.slots(rank, step).into_iter().flatten() {
            match &op {
                Op::Delete(_) => deletions.push(op),
                Op::Write(file) if pointers.contains(&file.name) => pointer.push(op),
                Op::Close(name, _) if pointers.contains(name) => pointer.push(op),
                _ => ops.extend([op, Op::Pause(pause_ms)]),
            }
        }
        ops.push(Op::Tell(step));
        if rank == 0 {
            ops.push(Op::Gather(step));
            ops.extend(pointer);
            let idle_ms = if step.is_multiple_of(3) { self.unsealed_ms * 5 / 2 } else { 20 };
            ops.extend([Op::Release(step), Op::Idle(idle_ms)]);
        }
        ops.push(Op::Await(step));
        ops.extend(deletions);
        if step >= self.steps {
            ops.push(Op::Finalize);
        }
        ops.into()
    }

    /// What a rank does from the end of one step to the end of the next.
    pub fn step(&self, rank: usize, step: u32) -> VecDeque<Op> {
        if self.mute.is_some_and(|from| step >= from) {
            return self.mute_step(rank, step);
        }
        let pause_ms = self.pause_ms();
        let mut ops = vec![Op::Pause(pause_ms * 2)];
        for (at, slot) in self.slots(rank, step).into_iter().enumerate() {
            if at > 0 {
                ops.extend([self.sync(step, at), Op::Pause(pause_ms)]);
            }
            ops.extend(slot);
        }
        for moved in self.due(step).filter(|series| series.moves) {
            ops.push(self.sync(step, 40));
            ops.extend((rank == 0).then_some(Op::Move { series: moved.index, step }));
        }
        if step >= self.steps {
            ops.push(Op::Finalize);
        }
        for between in 0..self.syncs_between {
            ops.push(self.sync(step, 50 + between as usize));
            ops.push(Op::Pause(pause_ms));
        }
        ops.into()
    }

    fn sync(&self, step: u32, at: usize) -> Op {
        Op::Sync { constructor: (step as usize * 7 + at * 3).is_multiple_of(11) }
    }

    /// What the step writes, by the sync points in between.
    fn slots(&self, rank: usize, step: u32) -> Vec<Vec<Op>> {
        let parts: Vec<_> = self.due(step).map(|series| series.step(rank, step)).collect();
        let count = parts.iter().map(Vec::len).max().unwrap_or(0);
        let slot = |at: usize| {
            let own = parts.iter().map(|part| part.get(at).cloned().unwrap_or_default());
            match self.mixed {
                true => in_turns(own.collect()),
                false => own.flatten().collect(),
            }
        };
        (0..count).map(slot).collect()
    }
}

/// The first of each, the second of each, and so on.
fn in_turns(parts: Vec<Vec<Op>>) -> Vec<Op> {
    let longest = parts.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|at| parts.iter().filter_map(move |part| part.get(at).cloned())).collect()
}
