//! `scr index verify` beside a run that flushes and deletes: it finds nothing wrong.

use std::sync::atomic::{AtomicBool, Ordering};

use scr_core::cache;
use scr_core::operations::{Condition, verify_prefix};
use scr_core::transfer::{Options, flush_sync};

use super::cluster::{Cluster, IDENTITY, checkpoint};

#[test]
fn what_a_run_deletes_meanwhile_is_no_fault() {
    let cluster = Cluster::new();
    let (prefix, over) = (cluster.prefix(), AtomicBool::new(false));
    // Of the checkpoints on the prefix one is kept.
    let options = Options { prefix_size: 1, ..Options::default() };
    let looks = std::thread::scope(|scope| {
        let looker = scope.spawn(|| {
            let mut looks = 0;
            while !over.load(Ordering::SeqCst) {
                let found = verify_prefix(&prefix, &[], true).unwrap();
                let wrong = |one: &&_| matches!(one, &&Condition::Wrong(_));
                let conditions = found.datasets.iter().map(|one| one.condition.clone());
                let conditions: Vec<Condition> = conditions.collect();
                assert_eq!(conditions.iter().find(wrong), None, "{conditions:?}");
                looks += usize::from(!conditions.is_empty());
            }
            looks
        });
        cluster.launch("ab").transfer(options).run(|ctx| {
            cache::rebuild(ctx, IDENTITY).unwrap();
            for id in 1..=60 {
                checkpoint(ctx, id, "SINGLE", true).unwrap();
                flush_sync(ctx, id, &|_| false).unwrap();
            }
        });
        over.store(true, Ordering::SeqCst);
        looker.join().unwrap()
    });
    assert!(looks > 0);
    let found = verify_prefix(&prefix, &[], true).unwrap();
    assert_eq!((found.datasets.len(), found.is_right()), (1, true));
}
