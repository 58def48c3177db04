//! Programs that write each file under a temporary name and give it its own when it is complete, as
//! most libraries do: such files are cached like others, whatever is random in those names.

use std::cell::Cell;

use super::cluster::{Cluster, Rank};
use super::scene::{assert_same_files, place, same};

const HOSTS: &str = "aab";

/// The temporary name of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Naming {
    /// `rank_1.dat.tmp`
    Fixed,
    /// `.rank_1.dat.k3XqZb`: mkstemp, rsync.
    Mkstemp,
    /// `rank_1.dat.` and 32 hexadecimal digits, `.partial`: Zarr 2.
    Partial,
    /// The same in place of the suffix: Zarr 3.
    Replacing,
    /// `rank_1.dat-550e8400-e29b-41d4-a716-446655440000`
    Uuid,
    /// `tmp` and 8 letters: Python's tempfile, which shows nothing of the name that follows.
    Tempfile,
    /// `rank_1.dat.node7.4711.3`: host, process and a counter.
    Process,
    /// Of a directory beside the checkpoints.
    Elsewhere,
    /// The same name in such a directory.
    Stage,
}

const NAMINGS: [Naming; 9] = [
    Naming::Fixed,
    Naming::Mkstemp,
    Naming::Partial,
    Naming::Replacing,
    Naming::Uuid,
    Naming::Tempfile,
    Naming::Process,
    Naming::Elsewhere,
    Naming::Stage,
];

/// How the file gets its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Renamed,
    /// Before it is closed.
    RenamedOpen,
    /// A link, of which the old name goes then.
    Linked,
}

#[derive(Debug, Clone, Copy)]
struct Writer {
    naming: Naming,
    end: End,
    /// The names have an id.
    has_id: bool,
    steps: u64,
    /// It does not come to its end.
    is_killed: bool,
}

/// Where a file of a checkpoint was: the step, whether the prefix had the temporary name while it
/// was written, and what was written when the checkpoint was complete.
type Seen = (u64, bool, bool);

/// Random characters, but the same in each run of a test.
struct Dice(Cell<u64>);

impl Dice {
    fn draw(&self, alphabet: &str, count: usize) -> String {
        let one = || {
            let next = self.0.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            self.0.set(next);
            alphabet.as_bytes()[(next >> 33) as usize % alphabet.len()] as char
        };
        (0..count).map(|_| one()).collect()
    }
}

const HEX: &str = "0123456789abcdef";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789_";
const ALL: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

impl Naming {
    fn of(self, last: &str, dice: &Dice) -> String {
        let (dir, name) = last.rsplit_once('/').unwrap();
        let stem = name.rsplit_once('.').unwrap().0;
        match self {
            Naming::Fixed => format!("{last}.tmp"),
            Naming::Mkstemp => format!("{dir}/.{name}.{}", dice.draw(ALL, 6)),
            Naming::Partial => format!("{last}.{}.partial", dice.draw(HEX, 32)),
            Naming::Replacing => format!("{dir}/{stem}.{}.partial", dice.draw(HEX, 32)),
            Naming::Uuid => {
                let parts = [8, 4, 4, 4, 12].map(|count| dice.draw(HEX, count));
                format!("{last}-{}", parts.join("-"))
            }
            Naming::Tempfile => format!("{dir}/tmp{}", dice.draw(LOWER, 8)),
            Naming::Process => {
                let (process, count) = (dice.draw("123456789", 4), dice.draw("123456789", 2));
                format!("{last}.node{}.{process}.{count}", name.len())
            }
            Naming::Elsewhere => format!("tmp/{}", dice.draw(HEX, 16)),
            Naming::Stage => format!("stage/{name}"),
        }
    }
}

impl Writer {
    fn dir(&self, step: u64) -> String {
        if self.has_id { format!("ckpt/step_{step}") } else { "ckpt/now".to_string() }
    }

