//! What the records of a very large job cost. Times are printed only: `cargo bench -p scr-core
//! --bench metadata` takes them with care.

use std::fs;
use std::path::Path;
use std::time::Instant;

use scr_core::records::{PrefixIndex, Record as _, Summary};

use crate::support::large::{FILES, RANKS, index, summary};

/// Names and sizes of what lies in `dir`.
fn sizes(dir: &Path) -> Vec<(String, u64)> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries.map(|e| (e.file_name().into_string().unwrap(), e.metadata().unwrap().len())).collect()
}

/// Writes the summary of so many ranks, reads it back; gives bytes a file, and the largest of its
/// files.
fn round_trip(ranks: usize) -> (f64, u64) {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let written = summary(ranks);
    let begin = Instant::now();
    written.write_to(dir.path()).unwrap();
    let write = begin.elapsed();
    let found = Summary::read_from(dir.path()).unwrap();
    println!("{ranks} ranks: written in {write:?}, read in {:?}", begin.elapsed() - write);
    assert!(found.as_ref() == Some(&written)); // no assert_eq: nobody reads 72 MB
    let sizes = sizes(dir.path());
    let total: u64 = sizes.iter().map(|(_, size)| size).sum();
    (total as f64 / (ranks * FILES) as f64, sizes.iter().map(|(_, size)| *size).max().unwrap())
}

#[test]
fn summary_and_maps_grow_with_the_files_and_no_faster() {
    let (few, shard) = round_trip(RANKS / 25);
    let (many, largest) = round_trip(RANKS);
    assert!(many < 200.0 && many < 1.02 * few, "{few} bytes a file, with more ranks {many}");
    // What a rank reads does not grow.
    assert!(largest < shard + shard / 50, "{largest} bytes, with fewer ranks {shard}");
}

#[test]
fn an_index_entry_does_not_grow_with_the_ranks() {
    let size = |ranks| index(&summary(ranks), 1).to_tree().packed_len();
    assert!(size(RANKS) < size(10) + 20, "{} and {} bytes", size(RANKS), size(10));
    let dir = tempfile::tempdir().unwrap();
    let (path, written) = (dir.path().join(PrefixIndex::NAME), index(&summary(10), 100));
    written.write(&path).unwrap();
    assert_eq!(PrefixIndex::read(&path).unwrap(), Some(written));
}
