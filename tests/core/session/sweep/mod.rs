//! Small random programs: ranks open, write, fail, close, rename, delete, read back, with
//! collectives between, and then they end or die. What they see while they run is what a program
//! without SCR sees; what the next run finds is what the program had left, or as much of it as was
//! complete, and never what the program had thrown away.
//!
//! | file | job |
//! |---|---|
//! | `draw.rs` | a program, drawn from a seed |
//! | `script.rs` | what a program is made of; runs it |
//! | `truth.rs` | what each name has had; what a run may find |
//! | `shared/` | programs whose ranks write files together |
//!
//! `SCR_SWEEP_PROGRAMS=n SCR_SWEEP_SEED=s` runs `n` programs from seed `s` on. A failure prints the
//! seed of its program; with `SCR_SWEEP_PROGRAMS=1` it prints the program and what it left, too.
//! `SCR_SWEEP_SETTINGS` adds settings.

mod draw;
mod script;
mod shared;
mod truth;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use draw::{Drawn, Fate, draw};
use script::Course;
use truth::Truth;

use super::cluster::Cluster;
use super::scene::{place, tree};
use crate::mortal::{Plan, What};

const PROGRAMS: u64 = 600;

/// Returns what is wrong with the program of this seed: nothing, if all is well.
fn trial(seed: u64, shown: bool) -> Result<(), String> {
    let drawn = draw(seed);
    let mut truth = Truth::of(&drawn.script);
    let more = std::env::var("SCR_SWEEP_SETTINGS").unwrap_or_default();
    let settings = drawn.settings.iter().map(String::as_str).chain(more.split_whitespace());
    let settings: Vec<&str> = settings.collect();
    let (plain, here) = (place(&[]), Cluster::new(&settings));
    let here = if drawn.helped { here.helped() } else { here };
    if shown {
        eprintln!("{:?} {:?} {settings:?}\n{}", drawn.hosts, drawn.fate, drawn.script);
    }
    let ends = matches!(drawn.fate, Fate::Ends);
    let want =
        plain.run_plain(&drawn.hosts, |rank| drawn.script.run(rank, ends, &Course::default()));
    truth.check_model(&tree(&plain.prefix()))?;
    let plan = match drawn.fate {
        Fate::Dies { rank, step } => Some(Plan { rank, step, what: What::Rank }),
        Fate::Ends | Fate::Stops => None,
    };
    let course = Course::default();
    let got = here.launch(&drawn.hosts, plan, |rank| drawn.script.run(rank, ends, &course));
    let (begun, calm) = (course.begun.into_inner(), course.calm.into_inner());
    truth.cut_behind(begun);
    let told = &got.told;
    let both = want.results.iter().zip(&got.results).enumerate();
    // What a rank does that is dead has no effect.
    for (rank, (want, got)) in both.filter(|_| plan.is_none()) {
        let (Some(want), Some(got)) = (want, got) else { continue };
        let differs = want.iter().zip(got).find(|(want, got)| want != got);
        if let Some((want, got)) = differs {
            return Err(format!("rank {rank}: without SCR {want}\nwith it {got}\n{told:?}"));
        }
    }
    let disturbed = got.results.iter().any(Option::is_none);
    if ends && !disturbed {
        truth
            .same(&tree(&here.prefix()), "on the prefix after the end")
            .map_err(|error| format!("{error}\n{told:?}"))?;
    }
    let finds = here.launch(&drawn.hosts, None, script::survey);
    let seen = finds.results.iter().flatten().next();
    let Some(seen) = seen else { return Err(format!("no second run: {:?}", finds.told)) };
    let judged = match drawn.fate {
        Fate::Ends if !disturbed => truth.same(seen, "seen by the next run"),
        Fate::Stops if calm == drawn.script.0.len() => truth.after_calm(seen),
        _ => truth.possible(seen, calm),
    };
    judged.map_err(|error| format!("{error}\nfirst run: {told:?}\nsecond: {:?}", finds.told))?;
    // The second run has ended: what it saw is on the prefix.
    let left = tree(&here.prefix());
    // What ranks that outlived another one wrote is newer than the whole state that is offered.
    if !disturbed && !truth.may_be_left(seen, &left) {
        return Err(format!(
            "the prefix is not what the second run saw: {}\nfirst run: {told:?}\nsecond: {:?}",
            truth::difference(seen, &left),
            finds.told
        ));
    }
    Ok(())
}

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Tries so many programs, from the seed that is set on.
fn in_parallel(count: u64, trial: fn(u64, bool) -> Result<(), String>) {
    let first = setting("SCR_SWEEP_SEED", 1);
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed) as u64;
            if at >= count {
                break;
            }
            let seed = first + at;
            let outcome = catch_unwind(AssertUnwindSafe(|| trial(seed, count == 1)));
            let wrong = match outcome {
                Ok(Ok(())) => continue,
                Ok(Err(text)) => text,
                Err(_) => "it panicked".to_string(),
            };
            failed.fetch_add(1, Ordering::Relaxed);
            eprintln!("seed {seed}: {wrong}\n");
        }
    };
    let width = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| (0..width).for_each(|_| drop(scope.spawn(work))));
    assert_eq!(failed.into_inner(), 0, "of {count} programs, seeds {first} and on");
}

#[test]
fn random_programs_find_what_they_left() {
    in_parallel(setting("SCR_SWEEP_PROGRAMS", PROGRAMS), trial);
}

/// What is drawn is what the module's head says: each kind of operation, of fate, of setting.
#[test]
fn all_kinds_are_drawn() {
    let all: Vec<Drawn> = (1..=PROGRAMS).map(draw).collect();
    let text: String = all.iter().map(|one| format!("{:?} {}", one.fate, one.script)).collect();
    for word in [
        "Ends", "Stops", "Dies", "write", "part of", "rename", "unlink", "mkdir", "rmdir",
        "append", "read", "list", "calm", "barriers",
    ] {
        assert!(text.contains(word), "{word}");
    }
}
