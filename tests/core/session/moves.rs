//! Checkpoints and their directories are renamed, removed and pointed to: all ranks find what they
//! would find without SCR.

use scr_core::transfer::staged_name;

use super::cluster::Rank;
use super::scene::{assert_same_files, place, same};
use super::sim::{Sim, file, scan, steady};

/// Rank 0 removes what all ranks have written.
fn discard(rank: &Rank, step: u64) {
    (0..rank.size).for_each(|of| rank.files.unlink(&file(step, of)).unwrap());
}

/// Before every checkpoint rank 0 removes the files of the last one, and all write them anew under
/// the same names; or every checkpoint has names of its own, and when the last one is written, all
/// but the first are removed.
fn cleanup(rank: &Rank, is_rewritten: bool) -> u64 {
    let mut sim = Sim::new(rank);
    while sim.step < 40 {
        sim.step(rank);
        if !sim.step.is_multiple_of(5) {
            continue;
        }
        let shown = if is_rewritten { 0 } else { sim.step };
        if rank.rank == 0 {
            rank.files.make_dir("ckpt").unwrap();
            rank.files.make_dir(&format!("ckpt/step_{shown}")).unwrap();
            if is_rewritten && sim.step > 5 {
                discard(rank, shown);
            }
        }
        rank.barrier();
        rank.files.write_file(&file(shown, rank.rank), &sim.bytes()).unwrap();
    }
    for _ in 0..10 {
        sim.step(rank);
        rank.calm();
    }
    if !is_rewritten && rank.rank == 0 {
        (2..=8).for_each(|at| discard(rank, at * 5));
    }
    rank.barrier();
    let checksum = sim.checksum(rank);
    rank.finish();
    checksum
}

#[test]
fn one_rank_removes_the_files_of_all_and_all_write_them_anew() {
    for flush in ["SCR_FLUSH=0", "SCR_FLUSH=1"] {
        let pattern = "SCR_CHECKPOINT_PATTERN=ckpt/step_0/rank_{rank}.dat";
        same("aaa", &[flush, pattern], |rank| cleanup(rank, true));
    }
}

#[test]
fn one_rank_removes_the_checkpoints_of_all_at_the_end() {
    same("aaa", &[], |rank| cleanup(rank, false));
}

/// The last two checkpoints are kept: after a new one each rank deletes its own file of the one
/// before the last two, then rank 0 the header and the directory. `latest`, a symbolic link, is
/// replaced by a rename. What all ranks find in the end.
fn keeps_two(rank: &Rank) -> Vec<Option<usize>> {
    let (files, mut sim) = (&rank.files, Sim::new(rank));
    let header = |step: u64| format!("ckpt/step_{step}/rank_header.dat");
    for step in 1..=6 {
        sim.step(rank);
        rank.calm();
        files.make_dir("ckpt").unwrap();
        files.make_dir(&format!("ckpt/step_{step}")).unwrap();
        rank.barrier();
        sim.checkpoint(rank);
        if rank.rank == 0 {
            files.write_file(&header(step), header(step).as_bytes()).unwrap();
            files.symlink(&format!("step_{step}"), "ckpt/.new").unwrap();
            files.rename("ckpt/.new", "ckpt/latest").unwrap();
        }
        // At once: the barrier in it seals this checkpoint.
        if step > 2 {
            files.unlink(&file(step - 2, rank.rank)).unwrap();
            rank.barrier();
            if rank.rank == 0 {
                files.unlink(&header(step - 2)).unwrap();
                files.rmdir(&format!("ckpt/step_{}", step - 2)).unwrap();
            }
        }
    }
    rank.calm();
    let entries = |step| files.names(&format!("ckpt/step_{step}")).ok().map(|names| names.len());
    let found = (1..=6).map(entries).collect();
    rank.finish();
    found
}

#[test]
fn old_checkpoints_go_and_a_link_points_to_the_newest() {
    // Rank 0 finds the directory empty that the others have emptied; the link costs no caching.
    let plain = place(&[]);
    let want = plain.run_plain("aaa", keeps_two);
    let pattern = "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/**, ckpt/latest";
    let cluster = place(&["SCR_LEARN=1", pattern]);
    let got = cluster.run("aaa", keeps_two);
    assert_eq!(want.results, got.results, "{:?}", got.told);
    let files = cluster.tree();
    assert_eq!(files["ckpt/latest"], b"step_6");
    assert_same_files(&plain.tree(), &files, &got.told);
}

