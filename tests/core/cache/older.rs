//! Checkpoint directories as version 1.1 wrote them, made here by its manual (sections
//! 5.2, 7.3.2, 8.1 and 10) without our own code for parity, and entered into the index.

use std::fs;
use std::path::{Path, PathBuf};

use scr_core::kvtree::KvTree;
use scr_core::operations::{AddedOlder, add_older_directory, is_older_directory};
use scr_core::records::Summary;
use scr_core::transfer::{FetchStore, check_files, fetch, list_prefix};

use super::cluster::Cluster;
use super::found::tree;

const RANKS: usize = 4;
const NAME: &str = "scr.2011-02-28_12:37:36.1145655.18";

/// What rank r wrote to `rank_<r>.ckpt`.
fn content(rank: usize) -> Vec<u8> {
    (0..100 + rank * 7).map(|at| (at * 31 + rank * 101) as u8).collect()
}

fn meta(name: &str, kind: &str, bytes: &[u8], rank: usize) -> KvTree {
    let mut tree = KvTree::new();
    let size = bytes.len().to_string();
    let crc = format!("{:#x}", scr_core::files::crc32(bytes));
    let fields =
        [("FILE", name), ("TYPE", kind), ("COMPLETE", "1"), ("SIZE", &size), ("CRC", &crc)];
    fields.iter().for_each(|(key, value)| tree.set_value(key, value));
    tree.set_value("CKPT", 18);
    tree.set_value("RANKS", RANKS);
    tree.set_value("RANK", rank);
    tree
}

fn list(rank: usize) -> KvTree {
    let mut tree = KvTree::new();
    tree.set_value("RANK", rank);
    tree.set_value("FILES", 1);
    let mut file = meta(&format!("rank_{rank}.ckpt"), "FULL", &content(rank), rank);
    // The manual's example has none here.
    file.remove("CRC");
    tree.child_mut("FILE").set(0, file);
    tree
}

/// The parity file of a rank: the others' pieces of one slot, combined.
fn parity_file(rank: usize) -> Vec<u8> {
    let longest = (0..RANKS).map(|rank| content(rank).len()).max().unwrap();
    let chunk = longest.div_ceil(RANKS - 1);
    let mut parity = vec![0; chunk];
    for other in (0..RANKS).filter(|other| *other != rank) {
        let mut bytes = content(other);
        bytes.resize(chunk * (RANKS - 1), 0);
        let piece = if rank < other { rank } else { rank - 1 };
        for (at, byte) in bytes[piece * chunk..(piece + 1) * chunk].iter().enumerate() {
            parity[at] ^= byte;
        }
    }
    let mut header = KvTree::new();
    header.set_value("CKPT", 18);
    header.set_value("RANKS", RANKS);
    header.set_value("CHUNK", chunk);
    let group = header.child_mut("GROUP");
    group.set_value("RANKS", RANKS);
    (0..RANKS).for_each(|member| group.child_mut("RANK").set_value(member, member));
    header.set("CURRENT", list(rank));
    header.set("PARTNER", list((rank + RANKS - 1) % RANKS));
    let dir = tempfile::tempdir().unwrap();
    header.write_file(dir.path().join("header")).unwrap();
    [fs::read(dir.path().join("header")).unwrap(), parity].concat()
}

/// The files of a rank in the directory: its own, the parity file, sidecars, the filemap.
fn names_of(rank: usize) -> Vec<String> {
    let (data, xor) = (format!("rank_{rank}.ckpt"), format!("{}_of_{RANKS}_in_0.xor", rank + 1));
    let sidecars = [format!("{data}.scr"), format!("{xor}.scr")];
    [vec![data, xor], sidecars.to_vec(), vec![format!("{rank}.scrfilemap")]].concat()
}

/// The directory in a prefix.
fn directory(prefix: &Path) -> PathBuf {
    let dir = prefix.join(NAME);
    fs::create_dir_all(&dir).unwrap();
    for rank in 0..RANKS {
        let [data, xor, ..] = &names_of(rank)[..] else { unreachable!() };
        let mut filemap = KvTree::new();
        filemap.set_kv("CKPT", 18).set_kv("RANK", rank);
        let fields = filemap.set_kv("RANK", rank).set_kv("CKPT", 18);
        fields.set_value("EXPECT", 2);
        for (name, kind, bytes) in [(data, "FULL", content(rank)), (xor, "XOR", parity_file(rank))]
        {
            fields.child_mut("FILE").child_mut(name);
            fs::write(dir.join(name), &bytes).unwrap();
            let sidecar = meta(name, kind, &bytes, rank);
            sidecar.write_file(dir.join(format!("{name}.scr"))).unwrap();
        }
        filemap.write_file(dir.join(format!("{rank}.scrfilemap"))).unwrap();
    }
    dir
}

fn lose(dir: &Path, rank: usize) {
    names_of(rank).iter().for_each(|name| fs::remove_file(dir.join(name)).unwrap());
}

