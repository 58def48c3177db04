//! One launch of a simulated job: its ranks, their collectives, and the scheduler that picks who
//! moves next and when something dies.

use std::collections::{BTreeMap, VecDeque};

use fastrand::Rng;
use scr_core::machine::{DatasetKey, FileRef, Machine, Report, Step, SyncKind, WORDS};
use scr_core::streams::WORLD;

use super::Fault;
use super::cluster::{Cluster, Content, Files, Stage};
use super::style::{Op, Style};
use super::truth::Truth;

/// What a rank gives to a collective.
#[derive(Debug, Clone)]
pub enum Part {
    Nothing,
    Words([i64; WORDS]),
    Report(Box<Report>),
    Files(Files),
    /// Files, and the names of all in the record with whether they lie on the PFS.
    Encode(Files, Vec<(String, bool)>),
    Word(i64),
}

/// Which collective a rank is in. All ranks must be in the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Program,
    Agreement,
    Moves,
    Reports,
    Encode,
    Vote,
    Marked,
    Staged,
    Published,
    Gather,
}

/// A collective: the ranks' parts so far.
#[derive(Debug, Clone)]
pub struct Collective {
    pub kind: Kind,
    pub parts: Vec<Option<Part>>,
    pub missing: usize,
}

#[derive(Debug, Clone)]
pub enum Task {
    /// Its program's next operation.
    Program,
    /// Waiting in the program's own collective.
    ProgramSync,
    Agreement,
    /// At the end, telling the others of directories.
    Moves,
    Conference,
    /// Between two steps of a conference.
    Steps,
    /// A step of a conference, at one of its stages.
    Step(Box<Step>, u32),
    Finished,
}

/// A file that the program has open.
#[derive(Debug, Clone)]
pub enum OpenFile {
    /// In a dataset, in cache or on the PFS.
    Placed { key: DatasetKey, on_prefix: bool },
    /// A private copy.
    Shadow(FileRef),
    /// Not ours.
    Passed,
}

pub struct Rank {
    pub machine: Machine,
    pub ops: VecDeque<Op>,
    pub background: VecDeque<Op>,
    pub next_step: u32,
    pub task: Task,
    /// Collectives passed.
    pub passed: usize,
    pub dead: bool,
    pub open: BTreeMap<String, OpenFile>,
    /// What its program sees of its own files; as without us.
    pub sees: Files,
    /// What it saw when the rank reported last.
    pub reported: Files,
    pub ending: bool,
    /// The last checkpoint of which it has told rank 0.
    pub told: u32,
    /// When its helper thread looked last.
    pub looked_ms: u64,
    /// Renames that it has heard of.
    pub moves: usize,
    /// What it encodes beside its program, and what has come of it, once that has ended.
    pub encoding: BTreeMap<DatasetKey, Option<Part>>,
}

/// Moments at which a crash is most likely to show a mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Revoked,
    Recorded,
    Marked,
    Evicted,
    Published,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    Never,
    /// After so many micro-steps.
    After(u32),
    /// Right after a rank has passed the moment for the n-th time in the launch.
    At(Moment, u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Normal,
    Crash,
}

pub struct Sim {
    pub rng: Rng,
    pub style: Style,
    pub cluster: Cluster,
    pub truth: Vec<Truth>,
    pub launch: u32,
    pub ranks: Vec<Rank>,
    /// Collectives of this launch, in order; all ranks pass them in this order.
    pub collectives: Vec<Collective>,
    pub clock_ms: u64,
    pub fault: Option<Fault>,
    pub trace: Option<Vec<String>>,
    pub confirmed: u64,
    pub crash: Crash,
    /// The rank at whose moment it does.
    pub victim: Option<usize>,
    /// The last checkpoint that rank 0 has called complete in a message.
    pub released: u32,
    /// Series and steps of the checkpoints whose directory rank 0 has renamed in this launch, in
    /// order, each with the collective that it enters next.
    pub moves: Vec<(usize, usize, u32)>,
    /// A rank of this launch whose next seals fail, so many of them.
    pub breaks: Option<(usize, u32)>,
    /// Seals of a rank fail, and ranks fall back, now and then.
    pub fails: bool,
    /// A rank of this launch that takes a wrong turn (for some faults).
    pub wrong_rank: usize,
}

