//! Datasets on their way to the prefix, and what is known of them there.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use scr_core::cache;
use scr_core::error::{Error, Result};
use scr_core::records::{DatasetRecord, FileMeta, FileNames, Record, RecordKey, Summary};
use scr_core::transfer::{
    self, Along, Awaited, Background, BackgroundJob, JournalReport, Options, PublishIf, Waited,
    list_prefix,
};

use super::cluster::{Cluster, IDENTITY, check_files, checkpoint, content, run_and_seal};

/// All files below `dir`, staged ones included.
pub fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files_below(&path)) } else { found.push(path) }
    }
    found
}

#[test]
fn a_flush_writes_files_summary_and_index_and_nothing_else() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "aabb", &[1, 2], "XOR");
    let outcome = cluster.launch("aabb").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let report = transfer::flush_sync(ctx, 2, &|_| false).unwrap();
        check_files(ctx.prefix, &content(20, ctx.world.rank()));
        let verified = transfer::verify_on_prefix(ctx, 2, transfer::Check::Contents).unwrap();
        assert_eq!((verified.names.len(), verified.fault), (4, None));
        report
    });
    let report = outcome.results[2].as_ref().unwrap(); // a leader
    assert_eq!((report.files, report.replaced.len()), (4, 0));
    assert_eq!(files_below(&cluster.prefix().join("ckpt")).len(), 4);
    let listed = list_prefix(&cluster.prefix()).unwrap();
    assert_eq!((listed.len(), listed[0].id, listed[0].current), (1, 2, true));
    let own = cluster.prefix().join(".scr");
    let summary = Summary::read(&own.join("scr.dataset.2/summary.scr")).unwrap().unwrap();
    assert_eq!((summary.ranks, summary.dataset.files), (4, 4));
    assert!(summary.files[&0][0].crc32.is_some());
    assert!(!own.join("journal/2").exists());
}

#[test]
fn a_flush_takes_turns_and_keeps_the_window() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "aabb", &[1, 2, 3], "XOR");
    let options = Options { flush_width: 1, buffer_bytes: 4096, ..Options::default() };
    let options = Options { prefix_size: 2, check_crc: false, ..options };
    cluster.launch("aabb").transfer(options).run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        (1..=3).for_each(|id| drop(transfer::flush_sync(ctx, id, &|_| false).unwrap()));
        check_files(ctx.prefix, &content(30, ctx.world.rank()));
    });
    let ids: Vec<u64> = list_prefix(&cluster.prefix()).unwrap().iter().map(|one| one.id).collect();
    assert_eq!(ids, [3, 2]);
    assert_eq!(files_below(&cluster.prefix().join("ckpt")).len(), 8);
}

#[test]
fn a_file_that_is_left_out_stays_as_it_is_on_the_prefix() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "ab", &[1], "PARTNER");
    cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        transfer::flush_sync(ctx, 1, &|name| name == "ckpt/10/rank_0.dat").unwrap();
    });
    assert!(!cluster.prefix().join("ckpt/10/rank_0.dat").exists());
    assert!(!cluster.prefix().join(".scr/journal/1").exists());
}

#[test]
fn a_dataset_of_which_the_prefix_has_nothing_is_not_in_its_index() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "aabb", &[1], "XOR");
    cluster.launch("aabb").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        assert_eq!(transfer::flush_sync(ctx, 1, &|_| true).unwrap().files, 0);
        ctx.world.barrier().unwrap();
        assert_eq!(list_prefix(ctx.prefix).unwrap(), []);
        // The program's own deletions of others leave what it is.
        transfer::flush_sync(ctx, 1, &|name| name == "ckpt/10/rank_0.dat").unwrap();
    });
    let listed = list_prefix(&cluster.prefix()).unwrap();
    assert!(listed.len() == 1 && listed[0].restorable, "{listed:?}");
}

