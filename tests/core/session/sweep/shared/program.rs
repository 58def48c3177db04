//! Programs whose ranks write files together, drawn from a seed.

use std::collections::BTreeMap;

use fastrand::Rng;

use crate::cluster::Rank;
use crate::door::Open;

/// A checkpoint has files of these names.
const NAMES: [&str; 2] = ["one", "two"];
const PAGE: usize = 4096;
/// The longest file, pages.
const PAGES: usize = 12;

/// How a checkpoint's files are called, and what becomes of the older ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// Each checkpoint has names of its own.
    Numbered,
    /// All have the same names: the older file is deleted first,
    Deleted,
    /// or emptied by the open,
    Emptied,
    /// or replaced, when the newer one has been written under another name,
    Replaced,
    /// or renamed.
    PutAside,
}

impl Naming {
    pub const OF_ONE_NAME: [Naming; 4] =
        [Naming::Deleted, Naming::Emptied, Naming::Replaced, Naming::PutAside];

    pub fn name(self, id: u64, file: usize) -> String {
        match self {
            Naming::Numbered => format!("ckpt/step_{id}/{}", NAMES[file]),
            _ => format!("ckpt/now/{}", NAMES[file]),
        }
    }

    /// The name under which it is written.
    fn first(self, id: u64, file: usize) -> String {
        let ending = if self == Naming::Replaced { ".tmp" } else { "" };
        self.name(id, file) + ending
    }

    /// The name that the checkpoint before it has at the end.
    fn aside(self, id: u64, file: usize) -> String {
        self.name(id, file) + ".old"
    }
}

/// What a rank does between two collectives. A file is one of the checkpoint's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    Mkdir,
    Unlink(usize),
    PutAside(usize),
    Replace(usize),
    Open {
        file: usize,
        flags: i32,
    },
    /// Writes bytes of its own at this place.
    Write {
        file: usize,
        at: usize,
        bytes: Vec<u8>,
    },
    /// Sees what is there.
    Read {
        file: usize,
        at: usize,
        bytes: Vec<u8>,
    },
    Size {
        file: usize,
        bytes: usize,
    },
    /// Opens the file by its name, only to read it, asks for its size, and sees what is there.
    Check {
        file: usize,
        size: usize,
        at: usize,
        bytes: Vec<u8>,
    },
    Cut {
        file: usize,
        bytes: usize,
    },
    Close(usize),
}

/// What the ranks do, each its own, and the content of each file at the end of it.
#[derive(Debug, Clone)]
pub struct Phase {
    pub acts: Vec<Vec<Act>>,
    pub files: Vec<Vec<u8>>,
    /// It ends by MPI_Barrier, else by another collective.
    pub barrier: bool,
}

/// One checkpoint.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    pub id: u64,
    naming: Naming,
    pub phases: Vec<Phase>,
    pub calm: bool,
    /// Its files are closed, and opened again for writing.
    pub reopens: bool,
}

/// What a program does each time.
#[derive(Debug)]
struct Habit {
    files: usize,
    phases: usize,
    /// One rank makes the files; else all open them with O_CREAT.
    one_makes: bool,
    /// By barriers it lets others wait for what one has made; else by any collective.
    barriers: bool,
    /// The ranks' places change with each checkpoint; else they are drawn once.
    moves: bool,
    /// Who asks how long the file is; who makes it shorter or longer.
    asks: bool,
    cuts: bool,
    /// Phases write over what others have written.
    again: bool,
    /// Closed and opened again in the middle.
    reopens: bool,
    /// One in so many checkpoints has a rank that reads what another one has written.
    reads: usize,
    /// Ranks open the files again when they are closed, to look what is there.
    checks: bool,
}

pub struct Author {
    rng: Rng,
    naming: Naming,
    ranks: usize,
    habit: Habit,
    files: Vec<Vec<u8>>,
    phases: Vec<Phase>,
    written: u64,
}

impl Author {
    /// One that `waits` for nobody has no call that takes half a minute where a rank has died.
    pub fn new(mut rng: Rng, naming: Naming, ranks: usize, waits: bool) -> Author {
        let mut habit = Habit {
            files: 1 + usize::from(rng.u8(..3) == 0),
            phases: rng.usize(1..4),
            one_makes: rng.bool(),
            barriers: rng.u8(..4) != 0,
            moves: rng.bool(),
            asks: rng.u8(..3) == 0,
            cuts: rng.u8(..4) == 0,
            again: rng.bool(),
            reopens: rng.u8(..4) == 0,
            reads: [0, 0, 0, 6, 2][rng.usize(..5)],
            checks: rng.u8(..3) == 0,
        };
        if !waits {
            (habit.asks, habit.reopens, habit.reads) = (false, false, 0);
            habit.checks = false;
        }
        Author { rng, naming, ranks, habit, files: Vec::new(), phases: Vec::new(), written: 0 }
    }

