//! Records against the manual's examples (section 9), against our own fixtures, and against damage.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use scr_core::error::Error;
use scr_core::kvtree::KvTree;
use scr_core::kvtree::file::{from_file_bytes, to_file_bytes};
use scr_core::records::{
    Dataset, DatasetRecord, FileMeta, Filemap, FlushState, HaltFile, IndexEntry, Location,
    MasterFilemap, Nodes, PrefixIndex, Record, RecordKey, RecordedState, SUMMARY_NAME, Summary,
    Timestamp, update,
};

use crate::support::{fixture, tree_from_text};

const EPOCH: u64 = 0x0123_4567_89ab_cdef;

fn key(id: &str, generation: u64) -> RecordKey {
    RecordKey { series: "ckpt".into(), id: id.into(), generation }
}

fn file(name: &str, size: u64) -> FileMeta {
    FileMeta { name: name.into(), size, mode: 0o600, ..FileMeta::default() }
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn filemap() -> Filemap {
    let mut descriptor = KvTree::new();
    descriptor.set_value("TYPE", "XOR");
    let part = FileMeta {
        crc32: Some(0x1b39_e4e4),
        mode: 0o640,
        mtime_seconds: 1_298_896_656,
        mtime_nanoseconds: 5,
        ..file("ckpt/foo_20.ckpt", 524_294)
    };
    let zero = FileMeta { on_prefix: true, ..file("zero_20.ckpt", 0) };
    let mut map = Filemap::new();
    map.insert(
        20,
        DatasetRecord {
            key: key("000100", 0),
            dataset_id: 10,
            epoch: EPOCH,
            state: RecordedState::Prepared,
            confirmed: true,
            dir: "/dev/shm/user1/scr.1001186/scr.dataset.10".into(),
            expect: 2,
            files: vec![zero, part],
            descriptor,
            tags: BTreeMap::from([("PARTNER".to_owned(), "atlas56".to_owned())]),
            ..DatasetRecord::default()
        },
    );
    let dir = "/dev/shm/user1/scr.1001186/scr.open.ckpt.000200.1".into();
    map.insert(20, DatasetRecord { key: key("000200", 1), dir, ..DatasetRecord::default() });
    map
}

fn dataset() -> Dataset {
    Dataset {
        id: 18,
        name: "ckpt.000100".into(),
        key: key("000100", 0),
        epoch: EPOCH,
        user: "user1".into(),
        job_id: "1145655".into(),
        created_seconds: 1_298_896_656,
        checkpoint_id: Some(9),
        is_output: true,
        files: 2,
        bytes: 1_048_589,
        complete: true,
    }
}

fn index() -> PrefixIndex {
    let mut index = PrefixIndex::default();
    index.insert(IndexEntry {
        id: 12,
        dir: "scr.dataset.12".into(),
        complete: true,
        flushed: Some(time("2011-02-28T12:37:04")),
        replaced_by: Some(18),
        ..IndexEntry::default()
    });
    index.insert(IndexEntry {
        id: 18,
        dir: "scr.dataset.18".into(),
        complete: true,
        flushed: Some(time("2011-02-28T12:37:36")),
        fetched: BTreeSet::from([time("2011-02-28T12:38:00"), time("2011-02-28T12:39:00")]),
        failed: BTreeSet::from([time("2011-02-28T12:40:00")]),
        dataset: Some(dataset()),
        ..IndexEntry::default()
    });
    assert!(index.set_current("scr.dataset.18"));
    index
}

fn summary() -> Summary {
    let first = FileMeta {
        crc32: Some(0x028e_eb9e),
        mode: 0o644,
        mtime_seconds: 1_298_896_656,
        ..file("ckpt/rank_1.ckpt", 524_295)
    };
    let files = [(1, vec![first]), (2, vec![]), (3, vec![file("ckpt/rank_3.ckpt", 524_294)])];
    Summary { dataset: dataset(), ranks: 4, files: files.into() }
}

fn halt() -> HaltFile {
    HaltFile {
        checkpoints_left: Some(7),
        exit_after: Some(1_298_937_600),
        exit_before: Some(1_298_944_800),
        halt_seconds: Some(1200),
        exit_reason: Some("SCR_FINALIZE_CALLED".into()),
    }
}

fn flush() -> FlushState {
    let mut flush = FlushState::default();
    flush.set(17, Location::Cache);
    flush.set(18, Location::Cache);
    flush.set(18, Location::Prefix);
    flush
}

/// The fixture is what is written, and reading it gives the record back.
fn agrees<R: Record + PartialEq + std::fmt::Debug>(record: &R, name: &str) {
    assert_eq!(record.to_tree().to_text(2), fixture(name), "{name}");
    assert_eq!(R::from_tree(&tree_from_text(&fixture(name))).as_ref(), Ok(record), "{name}");
}

#[test]
fn written_records_agree_with_the_fixtures() {
    agrees(&filemap(), "filemap.txt");
    agrees(&index(), "index.txt");
    agrees(&summary(), "summary.txt");
    agrees(&halt(), "halt.txt");
    let nodes = Nodes { nodes: 4, ..Nodes::default() };
    assert_eq!(nodes.to_tree().to_text(2), "NODES\n  4\n");
    let master = MasterFilemap::for_node(Path::new("/c"), 2);
    let text = "Filemap\n  /c/filemap_0.scrinfo\n  /c/filemap_1.scrinfo\n";
    assert_eq!(master.to_tree().to_text(2), text);
}

#[test]
fn the_manuals_index_is_read() {
    let index = PrefixIndex::from_tree(&tree_from_text(&fixture("index_v1.txt"))).unwrap();
    assert_eq!(index.newest_first().count(), 5);
    let failed = index.by_dir("scr.2011-02-28_12:37:14.1145655.18").unwrap();
    assert!(failed.complete && !failed.is_restorable());
    let fetched = index.by_id(12).unwrap();
    assert_eq!((fetched.fetched.len(), fetched.is_restorable()), (2, true));
    let restorable = index.newest_first().filter(|entry| entry.is_restorable());
    assert_eq!(restorable.map(|entry| entry.id).collect::<Vec<_>>(), [18, 12, 10, 6]);
    // What is written from it is our version, with the same entries.
    let again = PrefixIndex::from_tree(&index.to_tree()).unwrap();
    assert_eq!(again, index);
    assert_eq!(index.to_tree().get_u64("VERSION"), Some(2));
}

#[test]
fn the_manuals_summary_is_read() {
    let summary = Summary::from_tree(&tree_from_text(&fixture("summary_v5.txt"))).unwrap();
    assert_eq!((summary.ranks, summary.files.len(), summary.dataset.files), (4, 4, 4));
    assert_eq!(summary.files[&1][0].crc32, Some(0x028e_eb9e));
    assert_eq!(summary.dataset.bytes, 524_294 + 524_295 + 524_296 + 524_297);
    assert!(summary.dataset.complete && summary.dataset.id == 18);
}

#[test]
fn the_manuals_flush_file_is_read() {
    let state = FlushState::from_tree(&tree_from_text(&fixture("flush_v1.txt"))).unwrap();
    assert_eq!(state, flush());
    assert_eq!(state.unflushed().collect::<Vec<_>>(), [17]);
    assert_eq!(FlushState::from_tree(&state.to_tree()), Ok(state));
}

#[test]
fn flush_states_of_nodes_add_up_and_what_has_ended_goes() {
    let (mut here, mut there) = (FlushState::default(), FlushState::default());
    here.set(5, Location::Cache);
    here.set(6, Location::Flushing);
    there.set(5, Location::Prefix);
    here.merge(&there);
    here.unset(6, Location::Flushing);
    assert!(here.is_at(5, Location::Cache) && here.is_at(5, Location::Prefix));
    here.set_name(5, "checkpoint.0.05");
    here.set_name(7, "nowhere");
    here.set(8, Location::Flushing);
    here.set_progress(8, 3, 10);
    here.set_progress(5, 3, 10);
    let read = FlushState::from_tree(&here.to_tree()).unwrap();
    assert_eq!((read.name(5), read.name(7)), (Some("checkpoint.0.05"), None));
    assert_eq!((read.progress(8), read.progress(5)), (Some((3, 10)), None));
    assert_eq!(read, here);
    here.unset(8, Location::Flushing);
    assert_eq!(here.progress(8), None);
    assert_eq!(here.dataset_ids().collect::<Vec<_>>(), [5]);
    here.unset(5, Location::Cache);
    here.unset(5, Location::Prefix);
    assert_eq!(here, FlushState::default());
}

#[test]
fn newer_versions_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(PrefixIndex::NAME);
    let mut tree = index().to_tree();
    tree.set_value("VERSION", 3);
    tree.write_file(&path).unwrap();
    let error = PrefixIndex::read(&path).unwrap_err().to_string();
    assert!(error.contains("index.scr") && error.contains("version 3"), "{error}");
    let mut tree = summary().to_tree();
    tree.set_value("VERSION", 7);
    assert!(Summary::from_tree(&tree).unwrap_err().contains("version 7"));
}

