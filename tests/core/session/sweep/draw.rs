//! A program, drawn from a seed.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::script::{Op, Pause, Script, Step};

/// How its first run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// By MPI_Finalize.
    Ends,
    /// All ranks are killed behind the last step.
    Stops,
    /// A rank is killed at one of its durable steps.
    Dies { rank: usize, step: usize },
}

/// A program with what it runs on.
#[derive(Debug)]
pub struct Drawn {
    /// The node of each rank.
    pub hosts: String,
    pub settings: Vec<String>,
    pub helped: bool,
    pub fate: Fate,
    pub script: Script,
}

const HOSTS: [&str; 8] = ["aa", "ab", "aab", "abc", "aabb", "abab", "aaab", "abcc"];
const PATTERNS: [&str; 2] = [
    "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/rank_{rank}.dat, ckpt/step_{id}/head, ckpt/latest, \
     ckpt/flag*",
    "SCR_CHECKPOINT_PATTERN_2=run/w?, run/w?.bak-?",
];
/// Durable steps of a rank in a run, about.
const STEPS_MAX: usize = 120;

/// Draws the program of a seed.
pub fn draw(seed: u64) -> Drawn {
    let mut rng = Rng::with_seed(seed);
    let hosts = HOSTS[rng.usize(..HOSTS.len())].to_string();
    let scheme = ["SINGLE", "XOR", "PARTNER"][rng.usize(..3)];
    let mut settings = vec![format!("SCR_COPY_TYPE={scheme}")];
    settings.push(format!("SCR_LEARN={}", rng.u8(..2)));
    settings.extend(PATTERNS.map(str::to_string));
    settings.push(format!("SCR_CACHE_SIZE={}", rng.u8(1..4)));
    let fate = match rng.u8(..8) {
        0..2 => Fate::Ends,
        2..6 => Fate::Stops,
        _ => Fate::Dies { rank: rng.usize(..hosts.len()), step: rng.usize(..STEPS_MAX) },
    };
    let helped = rng.u8(..4) == 0;
    let habit = Habit::draw(&mut rng);
    let mut author = Author::new(rng, &hosts, helped, habit);
    let mut script = author.write();
    if matches!(fate, Fate::Dies { .. }) {
        // An open of a file on another node waits for that, half a minute where it has died; and
        // nobody asks what such ranks have seen.
        let ops = script.0.iter_mut().flat_map(|step| &mut step.ops);
        ops.for_each(|ops| ops.retain(|op| !matches!(op, Op::Read(_))));
    }
    // What is flushed at once is deleted, and dies, while that is under way.
    settings.extend(seed.is_multiple_of(3).then(|| "SCR_FLUSH=1".to_string()));
    Drawn { hosts, settings, helped, fate, script }
}

/// What a program does each time.
#[derive(Debug, Default)]
struct Habit {
    /// Checkpoints with ids; without.
    ids: bool,
    rotates: bool,
    /// How it writes: in place, by a temporary name, and after a deletion.
    way: u8,
    /// How many checkpoints it keeps; 0: all.
    keeps: usize,
    backups: usize,
    latest: bool,
    flags: bool,
    /// One in so many files is written in part only, and deleted.
    failing: u8,
    calm: bool,
}

impl Habit {
    fn draw(rng: &mut Rng) -> Habit {
        let ids = rng.u8(..4) != 0;
        Habit {
            ids,
            rotates: !ids || rng.bool(),
            way: rng.u8(..3),
            keeps: [0, 0, 1, 2][rng.usize(..4)],
            backups: rng.usize(..3),
            latest: rng.bool(),
            flags: rng.bool(),
            failing: [0, 0, 9, 4][rng.usize(..4)],
            calm: rng.bool(),
        }
    }
}

struct Author {
    rng: Rng,
    ranks: usize,
    hosts: Vec<char>,
    /// Somebody hands files to other nodes.
    helped: bool,
    habit: Habit,
    steps: Vec<Step>,
    /// What is there now, and directories.
    files: BTreeSet<String>,
    folders: BTreeSet<String>,
    written: u64,
    /// The ids that are there.
    kept: Vec<u64>,
    last: u64,
    /// How many temporary names there were.
    temporaries: u64,
}

impl Author {
    fn new(rng: Rng, hosts: &str, helped: bool, habit: Habit) -> Author {
        Author {
            rng,
            ranks: hosts.len(),
            hosts: hosts.chars().collect(),
            helped,
            habit,
            steps: Vec::new(),
            files: BTreeSet::new(),
            folders: BTreeSet::new(),
            written: 0,
            kept: Vec::new(),
            last: 0,
            temporaries: 0,
        }
    }