    /// What the rank finds of the newest checkpoint, and where its files are then.
    fn run(&self, rank: &Rank, cluster: &Cluster) -> (Option<String>, Vec<Seen>) {
        let last = |step| format!("{}/rank_{}.dat", self.dir(step), rank.rank);
        let newest = match self.has_id {
            true => (1..100).rev().find(|step| rank.files.exists(&last(*step))).unwrap_or(0),
            false => 1,
        };
        let found = rank.files.text(&last(newest));
        let launch = found.as_ref().map_or(0, String::len) as u64;
        let dice = Dice(Cell::new(rank.rank as u64 * 77 + launch * 1000 + 5));
        let number = |text: &String| text.trim_end().rsplit(' ').next().unwrap().parse().unwrap();
        let begin = found.as_ref().map_or(0, number);
        let seen = (begin + 1..=begin + self.steps).map(|step| {
            for dir in ["ckpt", &self.dir(step), "tmp", "stage"] {
                rank.files.make_dir(dir).unwrap();
            }
            rank.barrier();
            let last = last(step);
            let temporary = self.naming.of(&last, &dice);
            let on_prefix = self.write(rank, cluster, &temporary, &last, step);
            rank.calm();
            let there = std::fs::read_to_string(cluster.prefix().join(&last)).unwrap_or_default();
            (step, on_prefix, there.ends_with(&format!("step {step}\n")))
        });
        let seen = seen.collect();
        if !self.is_killed {
            rank.finish();
        }
        (found, seen)
    }

    fn write(&self, rank: &Rank, cluster: &Cluster, name: &str, last: &str, step: u64) -> bool {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let file = rank.files.open(name, flags).unwrap();
        file.write(format!("rank {} wrote this at step {step}\n", rank.rank).as_bytes()).unwrap();
        let on_prefix = cluster.prefix().join(name).exists();
        match self.end {
            End::RenamedOpen => {
                rank.files.rename(name, last).unwrap();
                file.close().unwrap();
            }
            End::Renamed => {
                file.close().unwrap();
                rank.files.rename(name, last).unwrap();
            }
            End::Linked => {
                file.close().unwrap();
                if rank.files.exists(last) {
                    rank.files.unlink(last).unwrap();
                }
                rank.files.link(name, last).unwrap();
                rank.files.unlink(name).unwrap();
            }
        }
        assert!(!rank.files.exists(name) && rank.files.exists(last), "{name} -> {last}");
        on_prefix
    }
}

fn pattern(has_id: bool) -> &'static str {
    match has_id {
        true => "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/rank_{rank}.dat",
        false => "SCR_CHECKPOINT_PATTERN=ckpt/now/rank_{rank}.dat",
    }
}

fn all_ways(end: End) -> impl Iterator<Item = (Writer, &'static str)> {
    NAMINGS.into_iter().flat_map(move |naming| {
        [true, false].into_iter().flat_map(move |has_id| {
            let writer = Writer { naming, end, has_id, steps: 4, is_killed: true };
            ["SCR_LEARN=0", "SCR_LEARN=1"].map(|learn| (writer, learn))
        })
    })
}

