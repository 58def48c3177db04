//! Datasets of the prefix into the cache.

use std::fs;
use std::os::unix::fs::symlink;

use scr_core::cache::{self, Ctx, Offered};
use scr_core::transfer::{self, FetchStore, Fetched, Options, fetch, list_prefix};

use super::cluster::{Cluster, IDENTITY, check, check_files, content, descriptor, run_and_seal};
use super::flush::files_below;

/// A prefix that has dataset 1, and nodes that have nothing.
fn flushed(hosts: &str, scheme: &str) -> Cluster {
    let cluster = Cluster::new();
    run_and_seal(&cluster, hosts, &[1], scheme);
    cluster.launch(hosts).run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        transfer::flush_sync(ctx, 1, &|_| false).unwrap();
    });
    cluster
}

fn lose_all(cluster: &Cluster, hosts: &str) {
    let mut gone: Vec<char> = hosts.chars().collect();
    gone.dedup();
    gone.iter().for_each(|host| cluster.lose(&host.to_string()));
}

fn fetched(ctx: &Ctx, scheme: &str) -> Fetched {
    cache::rebuild(ctx, IDENTITY).unwrap();
    fetch(ctx, 1, FetchStore { name: "ram", capacity: u64::MAX }, &descriptor(scheme)).unwrap()
}

fn cached(ctx: &Ctx, scheme: &str) -> Offered {
    match fetched(ctx, scheme) {
        Fetched::Cached(offered) => *offered,
        other => panic!("{other:?}"),
    }
}

/// What all ranks say of a fetch that does not come to pass; nothing of it is in the cache.
fn refusal(cluster: &Cluster, hosts: &str) -> String {
    let outcome = cluster.launch(hosts).run(|ctx| match fetched(ctx, "XOR") {
        Fetched::InPlace(why) => why,
        Fetched::Fault(fault) => format!("fault: {fault}"),
        Fetched::Cached(offered) => panic!("{offered:?}"),
    });
    let said: Vec<String> = outcome.results.into_iter().flatten().collect();
    assert!(said.windows(2).all(|two| two[0] == two[1]), "{said:?}");
    hosts.chars().for_each(|host| assert!(cluster.datasets(&host.to_string()).is_empty()));
    said.into_iter().next().unwrap()
}

#[test]
fn the_capacity_that_the_user_gives_a_store_counts() {
    let cluster = flushed("abcd", "XOR");
    lose_all(&cluster, "abcd");
    let fetch_into = |capacity| {
        let outcome = cluster.launch("efgh").run(|ctx| {
            cache::rebuild(ctx, IDENTITY).unwrap();
            fetch(ctx, 1, FetchStore { name: "ram", capacity }, &descriptor("XOR")).unwrap()
        });
        outcome.results.into_iter().map(Option::unwrap).collect::<Vec<_>>()
    };
    // Rank 3 has 1411 bytes, and its share of the parity; the next checkpoint has to fit beside it.
    for said in fetch_into(3000) {
        assert!(matches!(&said, Fetched::InPlace(why) if why.contains("CAPACITY")), "{said:?}");
    }
    assert!(fetch_into(6000).iter().all(|said| matches!(said, Fetched::Cached(_))));
}

#[test]
fn what_is_fetched_survives_a_lost_node_without_the_prefix() {
    let cluster = flushed("aabcd", "XOR");
    lose_all(&cluster, "abcd");
    let narrow = Options { fetch_width: 2, ..Options::default() };
    cluster.launch("eafgh").transfer(narrow).run(|ctx| {
        let offered = cached(ctx, "XOR");
        check(ctx, &offered);
        assert!(offered.fetched && offered.confirmed && offered.scheme == "XOR");
    });
    fs::remove_dir_all(cluster.prefix().join("ckpt")).unwrap();
    cluster.lose("g");
    let report = cluster.restart("eafih");
    assert_eq!((report.offered.len(), &report.offered[0].rebuilt[..]), (1, &[3][..]));
}

