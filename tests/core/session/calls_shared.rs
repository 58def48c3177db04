//! Files that several ranks write by calls of SCR: each of them routes one name, and writes a part.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use scr_core::session::{Flags, Session};

use super::calls::{CHECKPOINT, same};
use super::cluster::{Cluster, Rank};
use crate::mortal::{self, Plan, What};

/// Where [`write`] has written: both files in the cache, or the one of all ranks on the prefix.
const CACHED: [bool; 2] = [false, false];
const SHARED: [bool; 2] = [false, true];
const BOTH: Flags = Flags { checkpoint: true, output: true };

/// Bytes of the part of each rank: no page, and no divisor of one.
const PART: usize = 1000;

fn part(dataset: &str, rank: usize) -> Vec<u8> {
    format!("{dataset} of {rank};").into_bytes().into_iter().cycle().take(PART).collect()
}

fn whole(dataset: &str, ranks: usize) -> Vec<u8> {
    (0..ranks).flat_map(|rank| part(dataset, rank)).collect()
}

/// Routes `shared.dat` in `dir` and writes this rank's part of it, one rank after the other; what
/// the last one has routed and written comes long after the first one's. Returns its place.
fn write_part(rank: &Rank, dir: &Path, dataset: &str) -> PathBuf {
    if rank.rank > 0 {
        rank.receive(rank.rank - 1);
    }
    let place = rank.session().program.route_output(&dir.join("shared.dat")).unwrap();
    let (part, at) = (part(dataset, rank.rank), (rank.rank * PART) as u64);
    let written = mortal::program(|| {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&place)?;
        file.write_all_at(&part, at)
    });
    written.unwrap();
    if rank.rank + 1 < rank.size {
        rank.send(rank.rank + 1);
    }
    place
}

/// Writes a dataset that has a file of each rank and one of all; whether it is complete, and
/// which of them went to the prefix.
fn write(rank: &Rank, prefix: &Path, dataset: &str, flags: Flags) -> (bool, [bool; 2]) {
    let session = rank.session();
    session.program.start_dataset(Some(dataset), flags).unwrap();
    let own =
        session.program.route_output(&prefix.join(format!("{dataset}/own.{}", rank.rank))).unwrap();
    mortal::program(|| fs::write(&own, part(dataset, rank.rank))).unwrap();
    let place = write_part(rank, &prefix.join(dataset), dataset);
    let on_prefix = [own, place].map(|path| path.starts_with(prefix));
    (session.program.complete_dataset(true).unwrap(), on_prefix)
}

/// What the checkpoint on offer has of both files, as each rank is told to read them.
fn read(session: &Session, prefix: &Path) -> Option<(String, Vec<u8>, Vec<u8>)> {
    let name = session.program.have_restart().unwrap()?;
    session.program.start_restart().unwrap();
    let file = |file: &str| {
        let place = session.program.route_input(&prefix.join(&name).join(file)).unwrap();
        fs::read(place).unwrap()
    };
    let found = (file("shared.dat"), file(&format!("own.{}", session.program.rank())));
    session.program.complete_restart(true).unwrap();
    Some((name, found.0, found.1))
}

fn assert_offered(cluster: &Cluster, hosts: &str, dataset: &str) {
    let prefix = cluster.prefix();
    let found = cluster.launch(hosts, None, |rank: &Rank| {
        rank.session().program.use_by_program(None);
        read(rank.session(), &prefix)
    });
    for (rank, found) in found.all().into_iter().enumerate() {
        let expected = (dataset.to_string(), whole(dataset, hosts.len()), part(dataset, rank));
        assert_eq!(*found, Some(expected), "{hosts}, rank {rank}");
    }
}

