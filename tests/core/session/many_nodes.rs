//! One file of ranks of several nodes: each node keeps its part of it.

use super::cluster::{Cluster, Rank};
use super::scene::{Tree, assert_same_files, cached_as, place, tree};

const HOSTS: &str = "aabb";
const PART: usize = 4000;
/// More than a restart brings to other nodes.
const LONG: usize = 100_000;

fn name(step: u64) -> String {
    format!("ckpt/step_{step}/rank_9.dat")
}

fn part(step: u64, rank: usize) -> Vec<u8> {
    format!("step {step} rank {rank} ").bytes().cycle().take(PART).collect()
}

/// What a program does one day that it has not done before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strange {
    /// A rank reads what another node has written.
    Reads,
    /// Two files at once, each read by another rank; the second one is written in each step.
    ReadsTwo,
}

fn write(rank: &Rank, step: u64) {
    write_strangely(rank, step, None, false);
}

/// One rank makes the file, all write their pieces: two of each rank, one after the others.
fn write_strangely(rank: &Rank, step: u64, strange: Option<Strange>, two: bool) {
    if rank.rank == 0 {
        let _ = rank.files.make_dir("ckpt");
        let _ = rank.files.make_dir(&format!("ckpt/step_{step}"));
        rank.files.open(&name(step), libc::O_RDWR | libc::O_CREAT).unwrap().close().unwrap();
    }
    rank.barrier();
    let file = rank.files.open(&name(step), libc::O_RDWR).unwrap();
    let second = two.then(|| {
        let other = name(step).replace("rank_9", "rank_8");
        let flags = libc::O_RDWR | libc::O_CREAT;
        let other = rank.files.open(&other, flags).unwrap();
        other.write_at(&part(step, rank.rank), (rank.rank * PART) as u64).unwrap();
        other
    });
    for half in 0..2 {
        let bytes = &part(step, rank.rank)[half * PART / 2..][..PART / 2];
        let at = (half * 4 + rank.rank) * PART / 2;
        file.write_at(bytes, at as u64).unwrap();
        if half == 0 && strange.is_some() {
            rank.barrier();
        }
        if half == 0
            && matches!(strange, Some(Strange::Reads | Strange::ReadsTwo))
            && rank.rank == 1
        {
            let found = file.read_at(PART / 2, (3 * PART / 2) as u64).unwrap();
            assert!(found == part(step, 3)[..PART / 2], "rank 3's bytes");
        }
        if let Some(other) =
            second.as_ref().filter(|_| strange.is_some() && half == 0 && rank.rank == 2)
        {
            let found = other.read_at(PART, 0).unwrap();
            assert!(found == part(step, 0), "rank 0's bytes");
        }
    }
    file.close().unwrap();
    second.into_iter().for_each(|other| other.close().unwrap());
    rank.calm();
}

fn whole(step: u64) -> Vec<u8> {
    let half = |half: usize| {
        (0..4).flat_map(move |rank| part(step, rank)[half * PART / 2..][..PART / 2].to_vec())
    };
    half(0).chain(half(1)).collect()
}

#[test]
fn one_file_of_all_ranks_is_cached_in_parts_and_the_same_without_us() {
    let program = |rank: &Rank| (1..=8).for_each(|step| write(rank, step));
    let plain = place(&[]);
    plain.run_plain(HOSTS, program);
    let cluster = place(&["SCR_LEARN=1", "SCR_SHARED_CACHE=1", "SCR_FLUSH=1", "SCR_CACHE_SIZE=9"]);
    let got = cluster.run(HOSTS, |rank| {
        program(rank);
        rank.barrier();
        let cached =
            (1..=8).map(|step| cached_as(&cluster, HOSTS, &name(step))).collect::<Vec<_>>();
        rank.finish();
        cached
    });
    assert!(got.told.is_empty(), "{:?}", got.told);
    assert_eq!(*got.first(), vec![0, 2, 2, 2, 2, 2, 2, 2], "a part on each node");
    assert_same_files(&tree(&plain.prefix()), &tree(&cluster.prefix()), &got.told);
}

