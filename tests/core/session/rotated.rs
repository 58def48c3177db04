//! A program without ids that keeps its last three states under names that move (as CP2K does): at
//! every instant a restart finds its newest state or the one before it, whole, under the names that
//! the program gave it, whatever is lost. The first of a series, of which each has more names than
//! the one before, are no exception.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::cluster::{Cluster, Rank};
use super::scene::place;

/// Names of each file that it keeps; the newest first.
const NAMES: usize = 3;
const STATES: u64 = 5;
const HOSTS: &str = "abcd";
const STEMS: [&str; 2] = ["w.wfn", "w.restart"];

/// How it goes about it.
#[derive(Debug, Clone, Copy)]
struct Style {
    learn: bool,
    /// Files of a state; each is rotated right before it is written.
    stems: usize,
    /// The rank that writes all of them.
    writer: usize,
    /// It removes the oldest one before.
    unlinks: bool,
}

const CP2K: Style = Style { learn: true, stems: 1, writer: 0, unlinks: true };

fn name(stem: &str, older: usize) -> String {
    match older {
        0 => stem.to_string(),
        older => format!("{stem}.bak-{older}"),
    }
}

fn here(style: Style) -> Cluster {
    let learn = format!("SCR_LEARN={}", u8::from(style.learn));
    let pattern = "SCR_CHECKPOINT_PATTERN=w.restart, w.restart.bak-*, w.wfn, w.wfn.bak-*";
    place(&["SCR_COPY_TYPE=XOR", pattern, &learn])
}

/// Counts what the program does, and how many states it has written then; it is killed after so
/// many doings.
struct Course {
    ends_at: usize,
    done: AtomicUsize,
    written: AtomicUsize,
    killed: AtomicBool,
}

impl Course {
    fn until(ends_at: usize) -> Course {
        Course {
            ends_at,
            done: AtomicUsize::new(0),
            written: AtomicUsize::new(0),
            killed: AtomicBool::new(false),
        }
    }

    /// One more thing, of the rank that writes; `None`: it is killed before.
    fn step(&self, act: impl FnOnce()) -> Option<()> {
        if self.done.load(Ordering::SeqCst) == self.ends_at {
            return None;
        }
        act();
        self.done.fetch_add(1, Ordering::SeqCst);
        Some(())
    }
}

fn rotate(rank: &Rank, style: Style, stem: &str, course: &Course) -> Option<()> {
    let files = &rank.files;
    if style.unlinks {
        course.step(|| drop(files.unlink(&name(stem, NAMES - 1))))?;
    }
    for older in (1..NAMES).rev() {
        course.step(|| drop(files.rename(&name(stem, older - 1), &name(stem, older))))?;
    }
    Some(())
}

fn put(rank: &Rank, style: Style, state: u64, course: &Course) -> Option<()> {
    for stem in &STEMS[..style.stems] {
        rotate(rank, style, stem, course)?;
        course.step(|| {
            let text = format!("{state} in {stem}\n");
            rank.files.write_file(stem, text.as_bytes()).unwrap();
            if *stem == STEMS[style.stems - 1] {
                course.written.store(state as usize, Ordering::SeqCst);
            }
        })?;
    }
    Some(())
}

/// All ranks go on until a restart would offer the state whatever node is lost, as far as their
/// nodes tell.
fn go_on(rank: &Rank, is_safe: impl Fn() -> bool) {
    for _ in 0..200 {
        rank.calm();
        if rank.all_max(i64::from(rank.rank == 0 && is_safe())).unwrap() == 1 {
            return;
        }
    }
}

/// Writes its states until it is killed: the other ranks hear of that by what SCR does not see.
fn states(rank: &Rank, style: Style, course: &Course, cluster: &Cluster) {
    for state in 1..=STATES {
        if rank.rank == style.writer {
            if put(rank, style, state, course).is_none() {
                course.killed.store(true, Ordering::SeqCst);
            }
            (0..rank.size).filter(|other| *other != rank.rank).for_each(|other| rank.send(other));
        } else {
            rank.receive(style.writer);
        }
        if course.killed.load(Ordering::SeqCst) {
            return;
        }
        go_on(rank, || is_safe(cluster, style, state));
    }
}

/// The first state of a series that SCR does not know is on the prefix; others are when a marker
/// says so.
fn is_safe(cluster: &Cluster, style: Style, state: u64) -> bool {
    let dir = cluster.node('a').join(format!("store/me/scr.1/scr.dataset.{state}/.scr"));
    let marked = ["CONFIRMED", "TRUSTED"].iter().any(|marker| dir.join(marker).exists());
    marked || (style.learn && state == 1)
}

/// What a run finds: each file's states by age.
fn look(rank: &Rank, style: Style) -> Vec<Option<i64>> {
    let of = |stem: &str, older: usize| {
        let text = rank.files.text(&name(stem, older))?;
        let (state, of) = text.trim().split_once(" in ")?;
        assert_eq!(of, stem);
        Some(state.parse().unwrap())
    };
    let stems = STEMS[..style.stems].iter();
    stems.flat_map(|stem| (0..NAMES).map(move |older| of(stem, older))).collect()
}

/// The state as the program left it.
fn whole(style: Style, state: i64) -> Vec<Option<i64>> {
    let one = (0..NAMES as i64).map(|older| Some(state - older).filter(|it| *it > 0));
    let one: Vec<_> = one.collect();
    (0..style.stems).flat_map(|_| one.clone()).collect()
}

/// What is wrong after so many doings and that loss; `None`, too, when the program has come to its
/// end before.
fn fault(style: Style, ends_at: usize, lost: Option<char>) -> Option<Option<String>> {
    let cluster = here(style);
    let course = Course::until(ends_at);
    let ran = cluster.run(HOSTS, |rank| states(rank, style, &course, &cluster));
    ran.all();
    let written = course.written.load(Ordering::SeqCst) as i64;
    let over = course.done.load(Ordering::SeqCst) < ends_at;
    lost.iter().for_each(|host| cluster.lose(*host));
    let got = cluster.run(HOSTS, |rank| {
        let found = look(rank, style);
        rank.finish();
        found
    });
    if over {
        return None;
    }
    let found = got.first().clone();
    // Of the very first one, what is not all written yet is of no use.
    let newest = [written, (written - 1).max(1)].map(|state| whole(style, state));
    let fault = (written > 0 && !newest.contains(&found)).then(|| {
        let after = format!("after {ends_at} ({written} written), {lost:?} lost");
        format!("{style:?} {after}: {found:?}; {:?}", got.told)
    });
    Some(fault)
}

fn check(style: Style) {
    let mut faults = Vec::new();
    for ends_at in 0.. {
        let all = [None, Some('a'), Some('b')].map(|lost| fault(style, ends_at, lost));
        if all[0].is_none() {
            break;
        }
        faults.extend(all.into_iter().flatten().flatten());
    }
    assert!(faults.is_empty(), "{}\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn the_newest_state_or_the_one_before_is_whole_at_every_instant_once_learned() {
    check(CP2K);
}

#[test]
fn the_newest_state_or_the_one_before_is_whole_at_every_instant_from_the_first() {
    check(Style { learn: false, ..CP2K });
}

#[test]
fn of_two_files_that_are_rotated_one_after_the_other_too() {
    check(Style { stems: 2, unlinks: false, ..CP2K });
}
