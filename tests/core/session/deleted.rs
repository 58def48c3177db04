//! What the program has deleted stays so, whatever happens then.

use super::cluster::{Cluster, Rank};
use super::scene::place;
use super::sim::file;

const PATTERN: &str = "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/rank_{rank}.dat, \
    ckpt/step_{id}/extra_{rank}.dat, ckpt/RUNNING, ckpt/prev";

fn here() -> Cluster {
    place(&["SCR_COPY_TYPE=XOR", PATTERN])
}

fn put(rank: &Rank, step: u64) {
    rank.files.make_dir("ckpt").unwrap();
    rank.files.make_dir(&format!("ckpt/step_{step}")).unwrap();
    rank.files.write_file(&file(step, rank.rank), format!("step {step}\n").as_bytes()).unwrap();
}

/// What a run finds of these names.
fn finds(cluster: &Cluster, hosts: &str, names: &[&str]) -> Vec<bool> {
    let got = cluster.run(hosts, |rank| {
        let found: Vec<bool> = names.iter().map(|name| rank.files.exists(name)).collect();
        rank.finish();
        found
    });
    got.all().into_iter().for_each(|one| assert_eq!(one, got.first(), "{:?}", got.told));
    got.first().clone()
}

/// A rank writes a file in part, throws it away, and writes others of the same checkpoint.
fn throws_away(rank: &Rank) {
    for step in 1..=3 {
        put(rank, step);
        rank.calm();
    }
    rank.files.make_dir("ckpt/step_4").unwrap();
    if rank.rank == 1 {
        rank.files.write_file(&file(4, 1), b"half of it").unwrap();
        rank.files.unlink(&file(4, 1)).unwrap();
        rank.files.write_file("ckpt/step_4/extra_1.dat", b"another").unwrap();
    } else {
        put(rank, 4);
    }
    rank.calm();
}

#[test]
fn a_file_that_was_thrown_away_before_its_checkpoint_was_sealed_does_not_come_back() {
    for lost in [None, Some('b'), Some('c')] {
        let cluster = here();
        cluster.run("abcd", throws_away).all();
        lost.iter().for_each(|host| cluster.lose(*host));
        let names = [&file(4, 0)[..], &file(4, 1), "ckpt/step_4/extra_1.dat", &file(3, 1)];
        let found = finds(&cluster, "abcd", &names);
        assert!(!found[1], "{lost:?}: {found:?}");
        assert!(found[3], "{lost:?}: {found:?}");
    }
}

/// Each checkpoint has a flag beside it, which one rank deletes when all is complete; then the
/// program is killed.
fn flags(rank: &Rank, deletes: usize, each: bool) {
    for step in 1..=3 {
        put(rank, step);
        if rank.rank == 0 {
            rank.files.write_file("ckpt/RUNNING", format!("step {step}\n").as_bytes()).unwrap();
        }
        rank.calm();
        if rank.rank == deletes && (each || step == 3) {
            rank.files.unlink("ckpt/RUNNING").unwrap();
        }
        rank.calm();
    }
}

#[test]
fn a_flag_that_was_deleted_after_the_seal_does_not_come_back() {
    for (deletes, each, flush) in
        [(0, false, 0), (0, true, 0), (0, false, 1), (0, true, 1), (1, false, 0), (2, true, 2)]
    {
        for lost in ["", "a", "b", "c", "abcd"] {
            let cluster = place(&["SCR_COPY_TYPE=XOR", PATTERN, &format!("SCR_FLUSH={flush}")]);
            cluster.run("abcd", |rank| flags(rank, deletes, each)).all();
            lost.chars().for_each(|host| cluster.lose(host));
            let what = format!("rank {deletes} deletes, {each}, SCR_FLUSH={flush}, {lost} lost");
            let found = finds(&cluster, "abcd", &["ckpt/RUNNING", &file(3, 1)]);
            let kept = lost.len() < 2 || flush == 1;
            assert_eq!(found, [false, kept], "{what}");
            // Nor when the next run has ended.
            assert!(!cluster.prefix().join("ckpt/RUNNING").exists(), "{what}");
        }
    }
}

