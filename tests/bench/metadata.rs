//! What it takes to build, write and read the records of a dataset of 100,000 ranks with four files
//! each. Each is to stay below a second on a machine that has nothing else to do; on others the
//! time of the processor tells more.
//!
//! `cargo bench -p scr-core --bench metadata`; with SCR_BENCH_DIR below another directory.

#[path = "../core/support/large.rs"]
mod large;
#[path = "processor.rs"]
mod processor;

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use large::{FILES, RANKS};
use processor::processor_time;
use scr_core::records::{PrefixIndex, Record as _, Summary};

const ROUNDS: usize = 5;
const STEPS: [&str; 5] = [
    "summary and maps: build",
    "summary and maps: write",
    "summary and maps: read",
    "index of 1000 datasets: write",
    "index of 1000 datasets: read",
];

fn main() -> Result<(), Box<dyn Error>> {
    let base = std::env::var("SCR_BENCH_DIR").unwrap_or_else(|_| "/dev/shm".into());
    let dir = tempfile::tempdir_in(base).or_else(|_| tempfile::tempdir())?;
    let mut best = [(f64::INFINITY, f64::INFINITY); STEPS.len()];
    for _ in 0..ROUNDS {
        for (best, now) in best.iter_mut().zip(round(dir.path())?) {
            *best = (best.0.min(now.0), best.1.min(now.1));
        }
    }
    let bytes = std::fs::read_dir(dir.path())?
        .map(|entry| Ok(entry?.metadata()?.len()))
        .sum::<std::io::Result<u64>>()?;
    let per_file = bytes / (RANKS * FILES) as u64;
    println!("records of {RANKS} ranks x {FILES} files, {per_file} bytes a file; best of {ROUNDS}");
    for (step, (seconds, of_processor)) in STEPS.iter().zip(best) {
        println!("{step:<40} {seconds:8.3} s, of the processor {of_processor:.3} s");
    }
    Ok(())
}

/// Seconds of each step: by the clock, of the processor.
fn round(dir: &Path) -> Result<[(f64, f64); STEPS.len()], Box<dyn Error>> {
    let path = dir.join(PrefixIndex::NAME);
    let mut last = (Instant::now(), processor_time());
    let mut lap = || {
        let now = (Instant::now(), processor_time());
        let before = std::mem::replace(&mut last, now);
        ((now.0 - before.0).as_secs_f64(), (now.1 - before.1).as_secs_f64())
    };
    let summary = large::summary(RANKS);
    let build = lap();
    summary.write_to(dir)?;
    let write = lap();
    black_box(Summary::read_from(dir)?);
    let read = lap();
    large::index(&summary, 1000).write(&path)?;
    let write_index = lap();
    black_box(PrefixIndex::read(&path)?);
    Ok([build, write, read, write_index, lap()])
}
