//! Generations of a series without ids on the prefix: the names are those of the newest, and the
//! window keeps older ones beside.

use std::fs;
use std::path::{Path, PathBuf};

use scr_core::cache::{self, Ctx};
use scr_core::records::{FileNames, PrefixIndex, RecordKey, update};
use scr_core::transfer::{self, Check, Options, bring_back, finish_returns, list_prefix};

use super::cluster::{Cluster, IDENTITY, seal_files};

/// Flushes these generations with room for `keep`; `late` comes with the third.
pub fn flushed(cluster: &Cluster, keep: u64, ids: &[u64]) {
    let options = Options { prefix_size: keep, ..Options::default() };
    cluster.launch("ab").transfer(options).run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        for id in ids {
            let key = RecordKey { series: "state".into(), id: String::new(), generation: *id };
            let (state, side) = (format!("state {id}"), format!("side {id}"));
            let files = [("state", state.as_str()), ("d/side", &side), ("late", "late")];
            let count = if *id < 3 { 2 } else { 3 };
            seal_files(ctx, &key, *id, &files[..count]);
            transfer::flush_sync(ctx, *id, &|_| false).unwrap();
        }
    });
}

/// By dataset, newest first: whose the names of its files are.
pub fn listed(cluster: &Cluster) -> Vec<(u64, FileNames)> {
    let all = list_prefix(&cluster.prefix()).unwrap();
    all.iter().map(|one| (one.id, one.file_names)).collect()
}

fn copy(prefix: &Path, id: u64, name: &str) -> PathBuf {
    prefix.join(format!(".scr/scr.dataset.{id}/files/{name}"))
}

/// What is under the names, `-` for nothing.
pub fn names(cluster: &Cluster) -> [String; 3] {
    ["state", "d/side", "late"]
        .map(|name| fs::read_to_string(cluster.prefix().join(name)).unwrap_or_else(|_| "-".into()))
}

pub fn those_of(id: u64) -> [String; 3] {
    let late = if id < 3 { "-" } else { "late" };
    [format!("state {id}"), format!("side {id}"), late.into()]
}

pub fn collective<T: Send>(cluster: &Cluster, body: impl Fn(&Ctx) -> T + Sync) -> T {
    let mut outcome = cluster.launch("ab").run(body);
    outcome.results.remove(0).unwrap()
}

pub fn back(cluster: &Cluster, id: u64, damaged: bool) -> Result<(), String> {
    collective(cluster, |ctx| bring_back(ctx, id, damaged).unwrap())
}

#[test]
fn the_window_keeps_older_ones_beside() {
    let cluster = Cluster::new();
    flushed(&cluster, 3, &[1, 2, 3, 4]);
    assert_eq!(listed(&cluster), [(4, FileNames::Own), (3, FileNames::Kept), (2, FileNames::Kept)]);
    assert_eq!(names(&cluster), those_of(4));
    let prefix = cluster.prefix();
    assert_eq!(fs::read_to_string(copy(&prefix, 3, "d/side")).unwrap(), "side 3");
    assert_eq!(fs::read_to_string(copy(&prefix, 2, "state")).unwrap(), "state 2");
    assert!(!copy(&prefix, 1, "state").exists() && !copy(&prefix, 4, "state").exists());
    for keep in [0, 1] {
        let cluster = Cluster::new();
        flushed(&cluster, keep, &[1, 2]);
        assert!(listed(&cluster).iter().all(|(_, names)| *names != FileNames::Kept), "{keep}");
        assert!(!copy(&cluster.prefix(), 1, "").exists(), "{keep}");
    }
}

