//! Index and summaries of the C implementation: read, and never changed.

use std::fs;

use scr_core::files::crc32;
use scr_core::kvtree::KvTree;
use scr_core::operations::{drop_datasets, read_index, set_current};
use scr_core::records::{
    FlushState, Location, PROGRAM, PrefixIndex, Record as _, Summary, classic, update,
};

use crate::support::theirs;

fn prefix(level: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let file = |id: u64, rank: usize| (format!("ckpt.{id}/f{rank}"), format!("{id} of {rank}"));
    theirs::write(dir.path(), level, &theirs::two(file));
    dir
}

#[test]
fn its_index_and_summaries_are_read() {
    for level in ["NAME", "DIR"] {
        let dir = prefix(level);
        let index = read_index(dir.path()).unwrap();
        let all: Vec<_> = index.newest_first().map(|one| (one.id, one.is_restorable())).collect();
        assert_eq!(all, [(2, false), (1, true)]);
        let current = index.current_entry().unwrap();
        let told = current.dataset.as_ref().unwrap();
        assert_eq!((current.id, &*told.name, &*told.key.series), (1, "ckpt.1", PROGRAM));
        assert_eq!((told.checkpoint_id, told.files, told.bytes), (Some(1), 4, 24));
        assert_eq!(
            (&*told.user, &*told.job_id, told.created_seconds),
            ("user1", "112573", 1_312_853_507)
        );
        assert_eq!(current.flushed.unwrap().to_string(), "2011-08-08T18:31:47");
        assert_eq!(PrefixIndex::from_tree(&index.to_tree()), Ok(index.clone()));

        let summary = Summary::read_from(&dir.path().join(".scr/scr.dataset.1")).unwrap().unwrap();
        assert_eq!((summary.ranks, summary.dataset.complete), (4, true));
        let names = |summary: &Summary| {
            let all = summary
                .files
                .iter()
                .flat_map(|(rank, files)| files.iter().map(move |one| (*rank, one)));
            all.map(|(rank, one)| format!("{rank} {} {}", one.name, one.size)).collect::<Vec<_>>()
        };
        let want = ["0 ckpt.1/f0 6", "1 ckpt.1/f1 6", "2 ckpt.1/f2 6", "3 ckpt.1/f3 6"];
        assert_eq!(names(&summary), want);
        let half = Summary::read_from(&dir.path().join(".scr/scr.dataset.2")).unwrap().unwrap();
        assert_eq!((names(&half).len(), half.dataset.complete), (3, false));
    }
}

#[test]
fn what_its_maps_may_have_and_lack() {
    let dir = prefix("NAME");
    let own = dir.path().join(".scr/scr.dataset.1");
    // One file that is the map, below a key, with a checksum, without sizes, in a folder.
    fs::remove_file(own.join("rank2file.0.0.scr")).unwrap();
    fs::remove_file(own.join("rank2file")).unwrap();
    let mut map = KvTree::new();
    let leaf = map.child_mut("RANK2FILE");
    leaf.set_value("LEVEL", 0);
    leaf.set_value("RANKS", 1);
    let file = leaf.set_kv("RANK", 0).child_mut("FILE").child_mut("f0");
    file.set_value("CRC", format!("{:#x}", crc32(b"1 of 0")));
    map.write_file(own.join("rank2file.scr")).unwrap();
    let summary = Summary::read_from(&own).unwrap().unwrap();
    let one = &summary.files[&0][0];
    assert_eq!((&*one.name, one.size, one.crc32), ("ckpt.1/f0", 6, Some(crc32(b"1 of 0"))));
    // Names that lead out of the prefix, parts that are their own parents, no map at all.
    let file = map.child_mut("RANK2FILE").set_kv("RANK", 0).child_mut("FILE");
    file.child_mut("../../x").set_value("SIZE", 1);
    map.write_file(own.join("rank2file.scr")).unwrap();
    assert!(Summary::read_from(&own).is_err());
    let mut map = KvTree::new();
    map.set_value("LEVEL", 1);
    map.set_value("RANKS", 4);
    map.set_kv("RANK", 0).set_value("FILE", "rank2file");
    map.write_file(own.join("rank2file")).unwrap();
    assert!(Summary::read_from(&own).unwrap_err().to_string().contains("LEVEL"));
    fs::remove_file(own.join("rank2file")).unwrap();
    fs::remove_file(own.join("rank2file.scr")).unwrap();
    assert!(Summary::read_from(&own).unwrap_err().to_string().contains("rank2file"));
}

