//! One file of ranks of several nodes that gets its name, or whose directory does, when all have
//! written it: each node's part moves in its cache.

use super::cluster::Rank;
use super::scene::{assert_same_files, cached_as, place, tree};

const HOSTS: &str = "aabb";
const PART: usize = 4000;
const STEPS: u64 = 6;

/// What is called anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    File,
    /// While the last rank has it open, and has written to it since the others.
    OpenFile,
    /// It has a name before that no pattern matches.
    UnmatchedFile,
    Directory,
}

fn name(step: u64) -> String {
    format!("ckpt/step_{step}/rank_9.dat")
}

fn part(step: u64, rank: usize) -> Vec<u8> {
    format!("step {step} rank {rank} ").bytes().cycle().take(PART).collect()
}

fn write(rank: &Rank, what: What, step: u64) {
    let dir = format!("ckpt/step_{step}");
    let (from, to, first) = match what {
        What::Directory => (format!("{dir}.temp"), dir.clone(), format!("{dir}.temp/rank_9.dat")),
        What::UnmatchedFile => {
            (format!("{}.part", name(step)), name(step), format!("{}.part", name(step)))
        }
        _ => (format!("{dir}/rank_8.dat"), name(step), format!("{dir}/rank_8.dat")),
    };
    if rank.rank == 0 {
        let _ = rank.files.make_dir("ckpt");
        let _ = rank.files.make_dir(if what == What::Directory { &from } else { &dir });
        rank.files.open(&first, libc::O_RDWR | libc::O_CREAT).unwrap().close().unwrap();
    }
    rank.barrier();
    let file = rank.files.open(&first, libc::O_RDWR).unwrap();
    file.write_at(&part(step, rank.rank), (rank.rank * PART) as u64).unwrap();
    let mut open = Some(file);
    if what == What::OpenFile && rank.rank == 3 {
        rank.barrier();
        let file = open.as_ref().unwrap();
        file.write_at(&part(step, 4), (4 * PART) as u64).unwrap();
    } else {
        open.take().unwrap().close().unwrap();
        // At a barrier a file that looks complete may be sealed.
        if what == What::OpenFile {
            rank.barrier();
        }
    }
    // That others write a file which no pattern matches is heard at a collective.
    if what == What::UnmatchedFile {
        rank.barrier()
    } else {
        rank.meet()
    }
    if rank.rank == 0 {
        rank.files.rename(&from, &to).unwrap();
    }
    rank.meet();
    if let Some(file) = open {
        file.write_at(&part(step, 5), (5 * PART) as u64).unwrap();
        file.close().unwrap();
    }
    rank.calm();
}

fn moves_in_the_caches(what: What) {
    let program = |rank: &Rank| (1..=STEPS).for_each(|step| write(rank, what, step));
    let plain = place(&[]);
    plain.run_plain(HOSTS, program);
    let settings = ["SCR_LEARN=1", "SCR_SHARED_CACHE=1", "SCR_SET_SIZE=2", "SCR_CACHE_SIZE=9"];
    let whole = tree(&plain.prefix());
    for (flush, copies) in [("SCR_FLUSH=1", "SINGLE"), ("SCR_FLUSH=0", "PARTNER")] {
        let copies = format!("SCR_COPY_TYPE={copies}");
        let cluster = place(&[&settings[..], &[flush, &copies]].concat()).helped();
        let got = cluster.run(HOSTS, |rank| {
            program(rank);
            rank.barrier();
            let cached =
                (1..=STEPS).map(|step| cached_as(&cluster, HOSTS, &name(step))).collect::<Vec<_>>();
            if flush == "SCR_FLUSH=1" {
                rank.finish();
            }
            cached
        });
        assert!(got.told.is_empty(), "{what:?}: {:?}", got.told);
        let parts = if flush == "SCR_FLUSH=1" { 2 } else { 4 };
        assert_eq!(got.first()[3..], [parts; 3], "{what:?}: a part on each node, and its copy");
        if flush == "SCR_FLUSH=1" {
            assert_same_files(&whole, &tree(&cluster.prefix()), &got.told);
            continue;
        }
        cluster.lose('b');
        let cluster = cluster.helped();
        let got = cluster.run(HOSTS, |rank| rank.files.read_file(&name(STEPS)).unwrap_or_default());
        let want = std::fs::read(plain.prefix().join(name(STEPS))).unwrap();
        for bytes in got.results.iter().flatten() {
            assert!(*bytes == want, "{what:?}: {} bytes, {:?}", bytes.len(), got.told);
        }
    }
}

#[test]
fn a_file_of_several_nodes_is_renamed_in_their_caches() {
    moves_in_the_caches(What::File);
}

#[test]
fn a_file_that_another_node_still_writes_is_renamed_in_the_caches() {
    moves_in_the_caches(What::OpenFile);
}

#[test]
fn a_file_of_several_nodes_is_known_by_a_temporary_name_that_no_pattern_matches() {
    moves_in_the_caches(What::UnmatchedFile);
}

#[test]
fn a_directory_with_a_file_of_several_nodes_gets_its_name_in_their_caches() {
    moves_in_the_caches(What::Directory);
}

