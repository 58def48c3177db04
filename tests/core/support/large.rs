//! The records of a very large job; also for the bench of their cost.

use scr_core::records::{Dataset, FileMeta, IndexEntry, PrefixIndex, Summary, Timestamp};

/// Ranks of it.
pub const RANKS: usize = 100_000;
/// Files of each.
pub const FILES: usize = 4;

/// What a rank wrote.
pub fn files_of(rank: usize) -> Vec<FileMeta> {
    let one = |index: usize| FileMeta {
        name: format!("ckpt/step_001000/rank_{rank:06}/part_{index}.dat"),
        size: (rank * 4096 + index) as u64,
        crc32: Some((rank as u32).wrapping_mul(2_654_435_761) ^ index as u32),
        mode: 0o640,
        mtime_seconds: 1_298_896_656,
        mtime_nanoseconds: 999_999_999 - rank as i64,
        part: None,
        on_prefix: false,
        is_shared: false,
        attributes: Default::default(),
    };
    (0..FILES).map(one).collect()
}

/// The summary of a dataset of that many ranks.
pub fn summary(ranks: usize) -> Summary {
    let dataset = Dataset {
        id: 18,
        name: "ckpt.001000".into(),
        epoch: 0x0123_4567_89ab_cdef,
        checkpoint_id: Some(9),
        files: (ranks * FILES) as u64,
        complete: true,
        ..Dataset::default()
    };
    let files = (0..ranks).map(|rank| (rank, files_of(rank))).collect();
    Summary { dataset, ranks: ranks as u64, files }
}

/// An index in which it is one of `datasets`.
pub fn index(summary: &Summary, datasets: u64) -> PrefixIndex {
    let mut index = PrefixIndex::default();
    for id in summary.dataset.id..summary.dataset.id + datasets {
        index.insert(IndexEntry {
            id,
            dir: format!("scr.dataset.{id}"),
            complete: true,
            flushed: Some(Timestamp::from_unix_seconds(1_298_896_656)),
            dataset: Some(Dataset { id, ..summary.dataset.clone() }),
            ..IndexEntry::default()
        });
    }
    index
}
