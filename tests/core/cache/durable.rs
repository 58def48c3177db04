//! How much is made durable for a checkpoint besides its data: two records of each process, and on
//! each node and on the prefix a number that does not depend on the processes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use scr_core::cache::{self, Ctx};
use scr_core::transfer::{Advance, AsyncFlush, PublishIf, flush_sync};

use super::cluster::{Cluster, IDENTITY, checkpoint, offered_ids};
use crate::support::syncs;

/// Checkpoints of a run.
const IDS: std::ops::RangeInclusive<u64> = 3..=12;

/// Names of records that were written, without what is peculiar to a temporary, and how often.
fn records(synced: &[PathBuf], below: &Path) -> BTreeMap<String, usize> {
    let mut records = BTreeMap::new();
    for path in synced.iter().filter(|path| path.starts_with(below)) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(name) = name.strip_suffix(".scrtmp") else { continue };
        let (name, _) = name[1..].rsplit_once('.').unwrap();
        *records.entry(name.to_owned()).or_default() += 1;
    }
    records
}

/// Launches a job that has two checkpoints already, and notes what `body` makes durable.
fn synced(cluster: &Cluster, hosts: &str, body: impl Fn(&Ctx) + Sync) -> Vec<PathBuf> {
    let top = cluster.prefix().parent().unwrap().to_path_buf();
    let outcome = cluster.launch(hosts).run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        (1..IDS.start().to_owned()).for_each(|id| checkpoint(ctx, id, "XOR", true).unwrap());
        ctx.world.barrier().unwrap();
        if ctx.world.rank() == 0 {
            syncs::watch(&top);
        }
        ctx.world.barrier().unwrap();
        body(ctx);
        ctx.world.barrier().unwrap();
    });
    assert!(outcome.results.iter().all(Option::is_some));
    syncs::watched(&top)
}

#[test]
fn a_checkpoint_is_two_records_a_process_and_two_a_node() {
    let cluster = Cluster::new();
    let all = synced(&cluster, "aaabbb", |ctx| {
        for id in IDS {
            checkpoint(ctx, id, "XOR", true).unwrap();
            cache::evict(ctx, id - 2).unwrap();
        }
    });
    let count = IDS.count();
    for node in ["nodes/a", "nodes/b"] {
        let mut records = records(&all, Path::new(node));
        for process in 0..3 {
            let written = records.remove(&format!("filemap_{process}.scrinfo")).unwrap();
            // Rank 1, process 1 of node a, writes nothing, and has no dataset to open.
            let most = if node == "nodes/a" && process == 1 { count } else { 2 * count };
            assert_eq!(written, most, "process {process} of {node}");
        }
        let of_node = [("CONFIRMED".to_owned(), count), ("catalog.scr".to_owned(), count)];
        assert_eq!(records, of_node.into(), "{node}");
    }
    assert!(records(&all, Path::new("prefix")).is_empty());
    // What the records still said of evicted datasets is nothing to be told of.
    let report = cluster.restart("aaabbb");
    assert_eq!((offered_ids(&report), report.withheld.len()), (vec![11, 12], 0));
}

/// Records on the prefix of a flush of two nodes with so many processes each.
fn of_a_flush(processes: usize, flush: fn(&Ctx)) -> BTreeMap<String, usize> {
    let hosts = "a".repeat(processes) + &"b".repeat(processes);
    records(&synced(&Cluster::new(), &hosts, flush), Path::new("prefix"))
}

fn together(ctx: &Ctx) {
    flush_sync(ctx, 2, &|_| false).unwrap();
}

fn by_threads(ctx: &Ctx) {
    let publish_if: PublishIf = Box::new(|_, publish| publish().map(|()| true));
    let mut flush = AsyncFlush::begin(ctx, 2, &|_| false, None, || (), publish_if).unwrap();
    let begun = Instant::now();
    while ctx.world.rank() == 0 && flush.advance() != Advance::Done {
        assert!(begun.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_flush_writes_no_record_of_a_process() {
    for flush in [together, by_threads] {
        let sum = |records: &BTreeMap<String, usize>| records.values().sum::<usize>();
        let (few, many) = (of_a_flush(2, flush), of_a_flush(5, flush));
        assert!(few.contains_key("summary.scr") && few.contains_key("index.scr"), "{few:?}");
        assert_eq!(sum(&few), sum(&many), "{few:?} and with more processes {many:?}");
    }
}
