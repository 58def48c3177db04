//! Files that several ranks write, change or delete, and what each of them sees of it: at once on
//! one node.

use std::collections::BTreeSet;

use super::cluster::Rank;
use super::scene::{assert_same_files, place, same};
use super::sim::{Sim, file};

fn errno<T>(result: std::io::Result<T>) -> Result<T, i32> {
    result.map_err(|error| error.raw_os_error().unwrap_or(0))
}

/// What a rank has looked at: sizes, contents, listings, and errors.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Look {
    Size(Result<u64, i32>),
    Text(Option<String>),
    Names(BTreeSet<String>),
    Done(Result<(), i32>),
}

/// A rank that takes turns with another one of its node, by messages alone.
struct Dancer<'a> {
    rank: &'a Rank,
    looks: Vec<Look>,
}

impl Dancer<'_> {
    /// The turn goes to the other rank; whether it is this one's.
    fn turn(&self, to: usize) -> bool {
        match self.rank.rank == to {
            true => self.rank.receive(1 - to),
            false => self.rank.send(to),
        }
        self.rank.rank == to
    }

    fn size(&mut self, name: &str) {
        self.looks.push(Look::Size(errno(self.rank.files.size(name))));
    }

    fn read(&mut self, name: &str) {
        self.looks.push(Look::Text(self.rank.files.text(name)));
    }

    fn list(&mut self, name: &str) {
        self.looks.push(Look::Names(self.rank.files.list(name)));
    }

    fn done(&mut self, result: std::io::Result<()>) {
        self.looks.push(Look::Done(errno(result)));
    }

    /// Makes a file that must not be there.
    fn make(&mut self, name: &str, text: &str) {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let file = self.rank.files.open(name, flags);
        let made = file.and_then(|file| file.write(text.as_bytes()).and_then(|()| file.close()));
        self.done(made);
    }

    fn dance(&mut self, step: u64) {
        let (dir, path) = (format!("ckpt/step_{step}"), file(step, 0));
        let (other, files) = (file(step, 7), &self.rank.files);
        if self.turn(1) {
            self.size(&path);
            self.list(&dir);
            self.read(&path);
            self.make(&path, "never");
            self.done(files.unlink(&path));
            self.size(&path);
        }
        if self.turn(0) {
            self.size(&path);
            self.list(&dir);
            self.make(&path, "made again");
        }
        if self.turn(1) {
            self.read(&path);
            self.list(&dir);
            self.done(files.rename(&path, &other));
            self.list(&dir);
        }
        if self.turn(0) {
            self.size(&path);
            self.size(&other);
            self.done(files.rename(&other, &path));
        }
        if self.turn(1) {
            self.size(&path);
            self.size(&other);
            self.read(&path);
            self.list(&dir);
        }
        self.turn(0);
    }

    /// A directory goes with all that is in it, and comes again.
    fn clear(&mut self, step: u64) {
        let (dir, files) = (format!("ckpt/step_{step}"), &self.rank.files);
        let names = [file(step, 0), file(step, 1)];
        if self.turn(1) {
            names.iter().for_each(|name| self.done(files.unlink(name)));
            self.done(files.rmdir(&dir));
        }
        if self.turn(0) {
            self.size(&names[0]);
            self.done(files.exists(&dir).then_some(()).ok_or(std::io::ErrorKind::NotFound.into()));
            self.list("ckpt");
            self.make(&names[0], "no directory");
            self.done(files.mkdir(&dir));
            self.make(&names[0], "in the new one");
        }
        if self.turn(1) {
            self.list(&dir);
            self.read(&names[0]);
            self.make(&names[1], "there, too");
        }
        self.turn(0);
    }
}

fn on_node(rank: &Rank) -> Vec<Look> {
    let (mut sim, mut dancer) = (Sim::new(rank), Dancer { rank, looks: Vec::new() });
    for _ in 0..8 {
        sim.step(rank);
        if rank.rank == 0 || sim.step % 2 == 1 {
            sim.checkpoint(rank);
        }
        dancer.dance(sim.step);
        if sim.step >= 4 {
            dancer.dance(sim.step - 2);
        }
        if sim.step == 7 {
            dancer.clear(1);
            dancer.clear(3);
        }
        rank.calm();
    }
    rank.finish();
    dancer.looks
}

