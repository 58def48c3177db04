//! What a restart sends to each rank of a large job.

use std::sync::atomic::{AtomicUsize, Ordering};

use scr_core::cache::{self, Ctx};
use scr_core::comm::Comm;
use scr_core::error::Result;

use super::cluster::{Cluster, IDENTITY, check, offered_ids, run_and_seal};

/// Counts the bytes that come to a rank.
struct Counting<'a>(&'a dyn Comm, &'a AtomicUsize);

impl Counting<'_> {
    fn came(&self, bytes: usize) {
        self.1.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Comm for Counting<'_> {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn barrier(&self) -> Result<()> {
        self.0.barrier()
    }

    fn broadcast(&self, bytes: &mut Vec<u8>, root: usize) -> Result<()> {
        self.0.broadcast(bytes, root)?;
        self.came(bytes.len());
        Ok(())
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let all = self.0.all_gather(bytes)?;
        self.came(all.iter().map(Vec::len).sum());
        Ok(all)
    }

    fn all_max(&self, words: &mut [i64]) -> Result<()> {
        self.0.all_max(words)
    }

    fn exchange(&self, out: &[u8], to: usize, into: &mut [u8], from: usize) -> Result<()> {
        self.0.exchange(out, to, into, from)
    }

    fn send(&self, bytes: &[u8], to: usize) -> Result<()> {
        self.0.send(bytes, to)
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        self.0.receive(from)
    }

    fn sparse_exchange(&self, out: Vec<(usize, Vec<u8>)>) -> Result<Vec<(usize, Vec<u8>)>> {
        self.0.sparse_exchange(out)
    }

    fn split(&self, color: i64, key: i64) -> Result<Option<Box<dyn Comm>>> {
        self.0.split(color, key)
    }
}

/// Bytes that the restart of three checkpoints brings to the last rank, which leads no node.
fn bytes_at_the_last(hosts: &str) -> usize {
    let cluster = Cluster::new();
    run_and_seal(&cluster, hosts, &[1, 2, 3], "SINGLE");
    let outcome = cluster.launch(hosts).run(|ctx| {
        let came = AtomicUsize::new(0);
        let (world, node) = (Counting(ctx.world, &came), Counting(ctx.node, &came));
        let ctx = Ctx { world: &world, node: &node, ..*ctx };
        let report = cache::rebuild(&ctx, IDENTITY).unwrap();
        assert_eq!(offered_ids(&report), [1, 2, 3]);
        report.offered.iter().for_each(|offered| check(&ctx, offered));
        came.into_inner()
    });
    outcome.results.last().copied().flatten().unwrap()
}

#[test]
fn the_records_of_a_job_go_to_the_leaders_of_its_nodes_only() {
    let (few, many) = ("aabb", "aabbccddeeffgghh");
    let each = (bytes_at_the_last(many) - bytes_at_the_last(few)) / (many.len() - few.len());
    // A record takes three hundred bytes, and there are three of each rank.
    assert!(each < 600, "{each} bytes more with each rank");
}
