//! Flushes by threads: limits, crashes at each stage, failures.

use std::fs;
use std::time::{Duration, Instant};

use scr_core::cache::{self, Ctx};
use scr_core::records::{Record, TransferFile};
use scr_core::transfer::{
    self, Advance, AsyncFlush, JournalReport, Options, PublishIf, list_prefix, staged_name,
};

use super::cluster::{Cluster, IDENTITY, check_files, content, run_and_seal};
use super::flush::files_below;

const DEADLINE: Duration = Duration::from_secs(30);

fn begin(ctx: &Ctx, id: u64) -> AsyncFlush {
    let publish_if: PublishIf = Box::new(|_, publish| publish().map(|()| true));
    AsyncFlush::begin(ctx, id, &|_| false, None, || (), publish_if).unwrap()
}

/// Looks until `come` is true of what rank 0 sees; the others wait for it. Collective.
fn until(ctx: &Ctx, flush: &mut AsyncFlush, come: impl Fn(&Advance) -> bool) -> Advance {
    let begun = Instant::now();
    let mut seen = Advance::Pending;
    while ctx.world.rank() == 0 {
        seen = flush.advance();
        if come(&seen) {
            break;
        }
        assert!(begun.elapsed() < DEADLINE, "the event does not come: {seen:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    ctx.world.barrier().unwrap();
    seen
}

fn is_over(seen: &Advance) -> bool {
    *seen != Advance::Pending
}

/// Waits for a condition on files. For rank 0; the others wait for it.
fn until_there(ctx: &Ctx, come: impl Fn() -> bool) {
    let begun = Instant::now();
    while ctx.world.rank() == 0 && !come() {
        assert!(begun.elapsed() < DEADLINE, "the event does not come");
        std::thread::sleep(Duration::from_millis(1));
    }
    ctx.world.barrier().unwrap();
}

fn ids(cluster: &Cluster) -> Vec<u64> {
    list_prefix(&cluster.prefix()).unwrap().iter().map(|one| one.id).collect()
}

#[test]
fn threads_flush_a_dataset_without_communication() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "aabb", &[1, 2], "XOR");
    cluster.launch("aabb").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let (mut first, mut second) = (begin(ctx, 1), begin(ctx, 2));
        assert!(until(ctx, &mut second, is_over) != Advance::Pending || ctx.world.rank() > 0);
        until(ctx, &mut first, is_over);
        for step in [10, 20] {
            check_files(ctx.prefix, &content(step, ctx.world.rank()));
        }
        let left = TransferFile::read(&ctx.layout.control_dir.join(TransferFile::NAME)).unwrap();
        assert_eq!(left.unwrap().files.len(), 0);
    });
    assert_eq!(ids(&cluster), [2, 1]);
    assert_eq!(files_below(&cluster.prefix().join("ckpt")).len(), 8);
    assert!(files_below(&cluster.prefix().join(".scr/journal")).is_empty());
}

#[test]
fn the_limit_of_bandwidth_holds_until_the_program_waits() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "ab", &[1], "PARTNER");
    let options = Options { bytes_per_second: 1, ..Options::default() };
    cluster.launch("ab").transfer(options).run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let mut flush = begin(ctx, 1);
        // A few kilobytes: at one byte a second far from over, without the limit long since.
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(flush.advance(), Advance::Pending);
        ctx.world.barrier().unwrap();
        flush.hurry();
        until(ctx, &mut flush, |seen| *seen == Advance::Done);
        check_files(ctx.prefix, &content(10, ctx.world.rank()));
    });
}

#[test]
fn what_was_staged_everywhere_is_completed_by_the_next_start() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "ab", &[1], "PARTNER");
    cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let flush = begin(ctx, 1);
        let journal = ctx.prefix.join(".scr/journal/1");
        until_there(ctx, || (0..2).all(|n| journal.join(format!("staged.{n}.scr")).exists()));
        flush.stop();
    });
    assert!(ids(&cluster).is_empty());
    let outcome = cluster.launch("ab").run(|ctx| transfer::recover_journal(ctx).unwrap());
    let report = JournalReport { completed: vec![1], ..JournalReport::default() };
    assert_eq!(outcome.results[0], Some(report));
    assert_eq!(ids(&cluster), [1]);
    assert_eq!(files_below(&cluster.prefix().join("ckpt")).len(), 1);
}

