//! Restarts after losses, on the same and on other nodes.

use std::fs;

use scr_core::cache::{self, Takeover};
use scr_core::system::Lanes;
use scr_core::transfer::{Check, flush_shares, verify_on_prefix};

use super::cluster::{
    Cluster, IDENTITY, check_files, checkpoint, content, key, offered_ids, prepare, run_and_seal,
    write_files,
};

const ALL: [&str; 4] = ["SINGLE", "PARTNER", "XOR", "RS2"];

#[test]
fn killed_processes_lose_nothing() {
    for scheme in ALL {
        let cluster = Cluster::new();
        run_and_seal(&cluster, "aabbcc", &[1, 2], scheme);
        let report = cluster.restart("aabbcc");
        assert_eq!(offered_ids(&report), [1, 2], "{scheme}");
        assert_eq!((report.takeover, report.highest_id), (Takeover::Ours, 2));
        let newest = &report.offered[1];
        assert!(newest.rebuilt.is_empty() && newest.moved.is_empty() && !newest.reencoded);
        assert!(newest.confirmed && newest.key == key(20));
    }
}

#[test]
fn a_lost_node_is_rebuilt_on_a_spare() {
    for scheme in ["PARTNER", "XOR", "RS2"] {
        for lost in ["a", "b", "c", "d"] {
            let cluster = Cluster::new();
            run_and_seal(&cluster, "aabbccdd", &[1, 2], scheme);
            cluster.lose(lost);
            let report = cluster.restart(&"aabbccdd".replace(lost, "e"));
            assert_eq!(offered_ids(&report), [1, 2], "{scheme}, node {lost}: {report:?}");
            let first = "abcd".find(lost).unwrap() * 2;
            assert_eq!(report.offered[1].rebuilt, [first, first + 1]);
            // The spare is as good as the old node: another one may die now.
            let next = if lost == "a" { "b" } else { "a" };
            cluster.lose(next);
            let report = cluster.restart(&"aabbccdd".replace(lost, "e").replace(next, "f"));
            assert_eq!(offered_ids(&report), [1, 2], "{scheme}: {report:?}");
        }
    }
}

#[test]
fn reed_solomon_survives_as_many_nodes_of_a_set_as_it_was_told_and_no_more() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "aabbccdd", &[1, 2], "RS2");
    cluster.lose("a");
    cluster.lose("c");
    let report = cluster.restart("eebbffdd");
    assert_eq!(offered_ids(&report), [1, 2], "{report:?}");
    assert_eq!(report.offered[1].rebuilt, [0, 1, 4, 5]);
    assert_eq!(report.offered[1].scheme, "RS");
    // Protected as before: two others may die right away.
    cluster.lose("b");
    cluster.lose("e");
    let report = cluster.restart("gghhffdd");
    assert_eq!(offered_ids(&report), [1, 2], "{report:?}");
    assert_eq!(report.offered[1].rebuilt, [0, 1, 2, 3]);
    ["d", "f", "g"].into_iter().for_each(|node| cluster.lose(node));
    let report = cluster.restart("iihhjjkk");
    assert!(report.offered.is_empty(), "{report:?}");
    let why = &report.withheld[0].reason;
    assert!(why.contains("one RS set of 4 lost files; it can restore 2"), "{why}");
}

#[test]
fn single_cannot_replace_a_node_and_says_so() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "aabb", &[1], "SINGLE");
    cluster.lose("b");
    let report = cluster.restart("aacc");
    assert!(report.offered.is_empty());
    let why = &report.withheld[0].reason;
    assert_eq!(why, "the files of ranks 2, 3 are lost and SINGLE keeps no copy on other nodes");
}

#[test]
fn ranks_that_moved_get_their_files() {
    for scheme in ALL {
        for hosts in ["bbaadd", "cbabac", "abcabc", "aaabbb", "bcdbcd"] {
            let cluster = Cluster::new();
            run_and_seal(&cluster, "aabbccd", &[1, 2], scheme);
            let hosts = format!("{hosts}d");
            let gone: Vec<char> = "abcd".chars().filter(|host| !hosts.contains(*host)).collect();
            let report = cluster.restart(&hosts);
            if gone.len() > usize::from(scheme != "SINGLE") {
                continue; // More is lost than the scheme bears; what counts is that it ends.
            }
            assert_eq!(offered_ids(&report), [1, 2], "{scheme} on {hosts}: {report:?}");
            assert!(report.offered.iter().all(|offered| offered.unprotected.is_none()));
            assert_eq!(offered_ids(&cluster.restart(&hosts)), [1, 2]);
        }
    }
}

