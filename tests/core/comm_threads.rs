//! In-process ranks: what the trait promises, and that a death reaches all who depend on it.

use std::panic::{catch_unwind, resume_unwind};

use scr_core::comm::Comm;
use scr_core::comm::threads::{ThreadWorld, run};
use scr_core::error::{Error, Result};

#[test]
fn collectives_give_what_the_trait_says() {
    let answers = run(5, |comm| {
        let me = comm.rank();
        comm.barrier().unwrap();
        let mut text = if me == 3 { b"from 3".to_vec() } else { vec![9; me] };
        comm.broadcast(&mut text, 3).unwrap();
        assert_eq!(text, b"from 3");
        let all = comm.all_gather(&vec![me as u8; me]).unwrap();
        assert!(all.iter().enumerate().all(|(r, b)| *b == vec![r as u8; r]));
        let mut words = [me as i64, -(me as i64), i64::MIN];
        comm.all_max(&mut words).unwrap();
        assert_eq!(words, [4, 0, i64::MIN]);
        let mut left = [0; 1];
        comm.exchange(&[me as u8], (me + 1) % 5, &mut left, (me + 4) % 5).unwrap();
        left[0]
    });
    assert_eq!(answers, [4, 0, 1, 2, 3]);
}

#[test]
fn sparse_exchange_is_sorted_by_source_and_keeps_self_sends() {
    let got = run(3, |comm| match comm.rank() {
        0 => comm.sparse_exchange(vec![(2, vec![1]), (0, vec![2]), (2, vec![])]),
        1 => comm.sparse_exchange(vec![]),
        _ => comm.sparse_exchange(vec![(2, vec![3]), (1, vec![4])]),
    });
    let got: Vec<_> = got.into_iter().map(|g| g.unwrap()).collect();
    assert_eq!(got[0], [(0, vec![2])]);
    assert_eq!(got[1], [(2, vec![4])]);
    assert_eq!(got[2], [(0, vec![1]), (0, vec![]), (2, vec![3])]);
}

#[test]
fn split_orders_by_key_and_keeps_groups_apart() {
    let seen = run(6, |world| {
        let me = world.rank();
        let color = if me == 5 { -1 } else { (me % 2) as i64 };
        let part = world.split(color, -(me as i64)).unwrap()?;
        let members = part.all_gather(&[me as u8]).unwrap().concat();
        let pair = part.split(0, 0).unwrap().unwrap();
        assert_eq!(pair.rank(), part.rank());
        Some((part.rank(), members))
    });
    assert_eq!(seen[0], Some((2, vec![4, 2, 0])));
    assert_eq!(seen[3], Some((0, vec![3, 1])));
    assert_eq!(seen[5], None);
}

#[test]
fn messages_sent_before_a_death_arrive_and_later_ones_fail() {
    let outcome = ThreadWorld::new(2).kill_after(0, 1).run(|comm| match comm.rank() {
        0 => {
            comm.send(b"last words", 1).unwrap();
            comm.send(b"never", 1).unwrap();
            Vec::new()
        }
        _ => {
            let first = comm.receive(0).unwrap();
            assert!(matches!(comm.receive(0), Err(Error::Comm(_))));
            assert!(comm.barrier().is_err(), "the group is unusable from the first error on");
            first
        }
    });
    assert_eq!(outcome.results, [None, Some(b"last words".to_vec())]);
    assert_eq!(outcome.calls[0], 2);
}

#[test]
fn a_rank_that_returns_or_drops_its_end_fails_those_who_wait_for_it() {
    let seen = run(4, |world| {
        let part = world.split(0, 0).unwrap().unwrap();
        if world.rank() == 2 {
            drop(part);
            // Its world is still whole.
            return world.barrier().is_ok() && world.receive(3).is_err();
        }
        // Rank 3 waits for 2, and the others for rank 0, which waits for 2.
        part.all_max(&mut [1]).is_err() && world.barrier().is_ok()
    });
    assert_eq!(seen, [true; 4]);
}

#[test]
fn a_death_at_any_call_reaches_everyone() {
    let body = |comm: Box<dyn Comm>| -> Result<usize> {
        let part = comm.split(0, 0)?.expect("not negative");
        let (me, size) = (part.rank(), part.size());
        part.exchange(&[1], (me + 1) % size, &mut [0], (me + size - 1) % size)?;
        part.barrier()?;
        Ok(me)
    };
    let calls = ThreadWorld::new(4).run(body).calls;
    for (rank, calls) in calls.into_iter().enumerate() {
        for call in 0..calls {
            let outcome = ThreadWorld::new(4).kill_after(rank, call).run(body);
            assert!(outcome.results[rank].is_none());
            assert_eq!(outcome.results.iter().filter(|r| r.is_none()).count(), 1);
        }
    }
}

#[test]
fn a_panic_is_passed_on_and_does_not_hang_the_others() {
    let caught = catch_unwind(|| {
        run(3, |comm| {
            if comm.rank() == 1 {
                // Its end would be heard of before its panic is known.
                std::mem::forget(comm);
                resume_unwind(Box::new("the cause"));
            }
            comm.barrier().unwrap();
        })
    });
    assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"the cause"));
}

#[test]
fn calls_that_do_not_match_are_an_error_for_all() {
    let seen = run(2, |comm| match comm.rank() {
        0 => comm.exchange(&[1, 2], 1, &mut [0], 1).is_ok() && comm.barrier().is_err(),
        _ => comm.exchange(&[1], 0, &mut [0], 0).is_err() && comm.barrier().is_err(),
    });
    assert_eq!(seen, [true, true]);
}
