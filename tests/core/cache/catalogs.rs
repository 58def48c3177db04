//! The catalog that the ranks of a node share: every rank finds every file in it, whatever memory
//! it came through.

use scr_core::cache::{self, Ctx, NodeCatalog};
use scr_core::files::crc32;

use super::cluster::{Cluster, IDENTITY};
use super::job::{Dataset, hosts, run};

fn dataset(files: usize) -> Dataset {
    let sizes = vec![vec![3; files]; 5];
    Dataset { id: 1, scheme: ("XOR", 1), set_size: 3, group: "NODE", store: "ram", sizes }
}

fn check(ctx: &Ctx, placement: &str, dataset: &Dataset, catalog: &NodeCatalog) {
    let hosts = hosts(placement);
    for rank in 0..hosts.len() {
        assert_eq!(catalog.is_near(rank), hosts[rank] == hosts[ctx.world.rank()]);
        for (name, content) in dataset.content(rank) {
            let found = catalog.named(&name);
            let [entry] = &found[..] else { panic!("{name}: {found:?}") };
            assert_eq!((entry.rank, entry.meta.size), (rank, content.len() as u64));
            assert_eq!(entry.meta.crc32, Some(crc32(&content)), "{name}");
        }
    }
    let left = ctx.layout.control_dir.join("catalog");
    ctx.world.barrier().unwrap();
    assert!(!left.exists(), "{} stays", left.display());
}

#[test]
fn every_rank_finds_every_file_before_and_after_a_loss() {
    // A few names are sent to the ranks of a node; many lie in memory that they share.
    for files in [2, 300] {
        let (cluster, dataset) = (Cluster::new(), dataset(files));
        run(&cluster, "abcab", std::slice::from_ref(&dataset));
        for placement in ["abcab", "adccd"] {
            let outcome = cluster.launch(placement).run(|ctx| {
                let report = cache::rebuild(ctx, IDENTITY).unwrap();
                dataset.check(ctx, &report.offered[0]);
                check(ctx, placement, &dataset, &report.offered[0].catalog);
            });
            assert!(outcome.results.iter().all(Option::is_some));
            cluster.lose("b");
        }
    }
}
