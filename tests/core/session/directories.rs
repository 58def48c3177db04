//! Checkpoints that are trees of directories with a temporary name, which rank 0 renames when all
//! ranks have written their files. A restart goes on from the newest directory that has a final
//! name, and cannot do without any of its files.

use super::cluster::{Cluster, Rank};
use super::scene::{assert_same_files, place};
use super::sim::Sim;

const HOSTS: &str = "aabb";
const LEVELS: usize = 2;
const EVERY: u64 = 10;

/// Where in the checkpoint of a step all ranks are killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    /// Before the rename, some calls after all have written.
    Written,
    /// Right after the rename.
    Renamed,
    /// When the checkpoint is complete.
    Calm,
    /// They are not: the directory of that step never gets its name.
    Left,
}

#[derive(Debug, Clone, Copy)]
struct Levels {
    steps: u64,
    at: Option<(u64, Where)>,
}

/// The step that a run went on from, and what it came to if it ended.
type Went = (u64, Option<u64>);

impl Levels {
    fn is_at(self, sim: &Sim, place: Where) -> bool {
        self.at == Some((sim.step, place))
    }

    fn run(self, rank: &Rank) -> Went {
        let mut sim = Sim::new(rank);
        let begin = restart(rank, &mut sim);
        while sim.step < self.steps {
            sim.step(rank);
            if sim.step.is_multiple_of(EVERY) && self.checkpoint(rank, &sim) {
                return (begin, None);
            }
        }
        let checksum = sim.checksum(rank);
        rank.finish();
        (begin, Some(checksum))
    }

    /// Whether the rank is killed.
    fn checkpoint(self, rank: &Rank, sim: &Sim) -> bool {
        let (files, last) = (&rank.files, name(sim.step));
        let dir = format!("{last}.temp");
        if rank.rank == 0 {
            files.make_dir("ckpt").unwrap();
            for old in [&last, &dir].into_iter().filter(|old| files.exists(old)) {
                files.rename(old, &format!("{old}.old")).unwrap();
            }
            files.mkdir(&dir).unwrap();
            (0..LEVELS).for_each(|at| files.mkdir(&level(&dir, at)).unwrap());
        }
        rank.barrier();
        let bytes = sim.bytes();
        let put = |name: String, size: usize| files.write_file(&name, &bytes[..size]).unwrap();
        if rank.rank == 0 {
            put(format!("{dir}/Header"), 64);
        }
        for at in 0..LEVELS {
            put(cell(&dir, at, rank.rank), if at == 0 { bytes.len() } else { 200 });
            if rank.rank == 0 {
                put(format!("{}/Cell_H", level(&dir, at)), 100);
            }
        }
        if self.is_at(sim, Where::Written) {
            rank.calm();
        }
        rank.barrier();
        if self.is_at(sim, Where::Left) {
            return false;
        }
        if self.is_at(sim, Where::Written) {
            return true;
        }
        if rank.rank == 0 {
            files.rename(&dir, &last).unwrap();
        }
        if self.is_at(sim, Where::Renamed) {
            // Nobody is killed before that.
            match rank.rank {
                0 => (1..rank.size).for_each(|other| rank.send(other)),
                _ => rank.receive(0),
            }
            return true;
        }
        rank.calm();
        self.is_at(sim, Where::Calm)
    }
}

fn name(step: u64) -> String {
    format!("ckpt/chk{step:05}")
}

fn level(dir: &str, at: usize) -> String {
    format!("{dir}/Level_{at}")
}

fn cell(dir: &str, at: usize, rank: usize) -> String {
    format!("{}/Cell_D_{rank:05}", level(dir, at))
}

fn restart(rank: &Rank, sim: &mut Sim) -> u64 {
    let step = |name: String| name.strip_prefix("chk").and_then(|rest| rest.parse().ok());
    let own = match rank.rank {
        0 => rank.files.list("ckpt").into_iter().filter_map(step).max().unwrap_or(0u64),
        _ => 0,
    };
    let newest = rank.all_max(own as i64).unwrap() as u64;
    let dir = name(newest);
    let get = |name: String, size: usize| {
        let bytes = rank.files.read_file(&name);
        let bytes = bytes.unwrap_or_else(|error| panic!("cannot restart without {name}: {error}"));
        assert_eq!(bytes.len(), size, "{name} is too short");
        bytes
    };
    if newest == 0 {
        return 0;
    }
    if rank.rank == 0 {
        get(format!("{dir}/Header"), 64);
        (0..LEVELS).for_each(|at| drop(get(format!("{}/Cell_H", level(&dir, at)), 100)));
    }
    get(cell(&dir, 1, rank.rank), 200);
    let found = Sim::of_bytes(&get(cell(&dir, 0, rank.rank), sim.bytes().len())).unwrap();
    assert_eq!((found.rank, found.step), (rank.rank, newest));
    *sim = found;
    newest
}

fn here(settings: &[&str]) -> Cluster {
    let usual = [
        "SCR_CHECKPOINT_PATTERN=ckpt/chk{id}/**",
        "SCR_FLUSH=0",
        "SCR_DEBUG=1",
        "SCR_COPY_TYPE=PARTNER",
    ];
    place(&[&usual, settings].concat())
}

fn whole(steps: u64) -> Levels {
    Levels { steps, at: None }
}

/// What the whole run comes to without SCR, and its files.
fn plain(levels: Levels) -> (Went, super::scene::Tree) {
    let cluster = place(&[]);
    let went = *cluster.run_plain(HOSTS, |rank| levels.run(rank)).first();
    (went, cluster.tree())
}

