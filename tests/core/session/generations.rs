//! Programs without ids that keep their last checkpoints under names that move, or change them in
//! place.

use std::fs;

use super::cluster::{Cluster, Rank};
use super::scene::{check_message, place, wait_until_recorded};
use super::sim::Sim;

const STEPS: u64 = 8;

/// How a checkpoint gets its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// It is written under it.
    Over,
    /// It is written beside, and renamed.
    Aside,
    /// The one before was copied, and the new one replaces it by a rename.
    Copied,
}

use How::{Aside, Copied, Over};

fn name(rank: usize, older: usize) -> String {
    match older {
        0 => format!("s.{rank}"),
        older => format!("s.{rank}.{older}"),
    }
}

/// What the rank finds under its names.
fn look(rank: &Rank, names: usize) -> Vec<u64> {
    let text = |older| rank.files.text(&name(rank.rank, older));
    (0..names).map(|older| text(older).map_or(0, |text| text.trim().parse().unwrap())).collect()
}

/// Each rank keeps its last checkpoints: `s.R.1` becomes `s.R.2`, `s.R` becomes `s.R.1`, `s.R` is
/// written. The first two are written over one another, if there is none of an earlier run.
fn put(rank: &Rank, (names, how): (usize, How), step: u64, moves: bool) {
    let (files, of) = (&rank.files, |older| name(rank.rank, older));
    for older in (1..names).rev().filter(|_| moves) {
        match how {
            Copied => {
                if let Ok(bytes) = files.read_file(&of(older - 1)) {
                    files.write_file(&of(older), &bytes).unwrap();
                }
            }
            _ => drop(files.rename(&of(older - 1), &of(older))),
        }
    }
    assert!(!moves || how == Copied || !files.exists(&of(0)), "it is still there");
    let path = match how {
        Aside => of(0) + ".new",
        Copied => format!("s_step{step}.{}", rank.rank),
        Over => of(0),
    };
    files.write_file(&path, format!("{step}\n").as_bytes()).unwrap();
    if path != of(0) {
        files.rename(&path, &of(0)).unwrap();
    }
}

/// Writes all checkpoints, and is killed.
fn generations(rank: &Rank, names: usize, how: How) {
    let begun = look(rank, names).iter().any(|step| *step > 0);
    for step in 1..=STEPS {
        put(rank, (names, how), step, step > 2 || begun);
        rank.calm();
    }
}

fn here(names: usize, learn: bool) -> Cluster {
    let older = (1..names).map(|older| format!(", s.{{rank}}.{older}")).collect::<String>();
    let mut cluster = place(&["SCR_COPY_TYPE=PARTNER", "SCR_FLUSH=0"]);
    cluster.set(&format!("SCR_CHECKPOINT_PATTERN=s.{{rank}}{older}"));
    cluster.set(&format!("SCR_LEARN={}", u8::from(learn)));
    cluster
}

/// What a run finds, the same on both ranks.
fn found(cluster: &Cluster, names: usize) -> Vec<u64> {
    let got = cluster.run("ab", |rank| {
        let found = look(rank, names);
        rank.finish();
        found
    });
    assert_eq!(got.all()[0], got.all()[1], "{:?}", got.told);
    got.first().clone()
}

fn newest(names: usize) -> Vec<u64> {
    (0..names as u64).map(|older| STEPS - older).collect()
}

#[test]
fn the_newest_of_checkpoints_whose_names_move_survives_its_node() {
    // All names are those of one moment, however many there are and however they are written.
    for (names, how, learn) in [
        (3, Over, true),
        (3, Aside, false),
        (2, Aside, true),
        (4, Over, false),
        (2, Copied, true),
        (3, Copied, false),
    ] {
        let cluster = here(names, learn);
        cluster.run("ab", |rank| generations(rank, names, how)).all();
        let is_dataset = |path: &std::path::PathBuf| {
            path.file_name().unwrap().to_string_lossy().starts_with("scr.dataset.")
        };
        // What the program takes files away from is of no use any more.
        let kept = cluster.cached("a").into_iter().filter(is_dataset).count();
        assert_eq!(kept, if how == Copied { 2 } else { 1 }, "{names} {how:?}");
        cluster.lose('b');
        assert_eq!(found(&cluster, names), newest(names), "{names} {how:?}");
    }
}