/// Appends a line to the trace; costs nothing when there is none.
macro_rules! trace {
    ($sim:expr, $($arguments:tt)*) => {
        if let Some(trace) = &mut $sim.trace {
            trace.push(format!($($arguments)*));
        }
    };
}
pub(super) use trace;

/// A broken promise.
pub type Checked<T = ()> = Result<T, String>;

impl Sim {
    /// Enters the next collective with this rank's part.
    pub fn enter(&mut self, rank: usize, kind: Kind, part: Part) -> Checked {
        let at = self.ranks[rank].passed;
        if at == self.collectives.len() {
            let parts = vec![None; self.ranks.len()];
            let missing = parts.len();
            self.collectives.push(Collective { kind, parts, missing });
        }
        let collective = &mut self.collectives[at];
        if collective.kind != kind {
            return Err(format!(
                "promise 4: rank {rank} enters {kind:?} where another is in {:?}",
                collective.kind
            ));
        }
        collective.parts[rank] = Some(part);
        collective.missing -= 1;
        Ok(())
    }

    fn complete(&self, rank: usize) -> bool {
        let at = self.ranks[rank].passed;
        self.collectives.get(at).is_some_and(|collective| collective.missing == 0)
    }

    /// All ranks' parts of the collective that the rank leaves.
    pub fn leave(&mut self, rank: usize) -> Vec<Part> {
        let at = self.ranks[rank].passed;
        self.ranks[rank].passed += 1;
        let parts = self.collectives[at].parts.iter().flatten();
        parts.cloned().collect()
    }

    pub fn leave_max(&mut self, rank: usize) -> i64 {
        let parts = self.leave(rank);
        let words = parts.iter().map(|part| match part {
            Part::Word(word) => *word,
            _ => i64::MAX,
        });
        words.max().unwrap_or(0)
    }

    fn waits(&self, rank: usize) -> bool {
        match &self.ranks[rank].task {
            Task::ProgramSync | Task::Agreement | Task::Moves | Task::Conference => true,
            Task::Step(step, stage) => super::perform::waits(step, *stage),
            Task::Program => match self.ranks[rank].ops.front() {
                Some(Op::Join) => !self.ranks[rank].background.is_empty(),
                Some(Op::Gather(step)) => self.ranks.iter().any(|other| other.told < *step),
                Some(Op::Await(step)) => self.released < *step,
                _ => false,
            },
            Task::Steps | Task::Finished => false,
        }
    }

    fn can_move(&self, rank: usize) -> bool {
        match self.ranks[rank].task {
            Task::Finished => false,
            Task::Program => !self.waits(rank),
            _ => !self.waits(rank) || self.complete(rank),
        }
    }

    /// A rank passes a moment: if the crash waits for it, its node dies with the next micro-step.
    pub fn moment(&mut self, rank: usize, moment: Moment) {
        if let Crash::At(wanted, left) = &mut self.crash
            && *wanted == moment
        {
            *left -= 1;
            if *left == 0 {
                self.crash = Crash::After(0);
                self.victim = Some(rank);
            }
        }
    }

