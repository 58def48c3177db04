//! `SCR_PREFIX_SIZE`, where nobody waits for the flush.

use std::path::Path;

use scr_core::cache;
use scr_core::transfer::{self, Background, Left, PublishIf, list_prefix};

use super::cluster::{Cluster, IDENTITY, run_and_seal};
use super::flush::job;

/// Helper threads publish dataset 2 while the window has room for one; rank 0 has `entered` it.
fn window_moves(entered: impl Fn(&Path) -> Left + Sync) {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "ab", &[1, 2], "PARTNER");
    cluster.launch("ab").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        transfer::flush_sync(ctx, 1, &|_| false).unwrap();
        let always: PublishIf = Box::new(|_, publish| publish().map(|()| true));
        Background::start(job(ctx, 2), || {}, always).unwrap().finish().unwrap();
        ctx.world.barrier().unwrap();
        if ctx.world.rank() == 0 {
            let left = entered(ctx.prefix);
            assert_eq!(left.iter().map(|one| one.0).collect::<Vec<_>>(), [1]);
        }
    });
    let listed = list_prefix(&cluster.prefix()).unwrap();
    assert_eq!(listed.iter().map(|one| one.id).collect::<Vec<_>>(), [2]);
    assert!(!cluster.prefix().join("ckpt/10").exists());
}

#[test]
fn what_helper_threads_publish_moves_the_window() {
    window_moves(|prefix| transfer::complete_background(prefix, 2, 1).unwrap().unwrap());
}

#[test]
fn what_helper_threads_have_published_is_entered_at_the_start_and_moves_the_window() {
    window_moves(|prefix| {
        let mut entered = transfer::settle_background(prefix, 1).unwrap();
        assert_eq!(entered.iter().map(|one| one.0).collect::<Vec<_>>(), [2]);
        entered.remove(0).1
    });
}