#[test]
fn checkpoints_of_an_earlier_run_that_are_moved_do_not_keep_new_ones_from_the_cache() {
    // The prefix has `s` and `s.1` of a run without SCR; the first doing is a rename.
    for (names, how, learn) in [(2, Over, false), (3, Aside, true)] {
        let cluster = here(names, learn);
        for (rank, older) in (0..2).flat_map(|rank| (0..names).map(move |older| (rank, older))) {
            let path = cluster.prefix().join(name(rank, older));
            fs::write(path, format!("{}\n", 101 - older)).unwrap();
        }
        cluster.run("ab", |rank| generations(rank, names, how)).all();
        let newest_text = format!("{STEPS}\n").into_bytes();
        assert!(!cluster.tree().values().any(|bytes| *bytes == newest_text), "{names} {how:?}");
        cluster.lose('b');
        assert_eq!(found(&cluster, names), newest(names), "{names} {how:?}");
    }
}

#[test]
fn of_checkpoints_in_the_cache_alone_the_prefix_does_not_say_that_it_has_them() {
    // When all caches are lost, that is told, and the prefix has files of one moment or none.
    for (learn, left) in [(false, [0, 0]), (true, [1, 0])] {
        let mut cluster = here(2, learn).helped();
        cluster.run("ab", |rank| {
            generations(rank, 2, Over);
            wait_until_recorded(rank, &cluster);
        });
        cluster.lose_all("ab");
        let ended = cluster.run_with(&["SCR_RESTART_REQUIRED=1"], "ab", |rank| look(rank, 2));
        assert_eq!(ended.results, [None, None], "{learn}: {:?}", ended.told);
        let told = ended.told.join("\n");
        assert!(told.contains("cannot be had again"), "{learn}: {told}");
        assert_eq!(found(&cluster, 2), left, "{learn}");
    }
}

/// Changes a file in place, and never cuts it short.
fn change(rank: &Rank, stem: &str, number: u64) {
    let name = format!("{stem}_{}", rank.rank);
    let file = rank.files.open(&name, libc::O_RDWR | libc::O_CREAT).unwrap();
    file.write(format!("{stem} of checkpoint {number:4}\n").as_bytes()).unwrap();
    file.close().unwrap();
}

#[test]
fn a_file_that_is_changed_in_place_on_the_prefix_stays_in_sight() {
    // It came to the prefix with the first checkpoint, and only newer ones are in the cache. What
    // the program has done to it since is no damage.
    let pattern = "SCR_CHECKPOINT_PATTERN=state_{rank}, side_{rank}";
    let cluster = place(&[pattern, "SCR_FLUSH=0"]);
    cluster.run("aa", |rank| {
        for step in 0..STEPS {
            if step == 0 {
                change(rank, "side", step);
            }
            change(rank, "state", step);
            rank.calm();
        }
        change(rank, "side", STEPS);
        rank.barrier();
    });
    let on_prefix = cluster.tree();
    let ends =
        |name: &str, number: u64| on_prefix[name].ends_with(format!(" {number}\n").as_bytes());
    assert!(ends("side_0", STEPS) && !ends("state_0", STEPS - 1), "{on_prefix:?}");
    let got = cluster.run("aa", |rank| {
        let found = ["state", "side"].map(|stem| rank.files.text(&format!("{stem}_{}", rank.rank)));
        rank.finish();
        found.map(|text| text.unwrap_or_default())
    });
    let want = [("state", STEPS - 1), ("side", STEPS)];
    let want = want.map(|(stem, number)| format!("{stem} of checkpoint {number:4}\n"));
    assert_eq!(got.all(), [&want; 2], "{:?}", got.told);
    assert!(!got.told.iter().any(|line| line.contains("hidden")), "{:?}", got.told);
}

