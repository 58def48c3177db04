//! Files that are not sealed yet: who may put what on the PFS, or remove it, and when.

use scr_core::session::machine::{
    Deletion, FileRef, Intent, Machine, MachineConfig, Overdue, Placement, SeriesConfig, SyncKind,
};

const PATIENCE_MS: u64 = 1000;

fn machine(rank: usize) -> Machine {
    let series = SeriesConfig { learn: false, ..SeriesConfig::new("ckpt", true) };
    let mut config = MachineConfig::new(rank, vec![0, 1], vec![series]);
    config.unsealed_ms = PATIENCE_MS;
    Machine::new(config, &[], 0)
}

fn named(id: Option<&str>, last: &str) -> FileRef {
    let (name, masked) = match id {
        Some(id) => (format!("{id}/{last}"), format!("{{id}}/{last}")),
        None => (last.to_string(), last.to_string()),
    };
    FileRef { series: 0, id: id.map(str::to_string), name, masked, temporary: false }
}

fn write(machine: &mut Machine, id: Option<&str>, last: &str, now_ms: u64) {
    let file = named(id, last);
    let intent = Intent { creates: true, ..Intent::REWRITE };
    let Placement::Dataset(placed) = machine.write_open(&file, intent, now_ms) else {
        panic!("not ours")
    };
    machine.write_closed(&placed.key, &file.name, 1, now_ms);
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
fn what_a_newer_checkpoint_outdates_stays_until_that_one_is_safe() {
    let (mut machine, file) = (machine(0), named(Some("1"), "r0"));
    write(&mut machine, Some("1"), "r0", 1);
    assert!(machine.sync_point(SyncKind::Collective, 2).is_some());
    machine.agreed([1, -1, 1, 1, 1, 0, 0, 0]);
    write(&mut machine, Some("2"), "r0", 2);
    // An agreement has been since, but neither of them is sealed.
    assert!(machine.sync_point(SyncKind::Collective, 3).is_some());
    machine.agreed([2, -2, 1, 2, 1, 0, 0, 0]);
    assert_eq!(machine.deleted(&file, 4), Deletion::Deferred);
    // What has nothing newer goes at once.
    assert_eq!(machine.deleted(&named(Some("2"), "r0"), 4), Deletion::Now);
}
