//! Several stores: of a node, of all nodes, and of an earlier configuration.

use std::fs;

use scr_core::cache::{self, Address, Ctx, Layout, Takeover};
use scr_core::comm::Comm;
use scr_core::error::{Error, Result};

use super::cluster::{Cluster, IDENTITY, offered_ids};
use super::job::{Dataset, restart, run};

fn dataset(id: u64, scheme: (&'static str, usize), store: &'static str, ranks: usize) -> Dataset {
    let sizes = (0..ranks).map(|rank| vec![100 * rank, 3000]).collect();
    Dataset { id, scheme, set_size: 8, group: "NODE", store, sizes }
}

#[test]
fn a_store_that_all_reach_outlives_every_node_and_nothing_moves() {
    let cluster = Cluster::with_more_stores();
    let all = [dataset(1, ("XOR", 1), "ram", 4), dataset(2, ("SINGLE", 0), "bb", 4)];
    run(&cluster, "aabb", &all);
    // The ranks change places: those of the nodes' own store move, the others find their files.
    let report = restart(&cluster, "bbaa", &all);
    assert_eq!(offered_ids(&report), [1, 2], "{report:?}");
    assert_eq!((report.offered[0].moved.len(), report.offered[1].moved.len()), (4, 0));
    // All nodes are gone, and with them all control directories.
    cluster.lose("a");
    cluster.lose("b");
    let report = restart(&cluster, "ccdd", &all);
    assert_eq!((offered_ids(&report), report.takeover), (vec![2], Takeover::Ours));
    assert!(report.offered[0].rebuilt.is_empty() && report.offered[0].moved.is_empty());
}

#[test]
fn what_is_evicted_from_a_shared_store_is_gone_for_all_and_other_jobs_leave_it_alone() {
    let cluster = Cluster::with_more_stores();
    let all = [dataset(1, ("SINGLE", 0), "bb", 2), dataset(2, ("SINGLE", 0), "bb", 2)];
    run(&cluster, "ab", &all);
    cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        cache::evict(ctx, 1).unwrap();
    });
    let shared = &cluster.layout("a").stores[2].cache_dir;
    let names = || -> Vec<_> {
        let entries = fs::read_dir(shared).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["launch.scr", "scr.dataset.2"]);
    // New nodes, another program: what is in the store tells that it is not its own.
    let outcome = cluster.launch("cd").run(|ctx| cache::rebuild(ctx, "another").unwrap());
    let takeover = &outcome.results[0].as_ref().unwrap().takeover;
    assert!(matches!(takeover, Takeover::Foreign { .. }), "{takeover:?}");
    assert_eq!(offered_ids(&restart(&cluster, "ef", &all)), [2]);
    cluster.launch("ef").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        cache::finish(ctx).unwrap();
    });
    assert!(names().is_empty(), "{:?}", names());
}

#[test]
fn a_provisional_dataset_in_a_shared_store_is_not_trusted_after_a_loss() {
    let cluster = Cluster::with_more_stores();
    let one = dataset(1, ("SINGLE", 0), "bb", 2);
    run(&cluster, "ab", std::slice::from_ref(&one));
    let dir = cluster.layout("a").dataset_dir("bb", 1);
    fs::remove_file(dir.join(".scr/CONFIRMED")).unwrap();
    cluster.lose("b");
    let report = restart(&cluster, "ac", std::slice::from_ref(&one));
    assert!(report.offered.is_empty(), "{report:?}");
}

#[test]
fn the_stores_of_an_earlier_configuration_are_found_by_the_records() {
    let cluster = Cluster::with_more_stores();
    run(&cluster, "ab", &[dataset(1, ("PARTNER", 1), "ssd", 2)]);
    let control = cluster.layout("a").control_dir;
    let found: Vec<_> = cache::stores_in_records(&control).into_iter().collect();
    assert_eq!(found, ["ssd"]);
    let address = Address::new("me", "7", "/p".as_ref());
    let mut layout = Layout::new("/".as_ref(), "/c".as_ref(), &["/ram".into()], &address);
    assert_eq!(layout.dataset_dir("/ssd", 1), layout.dataset_dir("/ram", 1));
    layout.add_store("/".as_ref(), "/gone", &address, false);
    layout.add_store("/".as_ref(), "/ssd", &address, true);
    let dir = layout.dataset_dir("/ssd", 1);
    assert!(dir.starts_with("/ssd/me/scr.7/") && dir.ends_with("scr.dataset.1"), "{dir:?}");
    // A store that this node does not have any more is stood in for by the first.
    assert_eq!((layout.stand_in("/gone"), layout.stand_in("/ssd")), ("/ram", "/ssd"));
}

