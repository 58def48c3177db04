//! The state machine, driven by hand: a rank changes a file that another one has written.

use scr_core::machine::{
    Contested, DatasetKey, DatasetState, Deletion, FileRef, Intent, Machine, MachineConfig, Next,
    Outcome, Overheard, Placement, Reason, SeriesConfig, Step, SyncKind, Withdrawn,
};
use scr_core::streams::WORLD;

const UPDATE: Intent = Intent::UPDATE;

fn file(id: &str, rank: usize) -> FileRef {
    let masked = format!("ckpt/{{id}}/{rank}");
    FileRef {
        series: 0,
        id: Some(id.into()),
        name: masked.replace("{id}", id),
        masked,
        temporary: false,
    }
}

fn key(id: &str) -> DatasetKey {
    DatasetKey::new(0, id, 0)
}

/// Two ranks that have written checkpoints of these ids; all but the last are confirmed.
fn ranks(ids: &[&str]) -> Vec<Machine> {
    let series = SeriesConfig { learn: false, flush_every: 1, ..SeriesConfig::new("ckpt", true) };
    let config = |rank| MachineConfig::new(rank, vec![0, 1], vec![series.clone()]);
    let mut ranks: Vec<_> = (0..2).map(|rank| Machine::new(config(rank), &[], 0)).collect();
    let mut now = 0;
    for id in ids {
        for (rank, machine) in ranks.iter_mut().enumerate() {
            machine.write_open(&file(id, rank), Intent::REWRITE, now);
            machine.write_closed(&key(id), &file(id, rank).name, 100, now);
        }
        for _ in 0..4 {
            now += 200;
            sync(&mut ranks, now);
        }
    }
    ranks.iter_mut().for_each(|one| drop(one.take_heard()));
    ranks
}

/// A collective of the program; every step is a success.
fn sync(ranks: &mut [Machine], now: u64) {
    sync_with(ranks, now, &mut |_, _| Outcome::Done);
}

/// A collective of the program; `perform` does each step for all ranks.
fn sync_with(
    ranks: &mut [Machine],
    now: u64,
    perform: &mut dyn FnMut(&mut [Machine], &Step) -> Outcome,
) {
    let words: Vec<_> =
        ranks.iter_mut().filter_map(|one| one.sync_point(SyncKind::Constructor, now)).collect();
    let mut most = words[0];
    for own in &words {
        most = std::array::from_fn(|at| most[at].max(own[at]));
    }
    if ranks.iter_mut().map(|one| one.agreed(WORLD, most)).any(|next| next != Next::Confer) {
        return;
    }
    let reports: Vec<_> = ranks.iter_mut().map(|one| one.report(7, now)).collect();
    assert!(ranks.iter_mut().all(|one| one.confer(&reports)));
    loop {
        let steps: Vec<Option<Step>> = ranks.iter_mut().map(Machine::next_step).collect();
        for (machine, step) in ranks.iter_mut().zip(&steps) {
            let Some(step) = step else { return };
            if let Step::Seal(plan) = step {
                machine.seal_record(&plan.key);
            }
            machine.vote(step, Outcome::Done);
        }
        let outcome = steps[0].as_ref().map_or(Outcome::Done, |step| perform(ranks, step));
        for (machine, step) in ranks.iter_mut().zip(steps.iter().flatten()) {
            machine.done(step, outcome);
        }
    }
}

/// Rank 0 changes the file of rank 1; what both hear of it at the next agreement.
fn take_over(ranks: &mut [Machine], id: &str) -> (DatasetKey, [Overheard; 2]) {
    let of_other = file(id, 1);
    let placement = ranks[0].take_over(&of_other, &key(id), UPDATE, 5000);
    let Placement::Dataset(placed) = placement else { panic!("{placement:?}") };
    assert!(placed.is_on_prefix());
    ranks[0].write_closed(&placed.key, &of_other.name, 120, 5000);
    sync(ranks, 5001);
    let heard = [ranks[0].take_heard(), ranks[1].take_heard()];
    (placed.key, heard)
}

fn names(machine: &Machine, key: &DatasetKey) -> Vec<(String, bool)> {
    machine.seal_files(key).into_iter().map(|file| (file.name, file.on_prefix)).collect()
}