/// What this rank gets on this node has no room, as with a full cache.
fn fill(cluster: &Cluster, host: &str, rank: usize) {
    let own = cluster.layout(host).dataset_dir("ram", 1).join(".scr");
    fs::create_dir_all(&own).unwrap();
    std::os::unix::fs::symlink("/dev/full", own.join(format!("incoming.{rank}"))).unwrap();
}

#[test]
fn what_no_node_has_room_to_move_is_published_from_where_it_is() {
    for (lost, hosts) in [("", "cba"), ("b", "cda")] {
        let cluster = Cluster::new();
        // Rank 1 has no files, but a record.
        run_and_seal(&cluster, "abc", &[1], "SINGLE");
        fill(&cluster, "c", 0);
        fill(&cluster, "a", 2);
        if !lost.is_empty() {
            cluster.lose(lost);
        }
        cluster.launch(hosts).run(|ctx| {
            let report = cache::rebuild(ctx, IDENTITY).unwrap();
            let stranded = report.withheld[0].stranded.as_ref();
            assert_eq!(stranded.is_some(), lost.is_empty(), "{report:?}");
            let Some(stranded) = stranded else { return };
            assert!(stranded.why.contains("No space left"), "{}", stranded.why);
            let shares = &stranded.shares;
            flush_shares(ctx, shares, 3, &|_| false, Lanes::of(1)).unwrap();
            (0..3).for_each(|rank| check_files(ctx.prefix, &content(10, rank)));
            let found = verify_on_prefix(ctx, 1, Check::Contents).unwrap();
            assert_eq!((found.fault, found.names.len()), (None, 3));
        });
        if lost.is_empty() {
            assert_eq!(offered_ids(&cluster.restart("abc")), [1], "nothing has gone for it");
        }
    }
}

#[test]
fn nodes_without_room_for_a_move_say_so_and_keep_what_they_have() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "ab", &[1], "SINGLE");
    fill(&cluster, "b", 0);
    let report = cluster.restart("ba");
    let reason = &report.withheld[0].reason;
    for part in ["rank 0 cannot have its files on b", "No space left", "make room there"] {
        assert!(reason.contains(part), "{reason}");
    }
    assert_eq!(offered_ids(&cluster.restart("ab")), [1]);
}

#[test]
fn more_nodes_fewer_ranks_on_each() {
    for scheme in ALL {
        let cluster = Cluster::new();
        run_and_seal(&cluster, "aaaabbbb", &[1], scheme);
        let report = cluster.restart("aabbccdd");
        assert_eq!(offered_ids(&report), [1], "{scheme}: {report:?}");
        // Nothing of those who left stays behind.
        let left = cluster.layout("a").dataset_dir("ram", 1);
        assert!(!left.join("ckpt/10/rank_2.dat").exists());
    }
}

#[test]
fn after_a_move_the_sets_span_the_new_nodes() {
    for scheme in ["PARTNER", "XOR"] {
        let cluster = Cluster::new();
        run_and_seal(&cluster, "abcdabcd", &[1], scheme);
        // Sets were {0,1,2,3} and {4,5,6,7}; now 0 and 1 share a node.
        let report = cluster.restart("aabbccdd");
        assert_eq!(offered_ids(&report), [1]);
        assert!(report.offered[0].reencoded);
        cluster.lose("a");
        let report = cluster.restart("eebbccdd");
        assert_eq!(report.offered[0].rebuilt, [0, 1], "{scheme}: {report:?}");
    }
}

#[test]
fn a_moved_rank_and_a_lost_node_at_once() {
    for scheme in ["PARTNER", "XOR"] {
        let cluster = Cluster::new();
        run_and_seal(&cluster, "aabbcc", &[1], scheme);
        cluster.lose("b");
        let report = cluster.restart("cdaadc");
        assert_eq!(offered_ids(&report), [1], "{scheme}: {report:?}");
        assert_eq!(report.offered[0].rebuilt, [2, 3]);
        assert_eq!(report.offered[0].moved, [0, 1, 4]);
    }
}