#[test]
fn a_lost_node_gets_its_part_back_and_a_restart_reads_the_whole_file() {
    for scheme in ["PARTNER", "XOR"] {
        let copies = format!("SCR_COPY_TYPE={scheme}");
        let cluster =
            place(&["SCR_LEARN=1", "SCR_SHARED_CACHE=1", &copies, "SCR_FLUSH=0", "SCR_SET_SIZE=2"]);
        let program = |rank: &Rank| (1..=8).for_each(|step| write(rank, step));
        let told = cluster.run(HOSTS, program).told;
        assert!(told.is_empty(), "{scheme}: {told:?}");
        cluster.lose('b');
        let cluster = cluster.helped();
        let got = cluster.run(HOSTS, |rank| rank.files.read_file(&name(8)).unwrap_or_default());
        for (rank, bytes) in got.results.iter().enumerate() {
            let is_whole = *bytes.as_ref().unwrap() == whole(8);
            assert!(is_whole, "{scheme} rank {rank}: {:?}", got.told);
        }
    }
}

/// What a rank has written it reads from the cache of its node, rebuilt or not, and a header, which
/// a rank of another node has written, too; for other bytes it goes to the prefix.
#[test]
fn a_restart_reads_from_the_caches_what_the_nodes_have() {
    const HEADER: usize = 64;
    let write = |rank: &Rank, step: u64| {
        let _ = rank.files.make_dir("ckpt");
        let _ = rank.files.make_dir(&format!("ckpt/step_{step}"));
        let file = rank.files.open(&name(step), libc::O_RDWR | libc::O_CREAT).unwrap();
        if rank.rank == 0 {
            file.write_at(&[7; HEADER], 0).unwrap();
        }
        file.write_at(&long(step, rank.rank), place_of_long(rank.rank)).unwrap();
        file.close().unwrap();
        rank.calm();
    };
    for lost in [None, Some('b'), Some('a')] {
        let settings = ["SCR_LEARN=1", "SCR_COPY_TYPE=XOR", "SCR_FLUSH=0", "SCR_SET_SIZE=2"];
        let cluster = place(&settings);
        cluster.run(HOSTS, |rank| (1..=4).for_each(|step| write(rank, step)));
        lost.into_iter().for_each(|host| cluster.lose(host));
        let cluster = cluster.helped();
        let got = cluster.run(HOSTS, |rank| {
            let file = rank.files.open(&name(4), libc::O_RDONLY).unwrap();
            assert_eq!(file.size().unwrap(), place_of_long(4));
            let own = file.read_at(LONG, place_of_long(rank.rank)).unwrap();
            let right =
                own == long(4, rank.rank) && file.read_at(HEADER, 0).unwrap() == [7; HEADER];
            let from_cache = file.is_parted();
            let other = (rank.rank + 2) % 4;
            let others = file.read_at(LONG, place_of_long(other)).unwrap() == long(4, other);
            let text = rank.files.read_file(&name(4)).unwrap();
            assert!(text[place_of_long(1) as usize..][..LONG] == long(4, 1));
            (right, from_cache, others, file.is_parted())
        });
        for found in got.results.iter() {
            assert_eq!(*found, Some((true, true, true, false)), "{lost:?} {:?}", got.told);
        }
    }

    fn long(step: u64, rank: usize) -> Vec<u8> {
        part(step, rank).into_iter().cycle().take(LONG).collect()
    }

    fn place_of_long(rank: usize) -> u64 {
        (HEADER * 2 + rank * LONG) as u64
    }
}

#[test]
fn what_a_node_has_not_is_found_where_all_ranks_bring_it() {
    for strange in [Strange::Reads, Strange::ReadsTwo] {
        let program = |rank: &Rank| {
            let two = strange == Strange::ReadsTwo;
            (1..=3).for_each(|step| write_strangely(rank, step, None, two));
            write_strangely(rank, 4, Some(strange), two);
            (5..=6).for_each(|step| write_strangely(rank, step, None, two));
        };
        let plain = place(&[]);
        plain.run_plain(HOSTS, program);
        let cluster =
            place(&["SCR_LEARN=1", "SCR_SHARED_CACHE=1", "SCR_FLUSH=1", "SCR_CACHE_SIZE=9"])
                .helped();
        let got = cluster.run(HOSTS, |rank| {
            program(rank);
            rank.barrier();
            let cached =
                (1..=6).map(|step| cached_as(&cluster, HOSTS, &name(step))).collect::<Vec<_>>();
            rank.finish();
            cached
        });
        assert!(got.told.is_empty(), "{strange:?}: {:?}", got.told);
        assert_eq!(*got.first(), [0, 2, 2, 0, 0, 0], "{strange:?}");
        assert_same_files(&tree(&plain.prefix()), &tree(&cluster.prefix()), &got.told);
    }
}

