//! Ranks and nodes die, or a step fails, at every durable step.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::cluster::{Cluster, Outcome};
use super::life::{from, is_on_prefix};
use super::program::{Life, Program, Truth};
use crate::mortal::{Plan, What};

/// A job that is to be disturbed.
#[derive(Debug, Clone, Copy)]
struct Job {
    hosts: &'static str,
    scheme: &'static str,
}

const JOBS: [Job; 3] = [
    Job { hosts: "aa", scheme: "SINGLE" },
    Job { hosts: "aabb", scheme: "XOR" },
    Job { hosts: "abcd", scheme: "XOR" },
];

/// Checkpoints of the run that is disturbed.
const STEPS: u64 = 3;

fn disturbed(cluster: &Cluster, job: Job, plan: Option<Plan>, truth: &Truth) -> Outcome<Life> {
    let program = Program { launch: 1, steps: STEPS, ends: true, truth };
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
fn trial(job: Job, plan: Plan) {
    let cluster = Cluster::new(&[&format!("SCR_COPY_TYPE={}", job.scheme)]);
    let truth = Truth::default();
    let outcome = disturbed(&cluster, job, Some(plan), &truth);
    let ranks = job.hosts.len();
    let ended = outcome.results.iter().flatten().any(|life| life.ended);
    let complete = truth.complete();
    let told = &outcome.told;
    if let What::Fails(..) = plan.what {
        // The program does not notice, and nothing that was complete is missing at the end.
        assert_eq!(from(&outcome), None);
    }
    if ended && outcome.results.iter().all(Option::is_some) {
        let is_there = is_on_prefix(&cluster, ranks, (STEPS, 1));
        assert!(is_there, "not on the prefix after the end; {told:?}");
    }
    let second = Program { launch: 2, steps: 1, ends: true, truth: &truth };
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
}

/// Runs all schedules, on as many threads as there are processors; tells all that fail.
fn run_all(schedules: &[(Job, Plan)]) {
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(0);
    let work = || {
        while let Some((job, plan)) = schedules.get(next.fetch_add(1, Ordering::Relaxed)) {
            if catch_unwind(AssertUnwindSafe(|| trial(*job, *plan))).is_err() {
                failed.fetch_add(1, Ordering::Relaxed);
                eprintln!("^ {job:?} {plan:?}");
            }
        }
    };
    let width = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| (0..width).for_each(|_| drop(scope.spawn(work))));
    let (failed, all) = (failed.into_inner(), schedules.len());
    assert_eq!(failed, 0, "of {all} schedules");
}

/// Every step of every rank of an undisturbed run.
fn schedules(job: Job, what: What) -> Vec<(Job, Plan)> {
    let cluster = Cluster::new(&[&format!("SCR_COPY_TYPE={}", job.scheme)]);
    let outcome = disturbed(&cluster, job, None, &Truth::default());
    let counts = outcome.steps.iter().map(Vec::len).enumerate();
    let all =
        counts.flat_map(|(rank, count)| (0..count).map(move |step| Plan { rank, step, what }));
    let all: Vec<_> = all.map(|plan| (job, plan)).collect();
    eprintln!("{job:?} {what:?}: {} schedules", all.len());
    all
}

fn sweep(what: What) {
    let all: Vec<_> = JOBS.into_iter().flat_map(|job| schedules(job, what)).collect();
    run_all(&all);
}

#[test]
fn a_rank_dies_at_every_step() {
    sweep(What::Rank);
}

#[test]
fn a_node_dies_at_every_step() {
    sweep(What::Node);
}
