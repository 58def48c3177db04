//! Flushes that failed after their commit: files may have their names, others not. The next start
//! never takes the mixture for a checkpoint, and never writes an older one over a newer one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use scr_core::cache::{self, Ctx};
use scr_core::error::{Error, Result};
use scr_core::records::{FileNames, RecordKey};
use scr_core::transfer::{
    self, Advance, AsyncFlush, Background, Check, JournalReport, Options, PublishIf, list_prefix,
};

use super::background::{is_over, until};
use super::cluster::{Cluster, IDENTITY, seal_files};
use super::flush::{files_below, job, killed_before_the_renames};
use super::generations::{back, collective, flushed, listed, names, those_of};

/// The first `count` files get their names; that of the next one cannot be given.
fn only(count: u32) -> PublishIf {
    let left = AtomicU32::new(count);
    Box::new(move |_, publish| {
        if left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_err()
        {
            return Err(Error::Refused("refused".into()));
        }
        publish().map(|()| true)
    })
}

/// A second generation in the cache, of which `flush` brings a part to the prefix.
fn halved(flush: impl Fn(&Ctx) -> Result<()> + Sync) -> Cluster {
    let cluster = Cluster::new();
    flushed(&cluster, 3, &[1]);
    // So slow that a flush by threads that is not hurried on is under way when it is stopped.
    let options = Options { prefix_size: 3, bytes_per_second: 1, ..Options::default() };
    cluster.launch("ab").transfer(options).run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let key = RecordKey { series: "state".into(), id: String::new(), generation: 2 };
        seal_files(ctx, &key, 2, &[("state", "state 2"), ("d/side", "side 2")]);
        flush(ctx).unwrap();
    });
    assert_ne!(names(&cluster), those_of(1));
    assert_ne!(names(&cluster), those_of(2));
    cluster
}

/// The caches are lost, too: nothing but the prefix tells what its files are.
fn goes_back(cluster: &Cluster) {
    ["a", "b"].iter().for_each(|host| cluster.lose(host));
    collective(cluster, |ctx| {
        if ctx.world.rank() == 0 {
            transfer::settle_background(ctx.prefix, 3).unwrap();
        }
        ctx.world.barrier().unwrap();
        let report = transfer::recover_journal(ctx).unwrap();
        report.unfinished.iter().for_each(|id| transfer::roll_back(ctx, *id).unwrap());
    });
    assert_eq!(listed(cluster), [(2, FileNames::Own), (1, FileNames::Kept)]);
    assert!(!list_prefix(&cluster.prefix()).unwrap()[0].restorable);
    // However large its files are: those of the other generation are as large.
    let look = |ctx: &Ctx| transfer::verify_on_prefix(ctx, 2, Check::Sizes).unwrap();
    assert!(collective(cluster, look).fault.is_some());
    assert_eq!(back(cluster, 1, true), Ok(()));
    assert_eq!(names(cluster), those_of(1));
}

fn begin(ctx: &Ctx, publish_if: PublishIf) -> AsyncFlush {
    AsyncFlush::begin(ctx, 2, &|_| false, None, || (), publish_if).unwrap()
}

#[test]
fn of_a_flush_by_threads_the_index_knows() {
    let cluster = halved(|ctx| {
        let mut flush = begin(ctx, only(1));
        flush.hurry();
        let seen = until(ctx, &mut flush, is_over);
        assert!(matches!(seen, Advance::Failed(_)) || ctx.world.rank() > 0, "{seen:?}");
        flush.abandon(ctx)
    });
    assert!(files_below(&cluster.prefix().join(".scr/journal")).is_empty());
    goes_back(&cluster);
}

#[test]
fn of_one_that_is_tried_again_and_interrupted_it_knows() {
    goes_back(&halved(|ctx| {
        transfer::flush_with(ctx, 2, &[], &|_| false, &only(1)).unwrap_err();
        begin(ctx, only(0)).stop();
        Ok(())
    }));
}

#[test]
fn of_files_that_were_waited_for_it_knows() {
    goes_back(&halved(|ctx| {
        let job = job(ctx, 2);
        if ctx.world.rank() == 0 {
            transfer::announce_background(ctx.prefix, &job.record, 2, 3).unwrap();
        }
        ctx.world.barrier().unwrap();
        let done = Background::start(job, || {}, only(1)).unwrap().finish();
        assert_eq!(done.is_err(), ctx.world.rank() == 0);
        Ok(())
    }));
}

