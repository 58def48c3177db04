//! Undisturbed runs, and a restart without one of the nodes.

use std::fs;

use super::cluster::{Cluster, Outcome};
use super::program::{Life, Program, Truth, content, file};

/// A run that nothing happens to: all ranks end and agree.
fn run(cluster: &Cluster, hosts: &str, program: &Program) -> Option<(u64, u64)> {
    let outcome = cluster.launch(hosts, None, |rank| program.run(rank));
    from(&outcome)
}

/// What all ranks of a run have gone on from.
pub fn from(outcome: &Outcome<Life>) -> Option<(u64, u64)> {
    let first = outcome.results[0].as_ref().unwrap_or_else(|| panic!("{:?}", outcome.told)).from;
    let ended =
        |life: &Option<Life>| life.as_ref().is_some_and(|one| one.ended && one.from == first);
    assert!(outcome.results.iter().all(ended), "{:?} {:?}", outcome.results, outcome.told);
    first
}

/// The prefix has this step of that launch, whole.
pub fn is_on_prefix(cluster: &Cluster, ranks: usize, (step, launch): (u64, u64)) -> bool {
    (0..ranks).all(|rank| {
        let found = fs::read(cluster.prefix().join(file(step, rank)));
        found.is_ok_and(|bytes| bytes == content(launch, step, rank))
    })
}

#[test]
fn a_run_leaves_its_newest_checkpoint_on_the_prefix() {
    for (hosts, scheme) in [("aa", "SINGLE"), ("aabb", "XOR"), ("abc", "PARTNER")] {
        let (cluster, truth) =
            (Cluster::new(&[&format!("SCR_COPY_TYPE={scheme}")]), Truth::default());
        let first = Program { launch: 1, steps: 3, ends: true, by_calls: false, truth: &truth };
        assert_eq!(run(&cluster, hosts, &first), None, "{scheme}");
        assert_eq!(truth.complete(), 3, "{scheme}");
        assert!(is_on_prefix(&cluster, hosts.len(), (3, 1)), "{scheme}");
        let second = Program { launch: 2, steps: 1, ..first };
        assert_eq!(run(&cluster, hosts, &second), Some((3, 1)), "{scheme}");
    }
}

#[test]
fn what_was_on_a_lost_node_is_rebuilt() {
    for (hosts, scheme, lost, after) in [
        ("aabb", "XOR", Some('b'), "aacc"),
        ("aabb", "XOR", Some('a'), "bbcc"),
        ("abcd", "XOR", Some('c'), "abde"),
        ("abc", "PARTNER", Some('a'), "bcd"),
        ("aa", "SINGLE", None, "aa"),
    ] {
        let (cluster, truth) =
            (Cluster::new(&[&format!("SCR_COPY_TYPE={scheme}")]), Truth::default());
        let first = Program { launch: 1, steps: 3, ends: false, by_calls: false, truth: &truth };
        assert_eq!(run(&cluster, hosts, &first), None, "{scheme}");
        assert_eq!(truth.complete(), 3, "{scheme}");
        // The cache has it, and nothing else.
        assert!(!is_on_prefix(&cluster, 1, (3, 1)), "{scheme}");
        lost.into_iter().for_each(|host| cluster.lose(host));
        let second = Program { launch: 2, steps: 1, ends: true, ..first };
        assert_eq!(run(&cluster, after, &second), Some((3, 1)), "{scheme}");
        assert!(is_on_prefix(&cluster, hosts.len(), (4, 2)), "{scheme}");
    }
}

#[test]
fn names_go_and_change_as_in_any_directory() {
    let cluster = Cluster::new(&["SCR_COPY_TYPE=XOR"]);
    let outcome = cluster.launch("ab", None, |rank| {
        let (own, files) = (file(1, rank.rank), &rank.files);
        if rank.rank == 0 {
            files.make_dir("ckpt").unwrap();
            files.make_dir("ckpt/step_1").unwrap();
        }
        rank.all_max(0).unwrap();
        files.write_file(&own, &content(1, 1, rank.rank)).unwrap();
        rank.all_max(0).unwrap();
        assert_eq!(files.read_file(&own).unwrap(), content(1, 1, rank.rank));
        let notes = ["a", "b"].map(|name| format!("{name}.{}", rank.rank));
        files.write_file(&notes[0], b"note").unwrap();
        files.rename(&notes[0], &notes[1]).unwrap();
        files.unlink(&own).unwrap();
        let gone = [own.as_str(), notes[0].as_str()].map(|name| files.read_file(name).is_err());
        let seen = files.list("ckpt/step_1").contains(&format!("rank_{}.dat", rank.rank));
        rank.session().ending.finish();
        (gone, seen, files.read_file(&notes[1]).unwrap())
    });
    let expected = Some(([true, true], false, b"note".to_vec()));
    assert!(outcome.results.iter().all(|one| *one == expected), "{outcome:?}");
    assert!((0..2).all(|rank| !cluster.prefix().join(file(1, rank)).exists()));
}
