//! Who sends what to whom, in which order: the same on all members.
//!
//! In each slot one member, the worker, gets the pieces that are needed, makes those that are
//! missing, and sends them to where they belong. With `d` data pieces and `t` missing ones that is
//! `d + t` pieces on the way for a slot, whereas sums that travel from member to member would be
//! `d * t`. The slots' workers differ, so work and traffic are spread evenly.
//!
//! Transfers are dealt out to rounds in which each member sends one piece at most and receives one
//! at most; members without a partner are paired for an empty message, so that a round is one
//! exchange for everyone and no order of sends and receives can lock the set.

use super::shape::Recipe;

pub struct SlotWork {
    pub slot: usize,
    pub worker: usize,
    pub recipe: Recipe,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    Source { work: usize, index: usize },
    Target { work: usize, index: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    pub to: usize,
    pub out: Option<Item>,
    pub from: usize,
    pub into: Option<Item>,
    /// Some member gets what is made of what came in earlier rounds.
    pub waits: bool,
}

#[derive(Clone, Copy)]
struct PieceTransfer {
    from: usize,
    to: usize,
    item: Item,
}

/// Chooses the first of `candidates` with the least work so far. `None` if there are none.
pub fn choose_worker(candidates: &[usize], busy: &mut [usize]) -> Option<usize> {
    let worker = candidates.iter().copied().min_by_key(|member| busy[*member])?;
    busy[worker] += 1;
    Some(worker)
}

pub fn rounds(works: &[SlotWork], members: usize, me: usize) -> Vec<Round> {
    let mut rounds: Vec<Vec<PieceTransfer>> = Vec::new();
    let mut busy = Busy::default();
    // The round after the last one in which a source of the work arrives.
    let mut complete = vec![0; works.len()];
    for (work, transfer) in in_turn(works, members, &sources) {
        let round = busy.place(&transfer, 0, members);
        complete[work] = complete[work].max(round + 1);
        put(&mut rounds, round, transfer);
    }
    for (work, transfer) in in_turn(works, members, &targets) {
        let round = busy.place(&transfer, complete[work], members);
        put(&mut rounds, round, transfer);
    }
    rounds.iter().map(|transfers| of_member(transfers, members, me)).collect()
}

/// The transfers of all works, the first of each, then the second of each, and so on.
fn in_turn(
    works: &[SlotWork],
    members: usize,
    of: &dyn Fn(usize, &SlotWork, usize) -> Vec<PieceTransfer>,
) -> Vec<(usize, PieceTransfer)> {
    let lists: Vec<_> = works.iter().enumerate().map(|(at, work)| of(at, work, members)).collect();
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let turn = |index: usize| {
        let lists = lists.iter().enumerate();
        lists.filter_map(move |(work, list)| Some((work, *list.get(index)?)))
    };
    (0..longest).flat_map(turn).collect()
}

/// The nearest left neighbour of the worker comes first, so that all works take the same turns.
fn sources(at: usize, work: &SlotWork, members: usize) -> Vec<PieceTransfer> {
    let mut list: Vec<_> = (work.recipe.sources.iter().enumerate())
        .filter(|(_, from)| **from != work.worker)
        .map(|(index, &from)| PieceTransfer {
            from,
            to: work.worker,
            item: Item::Source { work: at, index },
        })
        .collect();
    list.sort_by_key(|transfer| (work.worker + members - transfer.from) % members);
    list
}

fn targets(at: usize, work: &SlotWork, members: usize) -> Vec<PieceTransfer> {
    let mut list: Vec<_> = (work.recipe.targets.iter().enumerate())
        .filter(|(_, to)| **to != work.worker)
        .map(|(index, &to)| PieceTransfer {
            from: work.worker,
            to,
            item: Item::Target { work: at, index },
        })
        .collect();
    list.sort_by_key(|transfer| (transfer.to + members - work.worker) % members);
    list
}

/// For each round who sends and who receives.
#[derive(Default)]
struct Busy(Vec<(Vec<bool>, Vec<bool>)>);

impl Busy {
    /// The first round from `earliest` on that has room for the transfer; takes it.
    fn place(&mut self, transfer: &PieceTransfer, earliest: usize, members: usize) -> usize {
        let mut round = earliest;
        loop {
            if self.0.len() <= round {
                self.0.resize(round + 1, (vec![false; members], vec![false; members]));
            }
            let (sends, receives) = &mut self.0[round];
            if !sends[transfer.from] && !receives[transfer.to] {
                (sends[transfer.from], receives[transfer.to]) = (true, true);
                return round;
            }
            round += 1;
        }
    }
}

fn put(rounds: &mut Vec<Vec<PieceTransfer>>, round: usize, transfer: PieceTransfer) {
    if rounds.len() <= round {
        rounds.resize_with(round + 1, Vec::new);
    }
    rounds[round].push(transfer);
}

fn of_member(transfers: &[PieceTransfer], members: usize, me: usize) -> Round {
    let free = |taken: &dyn Fn(&PieceTransfer) -> usize| -> Vec<usize> {
        let mut used = vec![false; members];
        transfers.iter().for_each(|transfer| used[taken(transfer)] = true);
        (0..members).filter(|member| !used[*member]).collect()
    };
    let senders = free(&|transfer| transfer.from);
    let receivers = free(&|transfer| transfer.to);
    // As many members send nothing as receive nothing, so this pairs all of them.
    let waits = transfers.iter().any(|transfer| matches!(transfer.item, Item::Target { .. }));
    let mut round = Round { to: me, out: None, from: me, into: None, waits };
    for (&from, &to) in senders.iter().zip(&receivers) {
        if from == me {
            round.to = to;
        }
        if to == me {
            round.from = from;
        }
    }
    for transfer in transfers {
        if transfer.from == me {
            (round.to, round.out) = (transfer.to, Some(transfer.item));
        }
        if transfer.to == me {
            (round.from, round.into) = (transfer.from, Some(transfer.item));
        }
    }
    round
}

#[cfg(test)]
mod tests {
    use super::super::shape::Shape;
    use super::*;

