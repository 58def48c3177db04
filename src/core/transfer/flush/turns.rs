//! Who copies when, in a flush by threads, so that no more than `SCR_FLUSH_WIDTH` ranks copy at a
//! time without communication on the way.

use crate::cache::Ctx;
use crate::comm::words;
use crate::error::Result;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Turn {
    pub node_before: Option<usize>,
    pub rank_before: Option<usize>,
    /// Part of the job's bandwidth that is this rank's, 0 to 1.
    pub share: f64,
}

#[derive(Debug, Clone, Copy)]
struct Load {
    leader: usize,
    bytes: u64,
}

/// Finds this rank's place; `bytes` is what it has to copy. Collective.
pub(super) fn gather(ctx: &Ctx, bytes: u64) -> Result<Turn> {
    let leader = words::broadcast(ctx.node, ctx.world.rank() as u64, 0)?;
    let all = words::all_gather(ctx.world, [leader, bytes])?.into_iter();
    let loads: Vec<_> =
        all.map(|[leader, bytes]| Load { leader: leader as usize, bytes }).collect();
    Ok(turn_of(ctx.world.rank(), &loads, ctx.transfer.flush_width))
}

/// Pure, and the same plan on all ranks. Nodes that follow one another form a lane, and so do ranks
/// of a node; each lane gets the share of the bandwidth that lets all end together.
fn turn_of(me: usize, loads: &[Load], width: usize) -> Turn {
    let writers = || (0..loads.len()).filter(|rank| loads[*rank].bytes > 0);
    let bytes_of = |ranks: &mut dyn Iterator<Item = usize>| -> f64 {
        ranks.map(|rank| loads[rank].bytes as f64).sum()
    };
    let mut nodes: Vec<usize> = writers().map(|rank| loads[rank].leader).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let on = |leader: usize| writers().filter(move |rank| loads[*rank].leader == leader);
    let most = nodes.iter().map(|leader| on(*leader).count()).max().unwrap_or(1);
    let abreast = most.min(width).max(1);
    let nodes_abreast = if writers().count() <= width {
        nodes.len().max(1) // nobody has to wait
    } else {
        (width / abreast).max(1)
    };
    let own: Vec<usize> = on(loads[me].leader).collect();
    let node = nodes.iter().position(|leader| *leader == loads[me].leader);
    let place = own.iter().position(|rank| *rank == me);
    let Some(node) = node else { return Turn::default() };
    let in_node_lane = nodes.iter().skip(node % nodes_abreast).step_by(nodes_abreast);
    let of_nodes = bytes_of(&mut in_node_lane.flat_map(|leader| on(*leader)));
    let of_ranks = place.map_or(0.0, |place| {
        bytes_of(&mut own.iter().skip(place % abreast).step_by(abreast).copied())
    });
    Turn {
        // Also for a leader without files, at whose sign the others begin.
        node_before: node.checked_sub(nodes_abreast).map(|at| nodes[at]),
        rank_before: place.and_then(|place| place.checked_sub(abreast)).map(|at| own[at]),
        share: of_nodes / bytes_of(&mut writers()) * of_ranks / bytes_of(&mut own.iter().copied()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lets everybody work, at a bandwidth of one byte a second for all, whose predecessors are
    /// done; the most at a time, and the seconds until the end.
    fn simulate(loads: &[Load], width: usize) -> (usize, f64) {
        let turns: Vec<Turn> = (0..loads.len()).map(|me| turn_of(me, loads, width)).collect();
        let mut left: Vec<f64> = loads.iter().map(|load| load.bytes as f64).collect();
        let (mut most, mut elapsed) = (0, 0.0);
        while left.iter().any(|bytes| *bytes > 0.0) {
            let done: Vec<usize> = (0..loads.len()).filter(|rank| left[*rank] <= 0.0).collect();
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
            let rest = |rank: &usize| left[*rank] / turns[*rank].share;
            let step = now.iter().map(rest).fold(f64::INFINITY, f64::min);
            let first: Vec<usize> =
                now.iter().copied().filter(|rank| rest(rank) < step * (1.0 + 1e-9)).collect();
            now.iter().for_each(|rank| left[*rank] -= step * turns[*rank].share);
            first.iter().for_each(|rank| left[*rank] = 0.0);
            elapsed += step;
        }
        (most, elapsed)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn no_more_than_the_width_work_and_all_come_to_their_turn(
            ranks in proptest::collection::vec((0_usize..4, 0_u64..9), 1..14),
            width in 1_usize..9,
        ) {
            let leader = |node: usize| ranks.iter().position(|(n, _)| *n == node).unwrap_or(0);
            let loads: Vec<Load> = ranks
                .iter()
                .map(|(node, bytes)| Load { leader: leader(*node), bytes: *bytes })
                .collect();
            let (most, seconds) = simulate(&loads, width);
            prop_assert!(most <= width, "{most} at a time");
            // No more than the bandwidth, and none of it unused, up to the end.
            let all = loads.iter().map(|load| load.bytes as f64).sum::<f64>();
            prop_assert!((seconds - all).abs() <= 1e-6 * all, "{seconds} s for {all} bytes");
        }
    }
}
