//! Restarts with another number of ranks: what the cache holds is on the prefix before it goes.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use scr_core::cache::{self, Ctx, FilemapFile, Protect, SealRequest, Sharing, Takeover};
use scr_core::comm::solo::Solo;
use scr_core::comm::{Comm, threads};
use scr_core::error::{Error, Result};
use scr_core::kvtree::KvTree;
use scr_core::records::{FileMeta, RecordKey};
use scr_core::redundancy::{RedundancySet, Scheme, scheme_by_name};
use scr_core::transfer::{
    Check, Options, flush_sync, list_prefix, publish_other_size, verify_on_prefix,
};

use super::cluster::{Cluster, check_files, descriptor, key, offered_ids, seal_files};
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
            let key = RecordKey { series: "state".into(), id: String::new(), generation: id };
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

/// A dataset of so many ranks on the nodes a, b, c, ... in turns, each set of three on three nodes.
/// It is sealed set by set: a world of all of them would take long.
fn seal_in_sets(cluster: &Cluster, ranks: usize, nodes: usize) {
    let host = |rank: usize| char::from(b'a' + u8::try_from(rank * nodes / ranks).unwrap());
    for first in 0..ranks / 3 {
        let set = [first, first + ranks / 3, first + ranks / 3 * 2];
        let sealed = threads::run(set.len(), |comm| {
            let (rank, alone) = (set[comm.rank()], Solo::new());
            let layout = cluster.layout(&host(rank).to_string());
            fs::create_dir_all(&layout.control_dir).unwrap();
            let meet = || comm.barrier();
            let (sharing, ()) = Sharing::observe(&*comm, comm.rank(), &layout, 7, meet)?;
            let protection = OneSet { comm: &*comm, set: &set, world_size: ranks };
            let ctx = Ctx {
                world: &*comm,
                node: &alone,
                node_ranks: &[comm.rank()],
                leaders: Some(&*comm),
                host: "",
                layout: &layout,
                sharing: &sharing,
                filemap: &FilemapFile::new(&layout, rank, rank),
                prefix: &cluster.prefix(),
                protection: &protection,
                transfer: Options::default(),
            };
            let (name, content) = (format!("ckpt/{rank}"), format!("what rank {rank} wrote"));
            let dir = layout.dataset_dir("ram", 1);
            fs::create_dir_all(dir.join("ckpt")).unwrap();
            fs::write(dir.join(&name), content).unwrap();
            let (set, descriptor) = protection.choose(&descriptor("XOR"))?;
            let request = SealRequest {
                key: &key(10),
                id: 1,
                epoch: 0xe1,
                store: "ram",
                files: vec![FileMeta { name, ..FileMeta::default() }],
                tags: BTreeMap::new(),
                gone: BTreeMap::new(),
                set: &set,
                descriptor: &descriptor,
            };
            let prepared = cache::prepare(&ctx, request, None, &|action| action().map(|()| true))?;
            cache::commit(&ctx, &prepared, true)
        });
        sealed.into_iter().for_each(|result| result.unwrap());
    }
    for node in 0..nodes {
        let mut tree = KvTree::new();
        tree.set_value("VERSION", 1);
        tree.set_value("IDENTITY", identity(ranks));
        let control = cluster.layout(&host(node * ranks / nodes).to_string()).control_dir;
        tree.write_file(control.join("launch.scr")).unwrap();
    }
}

/// The one redundancy set of a world that is no larger.
struct OneSet<'a> {
    comm: &'a dyn Comm,
    set: &'a [usize],
    world_size: usize,
}

impl Protect for OneSet<'_> {
    fn scheme(&self, type_name: &str) -> Option<&dyn Scheme> {
        scheme_by_name(type_name).map(|scheme| scheme as &dyn Scheme)
    }

    fn choose(&self, descriptor: &KvTree) -> Result<(RedundancySet, KvTree)> {
        let set = RedundancySet {
            comm: self.comm.split(0, 0)?.unwrap().into(),
            world_ranks: self.set.to_vec(),
            hosts: vec![String::new(); self.set.len()],
            group_id: self.set[0],
            world_size: self.world_size,
            failures: 1,
            piece_bytes: self.piece_bytes(),
        };
        Ok((set, descriptor.clone()))
    }

    fn piece_bytes(&self) -> usize {
        4 << 10
    }

    fn is_spread(&self, _descriptor: &KvTree, _world_ranks: &[usize]) -> bool {
        true
    }
}

#[test]
fn thousands_of_ranks_need_no_thousands_of_threads() {
    const RANKS: usize = 3000;
    let (cluster, hosts) = (Cluster::new(), "abcdefghijklmnopqrst");
    seal_in_sets(&cluster, RANKS, hosts.len());
    cluster.lose("e");
    let begin = Instant::now();
    assert_eq!(restart(&cluster, &hosts.replace('e', "")), (vec![1], vec![], true));
    println!("taken over in {:.1} s", begin.elapsed().as_secs_f64());
    for rank in 0..RANKS {
        let found = fs::read_to_string(cluster.prefix().join(format!("ckpt/{rank}"))).unwrap();
        assert_eq!(found, format!("what rank {rank} wrote"));
    }
    let listed = list_prefix(&cluster.prefix()).unwrap();
    assert!(listed[0].restorable && listed.len() == 1, "{listed:?}");
}

#[test]
fn a_rank_that_is_played_and_panics_is_an_error_of_all() {
    let cluster = Cluster::new();
    run(&cluster, "ab", &[dataset(1, ("PARTNER", 1), "ram", 2)]);
    let outcome = cluster.launch("aab").run(|ctx| {
        let found = publish_other_size(ctx, &identity(3), &|| panic!("a defect"));
        matches!(found, Err(Error::Process(_) | Error::Remote(_)))
    });
    assert_eq!(outcome.results, [Some(true); 3]);
    assert_eq!(cluster.datasets("a").len(), 1);
}
