//! Small random programs whose ranks, on several nodes, write files together: what they read and
//! what sizes they are told is what a program without SCR sees; when they have ended, or died, or
//! lost a node, the next run finds what was complete, byte by byte, and goes on from there.
//!
//! `SCR_SWEEP_SHARED=n SCR_SWEEP_SEED=s` runs `n` programs from seed `s` on.

mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use fastrand::Rng;

use super::{in_parallel, setting};
use crate::cluster::{Cluster, Outcome, Rank};
use crate::mortal::{Plan, What};
use crate::scene::{Tree, place, tree};
use program::{Author, Checkpoint, Naming};

const PROGRAMS: u64 = 60;
/// They take long: files leave the caches again and again.
const PROGRAMS_OF_ONE_NAME: u64 = 12;
const CHECKPOINTS: u64 = 6;
const HOSTS: [&str; 6] = ["ab", "aabb", "abab", "abc", "aabc", "aaa"];
/// One node, too, where ranks find each other's files.
const HOSTS_OF_ONE_NAME: [&str; 6] = ["aaa", "aaaa", "aab", "ab", "aabb", "abc"];
/// Durable steps of a rank in a run, about.
const STEPS_MAX: usize = 250;

/// How its first run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// By MPI_Finalize.
    Ends,
    /// All ranks are killed when all is settled, and a node may be lost.
    Stops {
        loses: Option<char>,
    },
    Dies(Plan),
}

struct Drawn {
    hosts: &'static str,
    settings: Vec<String>,
    fate: Fate,
    /// The first run's checkpoints, and those that the next one writes if it finds none.
    checkpoints: Vec<Checkpoint>,
    stops_behind: usize,
}

fn draw(seed: u64) -> Drawn {
    let mut rng = Rng::with_seed(seed);
    let hosts = HOSTS[rng.usize(..HOSTS.len())];
    let scheme = ["SINGLE", "XOR", "PARTNER"][rng.usize(..3)];
    let mut settings = vec![format!("SCR_COPY_TYPE={scheme}"), "SCR_LEARN=1".to_string()];
    settings.push("SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*".to_string());
    settings.push(format!("SCR_CACHE_SIZE={}", rng.u8(1..4)));
    settings.extend(rng.bool().then(|| "SCR_FLUSH=1".to_string()));
    let fate = draw_fate(&mut rng, hosts, scheme, STEPS_MAX);
    let waits = !matches!(fate, Fate::Dies(_));
    let stops_behind = rng.usize(2..=CHECKPOINTS as usize);
    let checkpoints = Author::new(rng, Naming::Numbered, hosts.len(), waits).write(CHECKPOINTS);
    Drawn { hosts, settings, fate, checkpoints, stops_behind }
}

fn draw_fate(rng: &mut Rng, hosts: &str, scheme: &str, steps: usize) -> Fate {
    // Of "aab" one rank is alone in its set.
    let protected = scheme != "SINGLE" && hosts.contains('b') && hosts != "aab";
    let rank = rng.usize(..hosts.len());
    match rng.u8(..8) {
        0 => Fate::Ends,
        1..4 => {
            let host = hosts.chars().nth(rank).unwrap();
            Fate::Stops { loses: (protected && rng.bool()).then_some(host) }
        }
        other => {
            let what = if protected && other < 6 { What::Node } else { What::Rank };
            Fate::Dies(Plan { rank, step: rng.usize(..steps), what })
        }
    }
}

/// How far a run came, in checkpoints.
#[derive(Debug, Default)]
struct Course {
    begun: AtomicUsize,
    calm: AtomicUsize,
}

/// Writes these; returns what was not as it would be without SCR.
fn write(rank: &Rank, all: &[Checkpoint], course: &Course) -> Option<Vec<String>> {
    let mut wrong = Vec::new();
    for one in all {
        let alive = || !rank.files.is_dead();
        if alive() {
            course.begun.fetch_max(one.id as usize, Ordering::SeqCst);
        }
        wrong.extend(one.run(rank)?);
        if one.calm && alive() {
            course.calm.fetch_max(one.id as usize, Ordering::SeqCst);
        }
    }
    Some(wrong)
}