#[test]
fn a_file_that_the_ranks_of_a_node_write_by_calls_is_one_file() {
    for flush in ["SCR_FLUSH=1", "SCR_FLUSH=0"] {
        let cluster = Cluster::new(&["SCR_COPY_TYPE=SINGLE", flush]);
        let prefix = cluster.prefix();
        let done = cluster.launch("aaaa", None, |rank: &Rank| {
            rank.session().program.use_by_program(None);
            ["1", "2"].map(|name| write(rank, &prefix, name, CHECKPOINT))
        });
        assert_eq!(same(done.all()), &[(true, CACHED); 2], "{:?}", done.told);
        assert_eq!(done.told, [""; 0]);
        assert_offered(&cluster, "aaaa", "2");
        let on_prefix = if flush == "SCR_FLUSH=1" { &["1", "2"][..] } else { &[] };
        for name in on_prefix {
            assert_eq!(fs::read(prefix.join(name).join("shared.dat")).unwrap(), whole(name, 4));
        }
    }
}

#[test]
fn a_file_that_ranks_of_two_nodes_write_by_calls_is_whole_or_the_output_fails() {
    for flags in [CHECKPOINT, BOTH] {
        let cluster = Cluster::new(&["SCR_COPY_TYPE=XOR", "SCR_FLUSH=1"]);
        let prefix = cluster.prefix();
        let done = cluster.launch("aabb", None, |rank: &Rank| {
            rank.session().program.use_by_program(None);
            let first = write(rank, &prefix, "1", flags);
            let offered = rank.session().program.have_restart().unwrap();
            let second = write(rank, &prefix, "2", flags);
            (first, offered, second, write(rank, &prefix, "3", flags))
        });
        // The two halves are on two nodes: no byte of it is on the prefix, and all ranks hear it.
        let expected = ((false, CACHED), None, (true, SHARED), (true, SHARED));
        assert_eq!(same(done.all()), &expected, "{:?}", done.told);
        assert_eq!(done.told.len(), 1, "{:?}", done.told);
        for word in
            ["1/shared.dat", "ranks 0, 1, 2, 3", "straight to the prefix", "SCR_CACHE_BYPASS"]
        {
            assert!(done.told[0].contains(word), "{word}: {:?}", done.told);
        }
        assert!(!prefix.join("1/shared.dat").exists());
        for name in ["2", "3"] {
            assert_eq!(fs::read(prefix.join(name).join("shared.dat")).unwrap(), whole(name, 4));
        }
        assert_offered(&cluster, "aabb", "3");
        // The next run knows it from the start.
        let next = cluster.launch("aabb", None, |rank: &Rank| {
            rank.session().program.use_by_program(None);
            write(rank, &prefix, "4", flags)
        });
        assert_eq!(same(next.all()), &(true, SHARED), "{:?}", next.told);
        assert_offered(&cluster, "aabb", "4");
    }
}

#[test]
fn what_one_node_could_not_open_goes_to_the_prefix_the_next_time() {
    // As MPI-IO does: the first rank makes the file, the others only open it.
    let cluster = Cluster::new(&["SCR_COPY_TYPE=XOR", "SCR_FLUSH=1"]);
    let prefix = cluster.prefix();
    let open_all = |rank: &Rank, dataset: &str| {
        let session = rank.session();
        session.program.start_dataset(Some(dataset), CHECKPOINT).unwrap();
        let place = session.program.route_output(&prefix.join(dataset).join("shared.dat")).unwrap();
        let open = |first| OpenOptions::new().write(true).create(first).open(&place);
        let made = if rank.rank == 0 { open(true).ok() } else { None };
        rank.gather(&[]);
        let file = made.or_else(|| open(false).ok());
        let at = (rank.rank * PART) as u64;
        let done =
            file.is_some_and(|file| file.write_all_at(&part(dataset, rank.rank), at).is_ok());
        (session.program.complete_dataset(done).unwrap(), place.starts_with(&prefix))
    };
    let done = cluster.launch("aabb", None, |rank: &Rank| {
        rank.session().program.use_by_program(None);
        ["1", "2"].map(|dataset| open_all(rank, dataset))
    });
    assert_eq!(same(done.all()), &[(false, false), (true, true)], "{:?}", done.told);
    assert_eq!(done.told.len(), 1, "{:?}", done.told);
    assert!(done.told[0].contains("1/shared.dat was written by ranks 0, 1, 2, 3"));
    assert_eq!(fs::read(prefix.join("2/shared.dat")).unwrap(), whole("2", 4));
}

