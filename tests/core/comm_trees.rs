//! Trees between ranks (section 3.2.7 of the developer's manual), on in-process ranks.

use scr_core::comm::{threads, trees};
use scr_core::kvtree::KvTree;

use crate::support::tree_from_text;

fn value(text: &str) -> KvTree {
    tree_from_text(text)
}

#[test]
fn receiving_merges() {
    let received = threads::run(2, |comm| {
        let mut tree = value("OWN");
        if comm.rank() == 0 {
            trees::send(&*comm, &value("SENT\n  1"), 1).unwrap();
        } else {
            trees::receive(&*comm, &mut tree, 0).unwrap();
        }
        tree
    });
    assert_eq!(received, [value("OWN"), value("OWN\nSENT\n  1")]);
}

#[test]
fn a_ring_sends_and_receives_at_once() {
    let ranks = 5;
    let received = threads::run(ranks, |comm| {
        let (rank, mut tree) = (comm.rank(), KvTree::new());
        // Sizes differ, zero bytes of content included.
        let mut out = KvTree::new();
        for key in 0..rank {
            out.child_mut(key);
        }
        let (right, left) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        trees::send_receive(&*comm, &out, right, &mut tree, left).unwrap();
        tree.len()
    });
    assert_eq!(received, [4, 0, 1, 2, 3]);
}

#[test]
fn broadcast_leaves_the_root_and_merges_elsewhere() {
    let trees = threads::run(3, |comm| {
        let mut tree = value(&format!("RANK\n  {}", comm.rank()));
        trees::broadcast(&*comm, &mut tree, 2).unwrap();
        tree
    });
    assert_eq!(trees, [value("RANK\n  0\n  2"), value("RANK\n  1\n  2"), value("RANK\n  2")]);
}

/// The example of the manual: rank 0 sends one hash to rank 1 and one to rank 2; nobody knows the
/// senders before. Here rank 2 sends to itself, too.
#[test]
fn sparse_exchange_has_the_manuals_form() {
    let received = threads::run(3, |comm| {
        let out = match comm.rank() {
            0 => value(
                "1\n  FILES\n    1\n  FILE\n    foo.txt\n2\n  FILES\n    1\n  FILE\n    bar.txt",
            ),
            2 => value("2\n  SELF"),
            _ => KvTree::new(),
        };
        trees::exchange(&*comm, &out).unwrap()
    });
    assert_eq!(received[0], KvTree::new());
    assert_eq!(received[1], value("0\n  FILES\n    1\n  FILE\n    foo.txt"));
    assert_eq!(received[2], value("0\n  FILES\n    1\n  FILE\n    bar.txt\n2\n  SELF"));
}

#[test]
fn a_wrong_destination_fails_only_where_it_was_given() {
    let results = threads::run(2, |comm| {
        let out = if comm.rank() == 0 { value("7\n  X\n1\n  Y") } else { KvTree::new() };
        trees::exchange(&*comm, &out)
    });
    assert!(results[0].as_ref().is_err_and(|error| error.to_string().contains("\"7\"")));
    assert_eq!(results[1].as_ref().unwrap(), &value("0\n  Y"));
}

#[test]
fn all_gather_keeps_rank_order() {
    let gathered = threads::run(4, |comm| {
        let own = value(&format!("{}", comm.rank()));
        trees::all_gather(&*comm, &own).unwrap()
    });
    for trees in gathered {
        assert_eq!(trees, [value("0"), value("1"), value("2"), value("3")]);
    }
}

#[test]
fn bytes_that_are_no_tree_are_an_error() {
    let results = threads::run(2, |comm| {
        if comm.rank() == 0 {
            comm.send(b"garbage", 1)
        } else {
            trees::receive(&*comm, &mut KvTree::new(), 0)
        }
    });
    assert!(results[1].as_ref().is_err_and(|error| error.to_string().contains("rank 0")));
}