#[test]
fn a_damaged_file_is_rebuilt_and_a_damaged_filemap_costs_one_rank() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "abc", &[1], "XOR");
    let file = cluster.layout("a").dataset_dir("ram", 1).join("ckpt/10/rank_0.dat");
    let mut bytes = fs::read(&file).unwrap();
    bytes[500] ^= 1;
    fs::write(&file, bytes).unwrap();
    let report = cluster.restart("abc");
    assert_eq!(report.offered[0].rebuilt, [0]);

    let filemap = cluster.layout("c").control_dir.join("filemap_0.scrinfo");
    let mut bytes = fs::read(&filemap).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&filemap, bytes).unwrap();
    let report = cluster.restart("abc");
    assert_eq!(report.offered[0].rebuilt, [2]);
    assert!(report.damaged[0].ends_with("filemap_0.scrinfo on c"), "{:?}", report.damaged);
}

#[test]
fn what_exceeds_the_scheme_waits_for_its_node() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "abcd", &[1, 2], "XOR");
    cluster.unplug("b");
    cluster.unplug("c");
    let report = cluster.restart("aefd");
    assert!(report.offered.is_empty());
    assert_eq!(report.highest_id, 2);
    let withheld = &report.withheld[1];
    assert!(!withheld.deleted);
    assert_eq!(
        withheld.reason,
        "dataset 2: ranks 1, 2 of one XOR set of 4 lost files; it can restore one"
    );
    cluster.plug_in("b");
    let report = cluster.restart("abfd");
    assert_eq!(offered_ids(&report), [1, 2], "{report:?}");
}

#[test]
fn a_provisional_dataset_needs_all_its_nodes() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "aabbcc", &[1], "XOR");
    cluster.launch("aabbcc").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        checkpoint(ctx, 2, "XOR", false).unwrap();
    });
    cluster.lose("b");
    let report = cluster.restart("aaddcc");
    assert_eq!(offered_ids(&report), [1]);
    assert!(report.withheld[0].reason.contains("ranks 2, 3"), "{:?}", report.withheld);
}

#[test]
fn a_provisional_dataset_that_a_restart_has_offered_counts_from_then_on() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "aabbcc", &[1], "XOR");
    cluster.launch("aabbcc").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        checkpoint(ctx, 2, "XOR", false).unwrap();
    });
    let report = cluster.restart("aabbcc");
    assert_eq!(offered_ids(&report), [1, 2]);
    assert!(!report.offered[1].confirmed);
    // The program may have gone on from it, and deleted what is older.
    cluster.lose("b");
    assert_eq!(offered_ids(&cluster.restart("aaddcc")), [1, 2]);
}

#[test]
fn a_revoked_dataset_is_gone_and_so_is_one_that_was_never_sealed() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "aabb", &[1], "PARTNER");
    cluster.launch("aabb").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        checkpoint(ctx, 2, "PARTNER", false).unwrap();
        if ctx.world.rank() == 2 {
            ctx.filemap.revoke(&key(20)).unwrap();
        }
        write_files(ctx, 30);
    });
    assert!(cluster.datasets("a").contains(&"scr.open.ckpt.30.0".to_string()));
    let report = cluster.restart("aabb");
    assert_eq!(offered_ids(&report), [1]);
    let mut why: Vec<_> = report.withheld.iter().map(|w| (w.id, w.reason.as_str())).collect();
    why.sort_unstable();
    let expected = [(0, "it was still being written"), (2, "it was not sealed on all ranks")];
    assert_eq!(why, expected);
    assert_eq!(cluster.datasets("a"), ["scr.dataset.1"]);
}

#[test]
fn an_amended_dataset_is_sealed_again() {
    let cluster = Cluster::new();
    cluster.launch("aabb").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        checkpoint(ctx, 1, "PARTNER", false).unwrap();
        ctx.filemap.revoke(&key(10)).unwrap();
        let prepared = prepare(ctx, 10, 1, 0x77, "PARTNER").unwrap();
        cache::commit(ctx, &prepared, true).unwrap();
    });
    cluster.lose("b");
    let report = cluster.restart("aacc");
    assert_eq!((offered_ids(&report), report.offered[0].epoch), (vec![1], 0x77));
}

