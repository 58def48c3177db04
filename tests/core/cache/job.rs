//! Datasets of any shape: what a job wrote, how it is protected, and whether that survives a loss.

use std::collections::BTreeMap;

use fastrand::Rng;

use scr_core::cache::{self, Ctx, Offered, RebuildReport, SealRequest};
use scr_core::error::Result;
use scr_core::kvtree::KvTree;
use scr_core::records::{FileMeta, RecordKey};

use super::cluster::{Cluster, IDENTITY, check_files, key, record_open, sets};

/// A dataset of a job.
#[derive(Debug, Clone)]
pub struct Dataset {
    pub id: u64,
    /// TYPE, and SET_FAILURES.
    pub scheme: (&'static str, usize),
    pub set_size: usize,
    pub group: &'static str,
    pub store: &'static str,
    /// By rank the sizes of its files.
    pub sizes: Vec<Vec<usize>>,
}

/// Where ranks run: a letter for each.
pub fn hosts(placement: &str) -> Vec<String> {
    placement.chars().map(String::from).collect()
}

impl Dataset {
    pub fn key(&self) -> RecordKey {
        key(self.id * 10)
    }

    pub fn descriptor(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("TYPE", self.scheme.0);
        tree.set_value("SET_FAILURES", self.scheme.1);
        tree.set_value("SET_SIZE", self.set_size);
        tree.set_value("GROUP", self.group);
        tree
    }

    /// What a rank writes.
    pub fn content(&self, rank: usize) -> BTreeMap<String, Vec<u8>> {
        let one = |(index, size): (usize, &usize)| {
            let mut bytes = vec![0; *size];
            Rng::with_seed(self.id * 131 + (rank * 17 + index * 7) as u64).fill(&mut bytes);
            (format!("ckpt/{}/part_{index}/rank_{rank}", self.id), bytes)
        };
        self.sizes[rank].iter().enumerate().map(one).collect()
    }

    /// Writes and seals it. Collective.
    pub fn write(&self, ctx: &Ctx) -> Result<()> {
        let files = self.content(ctx.world.rank());
        if !files.is_empty() {
            record_open(ctx, &self.key(), self.store).unwrap();
        }
        let dir = ctx.layout.open_dir(self.store, &self.key());
        for (name, bytes) in &files {
            std::fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
            std::fs::write(dir.join(name), bytes).unwrap();
        }
        let (set, descriptor) = ctx.protection.choose(&self.descriptor())?;
        let meta = |name: &String| FileMeta { name: name.clone(), ..FileMeta::default() };
        let request = SealRequest {
            key: &self.key(),
            id: self.id,
            epoch: 0xf00 + self.id,
            store: self.store,
            files: files.keys().map(meta).collect(),
            tags: BTreeMap::new(),
            gone: BTreeMap::new(),
            set: &set,
            descriptor: &descriptor,
        };
        let prepared = cache::prepare(ctx, request, None, &|action| action().map(|()| true))?;
        cache::commit(ctx, &prepared, true)
    }

    /// Compares this rank's files, byte for byte, and the number of everybody's.
    pub fn check(&self, ctx: &Ctx, offered: &Offered) {
        let expected = self.content(ctx.world.rank());
        check_files(&offered.dir, &expected);
        assert_eq!(offered.files.len(), expected.len());
        let all: usize = self.sizes.iter().map(Vec::len).sum();
        assert_eq!(offered.catalog.size().0, all as u64);
    }

    /// Whether what was protected on `placement` survives the loss of these nodes.
    pub fn survives(&self, placement: &str, lost: &[char]) -> bool {
        let gone = |rank: usize| placement.chars().nth(rank).is_some_and(|at| lost.contains(&at));
        if self.store == "bb" {
            return true; // The data is on no node.
        }
        sets(&hosts(placement), &self.descriptor()).iter().all(|set| {
            let count = set.iter().filter(|rank| gone(**rank)).count();
            let copies = self.scheme.1.min(set.len() - 1);
            match self.scheme.0 {
                "SINGLE" => count == 0,
                "PARTNER" => (0..set.len())
                    .filter(|at| gone(set[*at]))
                    .all(|at| (1..=copies).any(|hop| !gone(set[(at + hop) % set.len()]))),
                "XOR" => count <= 1.min(set.len() - 1),
                _ => count <= copies,
            }
        })
    }
}

/// A launch that writes all of them.
pub fn run(cluster: &Cluster, placement: &str, datasets: &[Dataset]) {
    let outcome = cluster.launch(placement).run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        datasets.iter().for_each(|dataset| dataset.write(ctx).unwrap());
    });
    assert!(outcome.results.iter().all(Option::is_some));
}

/// A launch that takes over, and compares what it is offered with what was written.
pub fn restart(cluster: &Cluster, placement: &str, datasets: &[Dataset]) -> RebuildReport {
    let outcome = cluster.launch(placement).run(|ctx| {
        let report = cache::rebuild(ctx, IDENTITY).unwrap();
        for offered in &report.offered {
            let dataset = datasets.iter().find(|one| one.id == offered.id).unwrap();
            dataset.check(ctx, offered);
        }
        report
    });
    outcome.results.into_iter().flatten().next().unwrap()
}