/// What a rank finds when it starts.
fn survey(rank: &Rank, all: &[Checkpoint]) -> Tree {
    let names: BTreeSet<String> =
        all.iter().flat_map(|one| one.contents().map(|(name, _)| name)).collect();
    let read = |name: String| Some((name.clone(), by_pieces(rank, &name).ok()?));
    names.into_iter().filter_map(read).collect()
}

/// Reads each piece by itself: some are in the cache of the node, for others the file moves.
fn by_pieces(rank: &Rank, name: &str) -> std::io::Result<Vec<u8>> {
    const PIECE: usize = 3000;
    let open = || rank.files.open(name, libc::O_RDONLY);
    let first = open()?;
    let size = first.size()? as usize;
    first.close()?;
    let mut held = Vec::new();
    while held.len() < size {
        let file = open()?;
        held.extend(file.read_at(PIECE.min(size - held.len()), held.len() as u64)?);
        file.close()?;
    }
    Ok(held)
}

/// The newest checkpoint that a program would go on from: that of the newest file, or, where all
/// have one name, the one that is there.
fn newest(found: &Tree, all: &[Checkpoint]) -> usize {
    let is_there = |one: &&Checkpoint| {
        one.contents().all(|(name, held)| match one.is_numbered() {
            true => found.contains_key(&name),
            false => found.get(&name) == Some(held),
        })
    };
    all.iter().rev().find(is_there).map_or(0, |one| one.id as usize)
}

/// What a program has left that has written these.
fn contents(all: &[Checkpoint]) -> Tree {
    let aside = all.iter().rev().skip(1).take(1).flat_map(Checkpoint::aside);
    let files = all.iter().flat_map(Checkpoint::contents).chain(aside);
    files.map(|(name, held)| (name, held.clone())).collect()
}

fn same(want: &Tree, got: &Tree, what: &str) -> Result<(), String> {
    let names: Vec<_> = want.keys().chain(got.keys()).collect();
    let differs = names.iter().find(|name| want.get(**name) != got.get(**name));
    differs.map_or(Ok(()), |name| {
        Err(format!("{what}: {name} {}", differing(want.get(*name), got.get(*name))))
    })
}

fn differing(want: Option<&Vec<u8>>, got: Option<&Vec<u8>>) -> String {
    let (Some(want), Some(got)) = (want, got) else {
        return format!("is {:?} bytes, of {:?}", got.map(Vec::len), want.map(Vec::len));
    };
    let at = want.iter().zip(got).take_while(|(one, other)| one == other).count();
    let from = |held: &[u8]| {
        let piece = held.iter().skip(at).take(8).copied().collect::<Vec<_>>();
        String::from_utf8_lossy(&piece).into_owned()
    };
    let (is, was) = (from(got), from(want));
    format!("is {} bytes, of {}, from {at} on {is:?}, was {was:?}", got.len(), want.len())
}

/// Checkpoint, file of it, content.
type Version<'a> = (usize, usize, &'a Vec<u8>);

/// What a run that was cut off has left: `calm` checkpoints were settled, `begun` begun.
fn possible(found: &Tree, all: &[Checkpoint], calm: usize, begun: usize) -> Result<(), String> {
    let mut names: BTreeMap<String, Vec<Version<'_>>> = BTreeMap::new();
    for one in all.iter().take(begun) {
        for (file, (name, held)) in one.contents().enumerate() {
            names.entry(name).or_default().push((one.id as usize, file, held));
        }
    }
    if let Some(name) = found.keys().find(|name| !names.contains_key(*name)) {
        return Err(format!("{name} is there, begun {begun}"));
    }
    let mut older: Option<BTreeSet<usize>> = None;
    for (name, had) in names {
        let held = found.get(&name);
        let settled = had.iter().rfind(|(id, ..)| *id <= calm);
        let may_be = |held: &Vec<u8>, (id, file, want): &Version<'_>| {
            let is_it = settled.is_none_or(|(first, ..)| id >= first) && held == *want;
            is_it || (*id == begun && *id > calm && all[*id - 1].may_be_left(*file, held))
        };
        let fine = match held {
            None => had.last().is_none_or(|(id, ..)| *id > calm),
            Some(held) => had.iter().any(|one| may_be(held, one)),
        };
        if !fine {
            let differs = differing(had.last().map(|one| one.2), held);
            return Err(format!("{name} {differs}; settled {calm}, begun {begun}"));
        }
        let of = |held: &Vec<u8>| had.iter().filter(|one| one.2 == held).map(|one| one.0).collect();
        let ids: BTreeSet<usize> = held.map(of).unwrap_or_default();
        if all[0].is_numbered() || ids.is_empty() || ids.contains(&begun) {
            continue;
        }
        older = Some(older.map_or(ids.clone(), |older| &older & &ids));
    }
    match older {
        Some(older) if older.is_empty() => Err(format!("of several checkpoints before {begun}")),
        _ => Ok(()),
    }
}

