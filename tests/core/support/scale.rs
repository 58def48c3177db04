//! What one rank of a very large job does and keeps: the pure functions of agreement, conference,
//! seal and restart, and the records on the prefix, given what all ranks would say. The other ranks
//! are not there; what would come from them is made up. For a test, and for the example `scale`.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;

use scr_core::cache::{
    Catalog, CatalogEntry, Claim, Encoding, Marks, NodeCatalog, Verdict, decide,
};
use scr_core::machine::{
    DatasetKey, FileRef, Intent, Machine, MachineConfig, Outcome, Placement, Report, SeriesConfig,
    Step, SyncKind, WORDS,
};
use scr_core::records::{self, Dataset, FileMeta, IndexEntry, PrefixIndex, Record as _, Summary};
use scr_core::streams::WORLD;

/// Ranks of a redundancy set.
const SET: usize = 8;
/// Ranks of a node.
const NODE: usize = 64;
/// Datasets that the index knows.
const DATASETS: u64 = 100;

/// A part of the work: what it is, who does it, how to prepare it for so many ranks. What is
/// prepared would have come from elsewhere; the work itself is what is measured.
pub struct Part {
    /// What it is.
    pub name: &'static str,
    /// Who does it.
    pub by: &'static str,
    /// Makes the work for so many ranks, in a directory of its own.
    pub prepare: fn(usize, &Path) -> Work,
}

/// Work that is ready to be done once; it checks what came of it.
pub type Work = Box<dyn FnOnce()>;

const EVERY: &str = "every rank";
const LEADER: &str = "a node's leader";
const ROOT: &str = "rank 0";

/// All parts, in the order of a run.
pub const PARTS: [Part; 8] = [
    Part { name: "agreement", by: EVERY, prepare: agreement },
    Part { name: "conference and its decision", by: EVERY, prepare: conference },
    Part { name: "catalog at a seal", by: LEADER, prepare: catalog },
    Part { name: "restart decision", by: LEADER, prepare: restart },
    Part { name: "summary and rank map: write", by: ROOT, prepare: write_summary },
    Part { name: "summary and rank map: read", by: ROOT, prepare: read_summary },
    Part { name: "index of 100 datasets: write", by: ROOT, prepare: write_index },
    Part { name: "index of 100 datasets: read", by: ROOT, prepare: read_index },
];

fn machine(rank: usize, ranks: usize) -> Machine {
    let series = SeriesConfig { learn: false, ..SeriesConfig::new("ckpt", true) };
    let nodes = (0..ranks).map(|rank| rank / NODE).collect();
    Machine::new(MachineConfig::new(rank, nodes, vec![series]), &[], 0)
}

fn name_of(rank: usize) -> String {
    format!("ckpt/step_000007/rank_{rank:07}.dat")
}

fn write(machine: &mut Machine, rank: usize, now_ms: u64) {
    let masked = name_of(rank).replace("000007", "{id}");
    let file =
        FileRef { series: 0, id: Some("7".into()), masked, name: name_of(rank), temporary: false };
    let placement = machine.write_open(&file, Intent::REWRITE, now_ms);
    let Placement::Dataset(placed) = placement else { panic!("not ours: {placement:?}") };
    machine.write_closed(&placed.key, &file.name, 4096, now_ms);
}

/// The words of all ranks go up a tree; one machine takes what comes of it.
fn agreement(ranks: usize, _: &Path) -> Work {
    let mut own = machine(0, ranks);
    write(&mut own, 0, 1);
    Box::new(move || {
        let words = own.sync_point(SyncKind::Collective, 2).expect("the first carries one");
        // One rank's part of an all-reduce: as many messages as its tree is high.
        let higher =
            |all: [i64; WORDS], _| std::array::from_fn(|at| all[at].max(black_box(words)[at]));
        let all = (0..ranks.next_power_of_two().ilog2()).fold(words, higher);
        black_box(own.agreed(WORLD, all));
    })
}

/// All ranks have written their file: one rank reads all reports, and seals.
fn conference(ranks: usize, _: &Path) -> Work {
    let (mut own, mut other) = (machine(0, ranks), machine(1, ranks));
    write(&mut own, 0, 1);
    write(&mut other, 1, 1);
    let theirs = other.report(1, 10_000).to_bytes();
    let mut gathered = vec![theirs; ranks];
    gathered[0] = own.report(0, 10_000).to_bytes();
    Box::new(move || {
        let reports: Option<Vec<Report>> =
            gathered.iter().map(|bytes| Report::from_bytes(bytes)).collect();
        assert!(own.confer(&reports.expect("reports")));
        let mut sealed = 0;
        while let Some(step) = own.next_step() {
            if let Step::Seal(plan) = &step {
                assert_eq!(plan.key, DatasetKey::new(0, "7", 0));
                assert!(own.seal_record(&plan.key));
                sealed += 1;
            }
            let outcome = own.vote(&step, Outcome::Done);
            own.done(&step, outcome);
        }
        assert_eq!(sealed, 1);
    })
}

