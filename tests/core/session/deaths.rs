//! Ranks and nodes die, or a step fails, at every durable step.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use fastrand::Rng;

use super::cluster::{Cluster, Mistake, Outcome};
use super::life::{from, is_on_prefix};
use super::program::{Life, Program, Truth, file, launch_of};
use crate::mortal::{Careless, Plan, What};

/// A job that is to be disturbed.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    pub hosts: &'static str,
    pub scheme: &'static str,
    /// Its program calls SCR.
    pub by_calls: bool,
    /// How it is encoded.
    pub seal: &'static str,
}

pub const JOBS: [Job; 3] = [
    Job { hosts: "aa", scheme: "SINGLE", by_calls: false, seal: "BLOCKING" },
    Job { hosts: "aabb", scheme: "XOR", by_calls: false, seal: "BLOCKING" },
    Job { hosts: "abcd", scheme: "XOR", by_calls: false, seal: "BLOCKING" },
];

/// The same beside the program.
const ASIDE: [Job; 3] = [
    Job { seal: "BACKGROUND", ..JOBS[1] },
    Job { seal: "BACKGROUND", ..JOBS[2] },
    Job { hosts: "abcd", scheme: "RS", by_calls: false, seal: "BACKGROUND" },
];

const CALLED: [Job; 2] = [
    Job { hosts: "aabb", scheme: "XOR", by_calls: true, seal: "BLOCKING" },
    Job { hosts: "abcd", scheme: "RS", by_calls: true, seal: "BLOCKING" },
];

/// Random schedules of the usual run.
const SCHEDULES: u64 = 800;

/// Checkpoints of the run that is disturbed.
const STEPS: u64 = 3;

impl Job {
    fn cluster(self) -> Cluster {
        let (scheme, seal) = (self.scheme, self.seal);
        Cluster::new(&[&format!("SCR_COPY_TYPE={scheme}"), &format!("SCR_SEAL={seal}")])
    }
}

fn disturbed(cluster: &Cluster, job: Job, plan: Option<Plan>, truth: &Truth) -> Outcome<Life> {
    let by_calls = job.by_calls;
    let program = Program { launch: 1, steps: STEPS, ends: true, by_calls, truth };
    cluster.launch(job.hosts, plan, |rank| program.run(rank))
}

/// The hosts of the next launch.
fn after(job: Job, plan: Plan) -> String {
    let host = job.hosts.chars().nth(plan.rank).unwrap();
    match plan.what {
        What::Node => job.hosts.replace(host, "x"),
        _ => job.hosts.to_string(),
    }
}

/// One schedule; panics if a promise is broken.
pub fn trial(job: Job, plan: Plan, mistake: Option<Mistake>) {
    let cluster = job.cluster().with(mistake);
    let truth = Truth::default();
    let outcome = disturbed(&cluster, job, Some(plan), &truth);
    let ranks = job.hosts.len();
    let ended = outcome.results.iter().flatten().any(|life| life.ended);
    let complete = truth.complete();
    let told = &outcome.told;
    if let What::Fails(..) = plan.what {
        if outcome.results.iter().all(Option::is_none) {
            // Not even the start: the program runs on the prefix.
            assert!(told.iter().any(|line| line.contains("the program runs without SCR")));
            return;
        }
        // The program does not notice, and nothing that was complete is missing at the end.
        assert_eq!(from(&outcome), None);
    }
    if ended && outcome.results.iter().all(Option::is_some) {
        let is_there = is_on_prefix(&cluster, ranks, (STEPS, 1));
        assert!(is_there, "not on the prefix after the end; {told:?}");
    }
    let parts = parts_on_prefix(&cluster, ranks);
    assert!(parts.is_empty(), "parts of files have final names: {parts:?}; {told:?}");
    // What is never removed shows at the end.
    let lasts = |one: &Mistake| *one == Mistake::Careless(Careless::Removal);
    let cluster = cluster.with(mistake.filter(lasts));
    let by_calls = job.by_calls;
    let second = Program { launch: 2, steps: 1, ends: true, by_calls, truth: &truth };
    let restarted = cluster.launch(&after(job, plan), None, |rank| second.run(rank));
    let begun = from(&restarted);
    let step = begun.map_or(0, |(step, _)| step);
    if let Some(begun) = begun {
        assert!(truth.is_written(begun, ranks), "{begun:?} was not written; {told:?}");
    }
    let is_covered = plan.what != What::Node || job.scheme != "SINGLE";
    let told = (told, &restarted.told);
    assert!(step >= complete || !is_covered, "{complete} was complete, {step} is there; {told:?}");
    assert!(is_on_prefix(&cluster, ranks, (step + 1, 2)), "the restart has left nothing; {told:?}");
    let left = cluster.cached(&after(job, plan));
    assert!(left.is_empty(), "the end has left {left:?}; {told:?}");
}

/// Files on the prefix that are not whole, under the names that the program gives them.
fn parts_on_prefix(cluster: &Cluster, ranks: usize) -> Vec<String> {
    let all = (1..=STEPS).flat_map(|step| (0..ranks).map(move |rank| (step, rank)));
    let is_part = |&(step, rank): &(u64, usize)| {
        let found = std::fs::read(cluster.prefix().join(file(step, rank)));
        found.is_ok_and(|bytes| launch_of(&bytes, step, rank).is_none())
    };
    all.filter(is_part).map(|(step, rank)| file(step, rank)).collect()
}

