//! A call fails on one rank in a seal, wherever that is: tried again the seal succeeds; if the
//! storage fails for good the next dataset does. The next start gets what was sealed.

use std::path::PathBuf;

use scr_core::cache::{self, Ctx};
use scr_core::transfer::{self, Background, PublishIf};

use super::cluster::{
    Cluster, IDENTITY, checkpoint, key, offered_ids, prepare, record_open, run_and_seal,
    write_files,
};
use super::flush::{files_below, job};
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

#[test]
fn a_call_that_fails_once_costs_neither_a_record_nor_an_eviction() {
    for after in 0.. {
        let cluster = Cluster::new();
        let node = cluster.node("a");
        let outcome = cluster.launch("a").run(|ctx| {
            cache::rebuild(ctx, IDENTITY).unwrap();
            checkpoint(ctx, 1, "SINGLE", true).unwrap();
            checkpoint(ctx, 2, "SINGLE", true).unwrap();
            syncs::fail_below(&node, Fault { after, errno: libc::EIO, for_good: false });
            let begun = record_open(ctx, &key(30), "ram");
            let gone = cache::evict(ctx, 1);
            (begun, gone, syncs::work_below(&node))
        });
        let (begun, gone, steps) = outcome.results.into_iter().next().unwrap().unwrap();
        let Some(step) = steps.get(after) else {
            assert!(after > 10, "{steps:?}");
            break;
        };
        assert!(begun.is_ok() && gone.is_ok(), "{step}: {begun:?}, {gone:?}");
        assert_eq!(offered_ids(&cluster.restart("a")), [2], "after {step} failed");
    }
}

#[test]
fn a_restart_loses_nothing_to_a_call_that_fails_once() {
    for scheme in ["SINGLE", "XOR"] {
        for after in 0.. {
            let cluster = Cluster::new();
            run_and_seal(&cluster, "aacc", &[1, 2], scheme);
            let node = cluster.node("a");
            let outcome = cluster.launch("aacc").run(|ctx| {
                if ctx.world.rank() == 0 {
                    syncs::fail_below(&node, Fault { after, errno: libc::EIO, for_good: false });
                }
                ctx.world.barrier().unwrap();
                let report = cache::rebuild(ctx, IDENTITY);
                ctx.world.barrier().unwrap();
                let steps = (ctx.world.rank() == 0).then(|| syncs::work_below(&node));
                (report.map(|report| offered_ids(&report)), steps.unwrap_or_default())
            });
            let (offered, steps) = outcome.results.into_iter().next().unwrap().unwrap();
            let Some(step) = steps.get(after) else {
                assert!(after > 6, "{steps:?}");
                break;
            };
            assert_eq!(offered.unwrap(), [1, 2], "{scheme}: after {step} failed");
        }
    }
}

#[test]
fn a_file_that_goes_to_the_prefix_by_itself_leaves_nothing_staged() {
    for (wanted, for_good) in [(true, false), (true, true), (false, false)] {
        for after in 0.. {
            let cluster = Cluster::new();
            run_and_seal(&cluster, "a", &[1], "SINGLE");
            let prefix = cluster.prefix();
            syncs::fail_below(&prefix, Fault { after, errno: libc::EIO, for_good });
            let outcome = cluster.launch("a").run(|ctx| {
                cache::rebuild(ctx, IDENTITY).unwrap();
                let publish_if: PublishIf = Box::new(move |_, publish| match wanted {
                    true => publish().map(|()| true),
                    false => Ok(false),
                });
                let flush = Background::start(job(ctx, 1), || {}, publish_if);
                flush.and_then(Background::finish).is_ok()
            });
            let steps = syncs::work_below(&prefix);
            if steps.get(after).is_none() {
                assert!(outcome.results[0] == Some(true) && after > 10, "{steps:?}");
                break;
            }
            cluster.launch("a").run(|ctx| transfer::recover_journal(ctx).unwrap());
            let there = prefix.join("ckpt");
            let found = if there.exists() { files_below(&there) } else { Vec::new() };
            let staged = |path: &&PathBuf| path.to_string_lossy().contains(".scr-");
            let left = found.iter().find(staged);
            assert_eq!(left, None, "{} failed ({wanted}, {for_good})", steps[after]);
        }
    }
}
