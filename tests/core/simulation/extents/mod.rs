//! Files that ranks of several nodes write together, each node its part: who is said to have
//! written which byte last, what is told not to be known, and what the parts come to, compared with
//! an array of bytes that knows who may have been last.
//!
//! `SCR_SIM_EXTENTS=n SCR_SIM_SEED=s cargo test -p scr-core --test simulation extents` runs `n`
//! schedules from seed `s` on.

mod draw;
mod job;
mod model;

use scr_core::machine::{Accesses, Act, Course, by_stamp};
use scr_core::parts::{Extent, NodeLog, Resolved, resolve, settle};

use super::{run_all, setting};
use draw::{Call, Drawn};
use job::{Job, Nodes};
use model::{Model, content};

/// What `make test` has time for.
const SCHEDULES: u64 = 5_000;

thread_local! {
    static NODES: Nodes = Nodes::new();
}

/// How many schedules had what.
#[derive(Debug, Default)]
struct Summary {
    sealed: u64,
    /// It is not known what the file is.
    open: u64,
    /// It was told not to be known, though it is: two ranks of a node did both.
    needless: u64,
    /// A log did not tell all.
    lost: u64,
}

impl std::ops::AddAssign for Summary {
    fn add_assign(&mut self, other: Self) {
        self.sealed += other.sealed;
        self.open += other.open;
        self.needless += other.needless;
        self.lost += other.lost;
    }
}

type Checked = Result<(), String>;

fn claim(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}

fn schedule(seed: u64) -> Result<Summary, String> {
    let drawn = Drawn::of(seed);
    NODES.with(|nodes| check(&Job::new(&drawn, nodes))).map_err(|wrong| {
        let calls: Vec<String> = drawn.calls.iter().map(|call| format!("{call:?}")).collect();
        format!("{wrong}\nnodes {:?}\n{}", drawn.nodes, calls.join("\n"))
    })
}

fn check(job: &Job) -> Result<Summary, String> {
    let (model, whole) = (Model::of(job.drawn), content(&job.drawn.calls));
    let is_possible = |(byte, at): (&u8, usize)| model.bytes[at].may_be(*byte);
    let fits = model.sizes.contains(&(whole.len() as u64));
    claim(fits && whole.iter().zip(0..).all(is_possible), || "the model is wrong".to_string())?;
    let sealed = job.sealed().map_err(|error| error.to_string())?;
    if job.drawn.calls.iter().any(|call| !call.is_logged) {
        let refused = sealed.is_none();
        let found = refused || (job.drawn.overfull.is_none() && !is_seen(job));
        claim(found, || "a log that lacks something was taken for whole".to_string())?;
        return Ok(Summary { lost: 1, ..Summary::default() });
    }
    let joined = |clipped: bool| -> Vec<NodeLog> {
        let of = |node| {
            let ranks = job.drawn.nodes.iter().zip(&job.logs);
            let logs = ranks.filter(|(of, _)| **of == node).filter_map(|(_, log)| log.clone());
            NodeLog::joined(&logs.collect::<Vec<_>>(), clipped.then_some(job.length(node)))
        };
        (0..job.files.len()).map(of).collect()
    };
    let found = resolve(&joined(true));
    check_resolved(job, &model, &found, &whole)?;
    check_settled(job, &settle(&joined(true)), &settle(&joined(false)), &found)?;
    check_course(job, &model, &whole)?;
    let told = !found.conflicts.is_empty();
    claim(sealed.is_none() == told, || format!("sealed {}, told {told}", sealed.is_some()))?;
    let (open, needless) = (u64::from(model.is_open()), u64::from(told && !model.is_open()));
    let Some(parts) = sealed else { return Ok(Summary { open, needless, ..Summary::default() }) };
    let published = job.put_together(&parts)?;
    claim(published == whole, || format!("it is {published:?}, was {whole:?}"))?;
    Ok(Summary { sealed: 1, open, needless, lost: 0 })
}

/// Tells whether a byte that no log has told of can be seen in a node's file.
fn is_seen(job: &Job) -> bool {
    let (nodes, calls) = (&job.drawn.nodes, &job.drawn.calls);
    let node = calls.iter().find(|call| !call.is_logged).map(|call| nodes[call.rank]);
    let of_node: Vec<&Call> = calls.iter().filter(|call| Some(nodes[call.rank]) == node).collect();
    let file = node.and_then(|node| job.files[node].as_ref());
    let unlogged = |(byte, at): (&u8, u64)| {
        *byte != 0 && !of_node.iter().any(|call| call.is_logged && call.writes(at))
    };
    file.is_some_and(|file| file.iter().zip(0..).any(unlogged))
}

