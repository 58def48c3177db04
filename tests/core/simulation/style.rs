//! How a simulated program writes its checkpoints: drawn from a seed, the same on all its ranks.
//!
//! The programs keep to what real ones do (every trace of them shows it): between the last close
//! of a checkpoint and the first open of the next lies a sync point that all ranks pass.

use std::collections::VecDeque;

use fastrand::Rng;
use scr_core::session::machine::{FileRef, SeriesConfig};

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
    WriteAside { file: FileRef, matched: bool },
    /// Rank 0 renames the directory of this checkpoint: from now on it has its final name.
    Move(u32),
    /// Unlink, if the program sees the file.
    Delete(FileRef),
    /// A blocking collective.
    Sync { constructor: bool },
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
    /// Wait for it.
    Join,
    /// MPI_Finalize.
    Finalize,
}

/// What a program does with its older checkpoints.
#[derive(Debug, Clone, Copy)]
pub struct Clean {
    /// Checkpoints it keeps.
    pub keep: u32,
    /// It deletes before the new one is complete.
    pub early: bool,
}

/// A program.
#[derive(Debug, Clone)]
pub struct Style {
    pub series: SeriesConfig,
    /// Two sets of names in turn (without ids only).
    pub toggle: bool,
    pub files: u32,
    pub writers: Vec<bool>,
    /// Slots between syncs that a rank waits before it writes.
    pub late: Vec<u32>,
    /// A sync between a rank's files, all closed.
    pub quiet: bool,
    /// Syncs between the data and what is written last (header, pointer).
    pub gap: u32,
    /// Files stay open over a sync.
    pub straddle: bool,
    pub pause_ms: u64,
    /// Written aside: `Some(matched)`.
    pub aside: Option<bool>,
    /// All ranks write into a directory that rank 0 renames when all have (with ids only).
    pub moves: bool,
    pub clean: Option<Clean>,
    /// Every rank writes its first file again at the end (with ids only).
    pub header: bool,
    /// Rank 0 writes `latest`; `Some(true)`: after a sync.
    pub pointer: Option<bool>,
    pub threaded: bool,
    /// The first file is updated in place (without ids only).
    pub update: bool,
    /// Rank 0 writes one more file, in the first checkpoint only (without ids only).
    pub params: bool,
    /// A restart deletes the files it has read.
    pub consume: bool,
    pub steps: u32,
    pub syncs_between: u32,
    /// From this checkpoint on there are messages instead of collectives.
    pub mute: Option<u32>,
    /// `SCR_UNSEALED_SECONDS`, in milliseconds.
    pub unsealed_ms: u64,
}

impl Style {
    /// Draws a program for `ranks` ranks.
    pub fn draw(rng: &mut Rng, ranks: usize) -> Style {
        let has_id = rng.u8(..10) < 6;
        let mut series = SeriesConfig::new("sim", has_id);
        series.learn = rng.u8(..4) == 0;
        series.cache_size = 1 + rng.usize(..2);
        series.flush_every = *rng.choice(&[0, 0, 2, 3]).unwrap_or(&0);
        let rank_0_only = rng.u8(..8) == 0;
        let some_silent = rng.u8(..4) == 0;
        let some_late = rng.u8(..4) == 0;
        let mut writers: Vec<bool> = (0..ranks)
            .map(|rank| if rank_0_only { rank == 0 } else { !some_silent || rng.bool() })
            .collect();
        if !writers.contains(&true) {
            writers[ranks - 1] = true;
        }
        let late = (0..ranks).map(|_| if some_late { rng.u32(..3) } else { 0 }).collect();
        let clean = Clean { keep: 1 + rng.u32(..2), early: rng.bool() };
        let mut style = Style {
            series,
            toggle: !has_id && rng.u8(..3) == 0,
            files: 1 + rng.u32(..3),
            writers,
            late,
            quiet: rng.u8(..3) == 0,
            gap: rng.u32(..4),
            straddle: rng.u8(..4) == 0,
            pause_ms: *rng.choice(&[2, 30, 150]).unwrap_or(&2),
            aside: (rng.u8(..5) == 0).then(|| !has_id || rng.bool()),
            moves: false,
            clean: (has_id && rng.u8(..2) == 0).then_some(clean),
            pointer: (has_id && rng.u8(..3) == 0).then(|| rng.bool()),
            header: has_id && rng.u8(..4) == 0,
            threaded: rng.u8(..5) == 0,
            update: !has_id && rng.u8(..4) == 0,
            params: !has_id && rng.u8(..4) == 0,
            consume: has_id && rng.u8(..8) == 0,
            steps: 2 + rng.u32(..4),
            syncs_between: 1 + rng.u32(..4),
            mute: None,
            unsealed_ms: 1_000,
        };
        if rng.u8(..12) == 0 {
            return style.without_collectives(rng);
        }
        let simple = has_id && style.aside.is_none() && !style.header && !style.threaded;
        style.moves = simple && rng.u8(..3) == 0;
        style
    }

