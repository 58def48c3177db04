//! Restarts with another number of ranks: what the cache holds is on the prefix before it goes.

use std::fs;

use scr_core::cache::{self, Takeover};
use scr_core::error::Error;
use scr_core::kvtree::KvTree;
use scr_core::records::DatasetKey;
use scr_core::transfer::{Check, flush_sync, list_prefix, publish_other_size, verify_on_prefix};

use super::cluster::{Cluster, check_files, key, offered_ids, seal_files};
use super::job::Dataset;

fn identity(ranks: usize) -> String {
    format!("/p | {ranks} | ckpt=a/{{id}} | b")
}

fn dataset(id: u64, scheme: (&'static str, usize), store: &'static str, ranks: usize) -> Dataset {
    let sizes = (0..ranks).map(|rank| vec![1000 * rank, 3000 + rank]).collect();
    Dataset { id, scheme, set_size: 8, group: "NODE", store, sizes }
}

fn run(cluster: &Cluster, placement: &str, datasets: &[Dataset]) {
    cluster.launch(placement).run(|ctx| {
        cache::rebuild(ctx, &identity(placement.len())).unwrap();
        datasets.iter().for_each(|dataset| dataset.write(ctx).unwrap());
    });
}

/// Restarts; gives what was published, what could not be had, and whether the cache is gone.
fn restart(cluster: &Cluster, placement: &str) -> (Vec<u64>, Vec<u64>, bool) {
    let outcome = cluster.launch(placement).run(|ctx| {
        let identity = identity(placement.len());
        let found = publish_other_size(ctx, &identity, &|| ()).unwrap().unwrap();
        let report = cache::rebuild(ctx, &identity).unwrap();
        assert_eq!(report.takeover == Takeover::Fresh, found.dropped, "{report:?}");
        found
    });
    let all: Vec<_> = outcome.results.into_iter().map(Option::unwrap).collect();
    assert!(all.windows(2).all(|two| two[0] == two[1]), "{all:?}");
    let published = all[0].published.iter().map(|one| one.0).collect();
    (published, all[0].withheld.iter().map(|one| one.0).collect(), all[0].dropped)
}

#[test]
fn more_and_fewer_ranks_find_everything_on_the_prefix_although_a_node_was_lost() {
    for placement in ["aacc", "aaaaccccdddd", "c", "adcadca"] {
        let cluster = Cluster::with_more_stores();
        let all = [
            dataset(1, ("XOR", 1), "ram", 6),
            dataset(2, ("PARTNER", 1), "ssd", 6),
            dataset(3, ("SINGLE", 0), "bb", 6),
        ];
        run(&cluster, "aabbcc", &all);
        cluster.lose("b");
        // On c alone XOR and PARTNER have lost more than they bear; the common store has the last.
        let expected = if placement == "c" {
            (vec![3], vec![1, 2], true)
        } else {
            (vec![1, 2, 3], vec![], true)
        };
        assert_eq!(restart(&cluster, placement), expected, "{placement}");
        for one in all.iter().filter(|one| expected.0.contains(&one.id)) {
            (0..6).for_each(|rank| check_files(&cluster.prefix(), &one.content(rank)));
        }
        assert!(!cluster.prefix().join(".scr/takeover").exists());
        for host in placement.chars() {
            assert!(cluster.datasets(&host.to_string()).is_empty());
        }
    }
}

#[test]
fn what_cannot_be_had_by_this_launch_stays() {
    let cluster = Cluster::new();
    let all = [dataset(1, ("XOR", 1), "ram", 3), dataset(2, ("SINGLE", 0), "ram", 3)];
    run(&cluster, "abc", &all);
    // Node c is not used: the newest dataset is not whole, but it may be for a later launch.
    assert_eq!(restart(&cluster, "ab"), (vec![1], vec![2], false));
    let outcome = cluster.launch("abc").run(|ctx| {
        assert_eq!(publish_other_size(ctx, &identity(3), &|| ()).unwrap(), None);
        cache::rebuild(ctx, &identity(3)).unwrap()
    });
    assert_eq!(offered_ids(outcome.results[0].as_ref().unwrap()), [1, 2]);
}

#[test]
fn an_older_generation_is_not_published_over_the_newest() {
    let cluster = Cluster::new();
    cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, &identity(2)).unwrap();
        for id in [8, 9] {
            let key = DatasetKey { series: "state".into(), id: String::new(), generation: id };
            seal_files(ctx, &key, id, &[("state.cpt", &format!("content of {id}"))]);
            flush_sync(ctx, id, &|_| false).unwrap();
        }
    });
    assert_eq!(restart(&cluster, "aab"), (vec![], vec![], true));
    let state = fs::read_to_string(cluster.prefix().join("state.cpt")).unwrap();
    let listed = list_prefix(&cluster.prefix()).unwrap();
    let told: Vec<_> = listed.iter().map(|one| (one.id, one.restorable, one.current)).collect();
    assert_eq!((&*state, &*told), ("content of 9", &[(9, true, true), (8, false, false)][..]));
}

