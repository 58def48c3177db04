//! Who copies when, in a flush by threads: no more than `SCR_FLUSH_WIDTH` ranks at a time, without
//! communication on the way. Ranks of a node follow one another by the transfer file, nodes by the
//! marks in the journal.

use crate::cache::Ctx;
use crate::error::Result;

/// A rank's place.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Turn {
    /// World rank of the leader of the node that has to be done before.
    pub node_before: Option<usize>,
    /// World rank, on this node, that has to be done before.
    pub rank_before: Option<usize>,
    /// Part of the job's bandwidth that is this rank's, 0 to 1.
    pub share: f64,
}

/// What one rank has to copy.
#[derive(Debug, Clone, Copy)]
struct Load {
    /// World rank of its node's leader.
    leader: usize,
    bytes: u64,
}

/// This rank's place; `bytes` is what it has to copy. Collective.
pub(super) fn gather(ctx: &Ctx, bytes: u64) -> Result<Turn> {
    let mut leader = (ctx.world.rank() as u64).to_be_bytes().to_vec();
    ctx.node.broadcast(&mut leader, 0)?;
    let word = [&leader[..], &bytes.to_be_bytes()].concat();
    let number = |bytes: &[u8]| bytes.iter().fold(0, |n: u64, byte| n << 8 | u64::from(*byte));
    let load = |bytes: &Vec<u8>| {
        let (leader, bytes) = bytes.split_at(bytes.len().min(8));
        Load { leader: number(leader) as usize, bytes: number(bytes) }
    };
    let loads: Vec<Load> = ctx.world.all_gather(&word)?.iter().map(load).collect();
    Ok(turn_of(ctx.world.rank(), &loads, ctx.transfer.flush_width))
}

/// Pure; the same plan on all ranks. At most `width` ranks of a node work at a time, and as many
/// nodes as that leaves. If all can, each gets the share of the bandwidth that lets them end
/// together.
fn turn_of(me: usize, loads: &[Load], width: usize) -> Turn {
    let writers = || (0..loads.len()).filter(|rank| loads[*rank].bytes > 0);
    let total: u64 = writers().map(|rank| loads[rank].bytes).fold(0, u64::saturating_add);
    if writers().count() <= width {
        return Turn { share: loads[me].bytes as f64 / total.max(1) as f64, ..Turn::default() };
    }
    let mut nodes: Vec<usize> = writers().map(|rank| loads[rank].leader).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let on = |leader: usize| writers().filter(move |rank| loads[*rank].leader == leader);
    let most = nodes.iter().map(|leader| on(*leader).count()).max().unwrap_or(1);
    let abreast = most.min(width).max(1);
    let nodes_abreast = (width / abreast).max(1);
    let before = |at: Option<usize>, by: usize| at?.checked_sub(by);
    let node = nodes.iter().position(|leader| *leader == loads[me].leader);
    let own: Vec<usize> = on(loads[me].leader).collect();
    let place = own.iter().position(|rank| *rank == me);
    Turn {
        node_before: before(node, nodes_abreast).map(|at| nodes[at]),
        rank_before: before(place, abreast).map(|at| own[at]),
        share: 1.0 / (abreast * nodes_abreast.min(nodes.len())) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lets everybody work whose predecessors are done; the most at a time, and the share of the
    /// bandwidth that they took together.
    fn simulate(loads: &[Load], width: usize) -> (usize, f64) {
        let turns: Vec<Turn> = (0..loads.len()).map(|me| turn_of(me, loads, width)).collect();
        let idle = |rank: &usize| loads[*rank].bytes == 0;
        let mut done: Vec<usize> = (0..loads.len()).filter(idle).collect();
        let (mut most, mut taken) = (0, 0.0_f64);
        while done.len() < loads.len() {
            let is_done = |rank: usize| done.contains(&rank);
            let node_is_done = |leader: usize| {
                (0..loads.len()).filter(|rank| loads[*rank].leader == leader).all(is_done)
            };
            let may = |rank: &usize| {
                let turn = &turns[*rank];
                turn.node_before.is_none_or(node_is_done) && turn.rank_before.is_none_or(is_done)
            };
            let now: Vec<usize> =
                (0..loads.len()).filter(|rank| !is_done(*rank)).filter(may).collect();
            assert!(!now.is_empty(), "everybody waits: {turns:?}");
            most = most.max(now.len());
            taken = taken.max(now.iter().map(|rank| turns[*rank].share).sum());
            // One at a time ends, so that as many as can are at work together.
            done.push(now[now.len() - 1]);
        }
        (most, taken)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn no_more_than_the_width_work_and_all_come_to_their_turn(
            ranks in proptest::collection::vec((0_usize..4, 0_u64..3), 1..14),
            width in 1_usize..9,
        ) {
            let leader = |node: usize| ranks.iter().position(|(n, _)| *n == node).unwrap_or(0);
            let loads: Vec<Load> = ranks
                .iter()
                .map(|(node, bytes)| Load { leader: leader(*node), bytes: *bytes })
                .collect();
            let (most, share) = simulate(&loads, width);
            prop_assert!(most <= width, "{most} at a time");
            prop_assert!(share <= 1.0 + 1e-9, "{share} of the bandwidth");
        }
    }
}