    /// The same program with messages instead of collectives, from some checkpoint on.
    fn without_collectives(mut self, rng: &mut Rng) -> Style {
        self.series.has_id = true;
        self.series.learn = false;
        self.mute = Some(1 + rng.u32(..3));
        self.unsealed_ms = *rng.choice(&[250, 500]).unwrap_or(&500);
        self.pointer = Some(true);
        self.clean = rng.bool().then(|| Clean { keep: 1 + rng.u32(..2), early: false });
        (self.toggle, self.update, self.params, self.threaded) = (false, false, false, false);
        (self.consume, self.pause_ms, self.steps) = (false, 2, 3 + rng.u32(..8));
        self
    }

    /// A checkpoint without collectives: rank 0 hears of all files, writes the pointer, tells.
    fn mute_step(&self, rank: usize, step: u32) -> VecDeque<Op> {
        let mut ops: Vec<Op> = vec![Op::Pause(self.pause_ms * 2)];
        let (mut deletions, mut pointer) = (Vec::new(), Vec::new());
        for op in self.slots(rank, step).into_iter().flatten() {
            match &op {
                Op::Delete(_) => deletions.push(op),
                Op::Write(file) if file.name == "latest" => pointer.push(op),
                Op::Close(name, _) if name == "latest" => pointer.push(op),
                _ => ops.extend([op, Op::Pause(self.pause_ms)]),
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

    /// A file of a checkpoint.
    pub fn file(&self, rank: usize, step: u32, file: u32) -> FileRef {
        let last = format!("r{rank}.{file}");
        if self.series.has_id {
            self.with_id(step, &last)
        } else if self.toggle {
            self.bare(&format!("{}/{last}", if step.is_multiple_of(2) { 'a' } else { 'b' }))
        } else {
            self.bare(&last)
        }
    }

    /// The file that is written just once.
    fn params(&self, rank: usize, step: u32) -> Option<FileRef> {
        (self.params && rank == 0 && step == 1).then(|| self.bare("params"))
    }

    /// All files that a rank writes in a checkpoint, the pointer apart.
    pub fn written(&self, rank: usize, step: u32) -> Vec<FileRef> {
        let files = (0..self.files).filter(|_| self.writers[rank]);
        let files = files.map(|file| self.file(rank, step, file));
        files.chain(self.params(rank, step)).collect()
    }

    fn with_id(&self, step: u32, last: &str) -> FileRef {
        let (name, masked) = (format!("{step}/{last}"), format!("{{id}}/{last}"));
        FileRef { series: 0, id: Some(step.to_string()), name, masked, temporary: false }
    }

    fn bare(&self, name: &str) -> FileRef {
        FileRef { series: 0, id: None, name: name.into(), masked: name.into(), temporary: false }
    }

    /// The temporary name of a file.
    pub fn temporary(file: &FileRef) -> FileRef {
        let (name, masked) = (format!("{}.tmp", file.name), format!("{}.tmp", file.masked));
        FileRef { name, masked, ..file.clone() }
    }

    /// The rank that writes a file.
    pub fn owner(name: &str) -> usize {
        let last = name.rsplit('/').next().unwrap_or(name);
        let digits = last.strip_prefix('r').and_then(|last| last.split('.').next());
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }

    /// What a rank does from the end of one checkpoint to the end of the next.
    pub fn step(&self, rank: usize, step: u32) -> VecDeque<Op> {
        if self.mute.is_some_and(|from| step >= from) {
            return self.mute_step(rank, step);
        }
        let slots = self.slots(rank, step);
        let mut ops = vec![Op::Pause(self.pause_ms * 2)];
        if self.threaded {
            let count = slots.len();
            ops.push(Op::Spawn(slots.into_iter().flatten().collect()));
            for slot in 1..count {
                ops.push(self.sync(step, slot));
                ops.push(Op::Pause(self.pause_ms));
            }
            ops.push(Op::Join);
        } else {
            for (at, slot) in slots.into_iter().enumerate() {
                if at > 0 {
                    ops.push(self.sync(step, at));
                    ops.push(Op::Pause(self.pause_ms));
                }
                ops.extend(slot);
            }
        }
        if self.moves {
            ops.push(self.sync(step, 40));
            ops.extend((rank == 0).then_some(Op::Move(step)));
        }
        if step >= self.steps {
            ops.push(Op::Finalize);
        }
        for between in 0..self.syncs_between {
            ops.push(self.sync(step, 50 + between as usize));
            ops.push(Op::Pause(self.pause_ms));
        }
        ops.into()
    }

    fn sync(&self, step: u32, at: usize) -> Op {
        Op::Sync { constructor: (step as usize * 7 + at * 3).is_multiple_of(11) }
    }

    /// The operations of one checkpoint, by the sync points between them; all ranks have as many.
    fn slots(&self, rank: usize, step: u32) -> Vec<Vec<Op>> {
        let latest = self.late.iter().copied().max().unwrap_or(0);
        let spread = if self.quiet { self.files - 1 } else { 0 };
        let mut count = 1 + latest + spread + u32::from(self.straddle);
        let closing = self.header || self.pointer == Some(true);
        count += if closing { self.gap } else { 0 };
        let header_slot = count;
        count += u32::from(self.header);
        let pointer_slot = count - u32::from(self.pointer != Some(true));
        count += u32::from(self.pointer == Some(true));
        let mut slots = vec![Vec::new(); count as usize];
        let old = self.clean.and_then(|clean| step.checked_sub(clean.keep));
        let deletions: Vec<Op> = match old {
            Some(old) if old > 0 && self.writers[rank] => {
                (0..self.files).map(|file| Op::Delete(self.file(rank, old, file))).collect()
            }
            _ => Vec::new(),
        };
        let early = self.clean.is_some_and(|clean| clean.early);
        if early {
            slots[0].extend(deletions.clone());
        }
        if let Some(params) = self.params(rank, step) {
            slots[0].extend([Op::Write(params.clone()), Op::Close(params.name, false)]);
        }
        for file in (0..self.files).filter(|_| self.writers[rank]) {
            let slot = (self.late[rank] + if self.quiet { file } else { 0 }) as usize;
            let name = self.file(rank, step, file);
            if let Some(matched) = self.aside.filter(|_| !self.header || file > 0) {
                slots[slot].push(Op::WriteAside { file: name, matched });
                continue;
            }
            let draft = self.header && file == 0;
            let close = Op::Close(name.name.clone(), draft);
            let update = self.update && file == 0;
            let name = FileRef { temporary: self.moves, ..name };
            slots[slot].push(if update { Op::Update(name) } else { Op::Write(name) });
            slots[slot + usize::from(self.straddle)].push(close);
        }
        if self.header && self.writers[rank] {
            let first = self.file(rank, step, 0);
            let close = Op::Close(first.name.clone(), false);
            slots[header_slot as usize].extend([Op::Write(first), close]);
        }
        if self.pointer.is_some() && rank == 0 {
            let pointer = self.bare("latest");
            let last = &mut slots[pointer_slot as usize];
            last.extend([Op::Write(pointer.clone()), Op::Close(pointer.name, false)]);
        }
        if !early {
            slots[count as usize - 1].extend(deletions);
        }
        slots
    }
}
