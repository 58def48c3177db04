//! Files that are not sealed yet: who may put what on the PFS, or remove it, and when.

use std::collections::BTreeSet;

use scr_core::machine::{
    Deletion, FileRef, Gone, Intent, Knowledge, Machine, MachineConfig, Overdue, Placement,
    SeriesConfig, SyncKind, name_hash, set_hash,
};
use scr_core::streams::WORLD;

const PATIENCE_MS: u64 = 1000;

fn machine(rank: usize) -> Machine {
    that_knows(rank, &[])
}

fn that_knows(rank: usize, knowledge: &[Knowledge]) -> Machine {
    let series = |name| SeriesConfig { learn: false, ..SeriesConfig::new(name, true) };
    let mut config = MachineConfig::new(rank, vec![0, 1], vec![series("ckpt"), series("dump")]);
    config.unsealed_ms = PATIENCE_MS;
    Machine::new(config, knowledge, 0)
}

fn named(id: Option<&str>, last: &str) -> FileRef {
    let (name, masked) = match id {
        Some(id) => (format!("{id}/{last}"), format!("{{id}}/{last}")),
        None => (last.to_string(), last.to_string()),
    };
    FileRef { series: 0, id: id.map(str::to_string), name, masked, temporary: false }
}

fn write(machine: &mut Machine, id: Option<&str>, last: &str, now_ms: u64) -> bool {
    write_file(machine, &named(id, last), now_ms)
}

/// Whether it was written to the PFS.
fn write_file(machine: &mut Machine, file: &FileRef, now_ms: u64) -> bool {
    let intent = Intent { creates: true, ..Intent::REWRITE };
    let Placement::Dataset(placed) = machine.write_open(file, intent, now_ms) else {
        panic!("not ours")
    };
    machine.write_closed(&placed.key, &file.name, 1, now_ms);
    placed.is_on_prefix()
}

/// What the helper thread writes now.
fn publish(machine: &mut Machine, now_ms: u64) -> Vec<String> {
    let due: Vec<Overdue> = machine.overdue(now_ms);
    due.iter().for_each(|one| machine.published(&one.key, &one.file));
    due.into_iter().map(|one| one.file).collect()
}

#[test]
fn a_pointer_of_a_rank_that_is_ahead_waits_for_the_files_of_the_others() {
    let (mut ahead, mut behind) = (machine(0), machine(1));
    write(&mut ahead, Some("1"), "r0", 1);
    write(&mut behind, Some("1"), "r1", 1);
    write(&mut ahead, None, "latest", 1);
    write(&mut ahead, Some("2"), "r0", 2);
    write(&mut ahead, Some("3"), "r0", 3);
    assert_eq!(publish(&mut ahead, 4), ["1/r0"]);
    // The other rank has begun nothing newer: its file has all its time.
    assert!(publish(&mut behind, PATIENCE_MS).is_empty());
    assert_eq!(publish(&mut ahead, 2 * PATIENCE_MS - 1), ["2/r0", "3/r0"]);
    assert_eq!(publish(&mut behind, PATIENCE_MS + 1), ["1/r1"]);
    assert_eq!(publish(&mut ahead, 2 * PATIENCE_MS + 1), ["latest"]);
}

#[test]
fn a_pointer_waits_for_ranks_that_do_not_write_the_series_that_was_overdue_here() {
    let (mut machine, mut other) = (machine(0), machine(1));
    write_file(&mut machine, &FileRef { series: 1, ..named(Some("1"), "dump0") }, 1);
    assert_eq!(publish(&mut machine, PATIENCE_MS + 1), ["1/dump0"]);
    let now_ms = 2 * PATIENCE_MS + 2;
    assert!(write(&mut machine, Some("1"), "r0", now_ms));
    assert!(!write(&mut other, Some("1"), "r1", now_ms));
    assert!(!write(&mut machine, None, "latest", now_ms));
    assert_eq!(publish(&mut other, now_ms + PATIENCE_MS), ["1/r1"]);
    assert_eq!(publish(&mut machine, now_ms + PATIENCE_MS), [""; 0]);
    assert_eq!(publish(&mut machine, now_ms + 2 * PATIENCE_MS), ["latest"]);
}

#[test]
fn a_pointer_waits_for_a_rank_that_sees_later_that_no_agreement_is_in_sight() {
    let (mut machine, mut other) = (machine(0), machine(1));
    write(&mut machine, Some("1"), "r0", 1);
    assert_eq!(publish(&mut machine, PATIENCE_MS + 1), ["1/r0"]);
    assert!(!write(&mut other, Some("1"), "r1", PATIENCE_MS + 2));
    let now_ms = 2 * PATIENCE_MS + 1;
    assert!(!write(&mut other, Some("2"), "r1", now_ms));
    assert!(write(&mut machine, Some("2"), "r0", now_ms));
    assert!(!write(&mut machine, None, "latest", now_ms));
    // All of them see it now, and what they write is where the pointer says.
    let now_ms = 3 * PATIENCE_MS + 1;
    assert_eq!(publish(&mut other, now_ms), ["1/r1", "2/r1"]);
    assert!(write(&mut other, Some("3"), "r1", now_ms));
    assert!(write(&mut machine, Some("3"), "r0", now_ms));
    assert!(write(&mut machine, None, "latest", now_ms));
}

