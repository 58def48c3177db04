//! Scheme x set size x group x nodes x lost nodes x placement of the restart: what is offered is
//! exactly what the scheme promises, file by file, and so again after the loss of another node.

use super::cluster::{Cluster, offered_ids};
use super::job::{Dataset, restart, run};

const SCHEMES: [(&str, usize); 7] =
    [("SINGLE", 0), ("PARTNER", 1), ("PARTNER", 2), ("XOR", 1), ("RS", 1), ("RS", 2), ("RS", 3)];

/// Where ranks run before, by number of nodes and ranks on each.
fn placement(nodes: usize, on_each: usize) -> String {
    ('a'..).take(nodes).flat_map(|node| std::iter::repeat_n(node, on_each)).collect()
}

/// Placements after the loss: spare nodes; every rank on the next node; the ranks of the lost nodes
/// on those that are left; nodes taken in turn, so that the number of ranks on each differs.
fn after(before: &str, lost: &[char]) -> [String; 4] {
    let spare = |node: char| if lost.contains(&node) { (node as u8 + 12) as char } else { node };
    let spares: String = before.chars().map(spare).collect();
    let mut shifted: Vec<char> = spares.chars().collect();
    shifted.rotate_left(1);
    let mut left: Vec<char> = before.chars().filter(|node| !lost.contains(node)).collect();
    left.dedup();
    let mut turn = left.iter().cycle();
    let mut next = |node: char| match lost.contains(&node) {
        true => *turn.next().unwrap_or(&'z'),
        false => node,
    };
    let crowded = before.chars().map(&mut next).collect();
    let mixed = (0..before.len()).map(|rank| *left.get(rank % (left.len() + 1)).unwrap_or(&'y'));
    [spares, shifted.into_iter().collect(), crowded, mixed.collect()]
}

/// One lost node, and two: neighbours and others.
fn losses(nodes: usize) -> Vec<Vec<char>> {
    let node = |index: usize| (b'a' + (index % nodes) as u8) as char;
    let mut all = vec![vec![node(0)], vec![node(nodes - 1)], vec![node(0), node(1)]];
    if nodes > 3 {
        all.extend([vec![node(1), node(3)], vec![node(0), node(1), node(2)]]);
    }
    all
}

/// One row: all losses, each with one of the placements in turn. Returns restarts and how many of
/// them were to bring the dataset back.
fn row(dataset: &Dataset, nodes: usize, on_each: usize, turn: &mut usize) -> (usize, usize) {
    let before = placement(nodes, on_each);
    let (mut restarts, mut survived) = (0, 0);
    for lost in losses(nodes) {
        *turn += 1;
        let hosts = &after(&before, &lost)[*turn % 4];
        let cluster = Cluster::new();
        let datasets = [dataset.clone()];
        run(&cluster, &before, &datasets);
        // A node that the restart does not use is as lost.
        let unused = before.chars().filter(|node| !hosts.contains(*node));
        let gone: Vec<char> = lost.iter().copied().chain(unused).collect();
        lost.iter().for_each(|node| cluster.lose(&node.to_string()));
        let expected: Vec<u64> =
            if dataset.survives(&before, &gone) { vec![dataset.id] } else { vec![] };
        let what = format!("{dataset:?} on {before} without {lost:?}, on {hosts}");
        let report = restart(&cluster, hosts, &datasets);
        assert_eq!(offered_ids(&report), expected, "{what}: {report:?}");
        restarts += 1;
        if expected.is_empty() {
            // When all nodes are gone, nobody knows of it.
            let known = before.chars().any(|node| !gone.contains(&node));
            assert!(!known || !report.withheld[0].reason.is_empty(), "{what}");
            continue;
        }
        survived += 1;
        // Protected anew on that placement: another node dies before the next checkpoint.
        let second = hosts.chars().nth(*turn % hosts.len()).unwrap();
        if dataset.survives(hosts, &[second]) {
            cluster.lose(&second.to_string());
            let again = hosts.replace(second, "x");
            let report = restart(&cluster, &again, &datasets);
            assert_eq!(offered_ids(&report), expected, "{what}, then {again}: {report:?}");
            restarts += 1;
        }
    }
    (restarts, survived)
}

#[test]
fn every_scheme_keeps_its_promise_and_no_more() {
    let mut turn = 0;
    for scheme in SCHEMES {
        for (set_size, group) in
            [(2, "NODE"), (3, "NODE"), (8, "NODE"), (2, "SWITCH"), (4, "SWITCH")]
        {
            let (mut restarts, mut survived) = (0, 0);
            for (nodes, on_each) in [(2, 2), (3, 1), (4, 2), (6, 1)] {
                let sizes = |rank: usize| match rank % 4 {
                    0 => vec![700 + rank],
                    1 => vec![],
                    2 => vec![0, 5000],
                    _ => vec![3, 1, 200_000],
                };
                let sizes = (0..nodes * on_each).map(sizes).collect();
                let dataset = Dataset { id: 1, scheme, set_size, group, store: "ram", sizes };
                let (more, kept) = row(&dataset, nodes, on_each, &mut turn);
                (restarts, survived) = (restarts + more, survived + kept);
            }
            let (name, failures) = scheme;
            println!(
                "{name} {failures}, sets of {set_size} over {group}: {restarts} restarts, \
                 {survived} losses survived"
            );
            assert!(name == "SINGLE" || survived > 0);
        }
    }
}