fn wrong(outcome: &Outcome<Option<Vec<String>>>) -> Result<(), String> {
    let all = outcome.results.iter().flatten().flatten().flatten();
    let all: Vec<&String> = all.collect();
    match all.is_empty() {
        true => Ok(()),
        false => Err(format!("{all:#?}\n{:?}", outcome.told)),
    }
}

fn trial(drawn: Drawn, shown: bool) -> Result<(), String> {
    let Drawn { hosts, settings, fate, checkpoints, stops_behind } = drawn;
    let row = format!("{hosts} {fate:?} {stops_behind} {settings:?}");
    if shown {
        eprintln!("{row}");
        show(&checkpoints);
    }
    let plain = place(&[]);
    let as_plain = plain.run_plain(hosts, |rank| write(rank, &checkpoints, &Course::default()));
    wrong(&as_plain).map_err(|text| format!("without SCR: {text}"))?;
    same(&contents(&checkpoints), &tree(&plain.prefix()), "without SCR, against the model")?;

    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let here = Cluster::new(&settings).helped().that_ends_together();
    let (plan, first) = match fate {
        Fate::Ends => (None, &checkpoints[..]),
        Fate::Stops { .. } => (None, &checkpoints[..stops_behind]),
        Fate::Dies(plan) => (Some(plan), &checkpoints[..]),
    };
    let course = Course::default();
    let got = here.launch(hosts, plan, |rank| {
        let wrong = write(rank, first, &course)?;
        match fate {
            Fate::Stops { .. } => rank.try_calm().ok()?,
            _ => rank.finish(),
        }
        Some(wrong)
    });
    let is_whole = got.results.iter().all(|result| matches!(result, Some(Some(_))));
    if is_whole {
        wrong(&got).map_err(|text| format!("{row}\n{text}"))?;
    }
    let (begun, mut calm) = (course.begun.into_inner(), course.calm.into_inner());
    if is_whole {
        calm = begun;
        if fate == Fate::Ends {
            same(&contents(first), &tree(&here.prefix()), "on the prefix")
                .map_err(|text| format!("{row}\n{text}\n{:?}", got.told))?;
        }
    }
    if let Fate::Stops { loses: Some(host) } = fate {
        here.lose(host);
        // Nobody can know that one is complete which the program goes on with after its seal.
        calm = calm.saturating_sub(usize::from(first.iter().any(|one| one.reopens)));
    }
    go_on(&here, hosts, &checkpoints, (calm, begun))
        .map_err(|text| format!("{row}\n{text}\nfirst run: {:#?}", got.told))
}