    /// Draws checkpoints with ids from 1 on.
    pub fn write(&mut self, count: u64) -> Vec<Checkpoint> {
        let places = self.rng.fork();
        let one = |id: u64| {
            let rng = if self.habit.moves { self.rng.fork() } else { places.clone() };
            self.checkpoint(id, rng)
        };
        (1..=count).map(one).collect()
    }

    fn checkpoint(&mut self, id: u64, places: Rng) -> Checkpoint {
        let surprises = self.rng.clone();
        self.rng = places;
        self.files = vec![Vec::new(); self.habit.files];
        self.open();
        for phase in 0..self.habit.phases {
            let reopens = self.habit.reopens && phase == 1;
            if reopens {
                self.all(|_, file| vec![Act::Close(file)]);
                self.all(|_, file| vec![Act::Open { file, flags: libc::O_RDWR }]);
            }
            self.pieces(phase > 0 && self.habit.again);
            if self.habit.cuts && self.rng.bool() {
                self.cut();
            }
            if self.habit.asks {
                self.ask();
            }
        }
        self.rng = surprises;
        if self.habit.reads > 0 && self.rng.usize(..self.habit.reads) == 0 {
            self.look();
        }
        self.all(|_, file| vec![Act::Close(file)]);
        if self.naming == Naming::Replaced {
            self.all(|rank, file| if rank == 0 { vec![Act::Replace(file)] } else { Vec::new() });
        }
        if self.habit.checks {
            self.made();
            self.check();
        }
        let calm = self.rng.u8(..3) != 0;
        let reopens = self.habit.reopens && self.habit.phases > 1;
        let naming = self.naming;
        Checkpoint { id, naming, phases: std::mem::take(&mut self.phases), calm, reopens }
    }

    /// All ranks do something with each file.
    fn all(&mut self, act: impl Fn(usize, usize) -> Vec<Act>) {
        let files = self.files.len();
        let of = |rank: usize| (0..files).flat_map(|file| act(rank, file)).collect();
        let acts = (0..self.ranks).map(of).collect();
        self.push(acts);
    }

    fn push(&mut self, acts: Vec<Vec<Act>>) {
        let barrier = self.rng.bool();
        self.phases.push(Phase { acts, files: self.files.clone(), barrier });
    }

    fn made(&mut self) {
        let last = self.phases.last_mut();
        last.into_iter().for_each(|phase| phase.barrier = self.habit.barriers);
    }

    fn open(&mut self) {
        let mut made = vec![Vec::new(); self.ranks];
        made[0].push(Act::Mkdir);
        let older = match self.naming {
            Naming::Numbered | Naming::Deleted => Some(Act::Unlink as fn(usize) -> Act),
            Naming::PutAside => Some(Act::PutAside as fn(usize) -> Act),
            Naming::Emptied | Naming::Replaced => None,
        };
        made[0].extend(older.into_iter().flat_map(|act| (0..self.files.len()).map(act)));
        self.push(made);
        // Only a barrier lets others hear of that for sure.
        self.phases.iter_mut().for_each(|phase| phase.barrier = true);
        let empties = if self.naming == Naming::Emptied { libc::O_TRUNC } else { 0 };
        let create = libc::O_RDWR | libc::O_CREAT | empties;
        if self.habit.one_makes {
            self.all(|rank, file| match rank {
                0 => vec![Act::Open { file, flags: create }, Act::Close(file)],
                _ => Vec::new(),
            });
            self.made();
        }
        let flags = if self.habit.one_makes { libc::O_RDWR } else { create };
        self.all(|_, file| vec![Act::Open { file, flags }]);
    }