#[test]
fn a_failure_counts_until_a_newer_copy_or_a_good_attempt() {
    let mut index = PrefixIndex::default();
    let dir = "scr.dataset.3".to_string();
    index.insert(IndexEntry { id: 3, dir, complete: true, ..IndexEntry::default() });
    assert!(index.set_current("scr.dataset.3"));
    assert!(!index.set_current("scr.dataset.9"));
    let counts = |index: &PrefixIndex| index.by_id(3).unwrap().is_restorable();
    assert!(counts(&index));
    let mut failed = index.by_id(3).unwrap().clone();
    failed.fetched.insert(time("2011-02-28T12:40:00"));
    failed.failed.insert(time("2011-02-28T12:40:00"));
    index.insert(failed.clone());
    assert!(!counts(&index));
    let flushed = Some(time("2011-02-28T12:41:00"));
    index.insert(IndexEntry { flushed, ..failed.clone() });
    assert!(counts(&index));
    failed.fetched.insert(time("2011-02-28T12:41:00"));
    index.insert(failed);
    assert!(counts(&index));
    index.by_id_mut(3).unwrap().replaced_by = Some(4);
    assert!(!counts(&index));
    index.remove(3);
    assert_eq!(index.current(), None);
}

#[test]
fn an_entry_cannot_lead_out_of_the_prefix() {
    let mut tree = index().to_tree();
    tree.set_kv("DSET", 19).child_mut("DIR").set("../elsewhere", KvTree::new());
    assert!(PrefixIndex::from_tree(&tree).unwrap_err().contains("../elsewhere"));
    let mut tree = summary().to_tree();
    tree.path_mut(&["DSET", "18", "RANK", "0", "FILE", "/etc/passwd", "SIZE", "1"]);
    assert!(Summary::from_tree(&tree).is_err());
}

