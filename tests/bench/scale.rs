//! What a rank of 10^3 to 10^6 has to do, by itself and with what all others tell it: the
//! processor's time, and memory for each rank of the job. Each part and size is a process of its
//! own, so that its memory can be told.
//!
//! `cargo run --release -p scr-core --example scale [RANKS ...]`

#[path = "processor.rs"]
mod processor;
#[path = "../core/support/scale.rs"]
mod scale;

use std::error::Error;
use std::fs;
use std::process::Command;

use processor::processor_time;
use scale::PARTS;

const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Of a rank's work for ten times the ranks, from this on it grows faster than they do.
const STEEP: f64 = 25.0;

type Failed = Box<dyn Error>;

fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [of, part, ranks] = &words[..]
        && of == "part"
    {
        return one(part.parse()?, ranks.parse()?);
    }
    let mut sizes = words.iter().map(|word| word.parse()).collect::<Result<Vec<usize>, _>>()?;
    if sizes.is_empty() {
        sizes = SIZES.to_vec();
    }
    println!(
        "{:32}{:18}{:>10}{:>12}{:>14}{:>16}",
        "", "by", "ranks", "processor", "memory", "a rank"
    );
    for (number, part) in PARTS.iter().enumerate() {
        let mut before: Option<(usize, f64)> = None;
        for ranks in &sizes {
            let (seconds, bytes) = measured(number, *ranks)?;
            let steep = before.is_some_and(|(fewer, shorter)| {
                let times = *ranks as f64 / fewer as f64;
                shorter > 1e-3 && seconds / shorter > times * STEEP / 10.0
            });
            let (what, by) = if before.is_none() { (part.name, part.by) } else { ("", "") };
            println!(
                "{what:32}{by:18}{ranks:>10}{:>9.2} ms{:>10.1} MiB{:>14.0} B{}",
                1e3 * seconds,
                bytes as f64 / f64::from(1 << 20),
                bytes as f64 / *ranks as f64,
                if steep { "  grows faster than the job" } else { "" }
            );
            before = Some((*ranks, seconds));
        }
    }
    Ok(())
}

/// Seconds and bytes of a part, which a process of its own has measured.
fn measured(part: usize, ranks: usize) -> Result<(f64, u64), Failed> {
    let (part, ranks) = (part.to_string(), ranks.to_string());
    let done = Command::new(std::env::current_exe()?).args(["part", &part, &ranks]).output()?;
    let told = String::from_utf8(done.stdout)?;
    match told.split_whitespace().collect::<Vec<_>>()[..] {
        [seconds, bytes] if done.status.success() => Ok((seconds.parse()?, bytes.parse()?)),
        _ => Err(String::from_utf8_lossy(&done.stderr).into_owned().into()),
    }
}

fn one(part: usize, ranks: usize) -> Result<(), Failed> {
    let part = PARTS.get(part).ok_or("there is no such part")?;
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
    let work = (part.prepare)(ranks, dir.path());
    let before = memory("VmRSS:")?;
    fs::write("/proc/self/clear_refs", "5")?; // the peak counts from now on
    let begun = processor_time();
    work();
    let seconds = (processor_time() - begun).as_secs_f64();
    println!("{seconds} {}", memory("VmHWM:")?.saturating_sub(before));
    Ok(())
}

/// A line of this process's status, in bytes.
fn memory(name: &str) -> Result<u64, Failed> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse::<u64>()? * 1024)
}
