//! How a simulated program writes one of its series: drawn from a seed, the same on all ranks.
//!
//! The programs keep to what real ones do (every trace of them shows it): between the last close
//! of a checkpoint and the first open of the next one of its series lies a sync point that all
//! ranks pass.

use fastrand::Rng;
use scr_core::machine::{FileRef, SeriesConfig};

use super::style::Op;

/// Names of a program's series, in order; all files of one lie in the directory of its name.
pub const NAMES: [&str; 3] = ["ckpt", "dump", "data"];

pub fn series_of(name: &str) -> usize {
    let head = name.split('/').next();
    NAMES.iter().position(|known| Some(*known) == head).unwrap_or(NAMES.len())
}

pub fn owner(name: &str) -> usize {
    let last = name.rsplit('/').next().unwrap_or(name);
    let digits = last.strip_prefix('r').and_then(|last| last.split('.').next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

pub fn temporary(file: &FileRef) -> FileRef {
    let (name, masked) = (format!("{}.tmp", file.name), format!("{}.tmp", file.masked));
    FileRef { name, masked, ..file.clone() }
}

fn is_thrown_away(step: u32) -> bool {
    step.is_multiple_of(2)
}

/// What a program does with its older checkpoints.
#[derive(Debug, Clone, Copy)]
pub struct Clean {
    pub keep: u32,
    /// It deletes before the new one is complete.
    pub early: bool,
}

#[derive(Debug, Clone)]
pub struct Series {
    pub index: usize,
    pub rule: SeriesConfig,
    /// It is written in one of so many steps, first in this one.
    pub every: u32,
    pub first: u32,
    /// Sync points of a step before its first file.
    pub shift: u32,
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
    /// By a thread, while the main thread passes the sync points.
    pub threaded: bool,
    /// The first file is updated in place (without ids only).
    pub update: bool,
    /// Rank 0 writes one more file, in the first checkpoint only (without ids only).
    pub params: bool,
    /// A restart deletes the files it has read.
    pub consume: bool,
    /// Each rank writes one more file first; in every second checkpoint it throws that away at once
    /// (with ids only).
    pub discards: bool,
}

impl Series {
    /// Draws a series that is written in every step, for `ranks` ranks.
    pub fn draw(rng: &mut Rng, index: usize, ranks: usize) -> Series {
        let has_id = rng.u8(..10) < 6;
        let mut rule = SeriesConfig::new(NAMES[index], has_id);
        rule.learn = rng.u8(..4) == 0;
        rule.cache_size = 1 + rng.usize(..2);
        rule.flush_every = *rng.choice(&[0, 0, 2, 3]).unwrap_or(&0);
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
        Series {
            index,
            rule,
            every: 1,
            first: 1,
            shift: 0,
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
            discards: false,
        }
    }

    /// Some of those that can be are written into directories that are renamed.
    pub fn draw_moves(&mut self, rng: &mut Rng) {
        let simple = self.rule.has_id && self.aside.is_none() && !self.header && !self.threaded;
        self.moves = simple && rng.u8(..3) == 0;
    }

    /// Some of a program's several series are written in some of its steps only.
    pub fn draw_rhythm(&mut self, rng: &mut Rng) {
        self.every = *rng.choice(&[1, 1, 2, 3]).unwrap_or(&1);
        self.first = 1 + rng.u32(..self.every);
        self.shift = rng.u32(..4);
    }

    /// The same without collectives.
    pub fn mute(&mut self, rng: &mut Rng) {
        self.rule.has_id = true;
        self.rule.learn = false;
        self.pointer = Some(true);
        self.clean = rng.bool().then(|| Clean { keep: 1 + rng.u32(..2), early: false });
        (self.toggle, self.update, self.params, self.threaded) = (false, false, false, false);
        (self.consume, self.pause_ms) = (false, 2);
    }

    /// The same by a thread, in short steps.
    pub fn thread(&mut self) {
        (self.threaded, self.pause_ms, self.moves) = (true, 2, false);
    }

    pub fn is_due(&self, step: u32) -> bool {
        step >= self.first && (step - self.first).is_multiple_of(self.every)
    }

    pub fn file(&self, rank: usize, step: u32, file: u32) -> FileRef {
        let last = format!("r{rank}.{file}");
        if self.rule.has_id {
            self.refer(Some(step.to_string()), &format!("{step}/{last}"))
        } else if self.toggle {
            let turn = step / self.every;
            self.bare(&format!("{}/{last}", if turn.is_multiple_of(2) { 'a' } else { 'b' }))
        } else {
            self.bare(&last)
        }
    }

    fn params(&self, rank: usize, step: u32) -> Option<FileRef> {
        (self.params && rank == 0 && step == self.first).then(|| self.bare("params"))
    }

    /// All files that a rank writes in a checkpoint, the pointer apart.
    pub fn written(&self, rank: usize, step: u32) -> Vec<FileRef> {
        let files = (0..self.files).filter(|_| self.writers[rank]);
        let files = files.map(|file| self.file(rank, step, file));
        let extra = self.extra(rank, step).filter(|_| !is_thrown_away(step));
        files.chain(self.params(rank, step)).chain(extra).collect()
    }

    /// The file of which the rank throws away every second one.
    fn extra(&self, rank: usize, step: u32) -> Option<FileRef> {
        let simple = self.discards && self.rule.has_id && !self.moves && !self.threaded;
        (simple && self.writers[rank]).then(|| self.file(rank, step, self.files))
    }

    pub fn is_discarded(&self, name: &str) -> bool {
        let step: u32 = self.id(name).parse().unwrap_or(1);
        let extra = self.extra(owner(name), step).filter(|_| is_thrown_away(step));
        extra.is_some_and(|extra| extra.name == name)
    }

    fn bare(&self, last: &str) -> FileRef {
        self.refer(None, last)
    }

    fn refer(&self, id: Option<String>, last: &str) -> FileRef {
        let name = format!("{}/{last}", NAMES[self.index]);
        let masked = self.masked(&name);
        FileRef { series: self.index, id, name, masked, temporary: false }
    }

    pub fn masked(&self, name: &str) -> String {
        match self.id(name) {
            "" => name.to_string(),
            id => name.replacen(&format!("/{id}/"), "/{id}/", 1),
        }
    }

    /// The id that the pattern captures of a name of the series; empty where there is none.
    pub fn id<'a>(&self, name: &'a str) -> &'a str {
        let mut parts = name.split('/').skip(1);
        match (parts.next(), parts.next()) {
            (Some(id), Some(_)) if self.rule.has_id => id,
            _ => "",
        }
    }

    pub fn pointer_name(&self) -> String {
        self.bare("latest").name
    }

    /// The names that make up a checkpoint: all of the series, or those of one id.
    pub fn belongs(&self, name: &str, id: &str) -> bool {
        if name.ends_with(".tmp") || series_of(name) != self.index {
            return false;
        }
        !self.rule.has_id || (self.id(name) == id && !id.is_empty())
    }

    /// What a rank does between the sync points of a step that writes the series.
    pub fn step(&self, rank: usize, step: u32) -> Vec<Vec<Op>> {
        let mut slots = self.slots(rank, step);
        if self.threaded {
            let count = slots.len();
            let ops = slots.into_iter().flatten().collect();
            slots = vec![Vec::new(); count];
            slots[0].push(Op::Spawn(ops));
            slots[count - 1].push(Op::Join);
        }
        slots.splice(..0, (0..self.shift).map(|_| Vec::new()));
        slots
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
        let deletions = self.deletions(rank, step);
        let early = self.clean.is_some_and(|clean| clean.early);
        if early {
            slots[0].extend(deletions.clone());
        }
        if let Some(params) = self.params(rank, step) {
            slots[0].extend([Op::Write(params.clone()), Op::Close(params.name, false)]);
        }
        if let Some(extra) = self.extra(rank, step) {
            slots[0].extend([Op::Write(extra.clone()), Op::Close(extra.name.clone(), false)]);
            slots[0].extend(is_thrown_away(step).then_some(Op::Delete(extra)));
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

    /// The program's clean-up of the checkpoint that is one too many.
    fn deletions(&self, rank: usize, step: u32) -> Vec<Op> {
        let old = self.clean.and_then(|clean| step.checked_sub(clean.keep * self.every));
        match old {
            Some(old) if self.is_due(old) && self.writers[rank] => {
                let extra = self.extra(rank, old).filter(|_| !is_thrown_away(old));
                let files = (0..self.files).map(|file| self.file(rank, old, file));
                files.chain(extra).map(Op::Delete).collect()
            }
            _ => Vec::new(),
        }
    }
}