#[test]
fn a_complete_checkpoint_keeps_its_version_and_never_flushes_it() {
    let mut ranks = ranks(&["5", "6"]);
    assert_eq!(ranks[0].datasets(0)[0].state, DatasetState::Confirmed);
    let (goes_to, heard) = take_over(&mut ranks, "5");
    assert_eq!(goes_to, DatasetKey::new(0, "5", 1));
    let name = file("5", 1).name;
    let told = Overheard { taken: vec![name.clone()], ..Overheard::default() };
    assert_eq!(heard, [Overheard::default(), told]);
    assert_eq!(names(&ranks[1], &key("5")), [(name.clone(), true)]);
    assert!(ranks[1].is_left_out(&key("5"), &name));
}

#[test]
fn one_that_is_open_again_has_the_file_from_the_rank_that_changes_it() {
    let mut ranks = ranks(&["5"]);
    assert_eq!(ranks[0].datasets(0)[0].state, DatasetState::Provisional);
    let (goes_to, heard) = take_over(&mut ranks, "5");
    assert_eq!(goes_to, key("5"));
    let name = file("5", 1).name;
    let dropped = vec![(key("5"), name.clone())];
    let told = Overheard { taken: vec![name.clone()], dropped, ..Overheard::default() };
    assert_eq!(heard, [Overheard::default(), told]);
    assert_eq!(names(&ranks[1], &key("5")), []);
    assert_eq!(names(&ranks[0], &key("5")), [(file("5", 0).name, false), (name, true)]);
}

#[test]
fn what_its_writer_has_written_since_stays_its_own() {
    let mut ranks = ranks(&["5"]);
    let of_other = file("5", 1);
    ranks[0].take_over(&of_other, &key("5"), UPDATE, 5000);
    ranks[1].write_open(&of_other, Intent::REWRITE, 5000);
    sync(&mut ranks, 5001);
    assert_eq!(ranks[1].take_heard(), Overheard::default());
    assert_eq!(names(&ranks[1], &key("5")), [(of_other.name, false)]);
}

/// Its writer would read its own copy until the next conference.
/// What changes the file on another rank.
type Change<'a> = &'a dyn Fn(&mut [Machine], &FileRef);

#[test]
fn a_file_that_another_rank_changes_is_told_at_once_though_files_are_open() {
    let by_rank = |ranks: &mut [Machine], own: &FileRef| {
        ranks[0].take_over(own, &key("5"), UPDATE, 1002);
    };
    let by_child = |ranks: &mut [Machine], own: &FileRef| {
        ranks[0].changed_by_child(own, 1002);
    };
    for change in [&by_rank as Change<'_>, &by_child] {
        let mut ranks = ranks(&[]);
        let own = file("5", 1);
        for open in [&own, &file("5", 2)] {
            ranks[1].write_open(open, Intent::REWRITE, 1000);
        }
        ranks[1].write_closed(&key("5"), &own.name, 100, 1000);
        sync(&mut ranks, 1001);
        change(&mut ranks, &own);
        sync(&mut ranks, 1003);
        assert_eq!(ranks[1].take_heard().taken, [own.name]);
    }
}

/// Rank 0 deletes a file of rank 1, and renames the directory of another.
#[test]
fn no_flush_brings_back_what_another_rank_has_moved_with_its_directory() {
    let mut ranks = ranks(&["5", "6"]);
    let [deleted, moved] = ["5", "6"].map(|id| file(id, 1));
    assert_eq!(ranks[0].deleted(&deleted, 5000), Deletion::Deferred);
    assert_eq!(ranks[0].moved_away(&moved, 5000), Deletion::Deferred);
    sync(&mut ranks, 5001);
    assert_eq!(ranks[1].take_heard().deleted, [deleted.name, moved.name.clone()]);
    assert!(ranks[1].is_left_out(&key("6"), &moved.name));
    // A deletion that waits for the next checkpoint is another matter.
    let again = file("6", 0).name;
    assert_eq!(ranks[1].deleted(&file("6", 0), 5001), Deletion::Deferred);
    sync(&mut ranks, 5002);
    assert_eq!(ranks[0].take_heard().deleted, [again.as_str()]);
    assert!(!ranks[0].is_left_out(&key("6"), &again));
}

