//! Flushes by threads: limits, crashes at each stage, failures.

use std::fs;
use std::time::{Duration, Instant};

use scr_core::cache::{self, Ctx};
use scr_core::files::FileLock;
use scr_core::records::{Record, TransferCommand, TransferFile};
use scr_core::transfer::{
    self, Advance, AsyncFlush, JournalReport, Options, PublishIf, list_prefix, staged_name,
};

use super::cluster::{Cluster, IDENTITY, check_files, content, run_and_seal};
use super::damage::KINDS;
use super::flush::files_below;

const DEADLINE: Duration = Duration::from_secs(30);

fn begin(ctx: &Ctx, id: u64) -> AsyncFlush {
    let publish_if: PublishIf = Box::new(|_, publish| publish().map(|()| true));
    AsyncFlush::begin(ctx, id, &|_| false, None, || (), publish_if).unwrap()
}

/// Looks until `come` is true of what rank 0 sees; the others wait for it. Collective.
pub fn until(ctx: &Ctx, flush: &mut AsyncFlush, come: impl Fn(&Advance) -> bool) -> Advance {
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

pub fn is_over(seen: &Advance) -> bool {
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

/// A flush of dataset 1 that ended when all was staged and nothing committed; each rank is on a
/// node of its own.
pub fn killed_before_the_commit(cluster: &Cluster, hosts: &str) {
    run_and_seal(cluster, hosts, &[1], "PARTNER");
    let nodes = hosts.len();
    cluster.launch(hosts).run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let flush = begin(ctx, 1);
        let journal = ctx.prefix.join(".scr/journal/1");
        until_there(ctx, || (0..nodes).all(|n| journal.join(format!("staged.{n}.scr")).exists()));
        flush.stop();
    });
    assert!(ids(cluster).is_empty());
}

#[test]
fn what_was_staged_everywhere_is_completed_by_the_next_start() {
    let cluster = Cluster::new();
    killed_before_the_commit(&cluster, "ab");
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
            all.files.values_mut().for_each(|file| file.written = Some(100));
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

#[test]
fn a_process_on_each_node_finishes_what_the_program_has_left() {
    let cluster = Cluster::new();
    // Rank 2 has an empty file among its own, rank 1 none.
    run_and_seal(&cluster, "aabc", &[1, 2], "XOR");
    left_unfinished(&cluster, "aabc", &[1, 2]);
    let (prefix, free) = (cluster.prefix(), Options::default());
    // The empty files may have been written before the end.
    for (host, files, waiting) in [("b", 2..=4, 2), ("a", 2..=2, 1), ("c", 2..=2, 0)] {
        let control = cluster.layout(host).control_dir;
        transfer::ask_to_stop(&control).unwrap();
        let staged = transfer::stage_node(&prefix, &control, &free, false).unwrap();
        assert!(staged.stopped && staged.files == 0, "{staged:?}");
        transfer::set_transfer_command(&control, TransferCommand::Run).unwrap();
        let staged = transfer::stage_node(&prefix, &control, &free, false).unwrap();
        assert!(files.contains(&staged.files), "{host}: {staged:?}");
        assert!(!staged.stopped && staged.troubles.is_empty(), "{staged:?}");
        let again = transfer::stage_node(&prefix, &control, &free, false).unwrap();
        assert_eq!(again.files, 0, "what is written is not copied again");
        let completed = transfer::complete(&prefix, &control, &free).unwrap();
        let missing: Vec<usize> = completed.waiting.iter().map(|(_, nodes)| *nodes).collect();
        assert_eq!(missing, if waiting == 0 { vec![] } else { vec![waiting; 2] });
        assert_eq!(completed.done.len(), if waiting == 0 { 2 } else { 0 });
    }
    assert_eq!(ids(&cluster), [2, 1]);
    for rank in 0..4 {
        [10, 20].iter().for_each(|step| check_files(&prefix, &content(*step, rank)));
    }
    assert_eq!(files_below(&prefix.join("ckpt")).len(), 8);
    assert!(files_below(&prefix.join(".scr/journal")).is_empty());
    let path = cluster.layout("c").control_dir.join(TransferFile::NAME);
    assert!(TransferFile::read(&path).unwrap().unwrap().files.is_empty());
}

/// Nodes come in any order, so whoever holds the lock of a lane copies.
#[test]
fn no_more_nodes_than_the_width_copy_what_the_program_has_left() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "aabc", &[1], "XOR");
    left_unfinished(&cluster, "aabc", &[1]);
    let prefix = cluster.prefix();
    let stage = |host: &str, flush_width: usize| {
        let options = Options { flush_width, ..Options::default() };
        transfer::stage_node(&prefix, &cluster.layout(host).control_dir, &options, false).unwrap()
    };
    let lane = |number: usize| {
        let path = prefix.join(format!(".scr/transfer.{number}"));
        FileLock::acquire(&path, Duration::ZERO).unwrap()
    };
    // The third of three nodes shares the first lane of two.
    let (first, second) = (lane(0), lane(1));
    drop(second);
    assert!(stage("b", 2).files > 0);
    let control = cluster.layout("c").control_dir;
    let waited = std::thread::scope(|scope| {
        let third = scope.spawn(|| stage("c", 2));
        // Long enough for it to be at the lane; without it the answer is the same.
        std::thread::sleep(Duration::from_millis(300));
        assert!(!third.is_finished());
        transfer::ask_to_stop(&control).unwrap();
        third.join().unwrap()
    });
    assert!(waited.stopped && waited.files == 0, "{waited:?}");
    transfer::set_transfer_command(&control, TransferCommand::Run).unwrap();
    // With a lane for each nobody waits.
    assert!(stage("c", 3).files > 0);
    drop(first);
    assert!(stage("a", 2).files > 0);
    let done = transfer::complete(&prefix, &control, &Options::default()).unwrap();
    assert_eq!(done.done.len(), 1, "{done:?}");
}