#[test]
fn what_a_newer_checkpoint_outdates_stays_until_that_one_is_safe() {
    let (mut machine, file) = (machine(0), named(Some("1"), "r0"));
    write(&mut machine, Some("1"), "r0", 1);
    assert!(machine.sync_point(SyncKind::Collective, 2).is_some());
    machine.agreed(WORLD, [1, -1, 1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0]);
    write(&mut machine, Some("2"), "r0", 2);
    // An agreement has been since, but neither of them is sealed.
    assert!(machine.sync_point(SyncKind::Collective, 3).is_some());
    machine.agreed(WORLD, [2, -2, 1, 0, 0, 0, 2, 1, 2, 1, 0, 0, 0, 0, 0]);
    assert_eq!(machine.deleted(&file, 4), Deletion::Deferred);
    // What has nothing newer goes at once.
    assert_eq!(machine.deleted(&named(Some("2"), "r0"), 4), Deletion::Now);
}

#[test]
fn what_looks_complete_reaches_the_prefix_before_its_deletion_does() {
    // A pointer of another rank may name it there.
    let names = BTreeSet::from([name_hash("{id}/r0")]);
    let known = Knowledge { files: Some(set_hash(&names)), ..Knowledge::default() };
    let mut machine = that_knows(0, &[known]);
    write(&mut machine, Some("1"), "r0", 1);
    write(&mut machine, Some("2"), "r0", 2);
    assert_eq!(machine.deleted(&named(Some("1"), "r0"), 3), Deletion::Deferred);
    assert_eq!(publish(&mut machine, PATIENCE_MS + 1), ["1/r0"]);
    assert_eq!(publish(&mut machine, PATIENCE_MS + 2), ["2/r0"]);
    assert_eq!(machine.overdue_deletions(3 * PATIENCE_MS + 2), []);
    let gone: Vec<Gone> = machine.overdue_deletions(3 * PATIENCE_MS + 3);
    assert_eq!(gone.iter().map(|one| &one.file[..]).collect::<Vec<_>>(), ["1/r0"]);
    // What is left is no checkpoint, if an agreement comes after all.
    assert!(machine.report(7, 3 * PATIENCE_MS + 4).datasets[0].word.abandoned);
}

#[test]
fn what_is_written_anew_all_the_time_is_overdue_since_its_first_close() {
    let series = SeriesConfig { learn: false, ..SeriesConfig::new("state", false) };
    let mut config = MachineConfig::new(0, vec![0], vec![series]);
    config.unsealed_ms = PATIENCE_MS;
    let mut machine = Machine::new(config, &[], 0);
    for now_ms in [1, PATIENCE_MS / 2, PATIENCE_MS] {
        assert!(!write(&mut machine, None, "state", now_ms));
        assert_eq!(publish(&mut machine, now_ms), [""; 0]);
    }
    assert_eq!(publish(&mut machine, PATIENCE_MS + 1), ["state"]);
    assert!(write(&mut machine, None, "state", PATIENCE_MS + 2));
    // An agreement that comes after all begins anew.
    assert!(machine.sync_point(SyncKind::Collective, PATIENCE_MS + 3).is_some());
    machine.agreed(WORLD, [1, -1, 1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0]);
    assert!(publish(&mut machine, 2 * PATIENCE_MS + 2).is_empty());
}

#[test]
fn no_more_than_one_checkpoint_waits_where_there_is_no_sync_point() {
    let mut machine = machine(0);
    write(&mut machine, Some("1"), "r0", 1);
    assert!(!machine.outruns(&named(Some("2"), "r0")));
    write(&mut machine, Some("2"), "r0", 2);
    assert!(!machine.outruns(&named(Some("2"), "more")), "it has begun");
    assert!(machine.outruns(&named(Some("3"), "r0")));
    let due = machine.overdue_before(Some(0), 2);
    assert_eq!(due.iter().map(|one| &one.file[..]).collect::<Vec<_>>(), ["1/r0"]);
    due.iter().for_each(|one| machine.published(&one.key, &one.file));
    assert!(write(&mut machine, Some("3"), "r0", 3), "to the PFS");
    assert!(!machine.outruns(&named(Some("4"), "r0")));
}

#[test]
fn checkpoints_between_which_there_are_sync_points_wait_for_the_agreement_that_comes() {
    let mut machine = machine(0);
    for id in ["1", "2"] {
        write(&mut machine, Some(id), "r0", 1);
        machine.passed(1);
    }
    assert!(!machine.outruns(&named(Some("3"), "r0")));
}
