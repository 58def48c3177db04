//! Launches that died: what was lost with them, and what their caches saved.

use super::runs::{Close, Point, RunStory};

/// A launch that died.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failure {
    /// Which launch, counted from 0.
    pub run: usize,
    /// When it failed if `exact`, else its last sign of life; seconds since 1970.
    pub seen: u64,
    /// `seen` is when it failed.
    pub exact: bool,
    /// When the next launch began.
    pub next: Option<u64>,
    /// What that launch went on from, as far as is known.
    pub went_on_from: Option<(u64, String)>,
    /// Seconds of running time that were done again, at least.
    pub lost_seconds: u64,
    /// Seconds of running time that would have been lost without the caches, too.
    pub saved_seconds: u64,
}

pub(super) fn failures(runs: &[RunStory]) -> Vec<Failure> {
    let died = runs.iter().enumerate().filter(|(_, run)| run.close == Close::Killed);
    died.map(|(at, run)| failure(runs, at, run)).collect()
}

fn failure(runs: &[RunStory], at: usize, run: &RunStory) -> Failure {
    let next = runs.get(at + 1);
    let before = &runs[..=at];
    let start = before.first().map_or(run.started, |first| first.started);
    let from = next.and_then(|next| next.went_on_from.clone());
    let points = || before.iter().flat_map(|run| &run.points);
    let sealed = |id: u64| points().filter(|point| point.id == id).map(|point| point.sealed).max();
    let back_to = match (next, &from) {
        // Nobody knows yet what the next one will find: the newest at best.
        (None, _) => points().map(|point| point.sealed).max(),
        (Some(_), from) => from.as_ref().and_then(|(id, _)| sealed(*id)),
    };
    let back_to = back_to.unwrap_or(start);
    let flushed = |point: &&Point| point.flushed.is_some_and(|time| time <= run.seen);
    let on_prefix = points().filter(flushed).map(|point| point.sealed).max().unwrap_or(start);
    Failure {
        run: at,
        seen: run.seen,
        exact: run.failed.is_some(),
        next: next.map(|next| next.started),
        went_on_from: from,
        lost_seconds: worked(before, back_to, run.seen),
        saved_seconds: next.map_or(0, |_| worked(before, on_prefix, back_to)),
    }
}

fn worked(runs: &[RunStory], from: u64, to: u64) -> u64 {
    let of = |run: &RunStory| run.seen.min(to).saturating_sub(run.started.max(from));
    runs.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(started: u64, seen: u64, close: Close, seals: &[(u64, u64, Option<u64>)]) -> RunStory {
        let point = |(id, sealed, flushed): &(u64, u64, Option<u64>)| Point {
            id: *id,
            sealed: *sealed,
            flushed: *flushed,
            ..Point::default()
        };
        let points = seals.iter().map(point).collect();
        RunStory { started, seen, close, points, ..RunStory::default() }
    }

    #[test]
    fn time_between_runs_is_no_work() {
        let first = run(0, 100, Close::Killed, &[(1, 20, Some(25)), (2, 60, None), (3, 90, None)]);
        let mut second = run(1000, 1050, Close::Killed, &[]);
        second.went_on_from = Some((3, "c.3".into()));
        let mut third = run(2000, 2100, Close::Ended, &[(4, 2010, None)]);
        third.went_on_from = Some((3, "c.3".into()));
        let found = failures(&[first, second, third]);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].lost_seconds, found[0].saved_seconds), (10, 70));
        // The second one has done nothing that anybody has kept.
        assert_eq!((found[1].lost_seconds, found[1].saved_seconds), (60, 70));
        assert_eq!((found[1].run, found[1].next), (1, Some(2000)));
    }

    #[test]
    fn what_the_next_run_will_find_is_not_saved_yet() {
        let run = run(0, 100, Close::Killed, &[(1, 20, Some(25)), (2, 60, None)]);
        let found = failures(&[run]);
        assert_eq!((found[0].lost_seconds, found[0].saved_seconds), (40, 0));
    }

    #[test]
    fn without_a_checkpoint_all_is_lost() {
        let found = failures(&[run(10, 70, Close::Killed, &[])]);
        assert_eq!((found[0].lost_seconds, found[0].saved_seconds), (60, 0));
        assert_eq!((found[0].next, &found[0].went_on_from), (None, &None));
        assert!(failures(&[run(10, 70, Close::Exited, &[])]).is_empty());
    }
}