    fn encoding(shape: Shape) -> Vec<SlotWork> {
        let has = |_, content| matches!(content, super::super::shape::Content::Data(_));
        (0..shape.members)
            .map(|slot| SlotWork { slot, worker: slot, recipe: shape.recipe(slot, &has).unwrap() })
            .collect()
    }

    #[test]
    fn an_encode_takes_as_many_rounds_as_a_set_has_other_members() {
        for (members, parities) in [(2, 1), (4, 1), (4, 2), (5, 4), (9, 3), (40, 2)] {
            let works = encoding(Shape { members, parities });
            for me in 0..members {
                assert_eq!(rounds(&works, members, me).len(), members - 1, "{members} {parities}");
            }
        }
    }

    #[test]
    fn in_every_round_all_pairs_fit_and_everything_arrives_in_order() {
        let shape = Shape { members: 7, parities: 3 };
        let lost = [1, 4];
        let works: Vec<_> = (0..7)
            .map(|slot| SlotWork {
                slot,
                worker: [0, 2, 3][slot % 3],
                recipe: shape.recipe(slot, &|m, _| !lost.contains(&m)).unwrap(),
            })
            .collect();
        let all: Vec<_> = (0..7).map(|me| rounds(&works, 7, me)).collect();
        let mut transfers = 0;
        let mut arrived = vec![0; works.len()];
        for round in 0..all[0].len() {
            let mut sources_now = Vec::new();
            for (me, own) in all.iter().enumerate() {
                let (own, other) = (own[round], all[own[round].to][round]);
                assert_eq!((other.from, other.into), (me, own.out));
                transfers += usize::from(own.out.is_some());
                match own.out {
                    Some(Item::Source { work, .. }) => sources_now.push(work),
                    Some(Item::Target { work, .. }) => {
                        let needed = works[work].recipe.sources.iter();
                        let needed = needed.filter(|source| **source != works[work].worker);
                        assert_eq!(arrived[work], needed.count(), "sent before it was made");
                    }
                    None => {}
                }
            }
            sources_now.into_iter().for_each(|work| arrived[work] += 1);
        }
        let of = |work: &SlotWork| {
            let both = [&work.recipe.sources, &work.recipe.targets].into_iter().flatten();
            both.filter(|member| **member != work.worker).count()
        };
        assert_eq!(transfers, works.iter().map(of).sum::<usize>());
    }

    #[test]
    fn workers_share_the_work() {
        let mut busy = vec![0; 5];
        let workers: Vec<_> = (0..6).map(|_| choose_worker(&[1, 3, 4], &mut busy)).collect();
        assert_eq!(workers, [1, 3, 4, 1, 3, 4].map(Some));
        assert_eq!(choose_worker(&[], &mut busy), None);
    }
}