#[test]
fn files_of_an_older_dataset_go_along_and_are_listed_with_the_newer_one() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "aabb", &[1, 2], "XOR");
    cluster.launch("aabb").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let rank = ctx.world.rank();
        // Rank 0 has nothing to add.
        let names = content(10, rank).into_keys().filter(|_| rank > 0).collect();
        let (along, always) = ([Along { id: 1, names }], |_: &str, publish: Publish| {
            publish()?;
            Ok(true)
        });
        let report = transfer::flush_with(ctx, 2, &along, &|_| false, &always).unwrap();
        assert_eq!(report.files, if ctx.is_node_leader() { 7 } else { 0 });
        check_files(ctx.prefix, &content(20, rank));
        if rank > 0 {
            check_files(ctx.prefix, &content(10, rank));
        }
        assert_eq!(transfer::names_on_prefix(ctx, 2).unwrap().len(), 7);
    });
    assert_eq!(files_below(&cluster.prefix().join("ckpt")).len(), 7);
    assert_eq!(list_prefix(&cluster.prefix()).unwrap().len(), 1);
}

type Publish<'a> = &'a mut dyn FnMut() -> Result<()>;

#[test]
fn what_the_program_has_written_to_the_prefix_meanwhile_is_not_replaced() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "abc", &[1], "PARTNER");
    let newer = cluster.prefix().join("ckpt/10/rank_0.dat");
    cluster.launch("abc").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let unless_newer = |name: &str, publish: Publish| {
            let is_newer = newer.ends_with(name);
            if is_newer {
                fs::write(&newer, "newer").unwrap()
            } else {
                publish()?
            }
            Ok(!is_newer)
        };
        transfer::flush_with(ctx, 1, &[], &|_| false, &unless_newer).unwrap();
    });
    assert_eq!(fs::read_to_string(&newer).unwrap(), "newer");
    // Rank 2's two have come, and nothing staged is left.
    assert_eq!(files_below(&cluster.prefix().join("ckpt")).len(), 3);
}

#[test]
fn content_that_is_not_the_sealed_one_is_not_flushed() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "aabb", &[1], "XOR");
    cluster.launch("aabb").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        if ctx.world.rank() == 2 {
            let file = ctx.layout.dataset_dir("ram", 1).join("ckpt/10/rank_2.dat");
            let mut bytes = fs::read(&file).unwrap();
            bytes[7] ^= 1;
            fs::write(&file, bytes).unwrap();
        }
        ctx.world.barrier().unwrap();
        assert!(transfer::flush_sync(ctx, 1, &|_| false).is_err());
    });
    assert!(files_below(&cluster.prefix().join("ckpt")).is_empty());
    assert!(list_prefix(&cluster.prefix()).unwrap().is_empty());
    assert!(!cluster.prefix().join(".scr/journal/1").exists());
}

#[test]
fn a_prefix_that_cannot_be_written_is_an_error_on_all_ranks() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "ab", &[1], "PARTNER");
    fs::write(cluster.prefix().join("ckpt"), "a file where a directory should be").unwrap();
    let outcome = cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        transfer::flush_sync(ctx, 1, &|_| false).unwrap_err().to_string()
    });
    assert!(outcome.results.iter().flatten().all(|text| text.contains("ckpt")));
}

#[test]
fn a_damaged_dataset_on_the_prefix_is_found_and_not_offered_again() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "ab", &[1, 2], "PARTNER");
    cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        transfer::flush_sync(ctx, 1, &|_| false).unwrap();
        transfer::flush_sync(ctx, 2, &|_| false).unwrap();
    });
    fs::write(cluster.prefix().join("ckpt/20/rank_0.dat"), "short").unwrap();
    let outcome = cluster.launch("ab").run(|ctx| {
        let verified = transfer::verify_on_prefix(ctx, 2, transfer::Check::Sizes).unwrap();
        assert_eq!(verified.names, ["ckpt/20/rank_0.dat"]);
        verified.fault.unwrap()
    });
    assert_eq!(outcome.results[0], outcome.results[1]);
    let listed = list_prefix(&cluster.prefix()).unwrap();
    let restorable = listed.iter().filter(|one| one.restorable);
    assert_eq!(restorable.map(|one| one.id).collect::<Vec<_>>(), [1]);
}

#[test]
fn files_that_somebody_has_written_anew_in_their_old_sizes_are_not_taken_for_ours() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "ab", &[1], "PARTNER");
    cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        transfer::flush_sync(ctx, 1, &|_| false).unwrap();
    });
    let look = || {
        let launch = cluster.launch("ab");
        let seen =
            launch.run(|ctx| transfer::verify_on_prefix(ctx, 1, transfer::Check::Sizes).unwrap());
        let seen = seen.results[0].clone().unwrap();
        (seen.anew, seen.gone, seen.fault)
    };
    assert_eq!(look(), (false, false, None));
    for file in files_below(&cluster.prefix().join("ckpt")) {
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, bytes).unwrap();
    }
    assert_eq!(look(), (true, false, None));
}