#[test]
fn what_is_older_than_the_newest_comes_to_the_prefix_after_a_restart_too() {
    let plain = place(&[]);
    plain.run_plain(HOSTS, |rank| (1..=5).for_each(|step| write(rank, step)));
    let mut cluster = place(&["SCR_LEARN=1", "SCR_SHARED_CACHE=1", "SCR_CACHE_SIZE=9"]);
    let killed = |rank: &Rank| (1..=4).for_each(|step| write(rank, step));
    cluster.run_with(&["SCR_FLUSH=0"], HOSTS, killed).all();
    let on_prefix = |step: u64| cluster.prefix().join(name(step)).exists();
    assert_eq!((1..=4).map(on_prefix).collect::<Vec<_>>(), [true, false, false, false]);
    let ended = |rank: &Rank| {
        if rank.rank == 0 {
            rank.files.unlink(&name(2)).unwrap();
        }
        write(rank, 5);
        rank.finish();
    };
    let told = cluster.run_with(&["SCR_FLUSH=1"], HOSTS, ended).told;
    let deleted = |rank: &Rank| rank.rank == 0 && rank.files.unlink(&name(2)).is_ok();
    plain.run_plain(HOSTS, deleted);
    assert_same_files(&tree(&plain.prefix()), &tree(&cluster.prefix()), &told);
}

/// Rank 0 makes it, and after a barrier all ranks open it.
fn write_made_for_all(rank: &Rank, step: u64, name: &str) {
    let name = &format!("ckpt/step_{step}/{name}");
    if rank.rank == 0 {
        let _ = rank.files.make_dir("ckpt");
        let _ = rank.files.make_dir(&format!("ckpt/step_{step}"));
        rank.files.open(name, libc::O_RDWR | libc::O_CREAT).unwrap().close().unwrap();
    }
    rank.barrier();
    let file = rank.files.open(name, libc::O_RDWR).unwrap();
    file.write_at(&part(step, rank.rank), (rank.rank * PART) as u64).unwrap();
    file.close().unwrap();
}

/// Whenever it is known that such files are for the caches: one has been opened by then.
#[test]
fn a_file_that_is_watched_in_a_checkpoint_is_so_on_all_ranks_to_its_end() {
    let plain = place(&[]);
    let program = |rank: &Rank| {
        (1..=6).for_each(|step| write_made_for_all(rank, step, "one"));
        rank.calm();
        rank.finish();
    };
    plain.run_plain(HOSTS, program);
    let settings = ["SCR_LEARN=1", "SCR_SHARED_CACHE=1", "SCR_FLUSH=1", "SCR_CACHE_SIZE=9"];
    let names = "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*";
    let cluster = place(&[&settings[..], &[names]].concat()).helped();
    let told = cluster.run(HOSTS, program).told;
    assert_same_files(&tree(&plain.prefix()), &tree(&cluster.prefix()), &told);
    assert!(told.is_empty(), "{told:?}");
}

/// A checkpoint is sealed after its first file, and again after the second one.
#[test]
fn a_file_that_follows_after_the_seal_leaves_the_first_one_as_it_is() {
    let write_one = |rank: &Rank, step: u64, name: &str| {
        write_made_for_all(rank, step, name);
        (0..4).for_each(|_| rank.barrier());
    };
    let program = |rank: &Rank| {
        for step in 1..=6 {
            write_one(rank, step, "one");
            write_one(rank, step, "two");
            rank.calm();
        }
        rank.finish();
    };
    let plain = place(&[]);
    plain.run_plain(HOSTS, program);
    for caches in ["SCR_SHARED_CACHE=0", "SCR_SHARED_CACHE=1"] {
        let settings = ["SCR_LEARN=1", caches, "SCR_FLUSH=1", "SCR_CACHE_SIZE=9"];
        let names = "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*";
        let cluster = place(&[&settings[..], &[names]].concat()).helped();
        let told = cluster.run(HOSTS, program).told;
        assert_same_files(&tree(&plain.prefix()), &tree(&cluster.prefix()), &told);
        assert!(told.is_empty(), "{caches}: {told:?}");
    }
}