    fn write(&mut self) -> Script {
        let mut made = self.nothing();
        for ops in &mut made {
            ops.extend(["ckpt", "run", "log"].map(|name| Op::Mkdir(name.to_string())));
        }
        self.push(made, 1);
        for _ in 0..self.rng.usize(2..9) {
            match self.rng.u8(..10) {
                0..6 => self.checkpoint(),
                6 => self.noise(),
                7 => self.delete_something(),
                8 => self.look(),
                _ => self.pause(),
            }
        }
        if self.rng.u8(..4) != 0 {
            let nothing = self.nothing();
            self.steps.push(Step { ops: nothing, pause: Pause::Calm });
        }
        Script(std::mem::take(&mut self.steps))
    }

    fn nothing(&self) -> Vec<Vec<Op>> {
        vec![Vec::new(); self.ranks]
    }

    fn push(&mut self, ops: Vec<Vec<Op>>, barriers: usize) {
        let pause = match self.habit.calm && self.rng.bool() {
            true => Pause::Calm,
            false => Pause::Barriers(barriers),
        };
        self.steps.push(Step { ops, pause });
    }

    fn content(&mut self, name: &str) -> Vec<u8> {
        self.written += 1;
        let line = format!("{} {name}\n", self.written);
        line.repeat(1 + self.rng.usize(..40)).into_bytes()
    }

    /// One file, in the program's way.
    fn file(&mut self, name: &str, ops: &mut Vec<Op>) {
        let bytes = self.content(name);
        if self.habit.failing > 0 && self.rng.u8(..self.habit.failing) == 0 {
            let part = bytes[..bytes.len() / 2].to_vec();
            ops.extend([Op::Part(name.to_string(), part), Op::Unlink(name.to_string())]);
            self.files.remove(name);
            // One of a rotation that is given up and not written again leaves its older names.
            if name.starts_with("ckpt/") && self.rng.bool() {
                return;
            }
        }
        match self.habit.way {
            1 => {
                self.temporaries += 1;
                let temporary = format!("{name}.{}.tmp", self.temporaries % 3 * 7919);
                ops.push(Op::Write(temporary.clone(), bytes));
                ops.push(Op::Rename(temporary, name.to_string()));
            }
            2 if self.files.contains(name) => {
                ops.extend([Op::Unlink(name.to_string()), Op::Write(name.to_string(), bytes)]);
            }
            _ => ops.push(Op::Write(name.to_string(), bytes)),
        }
        self.files.insert(name.to_string());
    }

    fn checkpoint(&mut self) {
        if self.habit.ids && (!self.habit.rotates || self.rng.bool()) {
            self.with_id();
        } else {
            self.rotate();
        }
    }

    fn with_id(&mut self) {
        // Now and then the same again, or one that leaves out a few.
        self.last += self.rng.u64(..8).min(2).max(u64::from(self.last == 0));
        let folder = format!("ckpt/step_{}", self.last);
        if self.folders.insert(folder.clone()) {
            let mut ops = self.nothing();
            ops.iter_mut().for_each(|ops| ops.push(Op::Mkdir(folder.clone())));
            let barriers = self.rng.usize(..2);
            self.push(ops, barriers);
        }
        if self.kept.last() != Some(&self.last) {
            self.kept.push(self.last);
        }
        let mut ops = self.nothing();
        for (rank, ops) in ops.iter_mut().enumerate() {
            if rank == 0 || self.rng.u8(..12) != 0 {
                self.file(&format!("{folder}/rank_{rank}.dat"), ops);
            }
        }
        self.file(&format!("{folder}/head"), &mut ops[0]);
        if self.habit.latest {
            self.file("ckpt/latest", &mut ops[0]);
        }
        let barriers = self.rng.usize(1..4);
        self.push(ops, barriers);
        while self.habit.keeps > 0 && self.kept.len() > self.habit.keeps {
            let oldest = self.kept.remove(0);
            self.delete(&format!("ckpt/step_{oldest}"));
        }
    }

    /// What a rank is about to do needs what ranks of other nodes have done. It hears of that at
    /// the next agreement, which a barrier carries only while a checkpoint is being written.
    fn hear(&mut self) {
        if let Some(last) = self.steps.last_mut() {
            last.pause = Pause::Calm;
        }
    }

