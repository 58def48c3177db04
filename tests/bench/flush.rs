//! How fast a flush is, all ranks together and by threads, against `cp --reflink=never` of the same
//! files by as many processes in the same run, made durable alike. Only the ratio means anything:
//! machines, and runs on one machine, differ. From RAM disk to RAM disk, and from disk to disk with
//! the files in memory (warm) and not (cold). And how near a flush by threads comes to the limits
//! that are set for it.
//!
//! `cargo bench -p scr-core --bench flush`; with SCR_BENCH_DISK another directory on a disk.

#[allow(dead_code, clippy::unwrap_used)] // it is that of the tests
#[path = "../core/cache/cluster.rs"]
mod cluster;
#[path = "processor.rs"]
mod processor;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use cluster::{Cluster, IDENTITY, descriptor, key, record_open};
use processor::processor_time;
use scr_core::cache::{self, Ctx, SealRequest};
use scr_core::records::FileMeta;
use scr_core::transfer::{Advance, AsyncFlush, Options, flush_sync};

const RANKS: &str = "abcd";
const BYTES_PER_RANK: usize = 256 << 20;
const ROUNDS: usize = 5;
/// A disk takes its time; of fewer bytes the records around the copy would be most of it.
const DISK_BYTES: usize = 128 << 20;
/// For the limit of bandwidth: they take seconds.
const FEW_BYTES: usize = 64 << 20;
const LIMIT_BYTES: u64 = 100_000_000;
const LIMIT_PERCENT: f64 = 25.0;
const WAYS: [&str; 3] = ["cp --reflink=never", "flush, together", "flush, by threads"];

/// Where files come from and go to.
struct Setting {
    name: &'static str,
    /// The row of the table of aims.
    aim: &'static str,
    on_disk: bool,
    bytes_per_rank: usize,
    cold: bool,
}

const SETTINGS: [Setting; 3] = [
    Setting {
        name: "RAM disk to RAM disk",
        aim: "flush RAM",
        on_disk: false,
        bytes_per_rank: BYTES_PER_RANK,
        cold: false,
    },
    Setting {
        name: "disk to disk, warm",
        aim: "flush warm",
        on_disk: true,
        bytes_per_rank: DISK_BYTES,
        cold: false,
    },
    Setting {
        name: "disk to disk, cold",
        aim: "flush cold",
        on_disk: true,
        bytes_per_rank: DISK_BYTES,
        cold: true,
    },
];

impl Setting {
    fn cluster(&self) -> Cluster {
        if !self.on_disk {
            return Cluster::new();
        }
        let disk = std::env::var("SCR_BENCH_DISK");
        let disk = disk.unwrap_or_else(|_| env!("CARGO_TARGET_TMPDIR").to_owned());
        fs::create_dir_all(&disk).expect("a directory");
        Cluster::at(tempfile::tempdir_in(disk).expect("a directory on a disk"))
    }

    /// Prints what each way takes.
    fn measure(&self) {
        let options = Options { bytes_per_second: 0, ..Options::default() };
        let cluster = self.cluster();
        let outcome = cluster.launch(RANKS).transfer(options).run(|ctx| {
            seal(ctx, self.bytes_per_rank);
            let mut seconds = [const { Vec::new() }; WAYS.len()];
            // One round before it counts: the first use of memory is slow.
            for round in 0..=ROUNDS {
                let ways: [&dyn Fn(&Ctx); WAYS.len()] = [&copy, &together, &by_threads];
                for (way, all) in ways.iter().zip(&mut seconds) {
                    if self.cold {
                        forget(&source(ctx));
                    }
                    ctx.world.barrier().expect("ranks");
                    let start = Instant::now();
                    way(ctx);
                    ctx.world.barrier().expect("ranks");
                    if round > 0 {
                        all.push(start.elapsed().as_secs_f64());
                    }
                    let _ = fs::remove_file(ctx.prefix.join(name(ctx)));
                    let _ = fs::remove_file(plain(ctx));
                }
            }
            seconds
        });
        let mut seconds = outcome.results[0].clone().expect("rank 0");
        let gigabytes = (RANKS.len() * self.bytes_per_rank) as f64 / 1e9;
        let mib = self.bytes_per_rank >> 20;
        println!("{}: {} ranks, {mib} MiB each; medians of {ROUNDS}", self.name, RANKS.len());
        seconds.iter_mut().for_each(|all| all.sort_by(f64::total_cmp));
        let least = [0, 1, 2].map(|way: usize| seconds[way][0]);
        let medians = seconds.map(|all| all[all.len() / 2]);
        for ((way, median), least_of_it) in WAYS.iter().zip(medians).zip(least) {
            let (of_median, of_least) = (median / medians[0], least_of_it / least[0]);
            println!(
                "{way:<20} {:6.2} GB/s   time x {of_median:.2}, least x {of_least:.2}",
                gigabytes / median
            );
        }
        println!("aim {}: {:.3}", self.aim, medians[1].max(medians[2]) / medians[0]);
    }
}