#[test]
fn remains_in_the_cache_make_room_only_for_what_is_right() {
    let cluster = flushed("abc", "SINGLE");
    cluster.lose("b");
    let name = "ckpt/10/rank_0.dat";
    let right = fs::read(cluster.prefix().join(name)).unwrap();
    fs::write(cluster.prefix().join(name), vec![b'x'; right.len()]).unwrap();
    cluster.launch("abc").run(|ctx| match fetched(ctx, "SINGLE") {
        Fetched::Fault(fault) => assert!(fault.contains(name), "{fault}"),
        other => panic!("{other:?}"),
    });
    assert!(!list_prefix(&cluster.prefix()).unwrap()[0].restorable);
    assert_eq!(cluster.datasets("a"), ["scr.dataset.1"]);
    fs::write(cluster.prefix().join(name), right).unwrap();
    cluster.launch("abc").run(|ctx| check(ctx, &cached(ctx, "PARTNER")));
    cluster.lose("a");
    assert_eq!(cluster.restart("abc").offered[0].rebuilt, [0]);
}

#[test]
fn what_a_copy_would_not_show_as_it_is_stays_where_it_is() {
    let cluster = flushed("abc", "XOR");
    lose_all(&cluster, "abc");
    let name = cluster.prefix().join("ckpt/10/rank_2.dat");
    fs::rename(&name, cluster.prefix().join("elsewhere")).unwrap();
    symlink("../../elsewhere", &name).unwrap();
    assert!(refusal(&cluster, "abc").contains("rank_2.dat is a link"));
    assert!(refusal(&cluster, "abcd").contains("3 ranks wrote it"));
    assert!(list_prefix(&cluster.prefix()).unwrap()[0].restorable);
}

#[test]
fn a_pointer_file_of_a_newer_dataset_stays_where_it_is() {
    let cluster = flushed("ab", "PARTNER");
    cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        super::cluster::checkpoint(ctx, 2, "PARTNER", true).unwrap();
        transfer::flush_sync(ctx, 2, &|_| false).unwrap();
    });
    lose_all(&cluster, "ab");
    // As if both had a file of this name, and the newer one's content were there.
    let summary = cluster.prefix().join(".scr/scr.dataset.2/summary.scr");
    let name = "ckpt/10/rank_0.dat";
    fs::copy(cluster.prefix().join(".scr/scr.dataset.1/summary.scr"), summary).unwrap();
    let size = content(10, 0)[name].len();
    fs::write(cluster.prefix().join(name), vec![b'n'; size]).unwrap();
    cluster.launch("ab").run(|ctx| {
        let offered = cached(ctx, "PARTNER");
        if ctx.world.rank() == 0 {
            assert!(offered.files[0].on_prefix && !offered.dir.join(name).exists());
        }
    });
    assert_eq!(fs::read(cluster.prefix().join(name)).unwrap(), vec![b'n'; size]);
}

#[test]
fn a_kill_at_any_moment_leaves_what_the_next_start_can_use() {
    let cluster = flushed("abc", "XOR");
    lose_all(&cluster, "abc");
    let calls = cluster.launch("abc").run(|ctx| drop(cached(ctx, "XOR"))).calls[1];
    for call in (0..calls).step_by(3) {
        lose_all(&cluster, "abc");
        cluster.launch("abc").kill(1, call).run(|ctx| {
            if cache::rebuild(ctx, IDENTITY).is_ok() {
                let _ = fetch(
                    ctx,
                    1,
                    FetchStore { name: "ram", capacity: u64::MAX },
                    &descriptor("XOR"),
                );
            }
        });
        let again = cluster.launch("abc").run(|ctx| {
            let report = cache::rebuild(ctx, IDENTITY).unwrap();
            match report.offered.into_iter().next() {
                Some(offered) => check(ctx, &offered),
                None => check(ctx, &cached(ctx, "XOR")),
            }
        });
        assert_eq!(again.results.iter().flatten().count(), 3, "call {call}");
        assert_eq!(cluster.datasets("a"), ["scr.dataset.1"]);
    }
    check_files(&cluster.prefix(), &content(10, 0));
    assert_eq!(files_below(&cluster.prefix().join("ckpt")).len(), 3);
}