#[test]
fn ranks_of_one_node_see_at_once_what_the_others_do() {
    same("aa", &["SCR_CACHE_SIZE=9"], on_node);
}

/// How a file that a neighbour has written is changed.
#[derive(Debug, Clone, Copy)]
enum Change {
    InPlace,
    Append,
    Rewrite,
}

/// Every rank changes checkpoint files that its neighbour wrote long before: of the newest
/// checkpoint and of an older one. What has become of its own.
fn taken_over(rank: &Rank, how: Change) -> Vec<Vec<u8>> {
    let (mut sim, mut seen) = (Sim::new(rank), Vec::new());
    let mut show = |steps: [u64; 2]| {
        seen.extend(steps.map(|step| rank.files.read_file(&file(step, rank.rank)).unwrap()));
    };
    for round in 0..6 {
        sim.step(rank);
        if round == 4 {
            for step in [2, 4] {
                let flags = match how {
                    Change::InPlace => libc::O_RDWR,
                    Change::Append => libc::O_WRONLY | libc::O_APPEND,
                    Change::Rewrite => libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC,
                };
                let name = file(step, (rank.rank + 1) % rank.size);
                let text = format!("{how:?} by {} at {}", rank.rank, sim.step);
                let changed = rank.files.open(&name, flags).unwrap();
                match how {
                    Change::InPlace => changed.write_at(text.as_bytes(), 100).unwrap(),
                    _ => changed.write(text.as_bytes()).unwrap(),
                }
                changed.close().unwrap();
            }
            rank.calm();
            show([2, 4]);
        }
        sim.checkpoint(rank);
        rank.calm();
    }
    show([2, 4]);
    rank.finish();
    seen
}

#[test]
fn changed_by_a_rank_that_did_not_write_it() {
    for how in [Change::InPlace, Change::Append, Change::Rewrite] {
        same("aa", &["SCR_CACHE_SIZE=9"], |rank| taken_over(rank, how));
    }
    let append = |rank: &Rank| taken_over(rank, Change::Append);
    let want = place(&[]).run_plain("aa", append);
    let got = place(&["SCR_CACHE_SIZE=9", "SCR_FLUSH=0"]).run("aa", append);
    assert_eq!(want.results, got.results, "{:?}", got.told);
}

/// What becomes of a checkpoint that is open for update while newer ones are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Read,
    Written,
    /// Rank 0 removes the file of rank 1.
    Deleted,
}

/// A checkpoint is opened for update and only read; newer ones are written, then the descriptors
/// are used again. What they read at each stage.
fn keeps_open(rank: &Rank, how: Kept) -> Vec<Vec<u8>> {
    let mut sim = Sim::new(rank);
    let mut checkpoints = || {
        for _ in 0..2 {
            sim.step(rank);
            sim.checkpoint(rank);
            rank.calm();
        }
        sim.bytes().len()
    };
    let bytes = checkpoints();
    let open = || rank.files.open(&file(2, rank.rank), libc::O_RDWR).unwrap();
    let (one, twin) = (open(), open());
    let mut seen = vec![one.read_at(bytes, 0).unwrap()];
    if how == Kept::Deleted {
        rank.barrier(); // rank 1 has it open
        if rank.rank == 0 {
            rank.files.unlink(&file(2, 1)).unwrap();
        }
        rank.calm();
    }
    checkpoints();
    seen.push(one.read_at(bytes, 0).unwrap());
    if how != Kept::Read {
        one.write_at(b"changed", 100).unwrap();
    }
    seen.push(twin.read_at(bytes, 0).unwrap());
    one.close().unwrap();
    twin.close().unwrap();
    rank.calm();
    rank.finish();
    seen
}

#[test]
fn evicted_while_it_is_open() {
    // A checkpoint that has left the cache while the program kept it open for update is no new one:
    // only read it is gone, changed it is a file on the prefix and nothing else.
    for (how, steps) in [(Kept::Read, &[4][..]), (Kept::Written, &[2, 4])] {
        let plain = place(&[]);
        let want = plain.run_plain("aa", |rank| keeps_open(rank, how));
        let cluster = place(&["SCR_FLUSH=0", "SCR_CACHE_SIZE=1"]);
        let got = cluster.run("aa", |rank| keeps_open(rank, how));
        assert_eq!((&got.results, &got.told), (&want.results, &Vec::new()), "{how:?}");
        let mut left = plain.tree();
        left.retain(|name, _| steps.iter().any(|step| name.contains(&format!("/step_{step}/"))));
        assert_same_files(&left, &cluster.tree(), &got.told);
        assert_eq!(cluster.datasets(), ["scr.dataset.4"], "{how:?}: other checkpoints");
    }
}

