//! How fast a flush is, all ranks together and by threads, against `cp --reflink=never` of the same
//! files by as many processes in the same run. Only the ratio means anything: machines, and runs on
//! one machine, differ. And how near a flush by threads comes to the limits that are set for it.
//!
//! `cargo bench -p scr-core --bench flush`

#[allow(dead_code, clippy::unwrap_used)] // it is that of the tests
#[path = "../core/cache/cluster.rs"]
mod cluster;
#[path = "processor.rs"]
mod processor;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use cluster::{Cluster, IDENTITY, descriptor, key};
use processor::processor_time;
use scr_core::cache::{self, Ctx, SealRequest};
use scr_core::records::FileMeta;
use scr_core::transfer::{Advance, AsyncFlush, Options, flush_sync};

const RANKS: &str = "abcd";
const BYTES_PER_RANK: usize = 256 << 20;
const ROUNDS: usize = 5;
/// For the limit of bandwidth: they take seconds.
const FEW_BYTES: usize = 64 << 20;
const LIMIT_BYTES: u64 = 100_000_000;
const LIMIT_PERCENT: f64 = 25.0;
const WAYS: [&str; 3] = ["cp --reflink=never", "flush, together", "flush, by threads"];

fn main() {
    let cluster = Cluster::new();
    let options = Options { bytes_per_second: 0, ..Options::default() };
    let outcome = cluster.launch(RANKS).transfer(options).run(|ctx| {
        seal(ctx, BYTES_PER_RANK);
        let mut seconds = [const { Vec::new() }; WAYS.len()];
        // One round before it counts: the first use of memory is slow.
        for round in 0..=ROUNDS {
            let ways: [&dyn Fn(&Ctx); WAYS.len()] = [&copy, &together, &by_threads];
            for (way, all) in ways.iter().zip(&mut seconds) {
                ctx.world.barrier().expect("ranks");
                let start = Instant::now();
                way(ctx);
                ctx.world.barrier().expect("ranks");
                if round > 0 {
                    all.push(start.elapsed().as_secs_f64());
                }
                let _ = fs::remove_file(ctx.prefix.join(name(ctx)));
                let _ = fs::remove_file(ctx.prefix.join(format!("plain.{}", ctx.world.rank())));
            }
        }
        seconds
    });
    let mut seconds = outcome.results[0].clone().expect("rank 0");
    let gigabytes = (RANKS.len() * BYTES_PER_RANK) as f64 / 1e9;
    println!("{} ranks, {} MiB each; medians of {ROUNDS}", RANKS.len(), BYTES_PER_RANK >> 20);
    seconds.iter_mut().for_each(|all| all.sort_by(f64::total_cmp));
    let medians = seconds.map(|all| all[all.len() / 2]);
    for (way, median) in WAYS.iter().zip(medians) {
        println!("{way:<20} {:6.2} GB/s   {:.2}", gigabytes / median, medians[0] / median);
    }
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
    ctx.filemap.record_open(&key(10), "ram").expect("a record");
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
        set: &set,
        descriptor: &descriptor,
    };
    let prepared = cache::prepare(ctx, request, &|action| action().map(|()| true));
    cache::commit(ctx, &prepared.expect("a dataset"), true).expect("a seal");
}

fn copy(ctx: &Ctx) {
    let source = ctx.layout.dataset_dir("ram", 1).join(name(ctx));
    let target = ctx.prefix.join(format!("plain.{}", ctx.world.rank()));
    let status = Command::new("cp").arg("--reflink=never").arg(source).arg(target).status();
    assert!(status.expect("cp").success());
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
