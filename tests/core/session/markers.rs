//! A store fails for good when a sealed checkpoint is to be marked as complete there, and then its
//! node is lost: what the others have protects the checkpoint all the same.

use super::cluster::Cluster;
use super::life::from;
use super::program::{Program, Truth};
use crate::mortal::{Plan, What};

const HOSTS: &str = "aabb";

fn cluster() -> Cluster {
    Cluster::new(&["SCR_COPY_TYPE=XOR"])
}

fn first(truth: &Truth) -> Program<'_> {
    Program { launch: 1, steps: 3, ends: false, by_calls: false, truth }
}

/// The last marker that rank 0 writes in an undisturbed run: the step's number.
fn marks_at() -> usize {
    let plain = cluster().launch(HOSTS, None, |rank| first(&Truth::default()).run(rank));
    let marks = |step: &String| step.contains("scr.dataset.3/.scr/.CONFIRMED");
    plain.steps[0].iter().rposition(marks).expect("no marker was written")
}

#[test]
fn a_checkpoint_that_a_node_cannot_mark_survives_that_node() {
    let truth = Truth::default();
    // How many steps there are before differs a little from run to run.
    let disturbed = (0..200).find_map(|_| {
        let cluster = cluster();
        let plan = Plan { rank: 0, step: marks_at(), what: What::Fails(libc::EIO, true) };
        let outcome = cluster.launch(HOSTS, Some(plan), |rank| first(&truth).run(rank));
        assert_eq!(from(&outcome), None);
        let failed = outcome.steps[0].get(plan.step)?;
        let is_last = failed.contains("CONFIRMED") && failed.contains("scr.dataset.3/");
        is_last.then_some((cluster, outcome.told))
    });
    let (cluster, told) = disturbed.expect("no run failed there");
    let says = |line: &&String| line.contains("is complete, and goes to");
    assert_eq!(told.iter().filter(says).count(), 1, "{told:?}");
    cluster.lose('a');
    let second = Program { launch: 2, steps: 1, ..first(&truth) };
    let restarted = cluster.launch("bbcc", None, |rank| second.run(rank));
    assert_eq!(from(&restarted), Some((3, 1)), "{told:?} {:?}", restarted.told);
}