#[test]
fn a_damaged_transfer_file_is_begun_anew() {
    for (kind, damage) in KINDS {
        let cluster = Cluster::new();
        run_and_seal(&cluster, "ab", &[1], "PARTNER");
        left_unfinished(&cluster, "ab", &[1]);
        damage(&cluster.layout("a").control_dir.join(TransferFile::NAME));
        cluster.launch("ab").run(|ctx| {
            assert_eq!(transfer::recover_journal(ctx).unwrap().unfinished, [1], "{kind}");
            cache::rebuild(ctx, IDENTITY).unwrap();
            let mut flush = begin(ctx, 1);
            until(ctx, &mut flush, |seen| *seen == Advance::Done);
            check_files(ctx.prefix, &content(10, ctx.world.rank()));
        });
    }
}

/// Flushes of `ids` are begun, and the program ends before anything is copied.
pub fn left_unfinished(cluster: &Cluster, hosts: &str, ids: &[u64]) {
    let slow = Options { bytes_per_second: 1, ..Options::default() };
    cluster.launch(hosts).transfer(slow).run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let begun: Vec<AsyncFlush> = ids.iter().map(|id| begin(ctx, *id)).collect();
        begun.into_iter().for_each(AsyncFlush::stop);
    });
}

#[test]
fn a_node_whose_cache_is_damaged_says_so_and_completes_nothing() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "ab", &[1], "PARTNER");
    left_unfinished(&cluster, "ab", &[1]);
    let layout = cluster.layout("a");
    let source = layout.dataset_dir("ram", 1).join("ckpt/10/rank_0.dat");
    let mut damaged = fs::read(&source).unwrap();
    damaged[7] ^= 1;
    fs::write(&source, damaged).unwrap();
    let options = Options::default();
    let prefix = cluster.prefix();
    let staged = transfer::stage_node(&prefix, &layout.control_dir, &options, false).unwrap();
    assert!(staged.troubles[0].contains("rank_0.dat"), "{:?}", staged.troubles);
    let done = transfer::complete(&prefix, &layout.control_dir, &options).unwrap();
    assert_eq!((done.done.len(), done.waiting.len()), (0, 1));
    assert!(files_below(&cluster.prefix().join("ckpt")).is_empty());
}

/// Seconds from the begin of a flush of dataset 1 until all is staged, on four nodes.
fn seconds_to_stage(options: Options) -> f64 {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "abcd", &[1], "PARTNER");
    let outcome = cluster.launch("abcd").transfer(options).run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let begun = Instant::now();
        let mut flush = begin(ctx, 1);
        until(ctx, &mut flush, |seen| *seen == Advance::Done);
        begun.elapsed().as_secs_f64()
    });
    outcome.results[0].unwrap()
}

#[test]
fn all_ranks_together_use_the_bandwidth_and_no_more() {
    let files = (0..4).flat_map(|rank| content(10, rank).into_values());
    let total: usize = files.map(|bytes| bytes.len()).sum();
    for flush_width in [256, 1] {
        let bytes_per_second = total as u64 * 2;
        let options = Options { bytes_per_second, flush_width, ..Options::default() };
        // A busy machine adds to it now and then, but never takes from it.
        let in_time = (0..5).any(|_| {
            let seconds = seconds_to_stage(options);
            assert!(seconds > 0.5 * 0.9, "faster than allowed, width {flush_width}: {seconds} s");
            seconds < 0.5 * 1.1 + 1.0
        });
        assert!(in_time, "far slower than allowed each time, width {flush_width}");
    }
}
