//! A program that writes checkpoints and goes on from its newest one, as programs do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use scr_core::error::Result;
use scr_core::session::Flags;

use super::cluster::Rank;
use crate::mortal;

/// A run of it.
pub struct Program<'a> {
    /// Tells the contents of runs apart.
    pub launch: u64,
    /// Checkpoints that it writes.
    pub steps: u64,
    /// It ends by itself, it is not killed after the last one.
    pub ends: bool,
    /// It calls SCR, and knows no pattern.
    pub by_calls: bool,
    pub truth: &'a Truth,
}

/// What has really happened, all runs together.
#[derive(Default)]
pub struct Truth {
    /// The newest step that a rank has heard to be complete.
    complete: AtomicU64,
    /// The ranks that have closed their files of a step, by launch.
    written: Mutex<BTreeMap<(u64, u64), BTreeSet<usize>>>,
}

impl Truth {
    /// The newest step that was known to be complete.
    pub fn complete(&self) -> u64 {
        self.complete.load(Ordering::SeqCst)
    }

    /// Whether all of so many ranks have written this step in that launch.
    pub fn is_written(&self, (step, launch): (u64, u64), ranks: usize) -> bool {
        self.written.lock().unwrap().get(&(step, launch)).is_some_and(|all| all.len() == ranks)
    }
}

/// What a run came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Life {
    /// The checkpoint that it went on from: its step, and the launch that wrote it.
    pub from: Option<(u64, u64)>,
    /// It ended by itself.
    pub ended: bool,
}

/// What a rank writes: who, when, and enough of it that a part is no whole.
pub fn content(launch: u64, step: u64, rank: usize) -> Vec<u8> {
    let line = format!("launch {launch} step {step} rank {rank}\n");
    line.repeat(20 + rank + step as usize % 3).into_bytes()
}

/// The launch that has written this file of a checkpoint, if the file is whole.
pub fn launch_of(bytes: &[u8], step: u64, rank: usize) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let launch = text.strip_prefix("launch ")?.split(' ').next()?.parse().ok()?;
    (content(launch, step, rank) == bytes).then_some(launch)
}

pub fn file(step: u64, rank: usize) -> String {
    format!("ckpt/step_{step}/rank_{rank}.dat")
}

/// The newest step up to `limit` of which this rank sees a file.
fn newest(rank: &Rank, limit: u64) -> u64 {
    let names = rank.files.list("ckpt");
    let steps = names.iter().filter_map(|name| name.strip_prefix("step_")?.parse().ok());
    let own = |step: &u64| rank.files.list(&format!("ckpt/step_{step}")).contains(&of(rank.rank));
    steps.filter(|step| *step <= limit).filter(own).max().unwrap_or(0)
}

fn of(rank: usize) -> String {
    format!("rank_{rank}.dat")
}

/// The newest step of which all ranks have a file: a run that dies leaves parts of newer ones
/// without us, too.
fn common(rank: &Rank) -> Result<u64> {
    let mut limit = u64::MAX;
    loop {
        let own = newest(rank, limit);
        let (most, least) = (rank.all_max(own as i64)?, -rank.all_max(-(own as i64))?);
        if most == least {
            return Ok(own);
        }
        limit = least as u64;
    }
}

/// Reads the newest checkpoint; a part of one, or a mixture of two, is what must not be.
fn restart(rank: &Rank) -> Result<Option<(u64, u64)>> {
    let step = common(rank)?;
    if step == 0 {
        return Ok(None);
    }
    let name = file(step, rank.rank);
    let bytes = rank.files.read_file(&name).unwrap();
    let launch = launch_of(&bytes, step, rank.rank);
    let launch = launch.unwrap_or_else(|| panic!("{name} is not whole: {} bytes", bytes.len()));
    let (most, least) = (rank.all_max(launch as i64)?, -rank.all_max(-(launch as i64))?);
    assert_eq!(most, least, "step {step}: rank {} has the file of launch {launch}", rank.rank);
    Ok(Some((step, launch)))
}