/// A program whose only file of a rank is opened without truncation and overwritten at each
/// checkpoint; the step that it begins with.
fn in_place(rank: &Rank, steps: u64, dies_at: Option<u64>) -> (u64, Option<u64>) {
    let mut sim = Sim::new(rank);
    let name = format!("ckpt/state_{}.dat", rank.rank);
    rank.files.make_dir("ckpt").unwrap();
    let found = rank.files.read_file(&name).ok().and_then(|bytes| Sim::of_bytes(&bytes));
    let step = found.as_ref().map_or(0, |found| found.step) as i64;
    // Ranks that stand at different steps begin anew.
    if rank.all_max(step).unwrap() == -rank.all_max(-step).unwrap() {
        sim = found.unwrap_or(sim);
    }
    let begin = sim.step;
    while sim.step < steps {
        sim.step(rank);
        if sim.step.is_multiple_of(5) {
            let file = rank.files.open(&name, libc::O_RDWR | libc::O_CREAT).unwrap();
            file.write(&sim.bytes()).unwrap();
            file.close().unwrap();
        }
        if dies_at == Some(sim.step) {
            return (begin, None);
        }
        rank.calm();
    }
    let checksum = sim.checksum(rank);
    rank.finish();
    (begin, Some(checksum))
}

#[test]
fn rewritten_in_place() {
    // A rank is killed right after a checkpoint. The restart has one of the two before it, if not
    // itself.
    let want = place(&[]).run_plain("aa", |rank| in_place(rank, 80, None)).first().1;
    let cluster = place(&["SCR_CHECKPOINT_PATTERN=ckpt/state_{rank}.dat", "SCR_FLUSH=0"]);
    cluster.run("aa", |rank| in_place(rank, 80, Some(60))).all();
    let got = cluster.run("aa", |rank| in_place(rank, 80, None));
    let (begin, checksum) = *got.first();
    assert_eq!(checksum, want, "{:?}", got.told);
    assert!(begin >= 50, "went on from {begin}: {:?}", got.told);
}

#[test]
fn what_a_run_without_us_has_written_since_is_newer() {
    let want = place(&[]).run_plain("aa", |rank| in_place(rank, 80, None)).first().1;
    let cluster = place(&["SCR_CHECKPOINT_PATTERN=ckpt/state_{rank}.dat", "SCR_FLUSH=0"]);
    cluster.run("aa", |rank| in_place(rank, 80, Some(62))).all();
    cluster.run_plain("aa", |rank| in_place(rank, 80, Some(72))).all();
    // It holds for later starts, too.
    for dies_at in [Some(71), None] {
        let got = cluster.run("aa", |rank| in_place(rank, 80, dies_at));
        assert_eq!(got.all()[0].0, 70, "{:?}", got.told);
        check_message(&got.told, &["were written since, not by that run", "SCR_CURRENT="]);
        assert!(!got.told.iter().any(|line| line.contains("SCR-3102")), "{:?}", got.told);
        assert!(dies_at.is_some() || got.first().1 == want, "{:?}", got.told);
    }
}

/// All empty the file and write it, and close it; then one alone goes on in it, as others look on.
#[test]
fn ranks_that_have_not_written_to_the_last_checkpoint_begin_the_next_one_with_the_others() {
    const PART: usize = 4000;
    let part = |step: usize, rank: usize| vec![(10 * step + rank) as u8; PART];
    for hosts in ["aab", "ab"] {
        let ranks = hosts.len();
        let settings = ["SCR_LEARN=1", "SCR_CHECKPOINT_PATTERN=ckpt/state"];
        let got = place(&settings).helped().run(hosts, |rank| {
            let _ = rank.files.make_dir("ckpt");
            rank.barrier();
            let flags = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
            for step in 1..=4 {
                let open = |flags| rank.files.open("ckpt/state", flags).unwrap();
                let file = open(flags);
                rank.all_max(0).unwrap();
                if rank.rank > 0 {
                    file.write_at(&part(step, rank.rank), (rank.rank * PART) as u64).unwrap();
                }
                rank.barrier();
                file.close().unwrap();
                rank.barrier();
                let file = open(libc::O_RDWR);
                rank.all_max(0).unwrap();
                if rank.rank == 0 {
                    file.write_at(&part(step, ranks), (ranks * PART) as u64).unwrap();
                }
                rank.barrier();
                let parts = (1..=ranks).flat_map(|rank| part(step, rank));
                let want: Vec<u8> = std::iter::repeat_n(0, PART).chain(parts).collect();
                assert_eq!(file.size().unwrap(), want.len() as u64, "{hosts} {step}");
                assert!(file.read_at(want.len(), 0).unwrap() == want, "{hosts} {step}");
                file.close().unwrap();
                rank.calm();
            }
            rank.finish();
        });
        got.all();
    }
}
