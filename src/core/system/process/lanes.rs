//! Many small pieces of work on a few threads of ours.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, scope};

use crate::system::block_signals;

/// Threads of one process at a time; more only wait for the same disk.
const LANES_MAX: usize = 16;

/// The threads that share some work.
#[derive(Clone, Copy)]
pub struct Lanes<'a> {
    /// How many at most. With 1 the calling thread does the work.
    pub width: usize,
    /// What each calls first.
    pub enter: &'a (dyn Fn() + Sync),
}

impl Lanes<'_> {
    /// Makes `width` lanes whose threads have nothing to call first.
    #[must_use]
    pub fn of(width: usize) -> Lanes<'static> {
        Lanes { width, enter: &|| {} }
    }
}

/// Does `work` for each number below `count` in `lanes`; gives the results in order. The calling
/// thread does what is left where no thread can be started.
pub fn in_lanes<T, W>(lanes: Lanes, count: usize, work: &W) -> Vec<T>
where
    T: Send,
    W: Fn(usize) -> T + Sync,
{
    let next = AtomicUsize::new(0);
    let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < count);
    let lane = || std::iter::from_fn(|| take().map(|at| (at, work(at)))).collect::<Vec<_>>();
    let threads = match lanes.width.min(count).min(LANES_MAX) {
        0 | 1 => 0,
        threads => threads,
    };
    let mut done = scope(|scope| {
        let start = |_| {
            let body = || {
                block_signals();
                (lanes.enter)();
                lane()
            };
            Builder::new().spawn_scoped(scope, body).ok()
        };
        let started: Vec<_> = (0..threads).filter_map(start).collect();
        let joined = started.into_iter().map(|thread| thread.join());
        let done = joined.flat_map(|result| result.unwrap_or_else(|why| resume_unwind(why)));
        done.collect::<Vec<_>>()
    });
    done.extend(lane());
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_done_once_in_order_on_no_more_threads_than_wanted() {
        for width in [1, 3, 100] {
            let entered = AtomicUsize::new(0);
            let enter = || {
                entered.fetch_add(1, Ordering::Relaxed);
            };
            let done = in_lanes(Lanes { width, enter: &enter }, 50, &|at| at * 2);
            assert_eq!(done, (0..50).map(|at| at * 2).collect::<Vec<_>>());
            let expected = if width == 1 { 0 } else { width.min(LANES_MAX) };
            assert_eq!(entered.into_inner(), expected);
        }
    }
}