/// It is complete: the index offers it, the summary lists its files, and they are right.
fn assert_whole(prefix: &Path, added: &AddedOlder) {
    assert_eq!(added.lost, None);
    let listed = &list_prefix(prefix).unwrap()[0];
    assert!(listed.restorable && listed.current, "{listed:?}");
    assert_eq!((listed.id, listed.checkpoint_id, &*listed.name), (18, Some(18), NAME));
    let summary = Summary::read_from(&prefix.join(".scr/scr.dataset.18")).unwrap().unwrap();
    assert_eq!((summary.ranks, summary.dataset.files), (RANKS as u64, RANKS as u64));
    for rank in 0..RANKS {
        let name = format!("{NAME}/rank_{rank}.ckpt");
        assert_eq!(summary.files[&rank][0].name, name);
        assert!(fs::read(prefix.join(name)).unwrap() == content(rank), "rank {rank}");
    }
    let checked = check_files(prefix, &added.entry, true);
    assert_eq!((checked.faults, checked.gone, checked.unchecked), (vec![], false, 0));
    assert!(!prefix.join(".scr/rebuild").exists());
}

#[test]
fn a_complete_directory_is_entered_as_it_is_and_a_program_can_fetch_it() {
    let cluster = Cluster::new();
    let (prefix, dir) = (cluster.prefix(), directory(&cluster.prefix()));
    let before = tree(&dir);
    assert!(is_older_directory(&dir) && !is_older_directory(&prefix));
    let added = add_older_directory(&prefix, &dir).unwrap();
    assert_whole(&prefix, &added);
    assert_eq!((added.rebuilt, added.refused), (vec![], vec![]));
    assert!(tree(&dir) == before);
    // Once more, and in a run.
    assert_eq!(add_older_directory(&prefix, &dir).unwrap().entry, added.entry);
    let outcome = cluster.launch("aabb").run(|ctx| {
        scr_core::cache::rebuild(ctx, super::cluster::IDENTITY).unwrap();
        let scheme = super::cluster::descriptor("PARTNER");
        fetch(ctx, 18, FetchStore { name: "ram", capacity: u64::MAX }, &scheme).unwrap();
        let dir = ctx.layout.dataset_dir("ram", 18);
        let rank = ctx.world.rank();
        fs::read(dir.join(NAME).join(format!("rank_{rank}.ckpt"))).unwrap() == content(rank)
    });
    assert_eq!(outcome.results, [Some(true); RANKS]);
}

#[test]
fn what_a_rank_lacks_is_rebuilt_and_one_loss_too_many_is_entered_as_incomplete() {
    for rank in 0..RANKS {
        let root = tempfile::tempdir().unwrap();
        let dir = directory(root.path());
        lose(&dir, rank);
        let added = add_older_directory(root.path(), &dir).unwrap();
        assert_eq!((added.rebuilt.clone(), added.unchecked), (vec![rank], 0));
        assert_whole(root.path(), &added);
        // The parity, too: another loss can follow.
        let other = (rank + 1) % RANKS;
        lose(&dir, other);
        fs::remove_file(root.path().join(".scr/index.scr")).unwrap();
        let added = add_older_directory(root.path(), &dir).unwrap();
        assert_eq!((added.rebuilt.clone(), added.unchecked), (vec![other], 0));
        assert_whole(root.path(), &added);
        // A file that nobody has a checksum of: that is told.
        lose(&dir, other);
        let sidecar = dir.join(format!("rank_{rank}.ckpt.scr"));
        let mut fields = KvTree::read_file(&sidecar).unwrap().unwrap();
        fields.remove("CRC");
        fields.write_file(&sidecar).unwrap();
        fs::remove_file(root.path().join(".scr/index.scr")).unwrap();
        let added = add_older_directory(root.path(), &dir).unwrap();
        assert_eq!((added.rebuilt.clone(), added.unchecked), (vec![other], 1));
    }
    let root = tempfile::tempdir().unwrap();
    let dir = directory(root.path());
    [1, 3].iter().for_each(|rank| lose(&dir, *rank));
    let before = tree(&dir);
    let added = add_older_directory(root.path(), &dir).unwrap();
    assert!(added.lost.is_some() && !added.entry.complete, "{added:?}");
    assert!(tree(&dir) == before);
    assert!(!root.path().join(".scr/rebuild").exists());
    // They come back, from a tape perhaps.
    directory(root.path());
    assert_whole(root.path(), &add_older_directory(root.path(), &dir).unwrap());
}