/// From the second checkpoint on, and from the first in later runs, the prefix has nothing of them.
fn cached_from_the_second(end: End) {
    // What is random may look like a word; an open file cannot be taken in then.
    let is_sure = |(writer, _): &(Writer, &str)| {
        writer.end == End::Renamed || writer.naming != Naming::Mkstemp
    };
    let ways = all_ways(end).filter(is_sure);
    let wrong: Vec<_> = ways.flat_map(|(writer, learn)| uncached(writer, learn)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is on the prefix all the same, or was told. Only the last run comes to its end.
fn uncached(writer: Writer, learn: &str) -> Vec<String> {
    let cluster = place(&[learn, pattern(writer.has_id), "SCR_FLUSH=0"]);
    let mut wrong = Vec::new();
    for first in [2, 5, 9] {
        let writer = Writer { is_killed: first < 9, ..writer };
        let got = cluster.run(HOSTS, |rank| writer.run(rank, &cluster));
        for (found, seen) in got.all() {
            let mut cached = seen.iter().filter(|(step, ..)| *step >= first);
            // A word may be random: what is written to the prefix for that is taken in.
            let lucky = |on_prefix: bool| on_prefix && writer.naming != Naming::Mkstemp;
            let is_there = |seen: &Seen| lucky(seen.1) || seen.2;
            if cached.any(is_there) || found.is_some() != (first > 2) {
                wrong.push(format!("{writer:?} {learn} {first}: {found:?}, {seen:?}"));
            }
        }
        let mut told = got.told.iter().filter(|line| !line.contains("SCR-3101"));
        wrong.extend(told.next().map(|line| format!("{writer:?} {learn} {first}: {line}")));
    }
    wrong
}

#[test]
fn what_is_renamed_when_it_is_complete_is_cached() {
    cached_from_the_second(End::Renamed);
}

#[test]
fn what_is_renamed_while_it_is_open_is_cached() {
    cached_from_the_second(End::RenamedOpen);
}

#[test]
fn all_is_there_at_the_end() {
    let mut wrong = Vec::new();
    for end in [End::Renamed, End::RenamedOpen, End::Linked] {
        for (writer, learn) in all_ways(end) {
            let writer = Writer { is_killed: false, ..writer };
            let unseen = place(&[]);
            let run = |rank: &Rank| writer.run(rank, &unseen).0;
            let got = same(HOSTS, &[learn, pattern(writer.has_id)], run);
            // What is linked is two names of one file, which the cache has not.
            let is_one = end == End::Renamed || writer.naming != Naming::Mkstemp;
            let is_sure = writer.has_id || end != End::Linked && is_one;
            let told = got.told.first().filter(|_| is_sure);
            wrong.extend(told.map(|line| format!("{writer:?} {learn}: {line}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn such_files_are_counted_and_the_reasons_told() {
    for end in [End::Renamed, End::RenamedOpen] {
        for has_id in [true, false] {
            let cluster = place(&["SCR_LEARN=1", pattern(has_id), "SCR_DEBUG=1"]);
            let naming = Naming::Partial;
            let writer = Writer { naming, end, has_id, steps: 4, is_killed: false };
            for (cached, on_prefix) in [(9, 3), (12, 0)] {
                let told = cluster.run(HOSTS, |rank| writer.run(rank, &cluster)).told.join("\n");
                let counts = format!("writing: {cached} in cache, {on_prefix} on the prefix; 0");
                assert!(told.contains(&counts), "{end:?} {has_id}: {told}");
                let reason = "SCR watches how the program writes such files";
                assert_eq!(told.contains(reason), on_prefix > 0, "{end:?} {has_id}: {told}");
                assert!(!told.contains("SCR-1006") && !told.contains("SCR-2008"), "{told}");
            }
        }
    }
}

/// All ranks write one file by MPI-IO, of which rank 0 renames it. What each finds in the end.
fn together(rank: &Rank, dice: &Dice) -> Vec<Option<String>> {
    let mut found = Vec::new();
    for step in 1..=4 {
        let (last, dir) = (format!("ckpt/step_{step}/all"), format!("ckpt/step_{step}"));
        rank.files.make_dir("ckpt").unwrap();
        rank.files.make_dir(&dir).unwrap();
        for naming in [Naming::Fixed, Naming::Partial] {
            let name = naming.of(&format!("{last}.{naming:?}"), dice);
            rank.barrier();
            rank.files.open_together(&name, &(0..rank.size).collect::<Vec<_>>());
            let file = rank.files.open(&name, libc::O_RDWR | libc::O_CREAT).unwrap();
            let line = format!("rank {} at step {step}\n", rank.rank);
            file.write_at(line.as_bytes(), (rank.rank * line.len()) as u64).unwrap();
            file.close().unwrap();
            rank.barrier();
            if rank.rank == 0 {
                rank.files.rename(&name, &format!("{last}.{naming:?}")).unwrap();
            }
            rank.barrier();
            found.push(rank.files.text(&format!("{last}.{naming:?}")));
        }
        rank.calm();
    }
    rank.finish();
    found
}

#[test]
fn what_ranks_write_together_and_one_renames_is_one_file() {
    for learn in ["SCR_LEARN=0", "SCR_LEARN=1"] {
        let pattern = "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/all.*";
        let ignore = "SCR_IGNORE_PATTERN=*.tmp, *.partial";
        same(HOSTS, &[learn, pattern, ignore], |rank| together(rank, &Dice(Cell::new(3))));
    }
}

/// How a file of one name comes by it, from a step on.
#[derive(Debug, Clone, Copy)]
enum Renamed {
    /// It has another one before.
    Before(u64),
    /// The one before gets another one, and the file is made anew.
    Aside(u64),
}

/// All ranks write one file that rank 0 makes, under one name. What a rank finds after each step,
/// if it looks, and all in the end; and the steps in which the prefix has not got it.
fn one_name(
    rank: &Rank,
    cluster: &Cluster,
    how: Renamed,
    looks: bool,
) -> (Vec<Option<String>>, Vec<u64>) {
    let line = |rank: usize, step: u64| format!("rank {rank} at step {step:03}\n");
    let (mut found, mut cached) = (Vec::new(), Vec::new());
    for step in 1..=10 {
        let (name, aside) = match how {
            Renamed::Before(from) if step >= from => ("state.tmp", false),
            Renamed::Aside(from) => ("state", step > from),
            Renamed::Before(_) => ("state", false),
        };
        if rank.rank == 0 && aside {
            rank.files.rename(name, "state.old").unwrap();
        }
        rank.barrier();
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
        let made = (rank.rank == 0).then(|| rank.files.open(name, flags).unwrap());
        made.iter().for_each(|file| file.write_at(b"all\n", 0).unwrap());
        rank.barrier();
        let file = made.unwrap_or_else(|| rank.files.open(name, libc::O_WRONLY).unwrap());
        rank.meet();
        let line = line(rank.rank, step);
        file.write_at(line.as_bytes(), (4 + rank.rank * line.len()) as u64).unwrap();
        let there = std::fs::read_to_string(cluster.prefix().join(name)).unwrap_or_default();
        cached.extend((!there.contains(line.trim_end())).then_some(step));
        file.close().unwrap();
        rank.barrier();
        if rank.rank == 0 && name == "state.tmp" {
            rank.files.rename(name, "state").unwrap();
        }
        rank.barrier();
        found.extend(looks.then(|| rank.files.text("state")));
        rank.calm();
    }
    found.extend(["state", "state.old", "state.tmp"].map(|name| rank.files.text(name)));
    (found, cached)
}

#[test]
fn one_name_of_all_ranks_that_is_renamed_stays_on_the_prefix_which_is_told() {
    let settings = ["SCR_LEARN=1", "SCR_CHECKPOINT_PATTERN=state*", "SCR_FLUSH=0"];
    let settles = ["SCR_SETTLE_MILLISECONDS=0", "SCR_SETTLE_MILLISECONDS=1"];
    let ways = [Renamed::Before(1), Renamed::Aside(1), Renamed::Before(6), Renamed::Aside(6)];
    for (hosts, settle, how) in ["aabb", "aaaa"]
        .iter()
        .flat_map(|hosts| settles.map(|settle| (*hosts, settle)))
        .flat_map(|(hosts, settle)| ways.map(|how| (hosts, settle, how)))
    {
        let row = format!("{hosts} {settle} {how:?}");
        let (cluster, plain) = (place(&[&settings[..], &[settle]].concat()).helped(), place(&[]));
        let run = |rank: &Rank, cluster: &Cluster| {
            let found = one_name(rank, cluster, how, hosts == "aaaa");
            rank.finish();
            found
        };
        let got = cluster.run(hosts, |rank| run(rank, &cluster));
        let expected = plain.run_plain(hosts, |rank| run(rank, &plain));
        for ((found, cached), (expected, _)) in got.all().into_iter().zip(expected.all()) {
            assert_eq!(found, expected, "{row}: {:?}", got.told);
            let (Renamed::Before(from) | Renamed::Aside(from)) = how;
            let knew = (from > 5).then_some(5);
            assert_eq!(cached.iter().find(|step| **step + 1 == from).copied(), knew, "{row}");
        }
        let told = got.told.iter().filter(|line| line.contains("renamed")).count();
        assert_eq!((got.told.len(), told), (1, 1), "{row}: {:?}", got.told);
        assert_same_files(&plain.tree(), &cluster.tree(), &got.told);
    }
}