#[test]
fn a_missing_summary_is_a_fault() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "ab", &[1], "PARTNER");
    cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        transfer::flush_sync(ctx, 1, &|_| false).unwrap();
        if ctx.world.rank() == 0 {
            fs::remove_file(ctx.prefix.join(".scr/scr.dataset.1/summary.scr")).unwrap();
        }
        let verified = transfer::verify_on_prefix(ctx, 1, transfer::Check::Sizes).unwrap();
        assert_eq!(verified.fault.as_deref(), Some("its summary is missing"));
    });
    assert!(!list_prefix(&cluster.prefix()).unwrap()[0].restorable);
}

/// A flush of dataset 1 that was killed when everything was staged and committed, but not renamed.
/// Gives what is staged.
pub fn killed_before_the_renames(cluster: &Cluster, hosts: &str) -> Vec<PathBuf> {
    run_and_seal(cluster, hosts, &[1], "PARTNER");
    let staged = |cluster: &Cluster| {
        let ckpt = cluster.prefix().join("ckpt");
        let mut files = if ckpt.exists() { files_below(&ckpt) } else { Vec::new() };
        files.retain(|path| path.to_string_lossy().contains(".scr-"));
        files
    };
    let committed = |cluster: &Cluster| cluster.prefix().join(".scr/journal/1/commit.scr").exists();
    let found = (0..200).any(|call| {
        let _ = fs::remove_dir_all(cluster.prefix());
        fs::create_dir(cluster.prefix()).unwrap();
        cluster.launch(hosts).kill(0, call).run(|ctx| {
            let _ = cache::rebuild(ctx, IDENTITY)
                .and_then(|_| transfer::flush_sync(ctx, 1, &|_| false));
        });
        committed(cluster) && !staged(cluster).is_empty()
    });
    assert!(found);
    staged(cluster)
}

#[test]
fn a_commit_whose_files_were_removed_is_given_up() {
    let cluster = Cluster::new();
    killed_before_the_renames(&cluster, "ab");
    fs::remove_dir_all(cluster.prefix().join("ckpt")).unwrap();
    let outcome = cluster.launch("ab").run(|ctx| transfer::recover_journal(ctx).unwrap());
    let expected = JournalReport { gone: vec![1], ..JournalReport::default() };
    assert_eq!(outcome.results, [Some(expected.clone()), Some(expected)]);
    let outcome = cluster.launch("ab").run(|ctx| transfer::recover_journal(ctx).unwrap());
    assert_eq!(outcome.results[0], Some(JournalReport::default()));
}

#[test]
fn a_commit_of_which_a_file_was_removed_has_failed_and_leaves_nothing_staged() {
    let cluster = Cluster::new();
    let staged = killed_before_the_renames(&cluster, "abc");
    assert_eq!(staged.len(), 3);
    let first = staged.iter().find(|path| path.to_string_lossy().contains("rank_0.dat")).unwrap();
    fs::remove_file(first).unwrap();
    let outcome = cluster.launch("abc").run(|ctx| transfer::recover_journal(ctx).unwrap());
    let expected = JournalReport { gone: vec![1], ..JournalReport::default() };
    assert_eq!(outcome.results[1], Some(expected));
    let listed = &list_prefix(&cluster.prefix()).unwrap()[0];
    assert!(!listed.restorable && listed.file_names == FileNames::Own, "{listed:?}");
    check_files(&cluster.prefix(), &content(10, 2));
    assert_eq!(files_below(&cluster.prefix().join("ckpt")).len(), 2);
    assert!(!cluster.prefix().join(".scr/journal/1").exists());
}

/// The job of each rank's helper thread.
pub(super) fn job(ctx: &cache::Ctx, id: u64) -> BackgroundJob {
    let record: DatasetRecord = ctx.filemap.get_id(id).unwrap();
    BackgroundJob {
        record,
        rank: ctx.world.rank(),
        world_size: ctx.world.size(),
        prefix: ctx.prefix.to_path_buf(),
        width: 1,
    }
}

/// Begins to flush this rank's files of dataset 1, if they are `wanted`.
fn begin(ctx: &cache::Ctx, wanted: bool) -> Background {
    let publish_if: PublishIf = Box::new(move |_, publish| {
        if wanted {
            publish()?;
        }
        Ok(wanted)
    });
    Background::start(job(ctx, 1), || {}, publish_if).unwrap()
}