    pub fn run(&mut self) -> Checked<End> {
        let count = self.ranks.len();
        let (mut last_gasps, mut crashed_ms) = (None, u64::MAX);
        loop {
            match &mut self.crash {
                Crash::After(0) => {
                    self.crash();
                    self.crash = Crash::Never;
                    last_gasps = Some(self.rng.u32(..60));
                    crashed_ms = self.clock_ms;
                }
                Crash::After(left) => *left -= 1,
                Crash::Never | Crash::At(..) => {}
            }
            // Processes do not outlive the others for long.
            let most_ms = crashed_ms.saturating_add(self.style.unsealed_ms / 2);
            if last_gasps == Some(0) || self.clock_ms > most_ms {
                return Ok(End::Crash);
            }
            last_gasps = last_gasps.map(|left| left - 1);
            self.helpers();
            let first = self.rng.usize(..count);
            let mut moved = false;
            for rank in (first..count).chain(0..first) {
                if self.ranks[rank].dead {
                    continue;
                }
                let background = !self.ranks[rank].background.is_empty();
                let main = self.can_move(rank);
                if !background && !main {
                    continue;
                }
                moved = true;
                self.clock_ms += self.rng.u64(..3);
                if background && (!main || self.rng.bool()) {
                    self.background_step(rank)?;
                } else {
                    self.main_step(rank)?;
                }
                break;
            }
            if moved {
                continue;
            }
            if self.ranks.iter().all(|rank| matches!(rank.task, Task::Finished)) {
                return Ok(End::Normal);
            }
            if last_gasps.is_some() {
                if self.style.mute.is_some() {
                    self.clock_ms += self.rng.u64(..5);
                    continue; // helper threads still work
                }
                return Ok(End::Crash);
            }
            let waiting: Vec<_> = self.ranks.iter().map(|rank| &rank.task).collect();
            return Err(format!("promise 4: nobody can move; tasks are {waiting:?}"));
        }
    }

    fn background_step(&mut self, rank: usize) -> Checked {
        match self.ranks[rank].background.pop_front() {
            Some(op) => {
                self.ranks[rank].machine.called_by(2);
                self.file_op(rank, op)
            }
            None => Ok(()),
        }
    }

    fn main_step(&mut self, rank: usize) -> Checked {
        self.ranks[rank].machine.called_by(1);
        self.hear_neighbour(rank);
        self.encode_on(rank);
        match self.ranks[rank].task.clone() {
            Task::Program => self.program_step(rank),
            Task::ProgramSync => {
                self.leave(rank);
                self.ranks[rank].task = Task::Program;
                Ok(())
            }
            Task::Agreement => self.agreement_step(rank),
            Task::Moves => {
                let at = self.ranks[rank].passed;
                self.leave(rank);
                self.hear_moves(rank, at);
                self.give_report(rank)
            }
            Task::Conference => self.conference_step(rank),
            Task::Steps => self.next_step(rank),
            Task::Step(step, stage) => self.perform(rank, *step, stage),
            Task::Finished => Ok(()),
        }
    }

    fn program_step(&mut self, rank: usize) -> Checked {
        if self.ranks[rank].ops.is_empty() {
            let step = self.ranks[rank].next_step;
            self.ranks[rank].next_step += 1;
            self.ranks[rank].ops = self.style.step(rank, step);
            self.expect(step);
        }
        let now_ms = self.clock_ms;
        if self.breaks.is_some() && self.rng.u8(..200) == 0 {
            trace!(self, "{now_ms} r{rank} falls back");
            self.ranks[rank].machine.fall_back();
        }
        let Some(op) = self.ranks[rank].ops.pop_front() else { return Ok(()) };
        match op {
            Op::Sync { constructor } => {
                let skips = self.fault == Some(Fault::SkipSyncPoint) && rank == self.wrong_rank;
                if skips && self.rng.u8(..8) == 0 {
                    return self.program_sync(rank);
                }
                let kind = match constructor {
                    true => SyncKind::Constructor,
                    false => SyncKind::Collective,
                };
                match self.ranks[rank].machine.sync_point(kind, now_ms) {
                    None => self.program_sync(rank),
                    Some(words) => {
                        trace!(self, "{now_ms} r{rank} agreement {words:?}");
                        self.ranks[rank].task = Task::Agreement;
                        self.enter(rank, Kind::Agreement, Part::Words(words))
                    }
                }
            }
            Op::Pause(most_ms) => {
                self.clock_ms += self.rng.u64(..=most_ms);
                Ok(())
            }
            Op::Idle(most_ms) => {
                self.clock_ms += most_ms.min(10);
                if most_ms > 10 {
                    self.ranks[rank].ops.push_front(Op::Idle(most_ms - 10));
                }
                Ok(())
            }
            Op::Tell(step) => {
                self.ranks[rank].told = step;
                Ok(())
            }
            Op::Release(step) => {
                self.released = step;
                Ok(())
            }
            Op::Gather(_) | Op::Await(_) => Ok(()),
            Op::Spawn(ops) => {
                self.ranks[rank].background.extend(ops);
                Ok(())
            }
            Op::Join => Ok(()),
            Op::Finalize => {
                trace!(self, "{now_ms} r{rank} finalize");
                self.ranks[rank].ending = true;
                self.ranks[rank].machine.begin_end(now_ms);
                self.ranks[rank].task = Task::Moves;
                self.enter(rank, Kind::Moves, Part::Nothing)
            }
            other => self.file_op(rank, other),
        }
    }