/// The same by calls: the checkpoint that is offered can be read, by all ranks.
fn restart_by_calls(rank: &Rank) -> Result<Option<(u64, u64)>> {
    let Some(name) = rank.session().program.have_restart()? else { return Ok(None) };
    rank.session().program.start_restart()?;
    let step = name.strip_prefix("step_").and_then(|step| step.parse().ok()).unwrap();
    let place = rank.session().program.route_input(Path::new(&of(rank.rank)))?;
    let bytes = fs::read(&place).unwrap();
    let launch = launch_of(&bytes, step, rank.rank);
    let launch = launch.unwrap_or_else(|| panic!("{} is not whole", place.display()));
    rank.session().program.complete_restart(true)?;
    let (most, least) = (rank.all_max(launch as i64)?, -rank.all_max(-(launch as i64))?);
    assert_eq!(most, least, "step {step}: rank {} has the file of launch {launch}", rank.rank);
    Ok(Some((step, launch)))
}

impl Program<'_> {
    /// Goes on from the newest checkpoint, writes more and ends.
    pub fn run(&self, rank: &Rank) -> Life {
        let mut life = Life::default();
        // An error: another rank is gone, and the launcher ends this one.
        life.ended = self.live(rank, &mut life).is_ok();
        life
    }

    fn live(&self, rank: &Rank, life: &mut Life) -> Result<()> {
        life.from = match self.by_calls {
            true => {
                rank.session().program.use_by_program(None);
                restart_by_calls(rank)?
            }
            false => restart(rank)?,
        };
        let begin = life.from.map_or(1, |(step, _)| step + 1);
        for step in begin..begin + self.steps {
            if self.by_calls {
                self.write_by_calls(rank, step)?;
                continue;
            }
            if rank.rank == 0 {
                let _ = rank.files.make_dir("ckpt");
                let _ = rank.files.make_dir(&format!("ckpt/step_{step}"));
            }
            rank.all_max(0)?;
            let bytes = content(self.launch, step, rank.rank);
            let written = rank.files.write_file(&file(step, rank.rank), &bytes);
            // A rank that is dead is told of failures.
            if rank.files.is_dead() {
                rank.all_max(0)?;
            }
            written.unwrap();
            let mut all = self.truth.written.lock().unwrap();
            all.entry((step, self.launch)).or_default().insert(rank.rank);
            drop(all);
            rank.all_max(0)?;
            rank.all_max(0)?;
            self.note(rank);
        }
        if self.ends {
            rank.session().ending.finish();
            self.note(rank);
            rank.all_max(0)?;
        }
        Ok(())
    }

    fn write_by_calls(&self, rank: &Rank, step: u64) -> Result<()> {
        let flags = Flags { checkpoint: true, output: false };
        rank.session().program.start_dataset(Some(&format!("step_{step}")), flags)?;
        let target = rank.session().rank.prefix().join(file(step, rank.rank));
        let place = rank.session().program.route_output(&target)?;
        let bytes = content(self.launch, step, rank.rank);
        let written = mortal::program(|| fs::write(&place, bytes));
        // A rank that is dead is told of failures.
        if rank.files.is_dead() {
            rank.all_max(0)?;
        }
        written.unwrap();
        self.truth
            .written
            .lock()
            .unwrap()
            .entry((step, self.launch))
            .or_default()
            .insert(rank.rank);
        if rank.session().program.complete_dataset(true)? && !rank.files.is_dead() {
            self.truth.complete.fetch_max(step, Ordering::SeqCst);
        }
        Ok(())
    }

    fn note(&self, rank: &Rank) {
        if self.by_calls {
            return;
        }
        let newest =
            rank.session().node.newest_complete(0).map_or(0, |(_, step)| step.parse().unwrap());
        if !rank.files.is_dead() {
            self.truth.complete.fetch_max(newest, Ordering::SeqCst);
        }
    }
}