fn file_of(rank: usize) -> FileMeta {
    FileMeta {
        name: name_of(rank),
        size: 4096,
        crc32: Some((rank as u32).wrapping_mul(2_654_435_761)),
        mode: 0o640,
        mtime_seconds: 1_298_896_656,
        mtime_nanoseconds: 999_999_999 - rank as i64,
        ..FileMeta::default()
    }
}

fn key() -> records::RecordKey {
    records::RecordKey { series: "ckpt".into(), id: "7".into(), generation: 0 }
}

/// All files are known on every node, once a node.
fn catalog(ranks: usize, _: &Path) -> Work {
    let entry = |rank| CatalogEntry { rank, meta: file_of(rank) };
    let whole = Catalog { id: 1, epoch: 1, key: key(), entries: (0..ranks).map(entry).collect() };
    Box::new(move || {
        let packed = NodeCatalog::of(&whole, &(0..NODE).collect::<Vec<_>>());
        assert_eq!(packed.size().0, ranks as u64);
        assert_eq!(packed.named(&name_of(ranks / 2)).len(), 1);
    })
}

/// One rank is lost; its redundancy set brings it back.
fn restart(ranks: usize, _: &Path) -> Work {
    let claim = |rank: usize| {
        let first = rank / SET * SET;
        let set = (first..(first + SET).min(ranks)).collect();
        Claim {
            key: key(),
            id: 1,
            epoch: 1,
            strange: false,
            owner: rank,
            holder: rank,
            prepared: true,
            marks: Marks { confirmed: true, ..Marks::default() },
            present: true,
            intact: true,
            encodings: vec![Encoding { number: 0, set, protected: true }],
            scheme: "XOR".into(),
            failures: 1,
            store: "/dev/shm".into(),
        }
    };
    let claims: Vec<Claim> = (0..ranks).filter(|rank| *rank != 3).map(claim).collect();
    Box::new(move || {
        let decisions = decide(&claims, ranks);
        assert_eq!((decisions.len(), &decisions[0].verdict), (1, &Verdict::Restore));
        assert_eq!(decisions[0].absent, [3]);
    })
}

fn summary(ranks: usize) -> Summary {
    let dataset = Dataset {
        id: 18,
        name: "ckpt.7".into(),
        epoch: 0x0123_4567_89ab_cdef,
        files: ranks as u64,
        complete: true,
        ..Dataset::default()
    };
    let files: BTreeMap<_, _> = (0..ranks).map(|rank| (rank, vec![file_of(rank)])).collect();
    Summary { dataset, ranks: ranks as u64, files }
}

fn write_summary(ranks: usize, dir: &Path) -> Work {
    let (summary, dir) = (summary(ranks), dir.to_path_buf());
    Box::new(move || summary.write_to(&dir).expect("room"))
}

fn read_summary(ranks: usize, dir: &Path) -> Work {
    write_summary(ranks, dir)();
    let dir = dir.to_path_buf();
    Box::new(move || {
        let found = Summary::read_from(&dir).expect("readable").expect("a summary");
        assert_eq!(found.files.len(), ranks);
    })
}

fn write_index(ranks: usize, dir: &Path) -> Work {
    let (mut index, path) = (PrefixIndex::default(), dir.join(PrefixIndex::NAME));
    for id in 1..=DATASETS {
        index.insert(IndexEntry {
            id,
            dir: format!("scr.dataset.{id}"),
            complete: true,
            dataset: Some(Dataset { id, files: ranks as u64, ..Dataset::default() }),
            ..IndexEntry::default()
        });
    }
    Box::new(move || index.write(&path).expect("room"))
}

fn read_index(ranks: usize, dir: &Path) -> Work {
    write_index(ranks, dir)();
    let path = dir.join(PrefixIndex::NAME);
    Box::new(move || {
        let found = PrefixIndex::read(&path).expect("readable").expect("an index");
        assert_eq!(found.newest_first().count(), DATASETS as usize);
    })
}
