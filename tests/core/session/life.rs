//! Undisturbed runs, and a restart without one of the nodes.

use std::fs;

use super::cluster::Cluster;
use super::program::{Life, content, file, run, run_and_die};

#[test]
fn a_run_leaves_its_newest_checkpoint_on_the_prefix() {
    for (hosts, scheme) in [("aa", "SINGLE"), ("aabb", "XOR"), ("abc", "PARTNER")] {
        let cluster = Cluster::new(&[&format!("SCR_COPY_TYPE={scheme}")]);
        let outcome = cluster.launch(hosts, None, |rank| run(rank, 1, 3));
        for (rank, life) in outcome.results.iter().enumerate() {
            let life = life.as_ref().unwrap_or_else(|| panic!("{scheme}: {outcome:?}"));
            assert!(life.ended && life.from.is_none(), "{scheme}: {outcome:?}");
            let there = fs::read(cluster.prefix().join(file(3, rank))).unwrap();
            assert_eq!(there, content(1, 3, rank), "{scheme}");
        }
        let outcome = cluster.launch(hosts, None, |rank| run(rank, 2, 1));
        assert!(outcome.results.iter().all(|life| from(life) == Some((3, 1))), "{outcome:?}");
    }
}

fn from(life: &Option<Life>) -> Option<(u64, u64)> {
    life.as_ref().unwrap().from
}

#[test]
fn what_was_on_a_lost_node_is_rebuilt() {
    for (hosts, scheme, lost, after) in [
        ("aabb", "XOR", 'b', "aacc"),
        ("aabb", "XOR", 'a', "bbcc"),
        ("abcd", "XOR", 'c', "abde"),
        ("abc", "PARTNER", 'a', "bcd"),
        ("aa", "SINGLE", 'b', "aa"),
    ] {
        let cluster = Cluster::new(&[&format!("SCR_COPY_TYPE={scheme}")]);
        let outcome = cluster.launch(hosts, None, |rank| run_and_die(rank, 1, 3));
        let ranks = 0..hosts.len();
        let known = |life: &Option<Life>| life.as_ref().map(|life| life.complete);
        assert!(outcome.results.iter().all(|life| known(life) == Some(3)), "{outcome:?}");
        // The cache has it, and nothing else.
        let on_prefix = |rank| cluster.prefix().join(file(3, rank)).exists();
        assert!(!ranks.clone().any(on_prefix), "{scheme}");
        if scheme != "SINGLE" {
            cluster.lose(lost);
        }
        let outcome = cluster.launch(after, None, |rank| run(rank, 2, 1));
        assert!(outcome.results.iter().all(|life| from(life) == Some((3, 1))), "{outcome:?}");
        let there = |rank| std::fs::read(cluster.prefix().join(file(4, rank))).unwrap();
        ranks.for_each(|rank| assert_eq!(there(rank), content(2, 4, rank), "{scheme}"));
    }
}