#[test]
fn a_file_that_is_newer_on_the_prefix_stays_and_its_old_dataset_does_not_enter_the_index() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "aab", &[1], "PARTNER");
    cluster.launch("aab").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let target = ctx.prefix.join(format!("ckpt/10/rank_{}.dat", ctx.world.rank()));
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(&target, "newer").unwrap();
        ctx.world.barrier().unwrap();
        begin(ctx, ctx.world.rank() != 0).finish().unwrap();
        ctx.world.barrier().unwrap();
        // Rank 1 has no file.
        assert_eq!(fs::read(&target).unwrap() == b"newer", ctx.world.rank() < 2);
        assert_eq!(transfer::complete_background(ctx.prefix, 1, 0).unwrap(), None);
    });
    let names = fs::read_dir(cluster.prefix().join("ckpt/10")).unwrap();
    let hidden =
        names.filter(|name| name.as_ref().unwrap().file_name().as_encoded_bytes()[0] == b'.');
    assert_eq!(hidden.count(), 0, "staged files stay");
}

#[test]
fn helper_threads_publish_and_the_last_mark_completes() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "aab", &[1], "PARTNER");
    cluster.launch("aab").run(|ctx| {
        let report = cache::rebuild(ctx, IDENTITY).unwrap();
        if ctx.world.rank() == 0 {
            // Another rank's file appears while this one waits.
            let entry = report.offered[0].catalog.entries().find(|e| e.rank == 2).unwrap();
            let target = ctx.prefix.join(&entry.meta.name);
            let wait = |patience| {
                Awaited::new(ctx.prefix, &target, 1, 7).wait(&entry.meta, None, patience, || false)
            };
            assert_eq!(wait(Duration::ZERO), Waited::Nothing);
            assert_eq!(transfer::complete_background(ctx.prefix, 1, 0).unwrap(), None);
            ctx.world.barrier().unwrap();
            assert_eq!(wait(Duration::from_secs(60)), Waited::Come);
        } else {
            ctx.world.barrier().unwrap();
        }
        begin(ctx, true).finish().unwrap();
        check_files(ctx.prefix, &content(10, ctx.world.rank()));
        ctx.world.barrier().unwrap();
        if ctx.world.rank() == 0 {
            let epoch = job(ctx, 1).record.epoch;
            let states = [transfer::has_come, transfer::is_flushed];
            let is = |epoch| states.map(|state| state(ctx.prefix, 1, epoch));
            assert_eq!(transfer::background_ids(ctx.prefix).unwrap(), [1]);
            assert_eq!((is(epoch), is(epoch + 1)), ([true, false], [false; 2]));
            assert_eq!(transfer::complete_background(ctx.prefix, 1, 0).unwrap(), Some(vec![]));
            assert!(transfer::background_ids(ctx.prefix).unwrap().is_empty());
            assert_eq!((is(epoch), is(epoch + 1)), ([true; 2], [false; 2]));
        }
    });
    assert!(list_prefix(&cluster.prefix()).unwrap()[0].restorable);
}

#[test]
fn a_helper_thread_reports_what_it_could_not_publish() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "ab", &[1], "PARTNER");
    fs::write(cluster.prefix().join("ckpt"), "in the way").unwrap();
    cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let outcome = begin(ctx, true).finish();
        assert_eq!(matches!(outcome, Err(Error::Io { .. })), ctx.world.rank() == 0);
        ctx.world.barrier().unwrap();
        assert_eq!(transfer::complete_background(ctx.prefix, 1, 0).unwrap(), None);
    });
}

#[test]
fn a_file_is_waited_for_while_its_flush_comes_on() {
    let prefix = tempfile::tempdir().unwrap();
    let prefix = prefix.path();
    let (target, meta) = (prefix.join("file"), FileMeta { size: 3, ..FileMeta::default() });
    let patience = Duration::from_millis(1);
    let wait = || Awaited::new(prefix, &target, 1, 7).wait(&meta, None, patience, || false);
    assert_eq!(wait(), Waited::Nothing);
    // A flush by threads is under way, and ends.
    let journal = prefix.join(".scr/journal/1");
    fs::create_dir_all(&journal).unwrap();
    fs::write(journal.join("plan.scr"), "").unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(wait);
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished(), "the flush has a plan, and no rank has failed");
        fs::write(journal.join("failed.0.scr"), "").unwrap();
        drop(waiting.join());
    });
    // Whoever was asked has written all that there is, and that is not it.
    let request = prefix.join("wanted");
    let mut awaited = Awaited::new(prefix, &target, 1, 7);
    let waited = awaited.wait(&meta, Some(&request), Duration::from_secs(60), || false);
    assert_eq!(waited, Waited::Answered);
}

