//! A dataset that the program had left alone for longer than it took, and the loss of a node.

use std::fs;

use scr_core::cache;

use super::cluster::{Cluster, IDENTITY, checkpoint, content, key, offered_ids};

/// Dataset 1 is sealed, not confirmed, and trusted; then each rank of `amending` changes its files.
fn trusted(amending: &[usize]) -> Cluster {
    let cluster = Cluster::new();
    cluster.launch("aabbcc").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        checkpoint(ctx, 1, "XOR", false).unwrap();
        cache::trust(ctx, 1).unwrap();
        if amending.contains(&ctx.world.rank()) {
            ctx.filemap.revoke(&key(10)).unwrap();
            let dir = ctx.filemap.get_id(1).unwrap().dir;
            for name in content(10, ctx.world.rank()).keys() {
                fs::write(dir.join(name), "changed").unwrap();
            }
        }
    });
    cluster
}

#[test]
fn a_trusted_dataset_needs_no_more_nodes_than_its_scheme() {
    let cluster = trusted(&[]);
    cluster.lose("b");
    let report = cluster.restart("aaddcc");
    assert_eq!(offered_ids(&report), [1], "{report:?}");
    assert!(!report.offered[0].confirmed);
    assert_eq!(report.offered[0].rebuilt, [2, 3]);
}

#[test]
fn what_only_a_lost_node_has_changed_is_as_it_was_sealed() {
    let cluster = trusted(&[2, 3]);
    cluster.lose("b");
    assert_eq!(offered_ids(&cluster.restart("aaddcc")), [1]); // the contents are compared, too
}

#[test]
fn what_a_rank_says_to_have_changed_counts_no_more() {
    for lost in [None, Some("b")] {
        let cluster = trusted(&[4]);
        lost.into_iter().for_each(|node| cluster.lose(node));
        assert!(offered_ids(&cluster.restart("aaddcc")).is_empty(), "{lost:?}");
    }
}