/// Another file has opened the checkpoint again when a rank reads the first one, or changes it: it
/// comes to the prefix from its parts, and no part is taken for the whole.
#[test]
fn a_sealed_file_of_a_checkpoint_that_goes_on_is_whole_for_who_needs_it() {
    let program = |rank: &Rank, changes: bool| {
        let mut read = Vec::new();
        for step in 1..=5 {
            write_made_for_all(rank, step, "one");
            rank.calm();
            let two = format!("ckpt/step_{step}/two");
            let flags = libc::O_RDWR | libc::O_CREAT;
            let file = rank.files.open(&two, flags).unwrap();
            file.write_at(&part(step, rank.rank), (rank.rank * PART) as u64).unwrap();
            rank.barrier();
            let one = format!("ckpt/step_{step}/one");
            if step == 5 && rank.rank == 2 {
                let flags = if changes { libc::O_RDWR } else { libc::O_RDONLY };
                let first = rank.files.open(&one, flags).unwrap();
                if changes {
                    first.write_at(b"changed", 9).unwrap();
                }
                read = first.read_at(whole(step).len(), 0).unwrap();
                first.close().unwrap();
            }
            rank.barrier();
            file.close().unwrap();
            rank.calm();
        }
        rank.finish();
        read
    };
    for changes in [false, true] {
        let plain = place(&[]);
        let want = plain.run_plain(HOSTS, |rank| program(rank, changes)).results;
        let settings = ["SCR_LEARN=1", "SCR_CACHE_SIZE=9"];
        let names = "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*";
        let cluster = place(&[&settings[..], &["SCR_FLUSH=0", names]].concat()).helped();
        let got = cluster.run(HOSTS, |rank| program(rank, changes));
        assert_eq!(want, got.results, "{:?}", got.told);
        let newest = |place: &Cluster| -> Tree {
            let held = tree(&place.prefix()).into_iter();
            held.filter(|(name, _)| name.contains("step_5/")).collect()
        };
        assert_same_files(&newest(&plain), &newest(&cluster), &got.told);
    }
}

/// Rank 0 deletes an older file, and messages alone let the others make it anew with it: those do
/// not know, and see the older one on the prefix.
#[test]
fn what_some_cache_and_others_write_on_the_prefix_is_told_and_never_put_together_wrongly() {
    let settings = ["SCR_LEARN=1", "SCR_FLUSH=1", "SCR_CACHE_SIZE=9"];
    let cluster = place(&settings).helped();
    let write = |rank: &Rank, step: u64| {
        let flags = libc::O_RDWR | libc::O_CREAT;
        if rank.rank == 0 {
            let _ = rank.files.make_dir("ckpt");
            let _ = rank.files.make_dir(&format!("ckpt/step_{step}"));
            let _ = rank.files.unlink(&name(step));
        }
        rank.meet();
        let file = rank.files.open(&name(step), flags).unwrap();
        file.write_at(&part(step, rank.rank), (rank.rank * PART) as u64).unwrap();
        file.close().unwrap();
        rank.barrier();
        rank.calm();
    };
    cluster.run(HOSTS, |rank| {
        (1..=4).for_each(|step| write(rank, step));
        rank.finish();
    });
    let told = cluster.run(HOSTS, |rank| {
        (3..=4).for_each(|step| write(rank, step));
        rank.finish();
    });
    let whole = |step: u64| (0..4).flat_map(|rank| part(step, rank)).collect::<Vec<_>>();
    let left = cluster.tree();
    let differ = (1..=4).any(|step| left[&name(step)] != whole(step));
    let is_told = told.told.iter().any(|told| told.contains("was written by"));
    assert!(!differ || is_told, "{:?}", told.told);
}

#[test]
fn a_further_number_in_the_name_keeps_such_a_file_not_from_the_cache() {
    let name = |step: u64| format!("ckpt/step_{step}/u-{:06}.dat", step * 7);
    let program = |rank: &Rank| {
        for step in 1..=6 {
            let _ = rank.files.make_dir("ckpt");
            let _ = rank.files.make_dir(&format!("ckpt/step_{step}"));
            let file = rank.files.open(&name(step), libc::O_RDWR | libc::O_CREAT).unwrap();
            file.write_at(&part(step, rank.rank), (rank.rank * PART) as u64).unwrap();
            file.close().unwrap();
            rank.calm();
        }
    };
    let plain = place(&[]);
    plain.run_plain(HOSTS, program);
    let settings = ["SCR_LEARN=1", "SCR_FLUSH=1", "SCR_CACHE_SIZE=9"];
    let cluster =
        place(&[&settings[..], &["SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*"]].concat()).helped();
    let got = cluster.run(HOSTS, |rank| {
        program(rank);
        rank.barrier();
        let here = cluster.files_in_cache(HOSTS);
        let has =
            |step: &u64| here.iter().any(|path| path.to_string_lossy().ends_with(&name(*step)));
        let cached = (1..=6).filter(has).collect::<Vec<_>>();
        rank.finish();
        cached
    });
    assert_eq!(*got.first(), [2, 3, 4, 5, 6], "{:?}", got.told);
    assert_same_files(&tree(&plain.prefix()), &tree(&cluster.prefix()), &got.told);
    assert!(got.told.is_empty(), "{:?}", got.told);
}