#[test]
fn between_prepare_and_rename_the_next_start_finishes() {
    let cluster = Cluster::new();
    cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        write_files(ctx, 10);
        let prepared = prepare(ctx, 10, 1, 5, "PARTNER").unwrap();
        if ctx.world.rank() == 0 {
            fs::rename(prepared.dir, prepared.sealed_dir).unwrap();
        }
    });
    assert_eq!(cluster.datasets("b"), ["scr.open.ckpt.10.0"]);
    assert_eq!(offered_ids(&cluster.restart("ab")), [1]);
    assert_eq!(cluster.datasets("b"), ["scr.dataset.1"]);
}

#[test]
fn evicted_is_gone_from_all_nodes() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "aabb", &[1, 2], "XOR");
    cluster.launch("aabb").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        cache::evict(ctx, 1).unwrap();
        assert!(ctx.filemap.get_id(1).is_none());
    });
    assert_eq!(cluster.datasets("b"), ["scr.dataset.2"]);
    let report = cluster.restart("aabb");
    assert_eq!((offered_ids(&report), report.withheld.len()), (vec![2], 0));
}

#[test]
fn another_launch_leaves_the_cache_alone() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "ab", &[1], "PARTNER");
    let outcome = cluster.launch("a").run(|ctx| cache::rebuild(ctx, "another").unwrap());
    let report = outcome.results[0].as_ref().unwrap();
    assert_eq!(report.takeover, Takeover::Foreign { hosts: vec!["a".into()] });
    assert_eq!(offered_ids(&cluster.restart("ab")), [1]);
    cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        cache::finish(ctx).unwrap();
    });
    assert!(cluster.datasets("a").is_empty());
    let outcome = cluster.launch("a").run(|ctx| cache::rebuild(ctx, "another").unwrap());
    assert_eq!(outcome.results[0].as_ref().unwrap().takeover, Takeover::Fresh);
}

#[test]
fn an_empty_cache_keeps_nobody_out() {
    let cluster = Cluster::new();
    cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, "another").unwrap();
        write_files(ctx, 10);
    });
    let report = cluster.restart("ab");
    assert_eq!((report.takeover, report.withheld.len()), (Takeover::Fresh, 0));
    assert!(cluster.datasets("a").is_empty());
}

#[test]
fn a_damaged_tag_among_good_ones_is_replaced() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "ab", &[1], "PARTNER");
    fs::write(cluster.layout("a").control_dir.join("launch.scr"), "rubbish").unwrap();
    let report = cluster.restart("ab");
    assert_eq!((offered_ids(&report), report.takeover), (vec![1], Takeover::Ours));
    for host in ["a", "b"] {
        fs::write(cluster.layout(host).control_dir.join("launch.scr"), "rubbish").unwrap();
    }
    let report = cluster.restart("ab");
    assert_eq!(report.takeover, Takeover::Foreign { hosts: vec!["a".into(), "b".into()] });
}

#[test]
fn an_interrupted_scatter_is_repeated() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "aabb", &[1], "PARTNER");
    // The merged file is there, one filemap is replaced, another not, and one is gone.
    let control = cluster.layout("a").control_dir;
    let merged = control.join("filemap_merged.scrinfo");
    cluster.launch("aabb").kill(2, 0).run(|_| ());
    fs::copy(control.join("filemap_1.scrinfo"), &merged).unwrap();
    fs::rename(control.join("filemap_1.scrinfo"), control.join("filemap_7.scrinfo")).unwrap();
    let report = cluster.restart("aabb");
    assert!(report.offered[0].rebuilt.is_empty(), "{report:?}");
    assert!(!merged.exists() && !control.join("filemap_7.scrinfo").exists());
}