#[test]
fn what_has_come_in_whole_is_no_half() {
    let cluster = Cluster::new();
    flushed(&cluster, 3, &[1]);
    collective(&cluster, |ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        if ctx.world.rank() == 0 {
            // Asked for when it was there already.
            let record = job(ctx, 1).record;
            transfer::announce_background(ctx.prefix, &record, 2, 3).unwrap();
            transfer::settle_background(ctx.prefix, 3).unwrap();
        }
        ctx.world.barrier().unwrap();
    });
    assert!(list_prefix(&cluster.prefix()).unwrap()[0].restorable);
}

/// Dataset 1 is committed and gets no name, dataset 2 comes; then what `finish` does.
fn overtaken<T: Send>(ids: [&str; 2], finish: impl Fn(&Ctx) -> T + Sync) -> (Cluster, T) {
    let cluster = Cluster::new();
    let done = collective(&cluster, |ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        for (number, id) in (1..).zip(ids) {
            let key = RecordKey { series: "ckpt".into(), id: id.into(), generation: number };
            let (own, latest) = (format!("c{id}"), format!("latest {number}"));
            seal_files(ctx, &key, number, &[(&own, &own), ("latest", &latest)]);
        }
        transfer::flush_with(ctx, 1, &[], &|_| false, &only(0)).unwrap_err();
        transfer::flush_sync(ctx, 2, &|_| false).unwrap();
        finish(ctx)
    });
    let latest = fs::read_to_string(cluster.prefix().join("latest")).unwrap();
    assert_eq!(latest, "latest 2");
    let mut there = files_below(&cluster.prefix());
    there.retain(|path| path.to_string_lossy().contains(".scr-"));
    assert!(there.is_empty(), "{there:?}");
    (cluster, done)
}

#[test]
fn a_commit_that_a_newer_one_has_overtaken_takes_nothing_from_it() {
    let recover = |ctx: &Ctx| transfer::recover_journal(ctx).unwrap();
    let (cluster, report) = overtaken(["", ""], recover);
    assert_eq!(report, JournalReport { rolled_back: vec![1], ..JournalReport::default() });
    assert_eq!(listed(&cluster), [(2, FileNames::Own)]);

    // With ids it has files of its own.
    let (cluster, report) = overtaken(["10", "20"], recover);
    assert_eq!(report, JournalReport { completed: vec![1], ..JournalReport::default() });
    assert_eq!(listed(&cluster), [(2, FileNames::Own), (1, FileNames::Own)]);
    assert_eq!(fs::read_to_string(cluster.prefix().join("c10")).unwrap(), "c10");
    assert!(list_prefix(&cluster.prefix()).unwrap()[0].current);
}

#[test]
fn nor_does_it_when_a_process_on_the_node_completes_it() {
    let complete = |ctx: &Ctx| {
        let rank = ctx.world.rank();
        let done = (rank == 0).then(|| {
            transfer::complete(ctx.prefix, &ctx.layout.control_dir, &Options::default()).unwrap()
        });
        ctx.world.barrier().unwrap();
        done
    };
    let (_, done) = overtaken(["10", "20"], complete);
    assert_eq!(done.unwrap().done, ["ckpt.10"]);
}

/// Where the file staged at `path` is to come.
fn target(path: &Path) -> PathBuf {
    let staged = path.file_name().unwrap().to_str().unwrap();
    path.with_file_name(staged[1..].split_once(".scr-").unwrap().0)
}

#[test]
fn a_commit_of_which_the_program_has_written_a_file_anew_is_not_completed() {
    // Whether another file has got its name before the death.
    for half in [false, true] {
        let cluster = Cluster::new();
        let staged = killed_before_the_renames(&cluster, "abc");
        if half {
            fs::rename(&staged[0], target(&staged[0])).unwrap();
        }
        // The next generation could not be cached: it is where the program has put it.
        let newer = target(staged.last().unwrap());
        fs::write(&newer, "the next generation").unwrap();
        let outcome = cluster.launch("abc").run(|ctx| transfer::recover_journal(ctx).unwrap());
        let expected = JournalReport { rolled_back: vec![1], ..JournalReport::default() };
        assert_eq!(outcome.results[1], Some(expected));
        assert_eq!(fs::read_to_string(&newer).unwrap(), "the next generation");
        let files = files_below(&cluster.prefix().join("ckpt"));
        assert_eq!(files.len(), 1 + usize::from(half), "nothing is staged: {files:?}");
        // No start takes the file that has its name for the program's own.
        let listed = list_prefix(&cluster.prefix()).unwrap();
        assert!(listed.iter().all(|one| !one.restorable), "{listed:?}");
        assert_eq!(listed.iter().any(|one| one.file_names == FileNames::Own), half, "{listed:?}");
    }
}