/// Two files of each checkpoint, one in parts and one on the prefix, are closed, sealed, and
/// written on: the run goes on, and a restart finds all of it.
#[test]
fn files_that_are_written_on_after_the_seal_are_whole_after_a_restart() {
    const STEPS: std::ops::RangeInclusive<u64> = 1..=5;
    let files = |step: u64| ["one", "two"].map(|name| format!("ckpt/step_{step}/{name}"));
    let write = |rank: &Rank, step: u64, half: usize| {
        let all = files(step).map(|name| {
            rank.files.open(&name, libc::O_RDWR | if half == 0 { libc::O_CREAT } else { 0 })
        });
        let all = all.map(Result::unwrap);
        rank.barrier();
        for file in &all {
            let at = (half * 4 + rank.rank) * PART / 2;
            file.write_at(&part(step, rank.rank)[half * PART / 2..][..PART / 2], at as u64)
                .unwrap();
        }
        rank.barrier();
        if step == 1 && half == 0 {
            all[1].read_at(2 * PART, 0).unwrap(); // so it stays on the prefix
        }
        all.into_iter().for_each(|file| file.close().unwrap());
        rank.calm();
    };
    let settings = ["SCR_LEARN=1", "SCR_COPY_TYPE=XOR", "SCR_CACHE_SIZE=2"];
    for flush in ["SCR_FLUSH=0", "SCR_FLUSH=1"] {
        let names = "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*";
        let cluster = place(&[&settings[..], &[names, flush]].concat()).helped();
        let told = cluster.run(HOSTS, |rank| {
            for step in STEPS {
                if rank.rank == 0 {
                    let _ = rank.files.make_dir("ckpt");
                    let _ = rank.files.make_dir(&format!("ckpt/step_{step}"));
                }
                rank.barrier();
                (0..2).for_each(|half| write(rank, step, half));
            }
        });
        let found = cluster.run(HOSTS, |rank| {
            files(*STEPS.end()).map(|name| rank.files.read_file(&name).unwrap_or_default())
        });
        for found in found.results.iter().flatten().flatten() {
            assert!(*found == whole(5), "{} bytes; {:?}", found.len(), told.told);
        }
    }
}

/// All have the older one open to change it, and do not, while a newer one drives it out of the
/// caches: each node's part is not the file.
#[test]
fn a_file_whose_parts_leave_the_caches_while_it_is_open_stays_as_it_is() {
    let cluster = place(&["SCR_LEARN=1", "SCR_FLUSH=1", "SCR_CACHE_SIZE=1"]).helped();
    let got = cluster.run(HOSTS, |rank| {
        (1..=4).for_each(|step| write(rank, step));
        let file = rank.files.open(&name(4), libc::O_RDWR).unwrap();
        (5..=6).for_each(|step| write(rank, step));
        file.close().unwrap();
        rank.calm();
        rank.finish();
    });
    let left = cluster.tree();
    for step in 1..=6 {
        assert!(left[&name(step)] == whole(step), "{step}: {:?}", got.told);
    }
}

/// So soon after the first checkpoint nobody has judged how its file is written.
#[test]
fn what_one_rank_makes_with_a_further_number_is_found_by_those_who_come_after_a_barrier() {
    let name = |step: u64| format!("ckpt/step_{step}/u-{:06}.dat", step * 7);
    let cluster = place(&["SCR_LEARN=1", "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*"]).helped();
    let got = cluster.run(HOSTS, |rank| {
        for step in 1..=6 {
            if rank.rank == 0 {
                let _ = rank.files.make_dir("ckpt");
                let _ = rank.files.make_dir(&format!("ckpt/step_{step}"));
                let flags = libc::O_RDWR | libc::O_CREAT;
                rank.files.open(&name(step), flags).unwrap().close().unwrap();
            }
            rank.barrier();
            let file = rank.files.open(&name(step), libc::O_RDWR).unwrap();
            file.write_at(&part(step, rank.rank), (rank.rank * PART) as u64).unwrap();
            file.close().unwrap();
        }
        rank.calm();
        rank.finish();
    });
    let left = cluster.tree();
    for step in 1..=6 {
        let parts = (0..4).flat_map(|rank| part(step, rank)).collect::<Vec<_>>();
        assert!(left[&name(step)] == parts, "{step}: {:?}", got.told);
    }
}
