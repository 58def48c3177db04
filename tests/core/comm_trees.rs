//! Trees between ranks, on in-process ranks.

use scr_core::comm::{threads, trees};
use scr_core::kvtree::KvTree;

use crate::support::tree_from_text;

fn value(text: &str) -> KvTree {
    tree_from_text(text)
}

#[test]
fn what_the_root_has_comes_to_all() {
    let received = threads::run(3, |comm| {
        let own = value(&format!("RANK\n  {}", comm.rank()));
        trees::from_root(&*comm, &own, 2).unwrap()
    });
    assert_eq!(received, [value("RANK\n  2"), value("RANK\n  2"), value("RANK\n  2")]);
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
            return comm.broadcast(&mut b"garbage".to_vec(), 0).map(|()| KvTree::new());
        }
        trees::from_root(&*comm, &KvTree::new(), 0)
    });
    assert!(results[1].as_ref().is_err_and(|error| error.to_string().contains("rank 0")));
}