#[test]
fn each_of_the_seven_checks_refuses_a_file_which_is_rebuilt_then() {
    type Damage = fn(&Path, &mut KvTree);
    let cases: [(&str, Damage); 7] = [
        ("it is damaged", |path, _| fs::write(path, "x").unwrap()),
        ("is of \"other\"", |_, tree| tree.set_value("FILE", "other")),
        ("not complete", |_, tree| tree.set_value("COMPLETE", 0)),
        ("is missing", |path, _| fs::remove_file(path.with_extension("")).unwrap()),
        ("and had 5", |_, tree| tree.set_value("SIZE", 5)),
        ("of checkpoint 17", |_, tree| tree.set_value("CKPT", 17)),
        ("with 5 ranks", |_, tree| tree.set_value("RANKS", 5)),
    ];
    for (part, damage) in cases {
        let root = tempfile::tempdir().unwrap();
        let dir = directory(root.path());
        let path = dir.join("rank_1.ckpt.scr");
        let mut tree = KvTree::read_file(&path).unwrap().unwrap();
        damage(&path, &mut tree);
        if part != "it is damaged" {
            tree.write_file(&path).unwrap();
        }
        let added = add_older_directory(root.path(), &dir).unwrap();
        assert_eq!(added.rebuilt, [1], "{part}: {added:?}");
        assert_eq!(added.refused, Vec::<String>::new(), "the second look finds nothing");
        assert_whole(root.path(), &added);
    }
}

#[test]
fn contradictions_are_told_and_nothing_is_rebuilt() {
    let spoil = |change: &dyn Fn(&Path), part: &str| {
        let root = tempfile::tempdir().unwrap();
        let dir = directory(root.path());
        change(&dir);
        let before = tree(&dir);
        let added = add_older_directory(root.path(), &dir).unwrap();
        let lost = added.lost.unwrap();
        assert!(lost.contains(part), "{lost}");
        assert!(!added.entry.complete && tree(&dir) == before);
    };
    let more = |dir: &Path, rank: usize| {
        fs::write(dir.join("more"), "more").unwrap();
        meta("more", "FULL", b"more", rank).write_file(dir.join("more.scr")).unwrap();
    };
    spoil(&|dir| more(dir, 2), "rank 2 has 3 files, and had 2");
    spoil(&|dir| more(dir, 9), "it has files of rank 9, of 4 ranks");
    let no_parity = |dir: &Path| {
        let other = (0..2).map(|rank| names_of(rank)[1].clone());
        other.for_each(|name| fs::remove_file(dir.join(name)).unwrap());
        let whole = add_older_directory(dir.parent().unwrap(), dir).unwrap();
        assert_eq!((whole.lost, whole.refused.len()), (None, 2), "no restart needs parity");
        fs::remove_dir_all(dir.with_file_name(".scr")).unwrap();
        lose(dir, 2);
        (0..RANKS).for_each(|rank| drop(fs::remove_file(dir.join(&names_of(rank)[1]))));
    };
    spoil(&no_parity, "no redundancy file");
}

#[test]
fn a_summary_of_that_version_does_without_sidecars() {
    let root = tempfile::tempdir().unwrap();
    let dir = directory(root.path());
    let mut summary = KvTree::new();
    summary.set_value("VERSION", 5);
    let entry = summary.set_kv("CKPT", 18);
    entry.set_value("COMPLETE", 1);
    entry.set_value("RANKS", RANKS);
    for rank in 0..RANKS {
        let file = entry.set_kv("RANK", rank).set_kv("FILE", format!("rank_{rank}.ckpt"));
        file.set_value("SIZE", content(rank).len());
        file.set_value("CRC", format!("{:#x}", scr_core::files::crc32(&content(rank))));
        names_of(rank)[1..].iter().for_each(|name| fs::remove_file(dir.join(name)).unwrap());
    }
    summary.write_file(dir.join("summary.scr")).unwrap();
    assert!(is_older_directory(&dir));
    assert_whole(root.path(), &add_older_directory(root.path(), &dir).unwrap());
}

#[test]
fn directories_elsewhere_and_ids_that_are_taken_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let dir = directory(&root.path().join("elsewhere"));
    let prefix = root.path().join("prefix");
    fs::create_dir(&prefix).unwrap();
    let error = |dir: &Path| add_older_directory(&prefix, dir).unwrap_err().to_string();
    assert!(error(&dir).contains("is not below the prefix"), "{}", error(&dir));
    assert!(error(&root.path().join("none")).contains("cannot find"));
    let first = directory(&prefix);
    add_older_directory(&prefix, &first).unwrap();
    let second = directory(&prefix.join("second"));
    assert!(error(&second).contains("another dataset 18"), "{}", error(&second));
    let empty = prefix.join("empty");
    fs::create_dir(&empty).unwrap();
    assert!(error(&empty).contains("nothing tells which checkpoint"), "{}", error(&empty));
}

#[test]
fn damaged_bytes_anywhere_crash_nothing() {
    let root = tempfile::tempdir().unwrap();
    let dir = directory(root.path());
    for name in (0..2).flat_map(names_of) {
        let good = fs::read(dir.join(&name)).unwrap();
        let mut changed = good.clone();
        changed[good.len() / 2] ^= 0x40;
        for bad in
            [vec![], b"text".to_vec(), vec![0xff; 64], changed, good[..good.len() / 2].into()]
        {
            fs::write(dir.join(&name), bad).unwrap();
            let _ = fs::remove_dir_all(root.path().join(".scr"));
            let added = add_older_directory(root.path(), &dir);
            // Two ranks have lost nothing: a file that is damaged alone is always had again.
            let added = added.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(added.lost, None, "{name}");
            fs::write(dir.join(&name), &good).unwrap();
        }
    }
}
