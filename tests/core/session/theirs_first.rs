//! Prefixes that the C implementation has written: runs go on from them, and leave its files alone
//! until a flush of their own is complete.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::calls::{CHECKPOINT, launch, read, same, write};
use super::cluster::{Cluster, Rank};
use super::theirs;

/// A prefix of it with `ckpt.1` and one of `ckpt.2` that is not complete, as the calls' tests read.
fn by_calls(settings: &[&str]) -> Cluster {
    let cluster = Cluster::new(&[&["SCR_COPY_TYPE=SINGLE"], settings].concat());
    let file =
        |id: u64, rank: usize| (format!("ckpt.{id}/f{rank}"), format!("ckpt.{id} of {rank}"));
    theirs::write(&cluster.prefix(), "NAME", &theirs::two(file));
    cluster
}

/// Which of its files are not as they were.
fn changed(cluster: &Cluster, before: &theirs::Files) -> Vec<String> {
    let now = theirs::bytes(&cluster.prefix());
    let other = before.iter().filter(|(name, bytes)| now.get(*name) != Some(bytes));
    other.map(|(name, _)| name.clone()).collect()
}

#[test]
fn its_newest_checkpoint_is_offered_and_ours_follow_it() {
    let cluster = by_calls(&["SCR_FLUSH=1"]);
    let prefix = cluster.prefix();
    let before = theirs::bytes(&prefix);
    for _ in 0..2 {
        let offered = launch(&cluster, "aabb", |session, _| read(session, true));
        assert_eq!(same(offered).as_deref(), Some("ckpt.1"));
        assert_eq!(changed(&cluster, &before), [""; 0]);
    }
    launch(&cluster, "aabb", |session, _| {
        assert_eq!(read(session, true).as_deref(), Some("ckpt.1"));
        assert!(write(session, &prefix, "ckpt.3", CHECKPOINT, true));
    });
    assert_eq!(changed(&cluster, &before), [".scr/index.scr"]);
    assert_eq!(fs::read(prefix.join(".scr/index.scr.classic")).unwrap(), before[".scr/index.scr"]);
    assert!(prefix.join(".scr/scr.dataset.3/summary.scr").exists());
    cluster.lose('a');
    let offered = launch(&cluster, "aabb", |session, _| {
        let first = read(session, session.program.rank() != 0);
        (first, session.program.have_restart().unwrap())
    });
    let (newest, next) = same(offered);
    assert_eq!((newest.as_deref(), next.as_deref()), (Some("ckpt.3"), Some("ckpt.1")));
}

#[test]
fn one_that_is_damaged_or_refused_is_not_offered() {
    let cluster = by_calls(&[]);
    let before = theirs::bytes(&cluster.prefix());
    let offered = launch(&cluster, "ab", |session, _| read(session, false));
    assert_eq!(same(offered).as_deref(), Some("ckpt.1"));
    let offered = launch(&cluster, "ab", |session, _| session.program.have_restart().unwrap());
    assert_eq!(same(offered), None);
    assert_eq!(changed(&cluster, &before), [""; 0]);

    let cluster = by_calls(&[]);
    fs::write(cluster.prefix().join("ckpt.1/f2"), "short").unwrap();
    let offered = launch(&cluster, "ab", |session, _| session.program.have_restart().unwrap());
    assert_eq!(same(offered), None);
}

#[test]
fn a_program_that_looks_for_its_files_finds_the_complete_one() {
    let cluster = Cluster::new(&["SCR_COPY_TYPE=SINGLE", "SCR_FLUSH=1"]);
    let prefix = cluster.prefix();
    let file = |id: u64, rank: usize| {
        (format!("ckpt/step_{id}/rank_{rank}.dat"), format!("step {id} of {rank}"))
    };
    theirs::write(&prefix, "NAME", &theirs::two(file));
    let before = theirs::bytes(&prefix);
    let seen = |rank: &Rank| {
        let mut steps = rank.files.list("ckpt");
        steps.retain(|step| !rank.files.list(&format!("ckpt/{step}")).is_empty());
        steps.into_iter().collect::<Vec<_>>()
    };
    for _ in 0..2 {
        let outcome = cluster.launch("aabb", None, seen);
        assert_eq!(*outcome.first(), ["step_1"], "{:?}", outcome.told);
        assert_eq!(changed(&cluster, &before), [""; 0]);
    }
    // Somebody has written it again without us.
    for rank in 0..4 {
        fs::write(prefix.join(file(2, rank).0), "anew").unwrap();
    }
    let outcome = cluster.launch("aabb", None, seen);
    assert_eq!(*outcome.first(), ["step_1", "step_2"], "{:?}", outcome.told);
}

#[test]
fn a_cache_that_it_has_left_is_told_of_and_stays() {
    let cluster = by_calls(&[]);
    let prefix = cluster.prefix();
    theirs::leave_cached(&prefix, 3, "ckpt.3");
    let cache = cluster.node('a').join("store/me/scr.1");
    let dataset = cache.join("scr.dataset.3");
    fs::create_dir_all(dataset.join(".scr")).unwrap();
    for dir in cache.ancestors().take(2) {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).unwrap();
    }
    fs::write(cache.join("cindex.scrinfo"), "x").unwrap();
    fs::write(dataset.join("f0"), "x").unwrap();
    fs::write(dataset.join(".scr/filemap_0"), "x").unwrap();
    let before = [theirs::bytes(&prefix), theirs::bytes(&cache)];
    let outcome = cluster.launch("aab", None, |rank: &Rank| {
        rank.session().program.use_by_program(None);
        rank.session().program.have_restart().unwrap()
    });
    assert_eq!(same(outcome.all()).as_deref(), Some("ckpt.1"));
    let told: Vec<_> = outcome.told.iter().filter(|line| line.contains("ckpt.3")).collect();
    assert!(told.len() == 1 && told[0].contains("C implementation"), "{:?}", outcome.told);
    assert_eq!(changed(&cluster, &before[0]), [""; 0]);
    let now = theirs::bytes(&cache);
    assert!(before[1].iter().all(|(name, bytes)| now.get(name) == Some(bytes)), "{now:?}");
}

#[test]
fn what_cannot_be_read_is_refused_in_one_line_and_not_written_over() {
    let cluster = by_calls(&["SCR_FLUSH=1"]);
    let prefix = cluster.prefix();
    let mut tree = scr_core::kvtree::KvTree::new();
    tree.set_value("VERSION", 1);
    tree.set_kv("DSET", 1).set_value("SOMETHING", "else");
    tree.write_file(prefix.join(".scr/index.scr")).unwrap();
    let before = theirs::bytes(&prefix);
    let outcome = cluster.launch("ab", None, |rank: &Rank| {
        rank.session().program.use_by_program(None);
        let offered = rank.session().program.have_restart().unwrap();
        write(rank.session(), &prefix, "ckpt.9", CHECKPOINT, true);
        offered
    });
    assert_eq!(same(outcome.all()).as_deref(), None);
    // One line that it is so, and one that this checkpoint could not be written.
    let told: Vec<_> = outcome.told.iter().filter(|one| one.contains("neither a NAME")).collect();
    let ids = ["SCR-4007", "SCR-4001"].map(|id| told.iter().filter(|one| one.contains(id)).count());
    assert_eq!((told.len(), ids), (2, [1, 1]), "{:?}", outcome.told);
    assert_eq!(changed(&cluster, &before), [""; 0]);
}
