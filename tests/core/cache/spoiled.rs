//! Files of cached datasets that the prefix has, and what becomes of them between two runs.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use scr_core::cache::{self, Ctx, RebuildReport, SealRequest};
use scr_core::records::{FileMeta, RecordKey};
use scr_core::transfer::publish_other_size;

use super::cluster::{Cluster, IDENTITY, descriptor, key, offered_ids, record_open};

/// Rank 1 answers for a file of dataset 20 that the prefix has; rank 2 for a log of all of them.
const SHARED: &str = "ckpt/20/shared";
const LOG: &str = "monitor.log";

fn plain(id: u64) -> RecordKey {
    RecordKey { series: "state".into(), id: String::new(), generation: id }
}

/// Seals a complete dataset of files in the cache, and of those on the prefix. Collective.
fn seal(ctx: &Ctx, key: &RecordKey, id: u64, cached: &[&str], on_prefix: &[&str]) {
    seal_as(ctx, key, id, (cached, on_prefix), true);
}

fn seal_as(
    ctx: &Ctx,
    key: &RecordKey,
    id: u64,
    (cached, on_prefix): (&[&str], &[&str]),
    confirmed: bool,
) {
    record_open(ctx, key, "ram").unwrap();
    let write = |dir: &Path, name: &str| {
        fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
        fs::write(dir.join(name), format!("{name} of {id}")).unwrap();
    };
    cached.iter().for_each(|name| write(&ctx.layout.open_dir("ram", key), name));
    on_prefix.iter().for_each(|name| write(ctx.prefix, name));
    let meta = |(name, on_prefix): (&&str, bool)| FileMeta {
        name: (*name).to_owned(),
        on_prefix,
        ..FileMeta::default()
    };
    let files = cached.iter().map(|name| (name, false));
    let files = files.chain(on_prefix.iter().map(|name| (name, true)));
    let (set, descriptor) = ctx.protection.choose(&descriptor("XOR")).unwrap();
    let request = SealRequest {
        key,
        id,
        epoch: 0xf0 + id,
        store: "ram",
        files: files.map(meta).collect(),
        tags: BTreeMap::new(),
        gone: BTreeMap::new(),
        set: &set,
        descriptor: &descriptor,
    };
    let prepared = cache::prepare(ctx, request, None, &|action| action().map(|()| true)).unwrap();
    cache::commit(ctx, &prepared, confirmed).unwrap();
}

/// Two checkpoints; of the newer one the prefix has a part.
fn two_checkpoints(identity: &str) -> Cluster {
    let cluster = Cluster::new();
    let outcome = cluster.launch("abc").run(|ctx| {
        cache::rebuild(ctx, identity).unwrap();
        for id in [1, 2] {
            let rank = ctx.world.rank();
            let own = format!("ckpt/{id}0/rank_{rank}");
            let shared: &[&str] = match rank {
                1 if id == 2 => &[SHARED],
                2 => &[LOG],
                _ => &[],
            };
            seal(ctx, &key(id * 10), id, &[&own], shared);
        }
    });
    assert!(outcome.results.iter().all(Option::is_some));
    cluster
}

/// A restart of a program whose patterns do not match what is not to count. The same on all ranks.
fn restart(cluster: &Cluster, hosts: &str, ignored: &str) -> (RebuildReport, Vec<(u64, String)>) {
    let outcome = cluster.launch(hosts).run(|ctx| {
        let mut report = cache::rebuild(ctx, IDENTITY).unwrap();
        let counts = |name: &str| name != ignored;
        let rewritten = cache::withhold_spoiled(ctx, &mut report, &counts).unwrap();
        (report, rewritten)
    });
    let all: Vec<_> = outcome.results.into_iter().map(Option::unwrap).collect();
    let told = |one: &(RebuildReport, _)| (offered_ids(&one.0), one.0.withheld.clone());
    assert!(all.windows(2).all(|two| told(&two[0]) == told(&two[1]) && two[0].1 == two[1].1));
    all.into_iter().next().unwrap()
}

