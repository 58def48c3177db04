//! A rank dies at each of its communication calls, in every operation; the next start gets the
//! newest recoverable dataset, byte for byte, and nothing half done is offered.

use std::fs;

use scr_core::cache;
use scr_core::transfer;

use super::cluster::{
    Cluster, IDENTITY, check_files, checkpoint, content, offered_ids, run_and_seal,
};

/// Every how many calls; SCR_TEST_EVERY_CALL=1 makes it each one.
fn stride(usual: usize) -> usize {
    if std::env::var_os("SCR_TEST_EVERY_CALL").is_some() { 1 } else { usual }
}

/// Runs `trial` for every rank and every call of a run that is not disturbed (every `stride`-th).
fn for_each_death(calls: &[usize], stride: usize, trial: impl Fn(usize, usize)) {
    for (rank, count) in calls.iter().enumerate() {
        (0..*count).step_by(stride).for_each(|call| trial(rank, call));
    }
}

#[test]
fn death_in_a_seal() {
    for (scheme, confirmed) in [("XOR", true), ("PARTNER", false)] {
        let seal = |kill: Option<(usize, usize)>| {
            let cluster = Cluster::new();
            run_and_seal(&cluster, "abc", &[1], scheme);
            let launch = cluster.launch("abc");
            let launch = kill.map(|(rank, call)| launch.kill(rank, call));
            let launch = launch.unwrap_or_else(|| cluster.launch("abc"));
            let outcome = launch.run(|ctx| {
                cache::rebuild(ctx, IDENTITY).is_ok()
                    && checkpoint(ctx, 2, scheme, confirmed).is_ok()
            });
            (cluster, outcome)
        };
        let calls = seal(None).1.calls;
        for_each_death(&calls, stride(3), |rank, call| {
            let (cluster, outcome) = seal(Some((rank, call)));
            let done = outcome.results.iter().flatten().any(|sealed| *sealed);
            // Every other time the node of the dead rank is lost, too.
            let lost = call % 2 == 1;
            let host = &"abc"[rank..=rank];
            let hosts = if lost { "abc".replace(host, "d") } else { "abc".into() };
            if lost {
                cluster.lose(host);
            }
            let ids = offered_ids(&cluster.restart(&hosts));
            assert!(ids == [1] || ids == [1, 2], "{scheme}: {ids:?} after {rank} at {call}");
            assert!(!done || ids == [1, 2] || (lost && !confirmed), "{scheme} {rank} {call}");
        });
    }
}

#[test]
fn death_in_a_rebuild() {
    for (scheme, after) in [("XOR", "aadd"), ("PARTNER", "dcca")] {
        let lose = |kill: Option<(usize, usize)>| {
            let cluster = Cluster::new();
            run_and_seal(&cluster, "aacc", &[1, 2], scheme);
            if scheme == "XOR" {
                cluster.lose("c");
            }
            let launch = cluster.launch(after);
            let launch = match kill {
                Some((rank, call)) => launch.kill(rank, call),
                None => launch,
            };
            let outcome = launch.run(|ctx| drop(cache::rebuild(ctx, IDENTITY)));
            (cluster, outcome)
        };
        let calls = lose(None).1.calls;
        for_each_death(&calls, stride(5), |rank, call| {
            let (cluster, _) = lose(Some((rank, call)));
            let report = cluster.restart(after);
            assert_eq!(offered_ids(&report), [1, 2], "{scheme}: {rank} at {call}: {report:?}");
        });
    }
}

#[test]
fn death_in_a_flush() {
    let flush = |kill: Option<(usize, usize)>| {
        let cluster = Cluster::new();
        run_and_seal(&cluster, "aabb", &[1], "PARTNER");
        // The prefix has other files under these names already.
        fs::create_dir_all(cluster.prefix().join("ckpt/10")).unwrap();
        fs::write(cluster.prefix().join("ckpt/10/rank_0.dat"), "old").unwrap();
        let launch = cluster.launch("aabb");
        let launch = match kill {
            Some((rank, call)) => launch.kill(rank, call),
            None => launch,
        };
        let outcome = launch.run(|ctx| {
            cache::rebuild(ctx, IDENTITY).is_ok()
                && transfer::flush_sync(ctx, 1, &|_| false).is_ok()
        });
        (cluster, outcome)
    };
    let calls = flush(None).1.calls;
    for_each_death(&calls, stride(2), |rank, call| {
        let (cluster, outcome) = flush(Some((rank, call)));
        let done = outcome.results.iter().flatten().any(|flushed| *flushed);
        cluster.launch("aabb").run(|ctx| {
            transfer::recover_journal(ctx).unwrap();
            let listed = transfer::list_prefix(ctx.prefix).unwrap();
            let complete = listed.iter().any(|dataset| dataset.restorable);
            assert!(complete || !done, "{rank} at {call}");
            if complete {
                check_files(ctx.prefix, &content(10, ctx.world.rank()));
            } else if ctx.world.rank() == 0 {
                assert_eq!(fs::read(ctx.prefix.join("ckpt/10/rank_0.dat")).unwrap(), b"old");
            }
            cache::rebuild(ctx, IDENTITY).unwrap();
            transfer::flush_sync(ctx, 1, &|_| false).unwrap();
            check_files(ctx.prefix, &content(10, ctx.world.rank()));
        });
        assert_eq!(super::flush::files_below(&cluster.prefix().join("ckpt")).len(), 4);
    });
}
