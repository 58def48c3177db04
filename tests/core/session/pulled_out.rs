//! A node, or a rank, dies at every durable step while all ranks bring a file that they have
//! written together to the prefix, in mid-run: the next start has the newest checkpoint that was
//! sealed.

use super::cluster::{Cluster, Rank};
use super::deaths::{run_all, stride};
use super::scene::below;
use crate::mortal::{Plan, What};

const HOSTS: &str = "aabb";
const PART: usize = 3000;
/// The last checkpoint that is sealed.
const SEALED: u64 = 3;
/// A rank reads what another node has written of this one.
const PULLED: u64 = 4;

fn name(step: u64) -> String {
    format!("ckpt/step_{step}/all.dat")
}

fn piece(step: u64, rank: usize, half: usize) -> Vec<u8> {
    format!("step {step} rank {rank} half {half} ").bytes().cycle().take(PART).collect()
}

fn half(step: u64, half: usize) -> Vec<u8> {
    (0..HOSTS.len()).flat_map(|rank| piece(step, rank, half)).collect()
}

fn cluster(scheme: &str) -> Cluster {
    Cluster::new(&[
        &format!("SCR_COPY_TYPE={scheme}"),
        "SCR_SET_SIZE=2",
        "SCR_LEARN=1",
        "SCR_FLUSH=0",
        "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*",
    ])
    .helped()
    .that_ends_together()
}

/// Writes a checkpoint, each half by all ranks. `None`: this rank or another one is gone.
fn write(rank: &Rank, step: u64) -> Option<()> {
    let _ = rank.files.make_dir("ckpt");
    let _ = rank.files.make_dir(&format!("ckpt/step_{step}"));
    let file = rank.files.open(&name(step), libc::O_RDWR | libc::O_CREAT).ok()?;
    for half in 0..2 {
        let at = (half * HOSTS.len() + rank.rank) * PART;
        file.write_at(&piece(step, rank.rank, half), at as u64).ok()?;
        rank.try_barrier().ok()?;
        if (step, half, rank.rank) == (PULLED, 0, 1) {
            let found = file.read_at(PART, 3 * PART as u64).ok()?;
            assert!(found == piece(step, 3, 0) || rank.files.is_dead());
        }
    }
    file.close().ok()?;
    rank.try_calm().ok()
}

fn disturbed(cluster: &Cluster, plan: Option<Plan>) -> Vec<Vec<String>> {
    cluster.launch(HOSTS, plan, |rank| (1..=PULLED).try_for_each(|step| write(rank, step))).steps
}

/// Tells whether a step has to do with the way out.
fn belongs(step: &str) -> bool {
    step.contains("/.scr/pulled/") || step.contains("/.scr/staged/")
}

/// Of the steps of each rank those from the first to the last that has to do with it.
fn plans(scheme: &'static str) -> Vec<(&'static str, Plan)> {
    let steps = disturbed(&cluster(scheme), None);
    let of_rank = |(rank, steps): (usize, &Vec<String>)| {
        let first = steps.iter().position(|step| belongs(step)).unwrap();
        let last = steps.iter().rposition(|step| belongs(step)).unwrap();
        (first..=last).map(move |step| (rank, step)).collect::<Vec<_>>()
    };
    let all = steps.iter().enumerate().flat_map(of_rank);
    let whats = |(rank, step)| [What::Node, What::Rank].map(|what| Plan { rank, step, what });
    all.flat_map(whats).map(|plan| (scheme, plan)).collect()
}

fn trial(scheme: &str, plan: Plan) {
    let cluster = cluster(scheme);
    let steps = disturbed(&cluster, Some(plan));
    // A helper thread that took one step more before it may have brought the death forward, into
    // the seal of the checkpoint before.
    let came = steps[plan.rank].iter().any(|step| belongs(step) || step.contains("/.pulled."));
    let host = HOSTS.chars().nth(plan.rank).unwrap();
    let hosts = if plan.what == What::Node { HOSTS.replace(host, "x") } else { HOSTS.to_string() };
    // Under its name is all that was written before, and of what came after, whole pieces or none.
    let (first, second) = (half(PULLED, 0), half(PULLED, 1));
    if let Some(found) = cluster.tree().get(&name(PULLED)) {
        assert!(found.starts_with(&first), "{} bytes", found.len());
        let later = found[first.len()..].iter().zip(&second);
        assert!(later.clone().all(|(is, was)| is == was || *is == 0), "the second half");
    }
    let read = |rank: &Rank| {
        let found = rank.files.read_file(&name(SEALED)).ok();
        rank.finish();
        found
    };
    let next = cluster.launch(&hosts, None, read);
    let whole = [half(SEALED, 0), half(SEALED, 1)].concat();
    let is_whole = |found: &Option<Option<Vec<u8>>>| match found {
        Some(Some(found)) => *found == whole,
        _ => !came,
    };
    assert!(next.results.iter().all(is_whole), "{:?} {:?}", steps[plan.rank].last(), next.told);
    let left = below(&cluster.prefix()).into_iter().map(|path| path.display().to_string());
    let staged = |path: &String| path.contains(".scr-") || path.contains("/.scr/staged/");
    assert_eq!(left.filter(staged).collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn a_node_dies_at_every_step_of_the_way_out() {
    let all = ["XOR", "PARTNER"].into_iter().flat_map(plans);
    let all: Vec<_> = all.step_by(stride(13)).collect();
    // Most of them wait for what a dead one cannot read any more.
    run_all(12, &all, |(scheme, plan)| trial(scheme, *plan), |at| format!("schedule {at}"));
}