#[test]
fn a_run_goes_back_and_forth() {
    let cluster = Cluster::new();
    flushed(&cluster, 4, &[1, 2, 3, 4]);
    for (to, kept) in [(2, [4, 3, 1]), (3, [4, 2, 1]), (1, [4, 3, 2]), (4, [3, 2, 1])] {
        assert_eq!(back(&cluster, to, false), Ok(()), "{to}");
        assert_eq!(names(&cluster), those_of(to));
        let mut want: Vec<_> = kept.map(|id| (id, FileNames::Kept)).into();
        want.push((to, FileNames::Own));
        want.sort_by_key(|(id, ..)| std::cmp::Reverse(*id));
        assert_eq!(listed(&cluster), want, "{to}");
        assert!(!copy(&cluster.prefix(), to, "").exists(), "{to}");
        // What is made anew from the summaries says the same.
        let index = cluster.prefix().join(".scr/index.scr");
        fs::write(&index, "damaged").unwrap();
        assert_eq!(transfer::repair_prefix(&cluster.prefix()).unwrap().len(), 1);
        assert_eq!(listed(&cluster), want, "{to}");
    }
    // The next one follows the one that the run went back to.
    assert_eq!(back(&cluster, 2, false), Ok(()));
    transfer::note_success(&cluster.prefix(), 2).unwrap();
    flushed(&cluster, 2, &[5]);
    let left: Vec<_> =
        listed(&cluster).into_iter().filter(|(_, names)| *names == FileNames::Kept).collect();
    assert!(left.contains(&(2, FileNames::Kept)) && names(&cluster)[0] == "state 5", "{left:?}");
}

#[test]
fn one_that_has_come_back_is_looked_at_like_any_other() {
    let cluster = Cluster::new();
    flushed(&cluster, 3, &[1, 2]);
    assert_eq!(back(&cluster, 1, false), Ok(()));
    let check = |ctx: &Ctx| transfer::verify_on_prefix(ctx, 1, Check::Contents).unwrap();
    assert_eq!(collective(&cluster, check).fault, None);
    fs::write(cluster.prefix().join("state"), "st").unwrap();
    assert!(collective(&cluster, check).fault.is_some());
}

#[test]
fn what_somebody_has_written_stays_and_what_is_damaged_is_not_offered() {
    let cluster = Cluster::new();
    flushed(&cluster, 3, &[1, 2]);
    let state = cluster.prefix().join("state");
    fs::write(&state, "of the user").unwrap();
    let why = back(&cluster, 1, false).unwrap_err();
    assert!(why.contains("state has been written anew"), "{why}");
    assert_eq!(fs::read_to_string(&state).unwrap(), "of the user");
    // The caller has found it damaged: the other one takes its place, and it is not thrown away.
    assert_eq!(back(&cluster, 1, true), Ok(()));
    assert_eq!(names(&cluster), those_of(1));
    assert_eq!(listed(&cluster), [(2, FileNames::Taken), (1, FileNames::Own)]);
    assert_eq!(fs::read_to_string(copy(&cluster.prefix(), 2, "state")).unwrap(), "of the user");

    let cluster = Cluster::new();
    flushed(&cluster, 3, &[1, 2]);
    fs::write(copy(&cluster.prefix(), 1, "d/side"), "sid- 1").unwrap();
    let why = back(&cluster, 1, true).unwrap_err();
    assert!(why.contains("d/side that was kept is damaged"), "{why}");
    assert_eq!(names(&cluster), those_of(2));
    assert_eq!(back(&cluster, 2, true).unwrap_err(), "its files are not kept");
}