#[test]
fn an_unfinished_one_goes_on_from_what_is_written_or_leaves_nothing() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "ab", &[1], "PARTNER");
    let slow = Options { bytes_per_second: 1, ..Options::default() };
    let unfinished = || {
        cluster.launch("ab").transfer(slow).run(|ctx| {
            cache::rebuild(ctx, IDENTITY).unwrap();
            begin(ctx, 1).stop();
            let report = transfer::recover_journal(ctx).unwrap();
            assert_eq!(report.unfinished, [1]);
        });
    };
    unfinished();
    cluster.launch("ab").run(|ctx| {
        let report = cache::rebuild(ctx, IDENTITY).unwrap();
        // As if 100 bytes were there, durably: other ones, which shows that they are not written.
        if ctx.world.rank() == 0 {
            let path = ctx.layout.control_dir.join(TransferFile::NAME);
            let mut all = TransferFile::read(&path).unwrap().unwrap();
            let staged = staged_name("rank_0.dat", report.offered[0].epoch);
            fs::create_dir_all(ctx.prefix.join("ckpt/10")).unwrap();
            fs::write(ctx.prefix.join("ckpt/10").join(staged), [0; 100]).unwrap();
            all.files.values_mut().for_each(|file| file.written = 100);
            all.write(&path).unwrap();
        }
        let mut flush = begin(ctx, 1);
        until(ctx, &mut flush, |seen| *seen == Advance::Done);
        let name = "ckpt/10/rank_0.dat";
        let (found, wanted) = (fs::read(ctx.prefix.join(name)), &content(10, 0)[name]);
        let found = found.unwrap();
        assert!(found[..100] == [0; 100] && found[100..] == wanted[100..]);
    });
    fs::remove_dir_all(cluster.prefix().join("ckpt")).unwrap();
    unfinished();
    cluster.launch("ab").run(|ctx| transfer::roll_back(ctx, 1).unwrap());
    assert!(files_below(&cluster.prefix().join("ckpt")).is_empty());
    assert!(files_below(&cluster.prefix().join(".scr/journal")).is_empty());
}

#[test]
fn a_failure_is_told_and_leaves_nothing() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "aabb", &[1], "XOR");
    cluster.launch("aabb").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        if ctx.world.rank() == 3 {
            let file = ctx.layout.dataset_dir("ram", 1).join("ckpt/10/rank_3.dat");
            fs::write(file, "short").unwrap();
        }
        ctx.world.barrier().unwrap();
        let mut flush = begin(ctx, 1);
        let seen = until(ctx, &mut flush, is_over);
        let told = matches!(&seen, Advance::Failed(why) if why.contains("rank_3.dat"));
        assert!(told || ctx.world.rank() > 0, "{seen:?}");
        flush.abandon(ctx).unwrap();
    });
    assert!(files_below(&cluster.prefix().join("ckpt")).is_empty());
    assert!(files_below(&cluster.prefix().join(".scr/journal")).is_empty());
    assert!(ids(&cluster).is_empty());
}

#[test]
fn what_the_program_has_deleted_since_does_not_come_back() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "abc", &[1], "PARTNER");
    cluster.launch("abc").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let publish_if: PublishIf = Box::new(|name, publish| match name.ends_with("rank_0.dat") {
            true => Ok(false),
            false => publish().map(|()| true),
        });
        let flush = AsyncFlush::begin(ctx, 1, &|_| false, None, || (), publish_if);
        until(ctx, &mut flush.unwrap(), |seen| *seen == Advance::Done);
    });
    let there = files_below(&cluster.prefix().join("ckpt"));
    assert_eq!(there.len(), 2, "{there:?}");
    assert!(!there.iter().any(|path| path.ends_with("rank_0.dat")));
}