/// The third checkpoint lacks the flag of the two before, so that nothing says that it is complete;
/// before and after its seal files of the first go. Then the program is killed, `settled` or at the
/// next collective.
fn thins(rank: &Rank, settled: bool) {
    for step in 1..=3 {
        put(rank, step);
        if rank.rank == 0 {
            rank.files.write_file("ckpt/RUNNING", format!("step {step}\n").as_bytes()).unwrap();
        }
        if step == 3 && rank.rank == 0 {
            rank.files.unlink("ckpt/RUNNING").unwrap();
            rank.files.unlink(&file(1, 0)).unwrap();
        }
        rank.calm();
    }
    if rank.rank == 2 {
        rank.files.unlink(&file(1, 1)).unwrap();
        rank.files.unlink(&file(1, 2)).unwrap();
    }
    match settled {
        true => rank.calm(),
        false => drop(rank.all_max(0).unwrap()),
    }
}

#[test]
fn what_was_deleted_of_older_checkpoints_stays_so_when_the_newest_is_not_known_to_be_complete() {
    // Where the first is on the prefix, and where it is in the cache.
    for (learn, settled) in [(1, true), (0, true), (1, false), (0, false)] {
        for put_back in [false, true] {
            let cluster = place(&["SCR_COPY_TYPE=XOR", PATTERN, &format!("SCR_LEARN={learn}")]);
            cluster.run("abcd", |rank| thins(rank, settled)).all();
            if put_back {
                std::fs::write(cluster.prefix().join(file(1, 1)), "by hand").unwrap();
            }
            let of_first = [0, 1, 2, 3].map(|rank| file(1, rank));
            let of_first = of_first.iter().map(String::as_str);
            let names: Vec<&str> = of_first.chain(["ckpt/RUNNING"]).collect();
            for what in ["the next run", "the one after it"] {
                let mut found = finds(&cluster, "abcd", &names);
                assert_eq!(found.pop(), Some(false), "{what}, SCR_LEARN={learn}");
                assert_eq!(found, [false, put_back, false, true], "{what}, SCR_LEARN={learn}");
            }
            let kept = finds(&cluster, "abcd", &[&file(2, 0), &file(3, 1)]);
            assert_eq!(kept, [true, true], "SCR_LEARN={learn}");
        }
    }
}

/// Names without id: a rank has begun the next checkpoint, and deletes a file of the one before,
/// which is sealed then, or is not, since another file is open.
#[test]
fn what_one_rank_deletes_another_makes_anew_after_a_barrier_and_all_find_it() {
    let write = |rank: &Rank, name: &str, maker: usize| {
        let flags = libc::O_RDWR;
        if rank.rank == maker {
            rank.files.open(name, flags | libc::O_CREAT).unwrap().close().unwrap();
        }
        rank.barrier();
        let file = rank.files.open(name, flags).unwrap();
        file.write_at(&[rank.rank as u8], rank.rank as u64).unwrap();
        file.close().unwrap();
        rank.barrier();
    };
    for stays_open in [false, true] {
        let cluster = place(&["SCR_LEARN=1", "SCR_CHECKPOINT_PATTERN=ckpt/*"]);
        let got = cluster.run("aabb", |rank| {
            let _ = rank.files.make_dir("ckpt");
            let flags = libc::O_RDWR | libc::O_CREAT;
            let opens = stays_open && rank.rank == 3;
            let open = opens.then(|| rank.files.open("ckpt/c", flags).unwrap());
            ["ckpt/a", "ckpt/b"].iter().for_each(|name| write(rank, name, 0));
            if rank.rank == 0 {
                rank.files.open("ckpt/a", libc::O_RDWR).unwrap().close().unwrap();
                rank.files.unlink("ckpt/b").unwrap();
            }
            rank.barrier();
            write(rank, "ckpt/b", 2);
            open.into_iter().for_each(|file| file.close().unwrap());
            rank.calm();
            rank.finish();
        });
        got.all();
        assert_eq!(cluster.tree()["ckpt/b"], [0, 1, 2, 3], "{stays_open}: {:?}", got.told);
    }
}