#[test]
fn what_a_person_changes_lies_beside_until_ours_takes_over() {
    let dir = prefix("NAME");
    theirs::leave_cached(dir.path(), 3, "ckpt.3");
    let before = theirs::bytes(dir.path());
    let (index, flush) = (dir.path().join(".scr/index.scr"), dir.path().join(".scr/flush.scr"));
    let changed = || {
        let now = theirs::bytes(dir.path());
        before.iter().filter(|(name, bytes)| now.get(*name) != Some(bytes)).count()
    };
    set_current(dir.path(), "ckpt.1").unwrap();
    assert_eq!(drop_datasets(dir.path(), "2", false).unwrap(), [2]);
    update(&flush, |state: &mut FlushState| {
        state.set(4, Location::Cache);
        Ok(())
    })
    .unwrap();
    let ids =
        || read_index(dir.path()).unwrap().newest_first().map(|one| one.id).collect::<Vec<_>>();
    assert_eq!((ids(), changed()), (vec![1], 0));
    assert_eq!(classic::cached_elsewhere(&index).unwrap(), [(3, "ckpt.3".to_string())]);

    classic::take_over(&index).unwrap();
    let now = theirs::bytes(dir.path());
    for name in [".scr/index.scr", ".scr/flush.scr"] {
        assert_eq!(now[&format!("{name}.classic")], before[name]);
    }
    assert!(now.keys().all(|name| !name.ends_with(".ours")), "{:?}", now.keys());
    assert_eq!(ids(), [1]);
    let state = FlushState::read(&flush).unwrap().unwrap();
    assert_eq!(state.dataset_ids().collect::<Vec<_>>(), [4]);
    classic::take_over(&index).unwrap();
    assert_eq!(theirs::bytes(dir.path()), now);
    // Killed when the index had its name: the next one goes on.
    let beside = dir.path().join(".scr/index.scr.ours");
    fs::write(&beside, &now[".scr/index.scr"]).unwrap();
    fs::rename(&flush, dir.path().join(".scr/flush.scr.ours")).unwrap();
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(500);
    fs::File::options().write(true).open(&beside).unwrap().set_modified(past).unwrap();
    assert_eq!(FlushState::read(&flush).unwrap().unwrap(), state);
    classic::take_over(&index).unwrap();
    assert_eq!(theirs::bytes(dir.path()), now);
}

#[test]
fn its_newer_index_counts_and_one_that_nobody_knows_is_refused() {
    let dir = prefix("NAME");
    set_current(dir.path(), "ckpt.1").unwrap();
    // It has run again meanwhile.
    let file = |id: u64, rank: usize| (format!("ckpt.{id}/f{rank}"), "x".to_string());
    let mut all = theirs::two(file);
    all[1].complete = true;
    theirs::write(dir.path(), "NAME", &all);
    let index = dir.path().join(".scr/index.scr");
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
    fs::File::options().write(true).open(&index).unwrap().set_modified(later).unwrap();
    assert!(read_index(dir.path()).unwrap().by_id(2).unwrap().complete);

    let mut tree = KvTree::new();
    tree.set_value("VERSION", 1);
    tree.set_kv("DSET", 1).set_value("SOMETHING", "else");
    tree.write_file(&index).unwrap();
    fs::remove_file(dir.path().join(".scr/index.scr.ours")).unwrap();
    let before = fs::read(&index).unwrap();
    let error = read_index(dir.path()).unwrap_err().to_string();
    assert!(error.contains("neither a NAME nor a DIR"), "{error}");
    assert!(update(&index, |_: &mut PrefixIndex| Ok(())).is_err());
    assert!(classic::take_over(&index).is_err());
    assert_eq!(fs::read(&index).unwrap(), before);
}