/// A directory of checkpoint files moves away and comes back, and another one takes its place: rank
/// 0 renames. What each rank finds after each step.
fn dir_back(rank: &Rank, generations: usize) -> Vec<Option<String>> {
    let mut seen = Vec::new();
    let name = |dir: &str, of: usize| format!("{dir}/rank_{of}.dat");
    let put = |dir: &str, value: usize| {
        rank.files.make_dir(dir).unwrap();
        rank.barrier();
        let text = format!("{value} of rank {}\n", rank.rank);
        rank.files.write_file(&name(dir, rank.rank), text.as_bytes()).unwrap();
        rank.barrier();
    };
    let shift = |from: &str, to: &str| {
        rank.calm();
        if rank.rank == 0 {
            rank.files.rename(from, to).unwrap();
        }
        rank.barrier();
    };
    let mut look = |dir: &str| {
        seen.extend((0..rank.size).map(|of| rank.files.text(&name(dir, of))));
        rank.barrier();
    };
    for value in 0..generations {
        put("save", value);
        rank.calm();
    }
    shift("save", "save.old");
    look("save");
    look("save.old");
    shift("save.old", "save");
    look("save");
    look("save.old");
    // A new one is made elsewhere and takes the place of the old one.
    put("save.tmp", 100);
    rank.files.unlink(&name("save", rank.rank)).unwrap();
    rank.barrier();
    if rank.rank == 0 {
        rank.files.rmdir("save").unwrap();
    }
    rank.barrier();
    look("save");
    shift("save.tmp", "save");
    look("save");
    put("save", 200);
    rank.calm();
    look("save");
    rank.finish();
    seen
}

#[test]
fn directory_that_moves_away_and_comes_back() {
    // With files that are cached, and older generations of them; then another takes its place.
    for generations in [1, 3] {
        let pattern = "SCR_CHECKPOINT_PATTERN=save/rank_{rank}.dat";
        same("aa", &[pattern], |rank| dir_back(rank, generations));
    }
}

/// Rank 0 removes the newest checkpoint, directory and all, and makes the directory again.
fn remake(rank: &Rank) -> Vec<bool> {
    let (files, mut sim) = (&rank.files, Sim::new(rank));
    let mut two = || {
        for _ in 0..2 {
            sim.step(rank);
            sim.checkpoint(rank);
            rank.calm();
        }
    };
    two();
    let dir = "ckpt/step_2";
    let mut done = vec![
        files.unlink(&file(2, 0)).is_ok(),
        files.rmdir(dir).is_ok(),
        files.exists(dir),
        files.mkdir(dir).is_ok(),
        files.exists(&file(2, 0)),
    ];
    rank.barrier();
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
    done.push(files.open("ckpt/step_2/note", flags).is_ok_and(|note| note.close().is_ok()));
    two();
    rank.finish();
    done
}

#[test]
fn removed_directory_made_again() {
    // Files whose deletion waits do not keep their directory's name from being used again.
    let got = same("a", &[], remake);
    assert_eq!(*got.first(), [true, true, false, true, false, true]);
}

/// Writes so many checkpoints, all of them complete; then the newest is all that the program keeps,
/// and at once it is killed. One rank removes the files of all, or each its own.
fn purge(rank: &Rank, written: u64, is_one: bool) {
    let (files, mut sim) = (&rank.files, Sim::new(rank));
    for _ in 0..written {
        sim.step(rank);
        sim.checkpoint(rank);
        rank.calm();
    }
    let there = (1..20).filter(|step| files.exists(&file(*step, rank.rank))).collect::<Vec<_>>();
    rank.barrier();
    for step in there.iter().copied().filter(|step| Some(step) != there.last()) {
        rank.barrier();
        match is_one {
            true if rank.rank == 0 => discard(rank, step),
            true => {}
            false => files.unlink(&file(step, rank.rank)).unwrap(),
        }
        if !is_one {
            rank.barrier();
        }
        if rank.rank == 0 {
            files.rmdir(&format!("ckpt/step_{step}")).unwrap();
        }
    }
}

