//! A program that writes checkpoints and goes on from its newest one, as programs do.

use scr_core::error::Result;

use super::cluster::Rank;

/// What a run came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Life {
    /// The checkpoint that it went on from: its step, and the launch that wrote it.
    pub from: Option<(u64, u64)>,
    /// The newest one that this rank has heard to be complete.
    pub complete: u64,
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

/// The newest step of which this rank sees a file.
fn newest(rank: &Rank) -> u64 {
    let names = rank.files.list("ckpt");
    let steps = names.iter().filter_map(|name| name.strip_prefix("step_")?.parse().ok());
    let own = |step: &u64| rank.files.list(&format!("ckpt/step_{step}")).contains(&of(rank.rank));
    steps.filter(own).max().unwrap_or(0)
}

fn of(rank: usize) -> String {
    format!("rank_{rank}.dat")
}

/// Reads the newest checkpoint; a rank that has none, or another one than the others, or a part of
/// one, is what must not be.
fn restart(rank: &Rank) -> Result<Option<(u64, u64)>> {
    let step = newest(rank);
    let (most, least) = (rank.all_max(step as i64)?, -rank.all_max(-(step as i64))?);
    assert_eq!(most, least, "rank {} sees {step} as the newest step", rank.rank);
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

/// Goes on from the newest checkpoint, writes `steps` more and ends.
pub fn run(rank: &Rank, launch: u64, steps: u64) -> Life {
    let mut life = Life::default();
    let ended = live(rank, launch, steps, &mut life).and_then(|()| {
        rank.session.finish();
        life.complete = complete(rank);
        rank.all_max(0)
    });
    // An error: another rank is gone, and the launcher ends this one.
    life.ended = ended.is_ok();
    life
}

/// The same without an end: all ranks are killed at once.
pub fn run_and_die(rank: &Rank, launch: u64, steps: u64) -> Life {
    let mut life = Life::default();
    live(rank, launch, steps, &mut life).unwrap();
    life
}

fn live(rank: &Rank, launch: u64, steps: u64, life: &mut Life) -> Result<()> {
    life.from = restart(rank)?;
    let begin = life.from.map_or(1, |(step, _)| step + 1);
    for step in begin..begin + steps {
        if rank.rank == 0 {
            rank.files.make_dir("ckpt").unwrap();
            rank.files.make_dir(&format!("ckpt/step_{step}")).unwrap();
        }
        rank.all_max(0)?;
        let written =
            rank.files.write_file(&file(step, rank.rank), &content(launch, step, rank.rank));
        written.unwrap();
        rank.all_max(0)?;
        rank.all_max(0)?;
        life.complete = complete(rank);
    }
    Ok(())
}

fn complete(rank: &Rank) -> u64 {
    rank.session.newest_complete(0).map_or(0, |(_, step)| step.parse().unwrap())
}
