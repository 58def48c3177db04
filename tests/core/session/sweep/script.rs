//! What a program is made of: steps of all ranks, with collectives between.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use scr_core::error::Result;

use crate::cluster::Rank;

/// One call, or a few that go together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    Mkdir(String),
    Rmdir(String),
    /// Opens, truncates, writes in two pieces, closes.
    Write(String, Vec<u8>),
    /// The same, but only the first part comes to be written.
    Part(String, Vec<u8>),
    Append(String, String),
    Unlink(String),
    Rename(String, String),
    Read(String),
    List(String),
}

/// What all ranks pass after their calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    Barriers(usize),
    /// As many agreements as it takes until all is settled.
    Calm,
}

/// The calls of each rank, and what follows. No rank touches a name that another one changes.
#[derive(Debug, Clone)]
pub struct Step {
    pub ops: Vec<Vec<Op>>,
    pub pause: Pause,
}

#[derive(Debug, Clone, Default)]
pub struct Script(pub Vec<Step>);

/// How far a run came, in steps.
#[derive(Debug, Default)]
pub struct Course {
    /// Some rank has begun so many.
    pub begun: AtomicUsize,
    /// After so many all had settled.
    pub calm: AtomicUsize,
}

impl Script {
    /// Runs it; returns what the rank has seen, a line for each call.
    pub fn run(&self, rank: &Rank, ends: bool, course: &Course) -> Vec<String> {
        let mut seen = Vec::new();
        for (at, step) in self.0.iter().enumerate() {
            if !rank.files.is_dead() {
                course.begun.fetch_max(at + 1, Ordering::SeqCst);
            }
            for op in &step.ops[rank.rank] {
                seen.push(format!("{op}: {}", op.run(rank)));
            }
            if step.pause.pass(rank).is_err() {
                return seen; // another rank is gone
            }
            if step.pause == Pause::Calm && !rank.files.is_dead() {
                course.calm.fetch_max(at + 1, Ordering::SeqCst);
            }
        }
        if ends {
            rank.finish();
        }
        seen
    }
}

impl Pause {
    fn pass(self, rank: &Rank) -> Result<()> {
        match self {
            Pause::Barriers(count) => (0..count).try_for_each(|_| rank.all_max(0).map(drop)),
            Pause::Calm => rank.try_calm(),
        }
    }
}

impl Op {
    fn run(&self, rank: &Rank) -> String {
        let files = &rank.files;
        let done = |result: io::Result<()>| match result {
            Ok(()) => "done".to_string(),
            Err(error) => format!("errno {}", error.raw_os_error().unwrap_or(0)),
        };
        match self {
            Op::Mkdir(name) => done(files.make_dir(name)),
            Op::Rmdir(name) => done(files.rmdir(name)),
            Op::Write(name, bytes) | Op::Part(name, bytes) => done(files.write_file(name, bytes)),
            Op::Append(name, text) => done(files.append(name, text)),
            Op::Unlink(name) => done(files.unlink(name)),
            Op::Rename(from, to) => done(files.rename(from, to)),
            Op::Read(name) => match files.read_file(name) {
                Ok(bytes) => short(&bytes),
                Err(error) => format!("errno {}", error.raw_os_error().unwrap_or(0)),
            },
            Op::List(name) => format!("{:?}", visible(rank, name)),
        }
    }
}

/// The names in a directory, but for those of SCR: a file may be staged between two looks.
fn visible(rank: &Rank, name: &str) -> Vec<String> {
    let all = rank.files.list(name).into_iter();
    all.filter(|name| !(name.starts_with('.') && name.contains(".scr"))).collect()
}

/// A content in a few words.
pub fn short(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().last().unwrap_or_default().to_string();
    format!("{} bytes, {line}", bytes.len())
}

/// A run that reads all that rank 0 finds, and ends.
pub fn survey(rank: &Rank) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    if rank.rank == 0 {
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            for entry in visible(rank, &folder) {
                let name = if folder.is_empty() { entry } else { format!("{folder}/{entry}") };
                match rank.files.read_file(&name) {
                    Ok(bytes) => drop(found.insert(name, bytes)),
                    Err(_) if rank.files.names(&name).is_ok() => folders.push(name),
                    Err(error) => {
                        let text = format!("a name without a file: {error}");
                        found.insert(name, text.into_bytes());
                    }
                }
            }
        }
    }
    rank.finish();
    found
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Mkdir(name) => write!(f, "mkdir {name}"),
            Op::Rmdir(name) => write!(f, "rmdir {name}"),
            Op::Write(name, bytes) => write!(f, "write {name} ({})", short(bytes)),
            Op::Part(name, bytes) => write!(f, "part of {name} ({})", short(bytes)),
            Op::Append(name, text) => write!(f, "append {name} ({})", text.trim_end()),
            Op::Unlink(name) => write!(f, "unlink {name}"),
            Op::Rename(from, to) => write!(f, "rename {from} {to}"),
            Op::Read(name) => write!(f, "read {name}"),
            Op::List(name) => write!(f, "list {name}"),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            for (rank, ops) in step.ops.iter().enumerate() {
                for op in ops {
                    writeln!(f, "{at:3} rank {rank}: {op}")?;
                }
            }
            match step.pause {
                Pause::Barriers(count) => writeln!(f, "{at:3} {count} barriers")?,
                Pause::Calm => writeln!(f, "{at:3} calm")?,
            }
        }
        Ok(())
    }
}