#[test]
fn what_was_removed_after_a_newer_checkpoint_was_complete_stays_removed() {
    // The program is killed right after it has removed older ones, that the prefix has: of its own
    // run, and of the one before.
    for is_one in [true, false] {
        for (before, written, newest) in [(false, 3, "step_3"), (true, 0, "step_15")] {
            let cluster = place(&["SCR_FLUSH=1", "SCR_CACHE_SIZE=1"]);
            if before {
                cluster.run("aa", |rank| steady(15, 5).run(rank)).all();
            }
            cluster.run("aa", |rank| purge(rank, written, is_one)).all();
            let seen = cluster.run("aa", scan);
            let want = [format!("{newest} rank_0.dat rank_1.dat")];
            assert_eq!(*seen.first(), want, "{is_one} {before}: {:?}", seen.told);
        }
    }
}
/// Checkpoints in q0, of which older ones move on to q1 and q2 as directories. What each rank finds
/// of the oldest before it deletes its file of it.
fn rotate(rank: &Rank) -> Vec<Option<String>> {
    let (files, mut found) = (&rank.files, Vec::new());
    let name = |dir: &str| format!("{dir}/c{}", rank.rank);
    for step in 1..=8 {
        if step > 3 {
            found.push(files.text(&name("q2")));
            files.unlink(&name("q2")).unwrap();
        }
        rank.barrier();
        if rank.rank == 0 {
            if step > 3 {
                files.rmdir("q2").unwrap();
            }
            let moves = [(step > 2, "q1", "q2"), (step > 1, "q0", "q1")];
            for (_, from, to) in moves.into_iter().filter(|one| one.0) {
                files.rename(from, to).unwrap();
            }
            files.mkdir("q0").unwrap();
        }
        rank.barrier();
        files.write_file(&name("q0"), format!("step {step}").as_bytes()).unwrap();
        rank.calm();
    }
    rank.finish();
    found
}

#[test]
fn directories_move_on_and_the_oldest_goes() {
    // Rank 0 moves a directory to where the files were that all have just deleted.
    for learn in ["SCR_LEARN=0", "SCR_LEARN=1"] {
        let (plain, settings) = (place(&[]), ["SCR_COPY_TYPE=XOR", "SCR_FLUSH=1", learn]);
        let pattern = "SCR_CHECKPOINT_PATTERN=q{id}/c{rank}";
        // Helper threads bring to the prefix what rank 0 renames.
        let cluster = place(&[&[pattern], &settings[..]].concat()).helped();
        let want = plain.run_plain("abcd", rotate);
        let got = cluster.run("abcd", rotate);
        assert_eq!(want.results, got.results, "{learn}: {:?}", got.told);
        assert_same_files(&plain.tree(), &cluster.tree(), &got.told);
    }
}

/// Rank 0 rotates the directory of each checkpoint, and removes the one before the last. Before
/// that, `stage` is given the directory's name. What rank 0 is told.
fn rotate_at_once(rank: &Rank, stage: impl Fn(&str)) -> Vec<Result<(), Option<i32>>> {
    let (files, mut told) = (&rank.files, Vec::new());
    for step in 1..=4 {
        if rank.rank == 0 {
            if step > 2 {
                stage("prev");
                told.extend((0..rank.size).map(|of| files.unlink(&format!("prev/c{of}"))));
                told.push(files.rmdir("prev"));
            }
            if step > 1 {
                stage("now");
                told.push(files.rename("now", "prev"));
            }
            told.push(files.mkdir("now"));
        }
        rank.barrier();
        let text = format!("step {step} of rank {}", rank.rank);
        files.write_file(&format!("now/c{}", rank.rank), text.as_bytes()).unwrap();
        rank.calm();
    }
    rank.finish();
    told.into_iter().map(|one| one.map_err(|error| error.raw_os_error())).collect()
}

#[test]
fn a_directory_moves_while_a_thread_brings_its_files_to_the_prefix() {
    // What is not complete there yet does not go along: the directory can be removed and replaced,
    // and nothing of it is left at the end.
    let plain = place(&[]);
    let want = plain.run_plain("aa", |rank| rotate_at_once(rank, |_| ()));
    for pattern in ["now/c{rank}", "now/c{rank}, prev/c{rank}"] {
        let pattern = format!("SCR_CHECKPOINT_PATTERN={pattern}");
        let cluster = place(&["SCR_FLUSH=1", &pattern]);
        let stage = |dir: &str| {
            let staged = format!("{dir}/{}", staged_name("c1", 7));
            std::fs::write(cluster.prefix().join(staged), "half").unwrap();
        };
        let got = cluster.run("aa", |rank| rotate_at_once(rank, stage));
        assert_eq!(want.results, got.results, "{pattern}: {:?}", got.told);
        assert_same_files(&plain.tree(), &cluster.tree(), &got.told);
    }
}