/// The next run: reads, goes on behind what it has found, and ends.
fn go_on(
    here: &Cluster,
    hosts: &str,
    checkpoints: &[Checkpoint],
    (calm, begun): (usize, usize),
) -> Result<(), String> {
    let next = here.launch(hosts, None, |rank| {
        let found = survey(rank, checkpoints);
        let from = rank.all_max(newest(&found, checkpoints) as i64).ok()? as usize;
        // What is not whole of the newest one is written again.
        let from = from.min(if from == begun { begun.saturating_sub(1).max(calm) } else { from });
        let wrong = write(rank, &checkpoints[from..], &Course::default())?;
        rank.finish();
        Some((found, wrong))
    });
    let told = format!("second run: {:#?}", next.told);
    let results: Vec<_> = next.results.iter().flatten().flatten().collect();
    if results.len() != hosts.len() {
        return Err(format!("no second run; {told}"));
    }
    for (rank, (found, wrong)) in results.iter().enumerate() {
        possible(found, checkpoints, calm, begun)
            .map_err(|text| format!("rank {rank}: {text}\n{told}"))?;
        if !wrong.is_empty() {
            return Err(format!("rank {rank}: {wrong:#?}\n{told}"));
        }
    }
    // What is older than the newest one may be gone, if it was not settled.
    let (want, left) = (contents(checkpoints), tree(&here.prefix()));
    let lacks = |one: &&Checkpoint| one.contents().any(|(name, _)| !left.contains_key(&name));
    let first = checkpoints.iter().filter(lacks).map(|one| one.id as usize).collect::<Vec<_>>();
    let is_gone = |name: &String| first.iter().any(|id| name.contains(&format!("step_{id}/")));
    if let Some(id) = first.iter().find(|id| **id <= calm || **id > begun) {
        return Err(format!("checkpoint {id} is gone, settled {calm}, begun {begun}\n{told}"));
    }
    let want: BTreeMap<_, _> = want.into_iter().filter(|(name, _)| !is_gone(name)).collect();
    let left: BTreeMap<_, _> = left.into_iter().filter(|(name, _)| !is_gone(name)).collect();
    same(&want, &left, "on the prefix after the second run")
        .map_err(|text| format!("{text}\n{told}"))
}

fn show(checkpoints: &[Checkpoint]) {
    for one in checkpoints {
        for (at, phase) in one.phases.iter().enumerate() {
            for (rank, acts) in phase.acts.iter().enumerate() {
                acts.iter().for_each(|act| eprintln!("{}.{at} rank {rank}: {act}", one.id));
            }
            eprintln!("{}.{at} {}", one.id, if phase.barrier { "barrier" } else { "collective" });
        }
        eprintln!("{} {}", one.id, if one.calm { "calm" } else { "no pause" });
    }
}

/// As [`draw`], for checkpoints that all have the same names.
fn draw_of_one_name(seed: u64) -> Drawn {
    let mut rng = Rng::with_seed(seed);
    let hosts = HOSTS_OF_ONE_NAME[rng.usize(..HOSTS_OF_ONE_NAME.len())];
    let naming = Naming::OF_ONE_NAME[rng.usize(..4)];
    let scheme = ["SINGLE", "XOR", "PARTNER"][rng.usize(..3)];
    let fate = match rng.bool() {
        true => Fate::Ends,
        false => draw_fate(&mut rng, hosts, scheme, 2 * STEPS_MAX),
    };
    // What is settled is known only where nothing waits for the clock.
    let settle = if fate == Fate::Ends { rng.u8(..3) } else { 0 };
    let settings = [
        format!("SCR_COPY_TYPE={scheme}"),
        "SCR_LEARN=1".to_string(),
        "SCR_CHECKPOINT_PATTERN=ckpt/now/*".to_string(),
        format!("SCR_FLUSH={}", rng.u8(..2)),
        format!("SCR_SETTLE_MILLISECONDS={settle}"),
    ];
    let waits = !matches!(fate, Fate::Dies(_));
    let stops_behind = rng.usize(2..=2 * CHECKPOINTS as usize);
    let checkpoints = Author::new(rng, naming, hosts.len(), waits).write(2 * CHECKPOINTS);
    Drawn { hosts, settings: settings.into(), fate, checkpoints, stops_behind }
}

#[test]
fn files_of_one_name_are_what_the_program_wrote() {
    in_parallel(setting("SCR_SWEEP_SHARED", PROGRAMS_OF_ONE_NAME), |seed, shown| {
        trial(draw_of_one_name(seed), shown)
    });
}

#[test]
fn files_of_several_nodes_are_what_the_program_wrote() {
    in_parallel(setting("SCR_SWEEP_SHARED", PROGRAMS), |seed, shown| trial(draw(seed), shown));
}