    fn program_sync(&mut self, rank: usize) -> Checked {
        self.ranks[rank].task = Task::ProgramSync;
        self.enter(rank, Kind::Program, Part::Nothing)
    }

    fn agreement_step(&mut self, rank: usize) -> Checked {
        let at = self.ranks[rank].passed;
        let mut words = [i64::MIN; WORDS];
        for part in self.leave(rank) {
            if let Part::Words(theirs) = part {
                for (word, other) in words.iter_mut().zip(theirs) {
                    *word = (*word).max(other);
                }
            }
        }
        use scr_core::machine::Next;
        let next = self.ranks[rank].machine.agreed(WORLD, words);
        if self.ranks[rank].machine.tells_names(true) {
            self.hear_moves(rank, at);
        }
        match next {
            Next::Continue | Next::Postponed | Next::Ended => self.program_sync(rank),
            Next::Confer => self.give_report(rank),
            Next::Disabled { most, least } => {
                Err(format!("promise 4: counts of sync points are {least}..{most}"))
            }
        }
    }

    fn give_report(&mut self, rank: usize) -> Checked {
        let entropy = self.rng.u64(..);
        let now_ms = self.clock_ms;
        self.release_left_behind(rank);
        self.ranks[rank].reported = self.ranks[rank].sees.clone();
        let report = self.report(rank, entropy);
        trace!(self, "{now_ms} r{rank} reports {:?} {:?}", report.datasets, report.sealed);
        self.ranks[rank].task = Task::Conference;
        self.enter(rank, Kind::Reports, Part::Report(Box::new(report)))
    }

    fn conference_step(&mut self, rank: usize) -> Checked {
        let parts = self.leave(rank).into_iter();
        let reports: Vec<Report> = parts
            .filter_map(|part| match part {
                Part::Report(report) => Some(*report),
                _ => None,
            })
            .collect();
        if !self.ranks[rank].machine.confer(&reports) {
            return Err(format!("promise 4: rank {rank}: the ranks' shared states differ"));
        }
        self.ranks[rank].task = Task::Steps;
        Ok(())
    }

    fn next_step(&mut self, rank: usize) -> Checked {
        let now_ms = self.clock_ms;
        match self.ranks[rank].machine.next_step() {
            Some(step) => {
                trace!(self, "{now_ms} r{rank} {step:?}");
                self.ranks[rank].task = Task::Step(Box::new(step), 0);
                Ok(())
            }
            None if self.ranks[rank].machine.ends_again() => self.give_report(rank),
            None if self.ranks[rank].ending => {
                self.ranks[rank].machine.end();
                self.ranks[rank].task = Task::Finished;
                Ok(())
            }
            None => self.program_sync(rank),
        }
    }

    /// What the rank's program is writing now.
    pub fn content(&self, step: u32, stage: Stage) -> Content {
        Content { launch: self.launch, step, stage }
    }
}