fn main() {
    SETTINGS.iter().for_each(Setting::measure);
    let options = Options { bytes_per_second: 0, ..Options::default() };
    let by_rate = Options { bytes_per_second: LIMIT_BYTES, ..options };
    let (by_bytes, _) = limited(RANKS, FEW_BYTES, by_rate);
    let megabytes = (RANKS.len() * FEW_BYTES) as f64 / 1e6;
    let (limit, found) = (LIMIT_BYTES as f64 / 1e6, megabytes / by_bytes);
    println!("by threads, SCR_FLUSH_ASYNC_BW={limit:.0} MB/s: {found:.1} MB/s");
    // On RAM disk all work is the processor's. Of few bytes it would be mostly what begins and ends
    // a flush, which is not limited.
    let by_share = Options { percent: LIMIT_PERCENT, ..options };
    let mut shares = [(); ROUNDS].map(|()| limited("a", BYTES_PER_RANK, by_share).1);
    shares.sort_by(f64::total_cmp);
    let found = 100.0 * shares[ROUNDS / 2];
    println!(
        "by one thread, SCR_FLUSH_ASYNC_PERCENT={LIMIT_PERCENT}: {found:.1} % of a processor's time"
    );
}

/// Seconds of one flush by threads, and what share of them a processor had work.
fn limited(ranks: &str, bytes_per_rank: usize, options: Options) -> (f64, f64) {
    let outcome = Cluster::new().launch(ranks).transfer(options).run(|ctx| {
        seal(ctx, bytes_per_rank);
        ctx.world.barrier().expect("ranks");
        let (start, before) = (Instant::now(), processor_time());
        flush_by_threads(ctx, Duration::from_millis(20)); // else the asking shows
        let seconds = start.elapsed().as_secs_f64();
        (seconds, (processor_time() - before).as_secs_f64() / seconds)
    });
    outcome.results[0].expect("rank 0")
}

fn name(ctx: &Ctx) -> String {
    format!("ckpt/10/rank_{}.dat", ctx.world.rank())
}

/// Dataset 1: a file of each rank.
fn seal(ctx: &Ctx, bytes: usize) {
    cache::rebuild(ctx, IDENTITY).expect("an empty cache");
    record_open(ctx, &key(10), "ram").expect("a record");
    let path = ctx.layout.open_dir("ram", &key(10)).join(name(ctx));
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    let bytes: Vec<u8> = (0..bytes).map(|at| ((at * 31) >> 3) as u8).collect();
    fs::write(path, bytes).expect("room");
    let (set, descriptor) = ctx.protection.choose(&descriptor("SINGLE")).expect("a set");
    let request = SealRequest {
        key: &key(10),
        id: 1,
        epoch: 1,
        store: "ram",
        files: vec![FileMeta { name: name(ctx), ..FileMeta::default() }],
        tags: BTreeMap::new(),
        gone: BTreeMap::new(),
        set: &set,
        descriptor: &descriptor,
    };
    let prepared = cache::prepare(ctx, request, None, &|action| action().map(|()| true));
    cache::commit(ctx, &prepared.expect("a dataset"), true).expect("a seal");
}

fn source(ctx: &Ctx) -> PathBuf {
    ctx.layout.dataset_dir("ram", 1).join(name(ctx))
}

fn plain(ctx: &Ctx) -> PathBuf {
    ctx.prefix.join(format!("plain.{}", ctx.world.rank()))
}

fn copy(ctx: &Ctx) {
    let target = plain(ctx);
    let status = Command::new("cp").arg("--reflink=never").arg(source(ctx)).arg(&target).status();
    assert!(status.expect("cp").success());
    fs::File::open(target).and_then(|file| file.sync_all()).expect("durable, as after a flush");
}

/// The kernel forgets what it has of a file, once the disk has it.
fn forget(path: &Path) {
    fs::File::open(path).and_then(|file| file.sync_all()).expect("a file on a disk");
    let from = format!("if={}", path.display());
    let status =
        Command::new("dd").args([&from, "iflag=nocache", "count=0", "status=none"]).status();
    assert!(status.expect("dd").success());
}

fn together(ctx: &Ctx) {
    flush_sync(ctx, 1, &|_| false).expect("a flush");
}

fn by_threads(ctx: &Ctx) {
    flush_by_threads(ctx, Duration::from_millis(1));
}

/// The caller asks whether it is over every so often.
fn flush_by_threads(ctx: &Ctx, every: Duration) {
    let publish_if = Box::new(|_: &str, publish: &mut dyn FnMut() -> _| {
        let published: scr_core::error::Result<()> = publish();
        published.map(|()| true)
    });
    let begun = AsyncFlush::begin(ctx, 1, &|_| false, None, || (), publish_if);
    let mut flush = begun.expect("a flush");
    while ctx.world.rank() == 0 && flush.advance() != Advance::Done {
        std::thread::sleep(every);
    }
}