/// Returns the node that is said to have a byte.
fn owner(found: &Resolved, at: u64) -> Result<Option<usize>, String> {
    let has = |node: &usize| found.owned[*node].cover(Extent::new(at, at + 1));
    let mut owners = (0..found.owned.len()).filter(has);
    let first = owners.next();
    claim(owners.next().is_none(), || format!("byte {at} has two owners"))?;
    Ok(first)
}

fn byte_of(job: &Job, node: Option<usize>, at: u64) -> u8 {
    let file = node.and_then(|node| job.files[node].as_ref());
    file.and_then(|file| file.get(at as usize)).copied().unwrap_or(0)
}

fn check_resolved(job: &Job, model: &Model, found: &Resolved, whole: &[u8]) -> Checked {
    let told = !found.conflicts.is_empty();
    claim(told || !model.is_open(), || format!("not told: {found:?}"))?;
    claim(!told || model.may_be_open(), || format!("told without need: {found:?}"))?;
    claim(told || found.size == whole.len() as u64, || format!("its size is {}", found.size))?;
    for (byte, at) in model.bytes.iter().zip(0..) {
        let (owner, is_told) = (owner(found, at)?, found.conflicts.cover(Extent::new(at, at + 1)));
        claim(!byte.is_open() || is_told, || format!("byte {at} is not told: {found:?}"))?;
        let later = owner.is_none_or(|owner| byte.last.contains_key(&owner));
        claim(later, || format!("byte {at} is of {owner:?}, last was {byte:?}"))?;
        let right = byte.may_be(byte_of(job, owner, at));
        claim(is_told || right, || format!("byte {at} of {owner:?} is not {byte:?}"))?;
    }
    Ok(())
}

/// Of two nodes with one stamp the higher one was later.
fn check_settled(job: &Job, settled: &Resolved, short: &Resolved, found: &Resolved) -> Checked {
    let mut calls = job.drawn.calls.clone();
    calls.sort_by_key(|call| (call.stamp, job.drawn.nodes[call.rank]));
    let whole = content(&calls);
    claim(settled.conflicts == found.conflicts, || "other conflicts".to_string())?;
    claim(settled.size == whole.len() as u64, || format!("settled: {} bytes", settled.size))?;
    for at in 0..draw::SIZE_MAX as u64 {
        for one in [settled, short] {
            let byte = byte_of(job, owner(one, at)?, at);
            let want = whole.get(at as usize).copied().unwrap_or(0);
            claim(byte == want, || format!("settled: byte {at} is {byte}, was {want}"))?;
        }
    }
    Ok(())
}

/// What ranks know in mid-run: nobody reads in its node's file what another node has written since.
fn check_course(job: &Job, model: &Model, whole: &[u8]) -> Checked {
    let mut course = Course::default();
    let acts = |rank: usize| {
        let calls = job.drawn.calls.iter().filter(move |call| call.rank == rank);
        let told = Accesses::new(0, calls.map(Call::access).collect()).to_bytes();
        let told = Accesses::from_bytes(&told).ok_or("what ranks tell cannot be read")?;
        let node = job.drawn.nodes[rank];
        Ok(told.all.into_iter().map(move |access| Act { node, access }))
    };
    let all: Vec<_> = (0..job.drawn.nodes.len()).map(acts).collect::<Result<_, String>>()?;
    by_stamp(all.into_iter().flatten()).for_each(|acts| _ = course.take(&acts));
    for (byte, at) in model.bytes.iter().zip(0..) {
        for node in 0..job.files.len() {
            let has = course.has(node, Extent::new(at, at + 1));
            let alone = byte.last.len() == 1 && byte.last.contains_key(&node);
            claim(!has || alone, || format!("byte {at}: node {node} has it, last was {byte:?}"))?;
            let wrote = alone && byte.last.values().all(Option::is_some);
            claim(has || !wrote, || format!("byte {at}: node {node} has it not"))?;
            let same = byte_of(job, Some(node), at) == whole.get(at as usize).copied().unwrap_or(0);
            claim(!has || same, || format!("byte {at}: node {node} reads something else"))?;
        }
    }
    Ok(())
}

#[test]
fn parts_come_to_what_the_program_wrote_or_it_is_told() {
    let first = setting("SCR_SIM_SEED", 1);
    let schedules = setting("SCR_SIM_EXTENTS", SCHEDULES);
    let total: Summary = run_all(first..first + schedules, schedule)
        .unwrap_or_else(|(seed, wrong)| panic!("seed {seed}: {wrong}"));
    println!("{schedules} schedules from seed {first}: {total:?}");
    if schedules >= 1000 {
        // All would also hold if nothing were ever sealed, or everything told.
        let share = |count: u64, least: u64| count * 100 > schedules * least;
        assert!(share(total.sealed, 40) && share(total.open, 10), "{total:?}");
        assert!(share(total.lost, 5) && !share(total.needless, 1), "{total:?}");
    }
}