#[test]
fn deleted_by_another_rank_while_it_is_open() {
    // Its descriptors go on with a file that has no name any more, to be read and written.
    let got = same("aa", &["SCR_CACHE_SIZE=9"], |rank| keeps_open(rank, Kept::Deleted));
    assert_eq!(got.told, [""; 0]);
}

/// After some checkpoints of a file a rank, two ranks begin to write into one more file, in turns,
/// which nobody has seen before.
fn late_shared(rank: &Rank) -> u64 {
    let mut sim = Sim::new(rank);
    while sim.step < 30 {
        sim.step(rank);
        if !sim.step.is_multiple_of(5) {
            continue;
        }
        sim.checkpoint(rank);
        for turn in 0..if sim.step >= 15 { 2 } else { 0 } {
            if rank.rank == turn {
                let name = format!("ckpt/step_{}/shared.dat", sim.step);
                let shared = rank.files.open(&name, libc::O_WRONLY | libc::O_CREAT).unwrap();
                let bytes = sim.bytes();
                shared.write_at(&bytes, (turn * bytes.len()) as u64).unwrap();
                shared.close().unwrap();
            }
            rank.barrier();
        }
    }
    let checksum = sim.checksum(rank);
    rank.finish();
    checksum
}

#[test]
fn two_ranks_write_a_file_that_was_never_seen_before() {
    let settings = ["SCR_LEARN=1", "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*"];
    same("aaa", &settings, late_shared);
}

/// All ranks are here; no agreement.
fn meet(rank: &Rank) {
    let others = || (0..rank.size).filter(|other| *other != rank.rank);
    others().for_each(|other| rank.send(other));
    others().for_each(|other| rank.receive(other));
}

/// How ranks make one file at the same moment.
#[derive(Debug, Clone, Copy)]
enum Made {
    /// Each its part of it, whoever opens it first.
    Parts,
    /// The same, and all have it open.
    Open(i32),
    /// Each all of it.
    Whole,
}

/// Does so again and again; returns which of the files it found whole afterwards.
fn made_at_once(rank: &Rank, how: Made) -> Vec<bool> {
    let part = |rank: usize| vec![b'a' + rank as u8; 700];
    let all = (0..rank.size).map(part).collect::<Vec<_>>().concat();
    let is_whole = |step: u64| {
        let name = format!("ckpt/step_{step}/both");
        if rank.rank == 0 {
            let _ = rank.files.mkdir("ckpt");
            rank.files.mkdir(&format!("ckpt/step_{step}")).unwrap();
        }
        rank.barrier();
        let flags = if let Made::Open(flags) = how { flags } else { 0 };
        match how {
            Made::Whole => rank.files.write_file(&name, &all).unwrap(),
            Made::Parts | Made::Open(_) => {
                let file = rank.files.open(&name, libc::O_WRONLY | libc::O_CREAT | flags).unwrap();
                if matches!(how, Made::Open(_)) {
                    meet(rank);
                }
                file.write_at(&part(rank.rank), 700 * rank.rank as u64).unwrap();
                file.close().unwrap();
            }
        }
        rank.calm();
        rank.files.read_file(&name).is_ok_and(|found| found == all)
    };
    let found = (1..=10).map(is_whole).collect();
    rank.finish();
    found
}

#[test]
fn ranks_of_a_node_make_a_file_at_the_same_moment() {
    for how in [Made::Parts, Made::Open(0), Made::Open(libc::O_TRUNC), Made::Whole] {
        for hosts in ["aa", "aaaa", "aaaa", "aaaa"] {
            let settings = ["SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*"];
            let got = same(hosts, &settings, |rank| made_at_once(rank, how));
            assert!(got.told.is_empty(), "{how:?} {hosts}: {:?}", got.told);
        }
    }
}