/// 4097 files: one more than fit into the summary. Ranks 0 and 1 fill a shard to the last place.
fn large_summary() -> Summary {
    let mut summary = summary();
    let files = |rank: usize, count: usize| {
        (0..count).map(|i| file(&format!("d/{rank}/{i}"), 1)).collect::<Vec<_>>()
    };
    let rank_3 = summary.files.remove(&3).unwrap();
    summary.files = [(0, files(0, 4000)), (1, files(1, 96)), (3, rank_3)].into();
    summary
}

#[test]
fn large_datasets_have_maps() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, summary) = (dir.path(), large_summary());
    summary.write_to(dir).unwrap();
    let text = |name: &str| KvTree::read_file(dir.join(name)).unwrap().unwrap().to_text(2);
    assert_eq!(text("rank2file.scr"), fixture("rank2file.txt"));
    assert_eq!(text("rank2file.1.scr"), fixture("rank2file_shard.txt"));
    assert_eq!(Summary::read_from(dir).unwrap().as_ref(), Some(&summary));
    // The plain reader, which knows no maps, must not see a dataset without files.
    assert!(Summary::read(&dir.join(SUMMARY_NAME)).is_err());
    std::fs::remove_file(dir.join("rank2file.0.scr")).unwrap();
    assert!(Summary::read_from(dir).unwrap_err().to_string().contains("rank2file.0.scr"));
}

#[test]
fn maps_of_another_seal_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut other = large_summary();
    other.dataset.epoch += 1;
    other.write_to(dir).unwrap();
    let shard = std::fs::read(dir.join("rank2file.1.scr")).unwrap();
    large_summary().write_to(dir).unwrap();
    std::fs::write(dir.join("rank2file.1.scr"), shard).unwrap();
    let refusal = || Summary::read_from(dir).unwrap_err().to_string();
    assert!(refusal().contains("rank2file.1.scr"));
    std::fs::remove_file(dir.join("rank2file.scr")).unwrap();
    assert!(refusal().contains("rank2file.scr"));
}

