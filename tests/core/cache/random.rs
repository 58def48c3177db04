//! Random histories of a job: launches on changing nodes, seals, evictions, lost nodes, ranks that
//! die anywhere. Whatever happens, the next start offers the newest confirmed dataset, as long as
//! no launch lost more than the scheme bears, and never anything with wrong content.

use proptest::prelude::*;
use scr_core::cache::{self, Ctx};

use super::cluster::{Cluster, IDENTITY, check, checkpoint};

/// What happens in one launch.
#[derive(Debug, Clone)]
struct Act {
    /// How ranks are put on nodes: in blocks, in turn, unevenly.
    style: usize,
    /// Which node comes first.
    rotate: usize,
    /// Rank and call of a death.
    kill: Option<(usize, usize)>,
    /// Which of the nodes is lost at its end.
    lose: Option<usize>,
    confirm: bool,
}

const RANKS: usize = 6;

fn act() -> impl Strategy<Value = Act> {
    let kill = proptest::option::of((0..RANKS, 0..400usize));
    let lose = proptest::option::weighted(0.4, 0..6usize);
    (0..3usize, 0..6usize, kill, lose, proptest::bool::weighted(0.7))
        .prop_map(|(style, rotate, kill, lose, confirm)| Act { style, rotate, kill, lose, confirm })
}

/// The hosts of a launch. All nodes are used, so that what a launch misses is what was lost.
fn hosts(act: &Act, nodes: &[char]) -> String {
    let count = nodes.len();
    let place = |rank: usize| match act.style {
        0 => rank * count / RANKS,
        1 => rank % count,
        _ if count == 3 => [0, 0, 0, 1, 1, 2][rank],
        _ => count - 1 - rank % count,
    };
    (0..RANKS).map(|rank| nodes[(place(rank) + act.rotate) % count]).collect()
}

/// One launch: takes over, checks, seals the next checkpoint. Gives the ids that are confirmed and
/// protected, as far as it came.
fn launch(ctx: &Ctx, next: u64, confirm: bool, scheme: &str) -> Option<Vec<u64>> {
    let report = cache::rebuild(ctx, IDENTITY).ok()?;
    report.offered.iter().for_each(|offered| check(ctx, offered));
    let mut safe: Vec<u64> = report
        .offered
        .iter()
        .filter(|o| o.confirmed && o.unprotected.is_none())
        .map(|o| o.id)
        .collect();
    if checkpoint(ctx, next, scheme, confirm).is_ok() && confirm {
        safe.push(next);
    }
    Some(safe)
}

fn history(acts: &[Act], scheme: &str, node_count: usize) {
    let cluster = Cluster::new();
    let mut nodes: Vec<char> = ('a'..='z').take(node_count).collect();
    let mut spares = ('a'..='z').skip(node_count);
    let mut held: Option<u64> = None;
    // A node was lost, and no launch has come to its end since.
    let mut pending = false;
    for (step, act) in acts.iter().enumerate() {
        let placed = hosts(act, &nodes);
        let mut start = cluster.launch(&placed);
        if let Some((rank, call)) = act.kill {
            start = start.kill(rank, call);
        }
        let outcome = start.run(|ctx| launch(ctx, step as u64 + 1, act.confirm, scheme));
        let reports: Vec<Vec<u64>> = outcome.results.into_iter().flatten().flatten().collect();
        if let Some(id) = held {
            let found = reports.iter().all(|safe| safe.contains(&id));
            assert!(found, "dataset {id} is gone in step {step} on {placed}: {reports:?}");
        }
        let whole = reports.len() == RANKS;
        if whole {
            let newest = reports[0].last().copied();
            held = newest.filter(|id| reports.iter().all(|safe| safe.contains(id))).or(held);
        }
        // At the end of a launch any node may be lost; one that was cut off by a death may have
        // lost the dead rank's node, unless it was just repairing an earlier loss.
        let lost = match act.kill {
            _ if whole => act.lose.map(|index| nodes[index % nodes.len()]),
            Some((rank, _)) if !pending => act.lose.and_then(|_| placed.chars().nth(rank)),
            _ => None,
        };
        pending = lost.is_some() || (pending && !whole);
        if let Some(lost) = lost {
            cluster.lose(&lost.to_string());
            let at = nodes.iter().position(|node| *node == lost).unwrap();
            nodes[at] = spares.next().unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_confirmed_is_lost(
        acts in proptest::collection::vec(act(), 1..7),
        scheme in prop_oneof![Just("XOR"), Just("PARTNER"), Just("RS1"), Just("RS2")],
        node_count in prop_oneof![Just(2usize), Just(3), Just(6)],
    ) {
        history(&acts, scheme, node_count);
    }
}

#[test]
fn a_death_while_ranks_look_who_shares_stores_loses_nothing() {
    let act = |style, rotate, kill, confirm| Act { style, rotate, kill, lose: None, confirm };
    for call in 0..60 {
        let dies = act(0, 2, Some((0, call)), false);
        history(&[act(0, 0, None, true), dies, act(2, 2, None, false)], "XOR", 2);
    }
}