#[test]
fn an_older_dataset_leaves_the_pointer_file_to_the_newer_one() {
    let cluster = Cluster::new();
    cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, &identity(2)).unwrap();
        for id in [19, 20] {
            let (data, text) = (format!("ckpt/{id}"), id.to_string());
            seal_files(ctx, &key(id), id, &[(&data, &text), ("latest", &text)]);
        }
        flush_sync(ctx, 20, &|_| false).unwrap();
    });
    assert_eq!(restart(&cluster, "aab"), (vec![19], vec![], true));
    let content = |name: &str| fs::read_to_string(cluster.prefix().join(name)).unwrap();
    assert_eq!([content("latest"), content("ckpt/19"), content("ckpt/20")], ["20", "19", "20"]);
    cluster.launch("aab").run(|ctx| {
        for id in [19, 20] {
            let found = verify_on_prefix(ctx, id, Check::Contents).unwrap();
            assert_eq!((found.fault, found.gone), (None, false), "{id}");
        }
    });
}

#[test]
fn a_cache_that_cannot_be_read_stays() {
    // On one node, and on all of them.
    for damaged in ["a", "ab"] {
        let cluster = Cluster::new();
        run(&cluster, "ab", &[dataset(1, ("PARTNER", 1), "ram", 2)]);
        for host in damaged.chars() {
            let control = cluster.layout(&host.to_string()).control_dir;
            fs::write(control.join("filemap_0.scrinfo"), [0xff; 40]).unwrap();
        }
        let outcome = cluster
            .launch("aab")
            .run(|ctx| publish_other_size(ctx, &identity(3), &|| ()).unwrap().unwrap());
        let found = outcome.results[0].as_ref().unwrap();
        assert!(!found.dropped, "{found:?}");
        assert_eq!((cluster.datasets("a"), cluster.datasets("b")), {
            let both = vec!["scr.dataset.1".to_owned()];
            (both.clone(), both)
        });
    }
}

#[test]
fn a_cache_of_several_runs_is_not_dropped() {
    let cluster = Cluster::with_more_stores();
    run(&cluster, "ab", &[dataset(1, ("PARTNER", 1), "ram", 2)]);
    // The shared store tells of one run, the node of another.
    let (control, shared) = (cluster.layout("a").control_dir, &cluster.layout("a").stores[2]);
    let text = fs::read(control.join("launch.scr")).unwrap();
    fs::write(shared.cache_dir.join("launch.scr"), text).unwrap();
    for host in ["a", "b"] {
        let mut tree = KvTree::new();
        tree.set_value("VERSION", 1);
        tree.set_value("IDENTITY", "another");
        tree.write_file(cluster.layout(host).control_dir.join("launch.scr")).unwrap();
    }
    cluster.launch("aab").run(|ctx| {
        let found = publish_other_size(ctx, &identity(3), &|| ());
        let text = found.unwrap_err().to_string();
        assert!(text.contains("several runs"), "{text}");
    });
    assert!(cluster.datasets("a").contains(&"scr.dataset.1".to_owned()));
}

#[test]
fn what_a_killed_takeover_has_copied_goes_at_the_next_start() {
    let cluster = Cluster::new();
    let copy = cluster.prefix().join(".scr/takeover/node.0");
    fs::create_dir_all(&copy).unwrap();
    cluster.launch("ab").run(|ctx| {
        assert_eq!(publish_other_size(ctx, &identity(2), &|| ()).unwrap(), None);
        ctx.world.barrier().unwrap();
        assert!(!copy.exists());
    });
}

#[test]
fn a_rank_that_is_played_and_panics_is_an_error_of_all() {
    let cluster = Cluster::new();
    run(&cluster, "ab", &[dataset(1, ("PARTNER", 1), "ram", 2)]);
    let outcome = cluster.launch("aab").run(|ctx| {
        let found = publish_other_size(ctx, &identity(3), &|| panic!("a defect"));
        matches!(found, Err(Error::Other(_)))
    });
    assert_eq!(outcome.results, [Some(true); 3]);
    assert_eq!(cluster.datasets("a").len(), 1);
}