#[test]
fn halves_of_a_file_never_replace_one_another_whatever_fails() {
    let write_all = |cluster: &Cluster, plan| {
        let prefix = cluster.prefix();
        cluster.launch("ab", plan, |rank: &Rank| {
            rank.session().program.use_by_program(None);
            let done = ["1", "2"].map(|name| write(rank, &prefix, name, CHECKPOINT).0);
            rank.finish();
            done
        })
    };
    let settings = ["SCR_COPY_TYPE=XOR", "SCR_FLUSH=1"];
    let steps = write_all(&Cluster::new(&settings), None).steps;
    for (rank, steps) in steps.iter().enumerate() {
        for step in (0..steps.len()).step_by(3) {
            let cluster = Cluster::new(&settings);
            let plan = Plan { rank, step, what: What::Fails(libc::EIO, true) };
            let outcome = write_all(&cluster, Some(plan));
            let done: Vec<_> = outcome.results.iter().flatten().collect();
            if done.is_empty() {
                continue; // it went without SCR
            }
            let done = same(done);
            for (name, done) in ["1", "2"].iter().zip(done) {
                let found = fs::read(cluster.prefix().join(name).join("shared.dat")).ok();
                assert!(!done || found == Some(whole(name, 2)), "{plan:?} {name}");
            }
        }
    }
}

#[test]
fn a_checkpoint_whose_shared_file_the_next_one_has_begun_to_overwrite_is_told_of() {
    let cluster = Cluster::new(&["SCR_COPY_TYPE=SINGLE", "SCR_FLUSH=0"]);
    let prefix = cluster.prefix();
    let write_over = |rank: &Rank, dataset: &str| {
        let session = rank.session();
        session.program.start_dataset(Some(dataset), CHECKPOINT).unwrap();
        let own = session.program.route_output(&prefix.join(format!("own.{}", rank.rank))).unwrap();
        fs::write(&own, part(dataset, rank.rank)).unwrap();
        write_part(rank, &prefix, dataset);
        dataset.to_string()
    };
    cluster.launch("ab", None, |rank: &Rank| {
        rank.session().program.use_by_program(None);
        for dataset in ["1", "2"] {
            write_over(rank, dataset);
            rank.session().program.complete_dataset(true).unwrap();
        }
        let there = rank.session().program.have_restart().unwrap();
        assert_eq!(there.as_deref(), Some("2"));
        write_over(rank, "3"); // and dies
    });
    let offered = cluster.launch("ab", None, |rank: &Rank| {
        rank.session().program.use_by_program(None);
        rank.session().program.have_restart().unwrap()
    });
    assert_eq!(same(offered.all()).as_deref(), Some("2"));
    let told = offered.told.iter().filter(|line| line.contains("they do not fit together"));
    assert_eq!(told.count(), 1, "{:?}", offered.told);
}

#[test]
fn who_writes_the_same_whole_file_is_told_from_who_does_not_without_a_checksum_too() {
    // The seal leaves out the checksums of large files.
    for bytes in [PART, 2 << 20] {
        for alike in [true, false] {
            let cluster = Cluster::new(&["SCR_COPY_TYPE=SINGLE", "SCR_FLUSH=1"]);
            let prefix = cluster.prefix();
            let done = cluster.launch("ab", None, |rank: &Rank| {
                let session = rank.session();
                session.program.use_by_program(None);
                session.program.start_dataset(Some("1"), CHECKPOINT).unwrap();
                let place = session.program.route_output(&prefix.join("1/all")).unwrap();
                let content = vec![if alike { 7 } else { rank.rank as u8 }; bytes];
                mortal::program(|| fs::write(&place, content)).unwrap();
                session.program.complete_dataset(true).unwrap()
            });
            assert_eq!(*same(done.all()), alike, "{bytes}: {:?}", done.told);
            assert_eq!(prefix.join("1/all").exists(), alike, "{bytes}: {:?}", done.told);
        }
    }
}