#[test]
fn small_summaries_are_one_file() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(Summary::read_from(dir.path()).unwrap(), None);
    summary().write_to(dir.path()).unwrap();
    assert_eq!(Summary::read_from(dir.path()).unwrap(), Some(summary()));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn the_list_of_a_node_leads_to_its_filemaps_and_a_damaged_one_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let master = MasterFilemap::for_node(dir.path(), 3);
    let mut paths = master.files.iter();
    filemap().write(paths.next().unwrap()).unwrap();
    std::fs::write(paths.next().unwrap(), "damaged").unwrap();
    let read: Vec<_> = master.files.iter().map(|path| Filemap::read(path)).collect();
    assert_eq!(read[0].as_ref().unwrap(), &Some(filemap()));
    let damage = read[1].as_ref().unwrap_err();
    assert!(damage.to_string().contains("filemap_1.scrinfo"), "{damage}");
    assert_eq!(read[2].as_ref().unwrap(), &None);
}

#[test]
fn updates_of_several_writers_add_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("halt.scr");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    update(&path, |halt: &mut HaltFile| {
                        halt.checkpoints_left = Some(halt.checkpoints_left.unwrap_or(0) + 1);
                        Ok(())
                    })
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(HaltFile::read(&path).unwrap().unwrap().checkpoints_left, Some(40));
    let failed: Result<(), _> = update(&path, |halt: &mut HaltFile| {
        halt.checkpoints_left = None;
        Err(Error::Refused("no".into()))
    });
    assert!(failed.is_err());
    assert_eq!(HaltFile::read(&path).unwrap().unwrap().checkpoints_left, Some(40));
}

/// Every byte that is changed and every cut is an error in a file. Without the checksum (the same
/// changes in the packed tree) a parser may read another record, but it must come to an end.
fn survives_damage<R: Record + PartialEq + std::fmt::Debug>(record: &R) {
    let tree = record.to_tree();
    assert_eq!(R::from_tree(&tree).as_ref(), Ok(record));
    let good = to_file_bytes(&tree).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x01;
        assert!(from_file_bytes(&bad).is_err(), "{} byte {at}", R::KIND);
        assert!(from_file_bytes(&good[..at]).is_err(), "{} cut to {at}", R::KIND);
    }
    let packed = tree.encode();
    for at in 0..packed.len() {
        for byte in [packed[at] ^ 0x01, packed[at] ^ 0x80, 0, b'/', b'-', b'9'] {
            let mut bad = packed.clone();
            bad[at] = byte;
            if let Ok(tree) = KvTree::decode(&bad)
                && let Ok(other) = R::from_tree(&tree)
            {
                // Whatever was read is a proper record: it can be written and read again.
                assert_eq!(R::from_tree(&other.to_tree()), Ok(other));
            }
        }
    }
}

#[test]
fn damaged_records_are_errors() {
    survives_damage(&filemap());
    survives_damage(&MasterFilemap::for_node(Path::new("/c"), 2));
    survives_damage(&index());
    survives_damage(&summary());
    survives_damage(&flush());
    survives_damage(&halt());
    survives_damage(&Nodes::of_launch(&["c1", "c1", "c2"].map(String::from), "77"));
}

/// Without the last key of the path.
fn take_out(tree: &mut KvTree, path: &[String]) {
    let (last, parents) = path.split_last().unwrap();
    let parent = parents.iter().fold(tree, |tree, key| tree.child_mut(key));
    assert!(parent.remove(last).is_some());
}

/// A key that is missing is an error or has a documented default, never a panic.
#[test]
fn missing_keys_never_panic() {
    fn without_each<R: Record>(tree: &KvTree, path: &mut Vec<String>, whole: &KvTree) {
        for (key, subtree) in tree {
            path.push(key.to_owned());
            let mut less = whole.clone();
            take_out(&mut less, path);
            let _ = R::from_tree(&less);
            without_each::<R>(subtree, path, whole);
            path.pop();
        }
    }
    let (filemap, index, summary) = (filemap().to_tree(), index().to_tree(), summary().to_tree());
    without_each::<Filemap>(&filemap, &mut Vec::new(), &filemap);
    without_each::<PrefixIndex>(&index, &mut Vec::new(), &index);
    without_each::<Summary>(&summary, &mut Vec::new(), &summary);
}
