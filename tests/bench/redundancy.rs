//! How fast PARTNER, XOR and RS protect data on RAM disk, against plain memory copies by as many
//! threads in the same run, and the processor's time that each member takes. Only ratios mean
//! anything: machines, and runs on one machine, differ. Redundancy files are written over those of
//! the round before, as in a run that goes on.
//!
//! `cargo bench -p scr-core --bench redundancy`; with SCR_BENCH_DIR below another directory.

#[path = "processor.rs"]
mod processor;

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use scr_core::comm::threads;
use scr_core::kvtree::KvTree;
use scr_core::records::FileMeta;
use scr_core::redundancy::{MemberData, RedundancySet, Spares, scheme_by_name};

use processor::processor_time;

const MEMBERS: usize = 4;
const BYTES_PER_MEMBER: usize = 64 << 20;
const ROUNDS: usize = 7;
/// Schemes, and losses that they survive.
const SCHEMES: [(&str, usize); 4] = [("PARTNER", 1), ("XOR", 1), ("RS", 2), ("RS", 3)];

fn main() -> Result<(), Box<dyn Error>> {
    let base = std::env::var("SCR_BENCH_DIR").unwrap_or_else(|_| "/dev/shm".into());
    let root = tempfile::tempdir_in(base).or_else(|_| tempfile::tempdir())?;
    for member in 0..MEMBERS {
        let dir = root.path().join(member.to_string());
        fs::create_dir_all(&dir)?;
        let bytes: Vec<u8> = (0..BYTES_PER_MEMBER).map(|at| (at * 31 + member) as u8).collect();
        fs::write(dir.join("data"), bytes)?;
    }
    // One round of everything before it counts: the first use of memory is slow.
    let mut seconds = vec![vec![]; 1 + SCHEMES.len()];
    for round in 0..=ROUNDS {
        let schemes =
            SCHEMES.iter().map(|scheme| measured(|| seal_seconds(scheme.0, scheme.1, root.path())));
        let times: Vec<_> = std::iter::once(measured(copy_seconds)).chain(schemes).collect();
        if round > 0 {
            seconds.iter_mut().zip(times).for_each(|(all, time)| all.push(time));
        }
    }
    let medians: Vec<_> = seconds.into_iter().map(median).collect();
    let gigabytes = (MEMBERS * BYTES_PER_MEMBER) as f64 / 1e9;
    println!("{MEMBERS} members, {} MiB each; medians of {ROUNDS}", BYTES_PER_MEMBER >> 20);
    let names = SCHEMES.iter().map(|(scheme, failures)| format!("{scheme} {failures} encode"));
    for (name, (seconds, processor)) in
        std::iter::once("memory copy".into()).chain(names).zip(&medians)
    {
        let (speed, ratio) = (gigabytes / seconds, medians[0].0 / seconds);
        let each = 1e3 * processor / MEMBERS as f64;
        println!(
            "{name:<17} {speed:6.2} GB/s   {ratio:.2}   {each:6.1} ms of a processor a member"
        );
    }
    Ok(())
}

/// The medians of wall and processor time, each on its own.
fn median(times: Vec<(f64, f64)>) -> (f64, f64) {
    let middle = |mut seconds: Vec<f64>| {
        seconds.sort_by(f64::total_cmp);
        seconds[seconds.len() / 2]
    };
    let (wall, processor) = times.into_iter().unzip();
    (middle(wall), middle(processor))
}

/// The wall time that `act` gives, with the processor's time that it took, in seconds.
fn measured(act: impl Fn() -> f64) -> (f64, f64) {
    let before = processor_time();
    let wall = act();
    (wall, (processor_time() - before).as_secs_f64())
}

/// All members copy their data once in memory; the slowest counts.
fn copy_seconds() -> f64 {
    let seconds = threads::run(MEMBERS, |comm| {
        let source = vec![1_u8; BYTES_PER_MEMBER];
        let mut target = vec![2_u8; BYTES_PER_MEMBER];
        let ready = comm.barrier();
        let start = Instant::now();
        black_box(&mut target).copy_from_slice(black_box(&source));
        ready.map_or(f64::NAN, |()| start.elapsed().as_secs_f64())
    });
    seconds.into_iter().fold(0.0, f64::max)
}

/// All members protect their data; the slowest counts.
fn seal_seconds(scheme: &str, failures: usize, root: &Path) -> f64 {
    let Some(scheme) = scheme_by_name(scheme) else { return f64::NAN };
    let seconds = threads::run(MEMBERS, |comm| {
        let rank = comm.rank();
        let dir = root.join(rank.to_string());
        let file =
            FileMeta { name: "data".into(), size: BYTES_PER_MEMBER as u64, ..FileMeta::default() };
        let data = MemberData {
            dir: dir.clone(),
            id: 1,
            epoch: 1,
            files: vec![file],
            record: KvTree::new(),
        };
        let set = RedundancySet {
            comm: comm.into(),
            world_ranks: (0..MEMBERS).collect(),
            hosts: vec![String::new(); MEMBERS],
            group_id: 0,
            world_size: MEMBERS,
            failures,
            piece_bytes: 128 << 10,
        };
        let start = Instant::now();
        let outcome = scheme.encode(&set, Ok(data));
        let seconds = start.elapsed().as_secs_f64();
        let spares = Spares::beside(&dir, rank);
        let kept = outcome.and_then(|protection| spares.keep(&dir, &protection.files));
        let removed = fs::remove_dir_all(dir.join(".scr"));
        if kept.is_ok() && removed.is_ok() { seconds } else { f64::NAN }
    });
    seconds.into_iter().fold(0.0, f64::max)
}