fn kill_at(cluster: &Cluster, step: u64, place: Where) {
    let levels = Levels { at: Some((step, place)), ..whole(60) };
    cluster.run(HOSTS, |rank| levels.run(rank)).all();
}

#[test]
fn directories_that_get_their_name_when_all_have_written_are_cached() {
    // From the first checkpoint on after the one that shows it, or, where it is watched who writes
    // what, after one more; from the first of the next run.
    let (want, files) = plain(whole(60));
    let is_newest = |name: &&String| name.contains("/chk00060/");
    let newest: Vec<_> = files.keys().filter(is_newest).collect();
    assert_eq!(newest.len(), 3 + 2 * HOSTS.len());
    for (learn, uncached) in
        [("SCR_LEARN=0", &["chk00010"][..]), ("SCR_LEARN=1", &["chk00010", "chk00020"])]
    {
        let cluster = here(&[learn]);
        let got = cluster.run(HOSTS, |rank| whole(60).run(rank));
        assert_eq!(*got.first(), want, "{learn}: {:?}", got.told);
        assert_eq!(cluster.steps_on_prefix(), [uncached, &["chk00060"]].concat(), "{learn}");
        let sealed = got.told.iter().filter(|line| line.contains(" is sealed as ")).count();
        assert_eq!(sealed, 6 - 1, "{learn}: {:?}", got.told);
        let found = cluster.tree();
        assert!(newest.iter().all(|name| found.get(*name) == files.get(*name)), "{learn}");
        std::fs::remove_dir_all(cluster.prefix().join("ckpt")).unwrap();
        let got = cluster.run(HOSTS, |rank| whole(60).run(rank));
        assert_eq!(*got.first(), want, "{learn}: {:?}", got.told);
        assert_eq!(cluster.steps_on_prefix(), ["chk00060"], "{learn}: {:?}", got.told);
    }
}

#[test]
fn a_node_is_lost_after_a_directory_got_its_name() {
    // The checkpoint was never on the prefix.
    let cluster = here(&[]);
    kill_at(&cluster, 40, Where::Calm);
    assert_eq!(cluster.steps_on_prefix(), ["chk00010"]);
    cluster.lose('b');
    let got = cluster.run(HOSTS, |rank| whole(60).run(rank));
    assert_eq!(*got.first(), (40, plain(whole(60)).0.1), "{:?}", got.told);
}

#[test]
fn killed_while_a_directory_gets_its_name() {
    // Before, and right after: the restart finds the old checkpoint or the new one, whole.
    let checksum = plain(whole(60)).0.1;
    for (step, place, last) in [
        (10, Where::Renamed, 10),
        (20, Where::Written, 10),
        (20, Where::Renamed, 10),
        (40, Where::Renamed, 30),
    ] {
        let cluster = here(&[]);
        kill_at(&cluster, step, place);
        let got = cluster.run(HOSTS, |rank| whole(60).run(rank));
        let (begin, came_to) = *got.first();
        assert!([last, step].contains(&begin), "{step} {place:?}: {begin} {:?}", got.told);
        assert_eq!(came_to, checksum, "{step} {place:?}: {:?}", got.told);
    }
}

#[test]
fn all_is_lost_while_a_directory_gets_its_name() {
    // Nothing is left of the checkpoint: its name must not be, either.
    let cluster = here(&[]);
    kill_at(&cluster, 20, Where::Renamed);
    cluster.lose_all("ab");
    let got = cluster.run(HOSTS, |rank| whole(30).run(rank));
    assert_eq!(got.first().0, 10, "{:?}", got.told);
}

#[test]
fn a_directory_that_never_gets_its_name_is_no_checkpoint() {
    // It is on the prefix as it would be without us, and nothing else waits for it: neither the
    // next checkpoint nor, where it is the last, the end.
    for (steps, last) in [(60, "chk00060"), (40, "chk00030")] {
        let levels = Levels { at: Some((40, Where::Left)), ..whole(steps) };
        let (want, files) = plain(levels);
        let cluster = here(&[]);
        let got = cluster.run(HOSTS, |rank| levels.run(rank));
        assert_eq!(*got.first(), want, "{steps}: {:?}", got.told);
        let mut there = ["chk00010", "chk00040.temp", last];
        there.sort_by_key(|name| (name.len(), *name));
        assert_eq!(cluster.steps_on_prefix(), there, "{steps}: {:?}", got.told);
        let found = cluster.tree();
        assert!(found.iter().all(|(name, bytes)| files.get(name) == Some(bytes)), "{steps}");
    }
}

#[test]
fn a_directory_of_which_the_prefix_has_files_gets_its_name() {
    // Because no pattern matches them: the others are there, too, when it gets its name, whoever is
    // killed; a restart finds the old checkpoint or the new one, whole.
    let mixed = ["SCR_CHECKPOINT_PATTERN=ckpt/chk{id}/Level_*/*"];
    // What is sealed by then, the other node's helper thread brings there.
    let (want, files) = plain(whole(60));
    let cluster = here(&mixed).helped();
    let got = cluster.run(HOSTS, |rank| whole(60).run(rank));
    assert_eq!(*got.first(), want, "{:?}", got.told);
    assert_same_files(&files, &cluster.tree(), &got.told);
    for step in [20, 40] {
        let cluster = here(&mixed).helped();
        kill_at(&cluster, step, Where::Renamed);
        let got = cluster.run(HOSTS, |rank| whole(60).run(rank));
        let (begin, came_to) = *got.first();
        assert!([step - 10, step].contains(&begin), "{step}: {begin} {:?}", got.told);
        assert_eq!(came_to, want.1, "{step}: {:?}", got.told);
    }
}