/// One name that is deleted and made anew at each step, by one rank for all.
fn again(rank: &Rank, steps: std::ops::RangeInclusive<u64>) {
    let name = "ckpt/state.dat";
    let _ = rank.files.make_dir("ckpt");
    for step in steps {
        if rank.rank == 0 {
            let _ = rank.files.unlink(name);
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
            let file = rank.files.open(name, flags).unwrap();
            file.write_at(&part(step, 0), 0).unwrap();
            file.close().unwrap();
        }
        rank.barrier();
        if rank.rank > 0 {
            let file = rank.files.open(name, libc::O_WRONLY).unwrap();
            file.write_at(&part(step, rank.rank), (rank.rank * PART) as u64).unwrap();
            file.close().unwrap();
        }
        rank.calm();
    }
}

#[test]
fn a_file_that_a_restart_has_read_is_deleted_and_made_anew() {
    let settings = ["SCR_LEARN=1", "SCR_SHARED_CACHE=1", "SCR_FLUSH=0"];
    let pattern = "SCR_CHECKPOINT_PATTERN=ckpt/state.dat";
    let cluster = place(&[&settings[..], &[pattern]].concat()).helped();
    cluster.run(HOSTS, |rank| again(rank, 1..=6)).all();
    for _ in 0..2 {
        let got = cluster.run(HOSTS, |rank| {
            let found = rank.files.read_file("ckpt/state.dat").unwrap();
            rank.barrier();
            again(rank, 7..=9);
            found.len()
        });
        assert_eq!(*got.first(), 4 * PART, "{:?}", got.told);
    }
}

/// No pattern matches the name that the file has until it is complete.
#[test]
fn a_temporary_file_that_several_ranks_write_is_not_that_of_the_one_who_renames_it() {
    for (hosts, maker_alone) in [(HOSTS, true), (HOSTS, false), ("aaaa", true)] {
        let program = |rank: &Rank| {
            for step in 1..=STEPS {
                let (from, to) = (format!("ckpt/step_{step}/all.tmp"), name(step));
                if rank.rank == 0 {
                    let _ = rank.files.make_dir("ckpt");
                    let _ = rank.files.make_dir(&format!("ckpt/step_{step}"));
                    let flags = libc::O_WRONLY | libc::O_CREAT;
                    rank.files.open(&from, flags).unwrap().close().unwrap();
                }
                rank.barrier();
                let makes = if maker_alone { 0 } else { libc::O_CREAT };
                let file = rank.files.open(&from, libc::O_WRONLY | makes).unwrap();
                file.write_at(&part(step, rank.rank), (rank.rank * PART) as u64).unwrap();
                file.close().unwrap();
                rank.barrier();
                if rank.rank == 0 {
                    rank.files.rename(&from, &to).unwrap();
                }
                rank.calm();
            }
            rank.finish();
        };
        let plain = place(&[]);
        plain.run_plain(hosts, program);
        let pattern = "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/rank_{rank}.dat";
        let cluster = place(&["SCR_LEARN=1", "SCR_SHARED_CACHE=1", "SCR_FLUSH=1", pattern]);
        let got = cluster.run(hosts, program);
        assert_same_files(&tree(&plain.prefix()), &tree(&cluster.prefix()), &got.told);
    }
}

/// One name, under which the newest checkpoint is, and its temporary one.
fn replaced(rank: &Rank, steps: std::ops::RangeInclusive<u64>) {
    let (from, to) = ("ckpt/state.dat.part", "ckpt/state.dat");
    let _ = rank.files.make_dir("ckpt");
    for step in steps {
        if rank.rank == 0 {
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
            rank.files.open(from, flags).unwrap().close().unwrap();
        }
        rank.barrier();
        let file = rank.files.open(from, libc::O_WRONLY).unwrap();
        file.write_at(&part(step, rank.rank), (rank.rank * PART) as u64).unwrap();
        file.close().unwrap();
        rank.barrier();
        if rank.rank == 0 {
            rank.files.rename(from, to).unwrap();
        }
        rank.calm();
    }
}

#[test]
fn one_name_that_a_temporary_one_of_several_nodes_replaces_stays_on_the_prefix() {
    let pattern = "SCR_CHECKPOINT_PATTERN=ckpt/state.dat";
    let settings = ["SCR_LEARN=1", "SCR_SHARED_CACHE=1", "SCR_FLUSH=0", pattern];
    let cluster = place(&settings).helped();
    let got = cluster.run(HOSTS, |rank| replaced(rank, 1..=4));
    let told = |told: &[String]| told.iter().any(|line| line.contains("written by several ranks"));
    assert!(told(&got.told), "{:?}", got.told);
    for end in [8, 12] {
        let got = cluster.run(HOSTS, |rank| {
            let found = rank.files.read_file("ckpt/state.dat").unwrap();
            rank.barrier();
            replaced(rank, end - 3..=end);
            found
        });
        let want: Vec<u8> = (0..4).flat_map(|rank| part(end - 4, rank)).collect();
        assert!(*got.first() == want && told(&got.told), "{end}: {:?}", got.told);
    }
}