#[test]
fn a_return_that_was_interrupted_goes_on() {
    // Nothing is renamed yet, one file is, all are.
    for renamed in 0..=2 {
        let cluster = Cluster::new();
        flushed(&cluster, 3, &[1, 2]);
        let prefix = cluster.prefix();
        // As bring_back leaves it at its first change.
        for name in ["state", "d/side"] {
            let link = copy(&prefix, 2, name);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            fs::hard_link(prefix.join(name), link).unwrap();
        }
        update(&prefix.join(".scr/index.scr"), |index: &mut PrefixIndex| {
            let newer = index.by_id_mut(2).unwrap();
            (newer.replaced_by, newer.kept) = (Some(1), true);
            index.by_id_mut(1).unwrap().replaced_by = None;
            Ok(())
        })
        .unwrap();
        for name in ["state", "d/side"].iter().take(renamed) {
            fs::rename(copy(&prefix, 1, name), prefix.join(name)).unwrap();
        }
        // While its summary cannot be read nothing of it is thrown away.
        let summary = prefix.join(".scr/scr.dataset.1/summary.scr");
        let aside = prefix.join("aside");
        fs::rename(&summary, &aside).unwrap();
        finish_returns(&prefix).unwrap();
        fs::rename(&aside, &summary).unwrap();
        finish_returns(&prefix).unwrap();
        assert_eq!(names(&cluster), those_of(1), "{renamed}");
        assert_eq!(listed(&cluster), [(2, FileNames::Kept), (1, FileNames::Own)], "{renamed}");
        assert_eq!(back(&cluster, 2, false), Ok(()));
        assert_eq!(names(&cluster), those_of(2), "{renamed}");
    }
}

#[test]
fn a_flush_that_ended_after_its_links_begins_anew() {
    let cluster = Cluster::new();
    flushed(&cluster, 2, &[1]);
    let link = copy(&cluster.prefix(), 1, "state");
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    fs::write(&link, "of an older attempt").unwrap();
    flushed(&cluster, 2, &[2]);
    assert_eq!(fs::read_to_string(&link).unwrap(), "state 1");
    assert_eq!(listed(&cluster), [(2, FileNames::Own), (1, FileNames::Kept)]);
}

#[test]
fn what_was_written_over_on_the_prefix_is_not_kept() {
    let cluster = Cluster::new();
    flushed(&cluster, 3, &[1]);
    fs::write(cluster.prefix().join("state"), "of the program").unwrap();
    flushed(&cluster, 3, &[2]);
    assert_eq!(listed(&cluster), [(2, FileNames::Own), (1, FileNames::Taken)]);
    assert!(!copy(&cluster.prefix(), 1, "").exists());
}

#[test]
fn files_of_those_that_leave_the_index_by_the_users_wish_stay() {
    let cluster = Cluster::new();
    flushed(&cluster, 3, &[1, 2]);
    assert_eq!(back(&cluster, 1, false), Ok(()));
    transfer::forget_datasets(&cluster.prefix(), &|id| id > 1).unwrap();
    assert_eq!(listed(&cluster), [(1, FileNames::Own)]);
    let prefix = cluster.prefix();
    assert_eq!(fs::read_to_string(copy(&prefix, 2, "state")).unwrap(), "state 2");
    // No index that is made anew has it.
    fs::remove_file(prefix.join(".scr/index.scr")).unwrap();
    transfer::repair_prefix(&prefix).unwrap();
    assert_eq!(listed(&cluster), [(1, FileNames::Own)]);
}

#[test]
fn what_could_not_come_back_is_not_lost_to_another_that_does() {
    let cluster = Cluster::new();
    flushed(&cluster, 4, &[1, 2, 3]);
    let side = cluster.prefix().join("d/side");
    let in_the_way = |ctx: &Ctx| {
        if ctx.world.rank() == 0 {
            fs::remove_file(&side).unwrap();
            fs::create_dir_all(side.join("x")).unwrap();
        }
        ctx.world.barrier().unwrap();
        let failed = bring_back(ctx, 2, true).is_err();
        ctx.world.barrier().unwrap();
        if ctx.world.rank() == 0 {
            fs::remove_dir_all(&side).unwrap();
        }
        failed
    };
    assert!(collective(&cluster, in_the_way));
    assert_eq!(back(&cluster, 1, true), Ok(()));
    assert_eq!(names(&cluster)[..2], those_of(1)[..2]);
    assert_eq!(back(&cluster, 2, false), Ok(()));
    assert_eq!(names(&cluster)[..2], those_of(2)[..2]);
}