/// A child of rank 0 changes a file of that rank: of a complete checkpoint, of one in progress.
#[test]
fn what_a_child_changes_is_the_prefix_s_and_no_checkpoint_in_progress_has_it() {
    let mut ranks = ranks(&["5", "6"]);
    let complete = file("5", 0);
    assert_eq!(ranks[0].changed_by_child(&complete, 5000), []);
    assert_eq!(names(&ranks[0], &key("5")), [(complete.name.clone(), true)]);
    assert!(ranks[0].is_left_out(&key("5"), &complete.name));
    // What was sealed is in the cache, should it be sealed again.
    assert_eq!(ranks[0].lies_on_prefix(&key("5"), &complete.name), Some(false));

    let written = file("7", 0);
    for (rank, machine) in ranks.iter_mut().enumerate() {
        machine.write_open(&file("7", rank), Intent::REWRITE, 5000);
        machine.write_closed(&key("7"), &file("7", rank).name, 100, 5000);
    }
    let withdrawn = ranks[0].changed_by_child(&written, 5000);
    assert_eq!(withdrawn, [Withdrawn { key: key("7"), revoke: false }]);
    assert_eq!(names(&ranks[0], &key("7")), []);
    assert_eq!(ranks[0].lies_on_prefix(&key("7"), &written.name), None);
    sync(&mut ranks, 5001);
    let taken = vec![complete.name, written.name];
    assert_eq!(ranks[1].take_heard(), Overheard { taken, ..Overheard::default() });
}

#[test]
fn what_a_child_has_open_too_is_closed_when_both_have_closed_it() {
    let mut ranks = ranks(&["5"]);
    let both = file("6", 0);
    for (rank, machine) in ranks.iter_mut().enumerate() {
        machine.write_open(&file("6", rank), Intent::REWRITE, 5000);
    }
    ranks[0].lent(&key("6"), &both.name);
    for (rank, machine) in ranks.iter_mut().enumerate() {
        machine.write_closed(&key("6"), &file("6", rank).name, 100, 5000);
    }
    let state = |ranks: &mut Vec<Machine>, from: u64| {
        (0..4).for_each(|at| sync(ranks, from + 200 * at));
        ranks[1].datasets(0).last().map(|last| (last.key.id.clone(), last.state))
    };
    assert_eq!(state(&mut ranks, 5200), Some(("6".to_owned(), DatasetState::Open)));
    ranks[0].write_closed(&key("6"), &both.name, 120, 6000);
    assert_ne!(state(&mut ranks, 6200), Some(("6".to_owned(), DatasetState::Open)));
}

#[test]
fn what_only_the_prefix_has_goes_at_once_if_a_newer_one_is_complete() {
    let mut ranks = ranks(&["1", "2", "3"]);
    let kept: Vec<_> = ranks[0].datasets(0).iter().map(|one| one.key.id.clone()).collect();
    assert_eq!(kept, ["2", "3"]);
    let left = |rank: usize, file: &FileRef| ranks[rank].is_left_behind(file);
    assert!([0, 1].iter().all(|owner| left(0, &file("1", *owner)) && left(1, &file("1", *owner))));
    // What the cache has waits for an agreement, and what nobody knows of for a newer one.
    assert!(!left(1, &file("2", 1)) && !left(0, &file("2", 1)) && !left(0, &file("0", 1)));
    ranks[1].write_open(&file("1", 1), Intent::REWRITE, 9000);
    assert!(!ranks[1].is_left_behind(&file("1", 1)));
}

/// Both ranks have written the same file into checkpoint 5, which the seal finds; the steps that
/// follow.
fn contested(spoiled: Option<&str>) -> (Vec<Machine>, Vec<Step>) {
    let mut ranks = ranks(&[]);
    let shared = file("5", 9);
    for machine in &mut ranks {
        machine.write_open(&shared, Intent::REWRITE, 0);
        machine.write_closed(&key("5"), &shared.name, 100, 0);
    }
    let spoiled = spoiled.map(str::to_string);
    let found = Contested { file: shared, ranks: vec![0, 1], spoiled };
    let mut steps = Vec::new();
    for now in [200, 400, 600, 800] {
        sync_with(&mut ranks, now, &mut |ranks, step| {
            steps.push(step.clone());
            let Step::Seal(plan) = step else { return Outcome::Done };
            if steps.len() > 1 {
                return Outcome::Done;
            }
            for machine in ranks {
                machine.settle_contested(&plan.key, std::slice::from_ref(&found));
            }
            Outcome::Failed
        });
    }
    (ranks, steps)
}

#[test]
fn of_a_file_that_two_ranks_have_alike_the_first_one_keeps_it() {
    let (mut ranks, steps) = contested(None);
    assert!(matches!(&steps[..2], [Step::Seal(_), Step::Seal(_)]), "{steps:?}");
    let shared = file("5", 9);
    assert_eq!(names(&ranks[0], &key("5")), [(shared.name, false)]);
    assert_eq!(names(&ranks[1], &key("5")), []);
    let next = ranks[1].write_open(&file("6", 9), Intent::REWRITE, 900);
    assert!(
        matches!(next, Placement::Dataset(placed) if placed.is_on_prefix()),
        "known to be shared"
    );
}