#[test]
fn an_interrupted_eviction_leaves_a_dataset_that_is_rebuilt_or_forgotten() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "aabb", &[1, 2], "PARTNER");
    // Node a's data is gone, its records are not.
    fs::remove_dir_all(cluster.layout("a").dataset_dir("ram", 1)).unwrap();
    let report = cluster.restart("aabb");
    assert_eq!((offered_ids(&report), &report.offered[0].rebuilt[..]), (vec![1, 2], &[0][..]));
    for host in ["a", "b"] {
        fs::remove_dir_all(cluster.layout(host).dataset_dir("ram", 1)).unwrap();
    }
    let report = cluster.restart("aabb");
    assert_eq!((offered_ids(&report), report.withheld.len()), (vec![2], 0));
    // Without a newer one it was no eviction.
    for host in ["a", "b"] {
        fs::remove_dir_all(cluster.layout(host).dataset_dir("ram", 2)).unwrap();
    }
    let report = cluster.restart("aabb");
    assert_eq!((offered_ids(&report), report.withheld.len()), (vec![], 1));
}

#[test]
fn small_files_of_other_nodes_are_everywhere_after_a_restart() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "abc", &[1], "XOR");
    let outcome = cluster.launch("abc").run(|ctx| {
        let report = cache::rebuild(ctx, IDENTITY).unwrap();
        let names = cache::replicate_small(ctx, &report.offered[0]).unwrap();
        for rank in 0..3 {
            let expected = super::cluster::content(10, rank);
            super::cluster::check_files(&report.offered[0].dir, &expected);
        }
        names
    });
    assert_eq!(outcome.results[0].as_ref().unwrap().len(), 2);
    // They are nobody's files: the next restart is as the first.
    assert_eq!(offered_ids(&cluster.restart("cba")), [1]);
}

#[test]
fn a_node_with_an_old_cache_changes_nothing() {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "aabbcc", &[1, 2], "XOR");
    cluster.unplug("b");
    cluster.launch("aaddcc").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        checkpoint(ctx, 3, "XOR", true).unwrap();
        cache::evict(ctx, 1).unwrap();
    });
    cluster.plug_in("b");
    let report = cluster.restart("aabbcc");
    assert_eq!(report.offered.last().unwrap().id, 3, "{report:?}");
    assert!(!offered_ids(&report).contains(&1));
}

#[test]
fn what_a_node_brings_back_under_the_same_id_does_not_take_the_good_one_along() {
    let cluster = Cluster::new();
    let launch = |hosts: &str, epoch: u64, confirmed: bool| {
        cluster.launch(hosts).run(|ctx| {
            cache::rebuild(ctx, IDENTITY).unwrap();
            write_files(ctx, 10);
            let prepared = prepare(ctx, 10, 1, epoch, "SINGLE").unwrap();
            cache::commit(ctx, &prepared, confirmed).unwrap();
        });
    };
    // Its epoch is the larger one, so that it comes later in any order by epoch.
    launch("abcc", 0xee, false);
    cluster.lose("a");
    cluster.lose("b");
    cluster.unplug("c");
    launch("abdd", 0xe1, true);
    cluster.plug_in("c");
    // Rank 3 runs where ranks 2 and 3 of the old seal were.
    let report = cluster.restart("abdc");
    assert_eq!((offered_ids(&report), report.offered[0].epoch), (vec![1], 0xe1), "{report:?}");
    let report = cluster.restart("abdc");
    assert_eq!(offered_ids(&report), [1], "{report:?}");
}

#[test]
fn an_open_directory_of_another_seal_keeps_its_name() {
    let cluster = Cluster::new();
    cluster.launch("abcc").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        write_files(ctx, 10);
        // A kill comes before the rename.
        prepare(ctx, 10, 2, 0xe2, "SINGLE").unwrap();
    });
    cluster.lose("a");
    cluster.lose("b");
    cluster.unplug("c");
    cluster.launch("abdd").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        write_files(ctx, 10);
        let prepared = prepare(ctx, 10, 1, 0xe1, "SINGLE").unwrap();
        cache::commit(ctx, &prepared, true).unwrap();
    });
    cluster.plug_in("c");
    let report = cluster.restart("abdc");
    assert_eq!((offered_ids(&report), report.withheld[0].id), (vec![1], 2), "{report:?}");
    let files = content(10, 2);
    check_files(&cluster.layout("c").open_dir("ram", &key(10)), &files);
    assert!(
        files.keys().all(|name| !cluster.layout("c").dataset_dir("ram", 1).join(name).exists())
    );
}
