//! A call fails on one rank in a seal, wherever that is: tried again the seal succeeds; if the
//! storage fails for good the next dataset does. The next start gets what was sealed.

use scr_core::cache::{self, Ctx};

use super::cluster::{Cluster, IDENTITY, checkpoint, offered_ids, prepare, write_files};
use crate::support::syncs::{self, Fault};

const TRIES: u64 = 3;

/// Seals dataset 2 as the session does it: again after a failure, under its id and a new epoch.
fn seal(ctx: &Ctx, scheme: &str) -> bool {
    (1..=TRIES).any(|again| {
        let prepared = prepare(ctx, 20, 2, 0xe2 + (again << 8), scheme);
        prepared.and_then(|prepared| cache::commit(ctx, &prepared, true)).is_ok()
    })
}

/// Three checkpoints, with a fault below the node of rank 2 while the second is sealed. Whether
/// that succeeded, and the steps that it took there.
fn run(cluster: &Cluster, scheme: &str, fault: Fault) -> (bool, Vec<String>) {
    let node = cluster.node("c");
    let outcome = cluster.launch("aacc").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        checkpoint(ctx, 1, scheme, true).unwrap();
        write_files(ctx, 20);
        ctx.world.barrier().unwrap();
        let fails = ctx.world.rank() == 2;
        if fails {
            syncs::fail_below(&node, fault);
        }
        ctx.world.barrier().unwrap();
        let sealed = seal(ctx, scheme);
        ctx.world.barrier().unwrap();
        let steps = if fails { syncs::work_below(&node) } else { Vec::new() };
        ctx.world.barrier().unwrap();
        checkpoint(ctx, 3, scheme, true).unwrap();
        (sealed, steps)
    });
    let mut results = outcome.results.into_iter().map(Option::unwrap);
    results.nth(2).unwrap()
}

#[test]
fn every_call_of_a_seal_may_fail() {
    for scheme in ["SINGLE", "PARTNER", "XOR"] {
        for for_good in [false, true] {
            for after in 0.. {
                let errno = [libc::EIO, libc::ENOSPC][after % 2];
                let (cluster, fault) = (Cluster::new(), Fault { after, errno, for_good });
                let (sealed, steps) = run(&cluster, scheme, fault);
                let Some(step) = steps.get(after) else {
                    assert!(sealed && after > 10, "{scheme}: {steps:?}");
                    break;
                };
                assert!(sealed || for_good, "{scheme}: a failed {step} is not made good for");
                let ids = offered_ids(&cluster.restart("aacc"));
                let whole = ids == [1, 2, 3] || (!sealed && ids == [1, 3]);
                assert!(whole, "{scheme}: {ids:?} after {step} failed ({sealed}, {for_good})");
            }
        }
    }
}