fn set_time(path: &Path, later: u64) {
    let time = SystemTime::now() + Duration::from_secs(later);
    File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn what_nobody_touched_is_offered() {
    let cluster = two_checkpoints(IDENTITY);
    let (report, rewritten) = restart(&cluster, "abc", "");
    assert_eq!((offered_ids(&report), report.withheld), (vec![1, 2], vec![]));
    assert_eq!(rewritten, []);
}

#[test]
fn a_missing_or_shorter_file_takes_its_dataset_out() {
    type Damage = fn(&Path);
    let damages: [(Damage, &str); 4] = [
        (|path| fs::remove_file(path).unwrap(), "is missing"),
        (|path| fs::remove_dir_all(path.parent().unwrap()).unwrap(), "is missing"),
        (|path| fs::write(path, "cut").unwrap(), "has 3 bytes, and had 19 when it was complete"),
        (
            |path| {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
            },
            "is missing",
        ),
    ];
    // The record of the rank that answers for it may have to be rebuilt first.
    for (lost, hosts) in [(None, "abc"), (Some("b"), "adc"), (None, "cab")] {
        for (damage, word) in damages {
            let cluster = two_checkpoints(IDENTITY);
            lost.into_iter().for_each(|host| cluster.lose(host));
            let path = cluster.prefix().join(SHARED);
            damage(&path);
            let (report, _) = restart(&cluster, hosts, "");
            assert_eq!(offered_ids(&report), [1], "{word}: {report:?}");
            let withheld = &report.withheld[0];
            assert_eq!(withheld.reason, format!("{} {word}", path.display()));
            assert!((withheld.id, withheld.spoiled, withheld.deleted) == (2, true, false));
        }
    }
}

#[test]
fn one_that_comes_back_is_offered_again() {
    let cluster = two_checkpoints(IDENTITY);
    let (path, aside) = (cluster.prefix().join(SHARED), cluster.prefix().join("aside"));
    fs::rename(&path, &aside).unwrap();
    assert_eq!(offered_ids(&restart(&cluster, "abc", "").0), [1]);
    fs::rename(&aside, &path).unwrap();
    assert_eq!(offered_ids(&restart(&cluster, "abc", "").0), [1, 2]);
}

#[test]
fn what_proves_nothing_takes_nothing_out() {
    let cluster = two_checkpoints(IDENTITY);
    let (path, log) = (cluster.prefix().join(SHARED), cluster.prefix().join(LOG));
    fs::write(&log, "begun anew").unwrap();
    assert_eq!(offered_ids(&restart(&cluster, "abc", "").0), [1, 2], "each has that name");
    fs::remove_file(&log).unwrap();
    assert_eq!(offered_ids(&restart(&cluster, "abc", "").0), [1, 2], "each has that name");
    fs::write(&path, "longer than what was there").unwrap();
    set_time(&path, 60);
    let (report, rewritten) = restart(&cluster, "abc", "");
    assert_eq!(offered_ids(&report), [1, 2], "the content is not known");
    assert_eq!(rewritten, [(2, SHARED.to_owned())]);
    fs::remove_file(&path).unwrap();
    assert_eq!(offered_ids(&restart(&cluster, "abc", SHARED).0), [1, 2], "no pattern matches it");
}

#[test]
fn half_of_a_newer_generation_in_place_takes_the_older_one_out() {
    let cluster = Cluster::new();
    cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let own = format!("rank_{}", ctx.world.rank());
        seal(ctx, &plain(1), 1, &[&own], &["all.cpt"]);
    });
    let path = cluster.prefix().join("all.cpt");
    set_time(&path, 60);
    let (report, rewritten) = restart(&cluster, "ab", "");
    assert_eq!((offered_ids(&report), rewritten), (vec![1], vec![(1, "all.cpt".to_owned())]));
    fs::write(&path, "").unwrap();
    let (report, _) = restart(&cluster, "ab", "");
    assert!(report.offered.is_empty() && report.withheld[0].spoiled, "{report:?}");
}

#[test]
fn of_a_dataset_that_only_the_prefix_has_the_program_finds_what_is_there() {
    let cluster = Cluster::new();
    cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let own = format!("ckpt/10/rank_{}", ctx.world.rank());
        seal(ctx, &key(10), 1, &[], &[&own]);
    });
    fs::remove_file(cluster.prefix().join("ckpt/10/rank_0")).unwrap();
    assert_eq!(offered_ids(&restart(&cluster, "ab", "").0), [1]);
}

#[test]
fn the_records_of_one_that_only_the_prefix_has_are_protected_too() {
    let cluster = Cluster::new();
    cluster.launch("abc").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let own = format!("ckpt/10/rank_{}", ctx.world.rank());
        seal(ctx, &key(10), 1, &[], &[&own]);
    });
    cluster.lose("b");
    let (report, _) = restart(&cluster, "adc", "");
    assert_eq!(offered_ids(&report), [1]);
    assert!((0..3).all(|rank| report.offered[0].has(&format!("ckpt/10/rank_{rank}"))));
}

#[test]
fn what_may_not_be_complete_hides_nothing_newer_on_the_prefix() {
    for (confirmed, again, offered) in
        [(false, false, vec![]), (true, false, vec![1]), (false, true, vec![1, 2])]
    {
        let cluster = Cluster::new();
        cluster.launch("ab").run(|ctx| {
            cache::rebuild(ctx, IDENTITY).unwrap();
            let own = format!("ckpt/10/rank_{}", ctx.world.rank());
            seal_as(ctx, &key(10), 1, (&[&own], &[]), confirmed);
            if again {
                // A complete one has what is newer, and rests on the rest.
                let files: &[&str] = if ctx.world.rank() == 1 { &[&own] } else { &[] };
                seal(ctx, &RecordKey { generation: 1, ..key(10) }, 2, files, &[]);
            }
        });
        let path = cluster.prefix().join("ckpt/10/rank_1");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "older").unwrap();
        File::options()
            .append(true)
            .open(&path)
            .unwrap()
            .set_modified(SystemTime::UNIX_EPOCH)
            .unwrap();
        let all = if again { vec![1, 2] } else { vec![1] };
        assert_eq!(offered_ids(&restart(&cluster, "ab", "").0), all, "it is an older one");
        set_time(&path, 60);
        let (report, _) = restart(&cluster, "ab", "");
        assert_eq!(offered_ids(&report), offered, "{report:?}");
        let reason = "is newer than what the cache has, which may not be complete";
        assert!(report.withheld.iter().all(|one| !one.spoiled && one.reason.ends_with(reason)));
    }
}

#[test]
fn another_number_of_ranks_gets_no_half_either() {
    let identity = |ranks: usize| format!("/p | {ranks} | ckpt=a/{{id}} | b");
    let cluster = two_checkpoints(&identity(3));
    fs::remove_file(cluster.prefix().join(SHARED)).unwrap();
    let outcome = cluster
        .launch("ac")
        .run(|ctx| publish_other_size(ctx, &identity(2), &|| ()).unwrap().unwrap());
    let found = outcome.results.into_iter().flatten().next().unwrap();
    assert_eq!(found.published.iter().map(|one| one.0).collect::<Vec<_>>(), [1]);
    assert_eq!(found.withheld.iter().map(|one| one.0).collect::<Vec<_>>(), [2]);
    assert!(!found.dropped && !cluster.prefix().join("ckpt/20/rank_0").exists());
}