    /// Each rank writes some of the pieces into which a file is cut.
    fn pieces(&mut self, over: bool) {
        let mut acts = vec![Vec::new(); self.ranks];
        for file in 0..self.files.len() {
            let from = if over { 0 } else { self.files[file].len() };
            let mut at = from;
            let end = from + PAGE * self.rng.usize(1..PAGES);
            while at < end {
                let bytes = PAGE * self.rng.usize(1..4) - self.rng.usize(..500);
                // An empty file is not yet a checkpoint that the next one of its name follows.
                let nobody = at > 0 || self.naming == Naming::Numbered;
                let by = self.rng.usize(..self.ranks + usize::from(nobody));
                if by < self.ranks {
                    self.written += 1;
                    let bytes = content(self.written, bytes);
                    put(&mut self.files[file], at, &bytes);
                    acts[by].push(Act::Write { file, at, bytes });
                }
                at += bytes;
            }
        }
        self.push(acts);
    }

    /// By all ranks, as MPI_File_set_size may do it, or by one.
    fn cut(&mut self) {
        let all = self.rng.bool();
        for file in &mut self.files {
            file.resize(self.rng.usize(1..PAGE * PAGES * 2), 0);
        }
        let sizes: Vec<usize> = self.files.iter().map(Vec::len).collect();
        self.all(|rank, file| match all || rank == 0 {
            true => vec![Act::Cut { file, bytes: sizes[file] }],
            false => Vec::new(),
        });
    }

    fn ask(&mut self) {
        let sizes: Vec<usize> = self.files.iter().map(Vec::len).collect();
        let one = self.rng.usize(..self.ranks);
        self.all(|rank, file| match rank == one {
            true => vec![Act::Size { file, bytes: sizes[file] }],
            false => Vec::new(),
        });
    }

    /// A rank reads something of each file.
    fn look(&mut self) {
        let one = self.rng.usize(..self.ranks);
        let mut acts = vec![Vec::new(); self.ranks];
        for (file, held) in self.files.iter().enumerate().filter(|(_, held)| !held.is_empty()) {
            let (at, bytes) = piece(&mut self.rng, held);
            acts[one].push(Act::Read { file, at, bytes });
        }
        self.push(acts);
    }

    /// Each rank, or one, sees how long each file is, and reads something of it that it has written
    /// itself last; one in a few takes any piece.
    fn check(&mut self) {
        let one = self.rng.bool().then(|| self.rng.usize(..self.ranks));
        let mut acts = vec![Vec::new(); self.ranks];
        let ranks = (0..self.ranks).filter(|rank| one.is_none_or(|one| one == *rank));
        for (rank, file) in ranks.flat_map(|rank| (0..self.files.len()).map(move |it| (rank, it))) {
            let held = &self.files[file];
            let of_phase = |phase: &Phase| phase.acts[rank].clone();
            let own = self.phases.iter().rev().flat_map(of_phase).find_map(|act| match act {
                Act::Write { file: of, at, bytes } if of == file => Some((at, bytes.len())),
                _ => None,
            });
            let any = self.rng.u8(..6) == 0 && !held.is_empty();
            let (at, bytes) = match own {
                _ if any => piece(&mut self.rng, held),
                Some((at, long)) if at < held.len() => {
                    (at, held[at..held.len().min(at + long)].to_vec())
                }
                _ => (0, Vec::new()),
            };
            acts[rank].push(Act::Check { file, size: held.len(), at, bytes });
        }
        self.push(acts);
    }
}

fn piece(rng: &mut Rng, held: &[u8]) -> (usize, Vec<u8>) {
    let at = rng.usize(..held.len());
    let end = (at + rng.usize(1..3 * PAGE)).min(held.len());
    (at, held[at..end].to_vec())
}

/// No two writes have the same.
fn content(number: u64, bytes: usize) -> Vec<u8> {
    format!("{number} ").bytes().cycle().take(bytes).collect()
}

fn put(held: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    held.resize(held.len().max(at + bytes.len()), 0);
    held[at..at + bytes.len()].copy_from_slice(bytes);
}

impl Checkpoint {
    /// Writes it; returns what was not as it would be without SCR. `None`: another rank is gone.
    pub fn run(&self, rank: &Rank) -> Option<Vec<String>> {
        let mut open = BTreeMap::new();
        let mut wrong = Vec::new();
        for phase in &self.phases {
            for act in &phase.acts[rank.rank] {
                let done = act.run(rank, self, &mut open);
                wrong.extend(done.err().map(|error| format!("step {} {act}: {error}", self.id)));
            }
            match phase.barrier {
                true => rank.try_barrier().ok()?,
                false => drop(rank.all_max(0).ok()?),
            }
        }
        if self.calm {
            rank.try_calm().ok()?;
        }
        Some(wrong)
    }

    pub fn is_numbered(&self) -> bool {
        self.naming == Naming::Numbered
    }