#[test]
fn a_target_that_cannot_be_replaced_leaves_nothing_staged() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "a", &[1], "SINGLE");
    fs::create_dir_all(cluster.prefix().join("ckpt/10/rank_0.dat")).unwrap();
    cluster.launch("a").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        assert!(begin(ctx, true).finish().is_err());
    });
    assert!(files_below(&cluster.prefix().join("ckpt")).is_empty());
}

/// Makes dataset `id` a later generation of the one that captured "10".
fn rename_key(ctx: &cache::Ctx, id: u64, generation: u64) -> DatasetRecord {
    let mut record = ctx.filemap.get_id(id).unwrap();
    ctx.filemap.remove(&record.key).unwrap();
    record.key = RecordKey { id: "10".into(), generation, ..record.key };
    ctx.filemap.record_prepared(record.clone()).unwrap();
    record
}

#[test]
fn a_rewritten_checkpoint_replaces_the_older_entry() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "ab", &[1], "PARTNER");
    cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        transfer::flush_sync(ctx, 1, &|_| false).unwrap();
        // The same captured id again, as a second generation would be.
        checkpoint(ctx, 2, "PARTNER", true).unwrap();
        let record = rename_key(ctx, 2, 1);
        ctx.world.barrier().unwrap();
        if ctx.world.rank() == 0 {
            // File by file would leave a mixture of the two: the older one is given up first.
            assert_eq!(transfer::announce_background(ctx.prefix, &record, 2, 0).unwrap(), [1]);
            assert!(!list_prefix(ctx.prefix).unwrap()[0].restorable);
        }
        transfer::flush_sync(ctx, 2, &|_| false).unwrap();
        checkpoint(ctx, 3, "PARTNER", true).unwrap();
        rename_key(ctx, 3, 2);
        assert_eq!(transfer::flush_sync(ctx, 3, &|_| false).unwrap().replaced, [2]);
    });
    let listed = list_prefix(&cluster.prefix()).unwrap();
    assert_eq!(listed.iter().map(|d| d.restorable).collect::<Vec<_>>(), [true, false, false]);
}

#[test]
fn threads_of_a_restart_take_turns_until_they_are_waited_for() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "abc", &[1], "PARTNER");
    cluster.launch("abc").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let published = || ctx.prefix.join("ckpt/10/rank_2.dat").exists();
        // Rank 2 comes after rank 1, which does not begin: nobody is waited for for ever.
        if ctx.world.rank() == 2 {
            let waiting = begin(ctx, true);
            std::thread::sleep(Duration::from_millis(100));
            assert!(!waiting.is_finished() && !published());
            waiting.finish().unwrap();
            assert!(published());
        }
    });
}

#[test]
fn what_only_the_cache_has_is_known_by_name_when_it_is_complete() {
    let cluster = Cluster::new();
    let prefix = cluster.prefix();
    fs::create_dir(prefix.join(".scr")).unwrap();
    let cached = |ids: &[(u64, Option<&str>)]| {
        let named = ids.iter().map(|(id, name)| (*id, name.map(str::to_owned)));
        transfer::record_places(&prefix, &named.collect(), &[(6, Some((1, 2)))].into()).unwrap();
        transfer::list_in_cache(&prefix).unwrap()
    };
    assert_eq!(cached(&[(5, Some("ckpt.50")), (6, None)]), [(5, "ckpt.50".to_owned())]);
    let both = [(5, Some("ckpt.50")), (6, Some("ckpt.60"))];
    assert_eq!(cached(&both).len(), 2);
    // It has left the cache.
    assert_eq!(cached(&both[1..]), [(6, "ckpt.60".to_owned())]);
    run_and_seal(&cluster, "ab", &[1], "SINGLE");
    cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        transfer::flush_sync(ctx, 1, &|_| false).unwrap();
    });
    // It is on the prefix, too.
    assert!(cached(&[(1, Some("ckpt.10"))]).is_empty());
}
