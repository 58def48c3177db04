//! What a rank does to names is one step for the others of its node: one of them looks before each
//! step of another one's rename, until it has found what it looks for, or waits.

use std::sync::{Arc, Condvar, Mutex};

use super::cluster::Rank;
use super::scene::{place, same};
use super::sim::{Sim, file};
use crate::mortal;

/// A rank that works step by step, and one that looks before each.
#[derive(Default)]
struct Pair {
    state: Mutex<Looks>,
    changed: Condvar,
}

#[derive(Default)]
struct Looks {
    wanted: usize,
    /// So many of them have come to an end, or wait.
    answered: usize,
    over: bool,
}

impl Pair {
    fn change<T>(&self, change: impl FnOnce(&mut Looks) -> T) -> T {
        let result = change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
        result
    }

    fn wait(&self, until: impl Fn(&Looks) -> bool) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |looks| !until(looks)).unwrap());
    }

    /// The other one looks now.
    fn show(&self) {
        self.change(|looks| looks.wanted += 1);
        self.wait(|looks| looks.answered == looks.wanted);
    }

    /// Does `work`, and shows each step of it.
    fn work(self: &Arc<Pair>, work: impl FnOnce()) {
        let pair = self.clone();
        mortal::before_steps(Some(Box::new(move || pair.show())));
        work();
        mortal::before_steps(None);
        self.show();
        self.change(|looks| looks.over = true);
    }

    /// Looks until the work is over. If `waiting` is no answer, the look has to come to its end.
    fn watch(self: &Arc<Pair>, rank: &Rank, waiting: bool, look: impl Fn()) {
        let pair = self.clone();
        rank.files.before_waiting(move || pair.change(|looks| looks.answer(waiting)));
        loop {
            self.wait(|looks| looks.over || looks.answered < looks.wanted);
            if self.change(|looks| looks.over && looks.answered == looks.wanted) {
                break;
            }
            look();
            self.change(|looks| looks.answer(true));
        }
        rank.files.before_waiting(|| ());
    }
}

impl Looks {
    fn answer(&mut self, is_one: bool) {
        if is_one {
            self.answered = self.wanted;
        }
    }
}

/// Rank 0 renames, there and back; what rank 1 has seen that no file system shows. `of` is the file
/// that it looks for, below both names.
fn renamed(rank: &Rank, pairs: &[Arc<Pair>; 2], names: [&str; 2], of: &str) -> Vec<String> {
    let seen = Mutex::new(Vec::new());
    let see = |what: String| seen.lock().unwrap().push(what);
    for (pair, [from, to]) in pairs.iter().zip([names, [names[1], names[0]]]) {
        let (old, new) = (format!("{from}{of}"), format!("{to}{of}"));
        let there = |name: &String| rank.files.text(name).is_some();
        match rank.rank {
            0 => pair.work(|| rank.files.rename(from, to).unwrap()),
            _ => pair.watch(rank, true, || {
                let found = [&old, &new, &old].map(there);
                if found == [false; 3] || found[1] && found[2] {
                    see(format!("{from} to {to}: {found:?}"));
                }
            }),
        }
        rank.meet();
        if there(&old) || !there(&new) {
            see(format!("{from} is not {to} afterwards"));
        }
        rank.meet();
    }
    seen.into_inner().unwrap()
}

/// So many checkpoints, the last of which is sealed or not before its names are changed.
fn check(settings: &[&str], (checkpoints, calm): (u64, bool), names: [&str; 2], of: &str) {
    let pairs: [Arc<Pair>; 2] = Default::default();
    let got = place(settings).run("aa", |rank| {
        let mut sim = Sim::new(rank);
        for step in 1..=checkpoints {
            sim.step(rank);
            sim.checkpoint(rank);
            if calm || step < checkpoints {
                rank.calm();
            }
        }
        rank.meet();
        let seen = renamed(rank, &pairs, names, of);
        rank.barrier();
        rank.finish();
        seen
    });
    let how = format!("{settings:?} {checkpoints} {calm} {names:?}");
    assert!(got.all().iter().all(|seen| seen.is_empty()), "{how}: {:?}", got.results);
}

#[test]
fn a_file_has_its_old_name_or_its_new_one() {
    for learn in ["SCR_LEARN=0", "SCR_LEARN=1"] {
        for checkpoints in [1, 3] {
            for calm in [false, true] {
                let (one, other) = (file(checkpoints, 0), file(checkpoints, 100));
                for to in [other.as_str(), "ckpt/saved"] {
                    check(&[learn], (checkpoints, calm), [&one, to], "");
                }
            }
        }
    }
}

#[test]
fn a_directory_has_its_old_name_or_its_new_one() {
    for learn in ["SCR_LEARN=0", "SCR_LEARN=1"] {
        for checkpoints in [1, 3] {
            for calm in [false, true] {
                let dir = format!("ckpt/step_{checkpoints}");
                for to in ["ckpt/step_77", "ckpt/old"] {
                    check(&[learn], (checkpoints, calm), [&dir, to], "/rank_0.dat");
                }
            }
        }
    }
}

/// All ranks rename the same file; what became of it.
fn contend(rank: &Rank) -> Vec<(usize, bool)> {
    let (mut sim, mut found) = (Sim::new(rank), Vec::new());
    for step in 1..=4 {
        sim.step(rank);
        sim.checkpoint(rank);
        rank.calm();
        for to in [file(step, 100), "ckpt/saved".to_string()] {
            for names in [[file(step, 0), to.clone()], [to, file(step, 0)]] {
                let done = rank.files.rename(&names[0], &names[1]);
                let kind = done.as_ref().err().map(std::io::Error::kind);
                assert!(done.is_ok() || kind == Some(std::io::ErrorKind::NotFound), "{done:?}");
                let there = rank.gather(&[u8::from(done.is_ok())]);
                let winners = there.iter().filter(|one| one[0] == 1).count();
                found.push((winners, rank.files.exists(&names[1])));
                rank.barrier();
            }
        }
    }
    rank.calm();
    rank.finish();
    found
}

#[test]
fn of_all_ranks_that_rename_one_file_one_succeeds() {
    for learn in ["SCR_LEARN=0", "SCR_LEARN=1"] {
        for _ in 0..4 {
            let got = same("aaaa", &[learn, "SCR_CACHE_SIZE=9"], contend);
            assert!(got.first().iter().all(|one| *one == (1, true)), "{:?}", got.first());
            assert!(got.told.is_empty(), "{:?}", got.told);
        }
    }
}

#[test]
fn nobody_waits_for_ever_for_a_rank_that_is_stopped() {
    let pair = Arc::new(Pair::default());
    let found = place(&[]).run("aa", |rank| {
        let (mut sim, name) = (Sim::new(rank), file(1, 0));
        sim.step(rank);
        sim.checkpoint(rank);
        rank.calm();
        match rank.rank {
            0 => pair.work(|| rank.files.rename(&name, &file(1, 100)).unwrap()),
            _ => pair.watch(rank, false, || {
                let _ = rank.files.exists(&name);
            }),
        }
        rank.barrier();
        rank.finish();
        rank.files.exists(&file(1, 100))
    });
    assert_eq!(found.all(), [&true; 2]);
}