/// Runs all schedules, so many at a time; tells all that fail.
pub fn run_all<T: Debug + Sync>(
    width: usize,
    schedules: &[T],
    trial: impl Fn(&T) + Sync,
    called: impl Fn(usize) -> String + Sync,
) {
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(0);
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = schedules.get(at) else { break };
            if catch_unwind(AssertUnwindSafe(|| trial(one))).is_err() {
                failed.fetch_add(1, Ordering::Relaxed);
                eprintln!("^ {} {one:?}", called(at));
            }
        }
    };
    std::thread::scope(|scope| (0..width).for_each(|_| drop(scope.spawn(work))));
    let (failed, all) = (failed.into_inner(), schedules.len());
    eprintln!("{all} schedules");
    assert_eq!(failed, 0, "of {all} schedules");
}

/// As many schedules at a time as there are processors.
fn width() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// Every how many steps; SCR_SESSION_EVERY=1 makes it each one.
pub fn stride(usual: usize) -> usize {
    let wish = std::env::var("SCR_SESSION_EVERY").ok();
    wish.and_then(|text| text.parse().ok()).unwrap_or(usual).max(1)
}

/// The steps of every rank of an undisturbed run, those that `counts` has.
pub fn schedules(job: Job, what: What, counts: impl Fn(&str) -> bool) -> Vec<(Job, Plan)> {
    let cluster = job.cluster();
    let outcome = disturbed(&cluster, job, None, &Truth::default());
    let mut all = Vec::new();
    for (rank, steps) in outcome.steps.iter().enumerate() {
        let known = steps.iter().enumerate().filter(|(_, step)| counts(step));
        all.extend(known.map(|(step, _)| (job, Plan { rank, step, what })));
    }
    all
}

fn sweep(jobs: &[Job], usual: usize, whats: &[What], counts: impl Fn(&str) -> bool) {
    let both = |job: &Job| whats.iter().map(|what| (*job, *what)).collect::<Vec<_>>();
    let all = jobs.iter().flat_map(both);
    let all = all.flat_map(|(job, what)| schedules(job, what, &counts));
    let all: Vec<_> = all.step_by(stride(usual)).collect();
    run_all(width(), &all, |(job, plan)| trial(*job, *plan, None), |at| format!("schedule {at}"));
}

#[test]
fn a_rank_dies_at_every_step() {
    sweep(&JOBS, 7, &[What::Rank], |_| true);
}

#[test]
fn a_node_dies_at_every_step() {
    sweep(&JOBS, 7, &[What::Node], |_| true);
}

#[test]
fn the_power_of_a_node_is_cut_at_every_step() {
    sweep(&JOBS, 7, &[What::Power], |_| true);
}

#[test]
fn a_store_fails_at_every_step() {
    let errors =
        [libc::ENOSPC, libc::EIO].map(|errno| [false, true].map(|good| What::Fails(errno, good)));
    sweep(&JOBS, 29, errors.as_flattened(), |step| step.contains("nodes/"));
}

#[test]
fn ranks_and_nodes_die_and_steps_fail_while_the_program_goes_on() {
    let fails = What::Fails(libc::EIO, false);
    sweep(&ASIDE, 43, &[What::Rank, What::Node, What::Power, fails], |_| true);
}

#[test]
fn a_program_of_calls_loses_ranks_and_nodes_at_every_step() {
    sweep(&CALLED, 13, &[What::Rank, What::Node, What::Power], |_| true);
}

/// A random schedule: which job, which death, at which step of whom.
fn drawn(seed: u64, steps: &[Vec<usize>]) -> (Job, Plan) {
    let mut rng = Rng::with_seed(seed);
    let at = rng.usize(..JOBS.len());
    let rank = rng.usize(..steps[at].len());
    let errno = [libc::ENOSPC, libc::EIO][rng.usize(..2)];
    let what = match rng.usize(..10) {
        0 => What::Fails(errno, rng.bool()),
        1..=3 => What::Node,
        4..=6 => What::Power,
        _ => What::Rank,
    };
    (JOBS[at], Plan { rank, step: rng.usize(..steps[at][rank]), what })
}

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// `SCR_SESSION_SCHEDULES=n SCR_SESSION_SEED=s` runs `n` schedules from seed `s` on. One that fails
/// is told with what happened in it; `SCR_SESSION_SCHEDULES=1 SCR_SESSION_SEED=<its seed>` replays
/// it as far as threads can be replayed: the steps of a rank are the same, not those of its
/// neighbours at that moment.
#[test]
fn deaths_drawn_from_a_seed() {
    let seed = setting("SCR_SESSION_SEED", 1);
    let count = setting("SCR_SESSION_SCHEDULES", SCHEDULES);
    let lengths = |job: &Job| {
        let cluster = job.cluster();
        let outcome = disturbed(&cluster, *job, None, &Truth::default());
        outcome.steps.iter().map(Vec::len).collect()
    };
    let steps: Vec<Vec<usize>> = JOBS.iter().map(lengths).collect();
    let all: Vec<_> = (seed..seed + count).map(|seed| drawn(seed, &steps)).collect();
    let one = |(job, plan): &(Job, Plan)| trial(*job, *plan, None);
    run_all(width(), &all, one, |at| format!("seed {}", seed + at as u64));
}