#[test]
fn a_checkpoint_of_which_no_rank_has_all_of_a_file_is_given_up() {
    let (ranks, steps) = contested(Some("why"));
    let dropped =
        |step: &Step| matches!(step, Step::Drop { rank: 0, reason, .. } if reason == "why");
    assert!(matches!(steps[0], Step::Seal(_)) && dropped(&steps[1]), "{steps:?}");
    assert_eq!(ranks[0].datasets(0)[0].state, DatasetState::Dropped);
}

#[test]
fn a_file_that_two_ranks_write_together_is_that_of_the_lower_one() {
    let mut ranks = ranks(&[]);
    let shared = file("5", 9);
    ranks[0].write_open(&shared, Intent::REWRITE, 0);
    ranks[1].write_open(&file("5", 1), Intent::REWRITE, 0);
    sync(&mut ranks, 1);
    let placement = ranks[1].join(&shared, &key("5"), 2);
    assert!(
        matches!(placement, Placement::Dataset(placed) if placed.joined && !placed.is_on_prefix())
    );
    assert!(
        names(&ranks[1], &key("5")).contains(&(shared.name.clone(), false)),
        "it is waited for"
    );
    ranks[1].write_closed(&key("5"), &shared.name, 100, 3);
    assert_eq!(names(&ranks[1], &key("5")), [(file("5", 1).name, false)]);
    // It is the other way round where the lower one comes later.
    let (shared, of) = (file("6", 9), key("6"));
    ranks[1].write_open(&shared, Intent::REWRITE, 4);
    ranks[0].join(&shared, &of, 5);
    ranks[0].answer_for(&of, &shared.name);
    assert_eq!(ranks[1].lower_answers_for(&shared), Some(of.clone()));
    assert!(names(&ranks[1], &of).contains(&(shared.name.clone(), false)), "it is waited for");
    ranks.iter_mut().for_each(|one| one.write_closed(&of, &shared.name, 100, 6));
    assert_eq!(names(&ranks[1], &of), []);
    assert_eq!(names(&ranks[0], &of), [(shared.name, false)]);
}

/// Rank 0 has a private copy of its file of checkpoint 5, and rank 1, of another node, writes it on
/// the prefix. Their changes meet there, with so many sync points between; what becomes of it.
fn replaced(wish: Intent, copy_first: bool, syncs: u64) -> (DatasetState, Vec<Step>) {
    let mut ranks = ranks(&["5"]);
    let (shared, of) = (file("5", 0), key("5"));
    let copy = |ranks: &mut [Machine], now| {
        ranks[0].copy_up_closed(&shared, true, now);
        ranks[0].moved_to_prefix(&of, &shared.name, Reason::NoRoom);
        ranks[0].replaced_on_prefix(&of, &shared.name);
        ranks[0].write_closed(&of, &shared.name, 120, now);
    };
    let other = |ranks: &mut [Machine], now| {
        ranks[1].take_over(&shared, &of, wish, now);
        ranks[1].moved_to_prefix(&of, &shared.name, Reason::NoRoom);
        ranks[1].write_closed(&of, &shared.name, 120, now);
    };
    let (mut now, mut steps) = (5000, Vec::new());
    if copy_first {
        copy(&mut ranks, now)
    } else {
        other(&mut ranks, now)
    }
    for _ in 0..syncs {
        now += 1;
        sync(&mut ranks, now);
    }
    if copy_first {
        other(&mut ranks, now)
    } else {
        copy(&mut ranks, now)
    }
    for at in 1..6 {
        sync_with(&mut ranks, now + 200 * at, &mut |_, step| {
            steps.push(step.clone());
            Outcome::Done
        });
    }
    (ranks[0].datasets(0)[0].state, steps)
}

#[test]
fn a_private_copy_that_replaces_what_another_node_writes_is_told() {
    for wish in [UPDATE, Intent::REWRITE] {
        for copy_first in [true, false] {
            let (state, steps) = replaced(wish, copy_first, 0);
            assert_eq!(state, DatasetState::Dropped, "{wish:?}: {steps:?}");
            let [Step::Drop { rank: 0, reason, .. }, ..] = &steps[..] else { panic!("{steps:?}") };
            assert!(reason.contains("was written by rank 1, too"), "{reason}");
        }
    }
}

#[test]
fn one_whose_change_another_node_has_seen_is_not() {
    let (state, steps) = replaced(UPDATE, true, 1);
    assert_ne!(state, DatasetState::Dropped, "{steps:?}");
}