/// The ranks of a node; `before` comes before they gather anything.
struct Gathering<'a> {
    node: &'a dyn Comm,
    before: &'a (dyn Fn() + Sync),
}

impl Comm for Gathering<'_> {
    fn rank(&self) -> usize {
        self.node.rank()
    }
    fn size(&self) -> usize {
        self.node.size()
    }
    fn barrier(&self) -> Result<()> {
        self.node.barrier()
    }
    fn broadcast(&self, bytes: &mut Vec<u8>, root: usize) -> Result<()> {
        self.node.broadcast(bytes, root)
    }
    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        (self.before)();
        self.node.all_gather(bytes)
    }
    fn all_max(&self, words: &mut [i64]) -> Result<()> {
        self.node.all_max(words)
    }
    fn exchange(&self, out: &[u8], to: usize, into: &mut [u8], from: usize) -> Result<()> {
        self.node.exchange(out, to, into, from)
    }
    fn send(&self, bytes: &[u8], to: usize) -> Result<()> {
        self.node.send(bytes, to)
    }
    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        self.node.receive(from)
    }
    fn sparse_exchange(&self, out: Vec<(usize, Vec<u8>)>) -> Result<Vec<(usize, Vec<u8>)>> {
        self.node.sparse_exchange(out)
    }
    fn split(&self, color: i64, key: i64) -> Result<Option<Box<dyn Comm>>> {
        self.node.split(color, key)
    }
}

#[test]
fn a_shared_store_that_its_leader_cannot_list_is_an_error_of_all() {
    let cluster = Cluster::with_more_stores();
    run(&cluster, "aabb", &[dataset(1, ("SINGLE", 0), "bb", 4)]);
    let shared = &cluster.layout("a").stores[2].cache_dir;
    // The records are gathered after the store's tag was looked at, and before it is listed.
    let spoil = || {
        let _ = fs::rename(shared, shared.with_extension("away"));
        let _ = fs::write(shared, "no directory any more");
    };
    let outcome = cluster.launch("aabb").run(|ctx| {
        let before = || {
            if ctx.world.rank() == 0 {
                spoil()
            }
        };
        let node = Gathering { node: ctx.node, before: &before };
        let found = cache::rebuild(&Ctx { node: &node, ..*ctx }, IDENTITY);
        // Communication is as it was: all have left in the same place.
        let error = found.unwrap_err();
        assert!(!matches!(error, Error::Comm(_)), "{error}");
        ctx.world.barrier().unwrap();
        error.to_string()
    });
    let texts: Vec<String> = outcome.results.into_iter().flatten().collect();
    assert!(texts.len() == 4 && texts.iter().all(|text| text.contains("list")), "{texts:?}");
}

#[test]
fn what_is_set_aside_has_left_the_cache_and_is_removed_later_by_each_rank() {
    let cluster = Cluster::with_more_stores();
    let all = [dataset(1, ("XOR", 1), "ram", 2), dataset(2, ("XOR", 1), "ram", 2)];
    run(&cluster, "ab", &all);
    let store = |node: &str| cluster.layout(node).cache_dir("ram").to_owned();
    let left = |node: &str| store(node).join("scr.evicted.scr.dataset.1");
    cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let evicted = cache::set_aside(ctx, 1).unwrap();
        let node = ["a", "b"][ctx.world.rank()];
        assert!(ctx.filemap.get_id(1).is_none() && left(node).is_dir());
        assert!(!store(node).join("scr.dataset.1").exists());
        if node == "b" {
            evicted.iter().for_each(|evicted| evicted.remove().unwrap());
            evicted.iter().for_each(|evicted| evicted.remove().unwrap());
        }
    });
    assert!(left("a").is_dir() && !left("b").exists());
    assert_eq!(offered_ids(&restart(&cluster, "ab", &all)), [2]);
    cluster.launch("ab").run(|ctx| {
        let found = cache::find_evicted(ctx);
        assert_eq!(found.len(), usize::from(ctx.world.rank() == 0), "what the run before has left");
        found.iter().for_each(|evicted| evicted.remove().unwrap());
    });
    assert!(!left("a").exists());

    std::fs::create_dir(left("a")).unwrap();
    std::fs::write(left("a").join("f"), "x").unwrap();
    cache::remove_evicted(&store("a")).unwrap();
    assert!(!left("a").exists() && store("a").join("scr.dataset.2").is_dir());
}