    /// All files of a checkpoint, each by its rank, and the directory.
    fn delete(&mut self, folder: &str) {
        self.hear();
        let mut ops = self.nothing();
        let of = format!("{folder}/");
        let gone: Vec<String> =
            self.files.iter().filter(|name| name.starts_with(&of)).cloned().collect();
        for name in gone {
            let by = self.rng.usize(..self.ranks);
            ops[by].push(Op::Unlink(name.clone()));
            self.files.remove(&name);
        }
        self.push(ops, 1);
        self.hear();
        let mut ops = self.nothing();
        ops[0].push(Op::List(folder.to_string()));
        ops[0].push(Op::Rmdir(folder.to_string()));
        self.folders.remove(folder);
        let barriers = self.rng.usize(1..3);
        self.push(ops, barriers);
    }

    /// `w`, `w.bak-1`, `w.bak-2` of each rank, or of rank 0.
    fn rotate(&mut self) {
        let mut ops = self.nothing();
        let all = self.rng.bool();
        for rank in 0..if all { self.ranks } else { 1 } {
            let name = |backup: usize| match backup {
                0 => format!("run/w{rank}"),
                more => format!("run/w{rank}.bak-{more}"),
            };
            let ops = &mut ops[rank];
            let last = self.habit.backups;
            if last > 0 && self.files.remove(&name(last)) && self.rng.bool() {
                ops.push(Op::Unlink(name(last)));
            }
            for backup in (0..last).rev() {
                if self.files.remove(&name(backup)) {
                    ops.push(Op::Rename(name(backup), name(backup + 1)));
                    self.files.insert(name(backup + 1));
                }
            }
            self.file(&name(0), ops);
        }
        let barriers = self.rng.usize(1..4);
        self.push(ops, barriers);
    }

    fn noise(&mut self) {
        let mut ops = self.nothing();
        for (rank, ops) in ops.iter_mut().enumerate() {
            let flag = format!("ckpt/flag{rank}");
            match self.rng.u8(..5) {
                0 => {
                    let name = format!("log/of_{rank}.txt");
                    ops.push(Op::Append(name.clone(), format!("line {}\n", self.written)));
                    self.files.insert(name);
                }
                // One that is written before any checkpoint waits for the first.
                1 if self.habit.flags && self.last > 0 => self.file(&flag, ops),
                2 if self.files.remove(&flag) => ops.push(Op::Unlink(flag)),
                3 if self.files.contains(&flag) => {
                    self.files.remove(&flag);
                    let old = format!("{flag}.prev");
                    ops.push(Op::Rename(flag, old.clone()));
                    self.files.insert(old);
                }
                _ => {}
            }
        }
        let barriers = self.rng.usize(1..3);
        self.push(ops, barriers);
    }

    fn delete_something(&mut self) {
        let names: Vec<String> = self.files.iter().cloned().collect();
        if names.is_empty() {
            return;
        }
        self.hear();
        let name = names[self.rng.usize(..names.len())].clone();
        let mut ops = self.nothing();
        let by = self.rng.usize(..self.ranks);
        self.files.remove(&name);
        ops[by].push(Op::Unlink(name));
        let barriers = self.rng.usize(1..3);
        self.push(ops, barriers);
    }

    /// Ranks read what is there, their own and that of others.
    fn look(&mut self) {
        self.hear();
        let mut names: Vec<String> = self.files.iter().cloned().collect();
        names.push("ckpt/none".to_string());
        let folders: Vec<String> = self.folders.iter().cloned().collect();
        let mut ops = self.nothing();
        for (rank, ops) in ops.iter_mut().enumerate() {
            for _ in 0..self.rng.usize(..4) {
                let name = &names[self.rng.usize(..names.len())];
                if self.helped || self.is_near(name, rank) {
                    ops.push(Op::Read(name.clone()));
                }
            }
            // Other nodes see a directory until its files are gone for real.
            let near = self.hosts[rank] == self.hosts[0];
            ops.push(Op::List(
                ["run", "ckpt"][self.rng.usize(..1 + usize::from(near))].to_string(),
            ));
            if !folders.is_empty() {
                ops.push(Op::List(folders[self.rng.usize(..folders.len())].clone()));
            }
        }
        self.push(ops, 1);
    }

    /// Whether the rank that writes this file is on the node of that one.
    fn is_near(&self, name: &str, rank: usize) -> bool {
        let last = name.rsplit('/').next().unwrap_or_default();
        let own = last.trim_start_matches(|c: char| !c.is_ascii_digit());
        let own = own.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        let writer = own.parse().unwrap_or(0usize);
        self.hosts.get(writer) == self.hosts.get(rank)
    }

    fn pause(&mut self) {
        let ops = self.nothing();
        let pause = match self.rng.u8(..3) {
            0 => Pause::Calm,
            _ => Pause::Barriers(self.rng.usize(1..6)),
        };
        self.steps.push(Step { ops, pause });
    }
}