    pub fn contents(&self) -> impl Iterator<Item = (String, &Vec<u8>)> {
        let last = self.phases.last().into_iter().flat_map(|phase| &phase.files);
        last.enumerate().map(|(file, held)| (self.naming.name(self.id, file), held))
    }

    /// What the program has put aside of this one, when it has written the next one.
    pub fn aside(&self) -> impl Iterator<Item = (String, &Vec<u8>)> {
        let files = self.contents().filter(|_| self.naming == Naming::PutAside).enumerate();
        files.map(|(file, (_, held))| (self.naming.aside(self.id, file), held))
    }

    /// Tells whether a run that was cut off may have left this: each byte is one that the file had
    /// there once.
    pub fn may_be_left(&self, file: usize, found: &[u8]) -> bool {
        let held = |phase: &Phase, at: usize| phase.files[file].get(at).copied().unwrap_or(0);
        let one = |(at, byte): (usize, &u8)| self.phases.iter().any(|p| held(p, at) == *byte);
        found.iter().enumerate().all(one)
    }
}

type Opened<'a> = BTreeMap<usize, Open<'a>>;

/// An open that failed is told; nothing else is done to such a file.
fn of<'a, 'b>(open: &'b Opened<'a>, file: &usize) -> Result<&'b Open<'a>, String> {
    open.get(file).ok_or_else(|| "not open".to_string())
}

fn is_as_long(open: &Open<'_>, bytes: usize) -> Result<(), String> {
    let size = open.size().map_err(|error| error.to_string())?;
    if size == bytes as u64 { Ok(()) } else { Err(format!("it is {size} bytes long")) }
}

fn has_there(open: &Open<'_>, at: usize, bytes: &[u8]) -> Result<(), String> {
    let found = open.read_at(bytes.len(), at as u64).map_err(|error| error.to_string())?;
    let same = found.iter().zip(bytes).take_while(|(one, other)| one == other).count();
    if same == bytes.len() { Ok(()) } else { Err(format!("other bytes from the {same}th on")) }
}

impl Act {
    fn run<'a>(
        &self,
        rank: &'a Rank,
        &Checkpoint { id, naming, .. }: &Checkpoint,
        open: &mut Opened<'a>,
    ) -> Result<(), String> {
        let text = |error: std::io::Error| error.to_string();
        match self {
            Act::Mkdir => {
                let _ = rank.files.make_dir("ckpt");
                let first = naming.name(id, 0);
                let _ = rank.files.make_dir(first.rsplit_once('/').unwrap().0);
            }
            Act::Unlink(file) => drop(rank.files.unlink(&naming.name(id, *file))),
            Act::PutAside(file) => {
                let (name, aside) = (naming.name(id, *file), naming.aside(id, *file));
                drop(rank.files.rename(&name, &aside));
            }
            Act::Replace(file) => {
                let (first, name) = (naming.first(id, *file), naming.name(id, *file));
                rank.files.rename(&first, &name).map_err(text)?;
            }
            Act::Open { file, flags } => {
                let opened = rank.files.open(&naming.first(id, *file), *flags).map_err(text)?;
                open.insert(*file, opened);
            }
            Act::Write { file, at, bytes } => {
                of(open, file)?.write_at(bytes, *at as u64).map_err(text)?;
            }
            Act::Read { file, at, bytes } => {
                has_there(of(open, file)?, *at, bytes)?;
            }
            Act::Size { file, bytes } => is_as_long(of(open, file)?, *bytes)?,
            Act::Check { file, size, at, bytes } => {
                let name = naming.name(id, *file);
                let opened = rank.files.open(&name, libc::O_RDONLY).map_err(text)?;
                is_as_long(&opened, *size)?;
                has_there(&opened, *at, bytes)?;
                opened.close().map_err(text)?;
            }
            Act::Cut { file, bytes } => of(open, file)?.set_size(*bytes as u64).map_err(text)?,
            Act::Close(file) => {
                open.remove(file).map_or(Ok(()), |one| one.close()).map_err(text)?
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for Act {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Act::Write { file, at, bytes } => write!(f, "write {file} {at} +{}", bytes.len()),
            Act::Read { file, at, bytes } => write!(f, "read {file} {at} +{}", bytes.len()),
            Act::Check { file, size, at, bytes } => {
                write!(f, "check {file} of {size}, {at} +{}", bytes.len())
            }
            other => write!(f, "{other:?}"),
        }
    }
}
