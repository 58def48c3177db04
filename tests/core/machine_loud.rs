//! Files that are never quiet: found by what they do, and no seal waits for them any more.

use scr_core::machine::{
    DatasetKey, FileRef, Intent, Knowledge, Machine, MachineConfig, Next, Outcome, Overheard,
    Placement, Report, SeriesConfig, Step, SyncKind, Why, name_hash,
};
use scr_core::streams::WORLD;

const LOG: &str = "run.log";

fn bare(name: &str) -> FileRef {
    FileRef { series: 0, id: None, name: name.into(), masked: name.into(), temporary: false }
}

fn part(id: u64) -> FileRef {
    with_id(id, "step")
}

fn with_id(id: u64, stem: &str) -> FileRef {
    let (id, name) = (id.to_string(), format!("{stem}_{id}.dat"));
    FileRef {
        series: 0,
        id: Some(id),
        name,
        masked: format!("{stem}_{{id}}.dat"),
        temporary: false,
    }
}

fn machine_with(has_id: bool, learn: bool, known: &[Knowledge]) -> Machine {
    let series = SeriesConfig { learn, ..SeriesConfig::new("checkpoint", has_id) };
    Machine::new(MachineConfig::new(0, vec![0], vec![series]), known, 0)
}

fn machine(has_id: bool) -> Machine {
    machine_with(has_id, false, &[])
}

/// What a collective of the program led to.
#[derive(Default)]
struct Synced {
    seals: Vec<DatasetKey>,
    heard: Overheard,
}

fn sync(machine: &mut Machine, now_ms: u64) -> Synced {
    let mut synced = Synced::default();
    let Some(words) = machine.sync_point(SyncKind::Constructor, now_ms) else { return synced };
    if machine.agreed(WORLD, words) != Next::Confer {
        return synced;
    }
    let report = machine.report(7, now_ms);
    let report = Report::from_bytes(&report.to_bytes()).unwrap();
    assert!(machine.confer(&[report]));
    synced.heard = machine.take_heard();
    for (series, template) in machine.restless_ahead() {
        machine.silence(series, template);
    }
    while let Some(step) = machine.next_step() {
        if let Step::Seal(plan) = &step {
            assert!(machine.seal_record(&plan.key));
            assert_eq!(machine.vote(&step, Outcome::Done), Outcome::Done);
            synced.seals.push(plan.key.clone());
        }
        machine.done(&step, Outcome::Done);
    }
    synced
}

/// The program opens a file, and it is as long as that when it closes it. A sealed one is copied.
fn write(machine: &mut Machine, file: &FileRef, intent: Intent, bytes: u64, now_ms: u64) {
    let placed = match machine.write_open(file, intent, now_ms) {
        Placement::CopyUp { .. } => machine.copy_up_closed(file, true, now_ms),
        placed => placed,
    };
    if let Placement::Dataset(placed) = placed {
        machine.write_closed(&placed.key, &file.name, bytes, now_ms);
    }
}

fn checkpoint(machine: &mut Machine, id: u64, now_ms: u64) {
    write(machine, &part(id), Intent::REWRITE, 100, now_ms);
}

#[test]
fn a_file_that_stays_open_over_four_checkpoints_is_loud_and_holds_nothing_up_any_more() {
    let mut one = machine(true);
    assert!(matches!(one.write_open(&bare(LOG), Intent::CREATE, 1), Placement::Dataset(_)));
    let mut seals = Vec::new();
    for id in 1..=6 {
        checkpoint(&mut one, id, id * 3000);
        let (first, second) = (sync(&mut one, id * 3000 + 1), sync(&mut one, id * 3000 + 2000));
        let restless: Vec<_> =
            first.heard.restless.iter().chain(&second.heard.restless).cloned().collect();
        assert_eq!(restless.len(), usize::from(id == 4), "at checkpoint {id}");
        assert!(restless.iter().all(|one| one.name == LOG && one.template == name_hash(LOG)));
        seals.extend([first.seals, second.seals].concat());
        assert!(!seals.is_empty() || id < 5, "at checkpoint {id}");
        assert!(seals.is_empty() || id >= 4, "at checkpoint {id}");
    }
    assert!(seals.iter().filter(|key| key.id.as_str() <= "5").count() >= 5, "{seals:?}");
    // A later run knows it.
    let known = one.knowledge(0);
    assert!(known.restless.contains(&name_hash(LOG)));
    let mut next = machine_with(true, true, &[known]);
    assert_eq!(next.write_open(&bare(LOG), Intent::APPEND, 1), Placement::Pass);
    assert!(next.restless_ahead().is_empty());
}

#[test]
fn a_file_with_an_id_or_without_any_ids_can_stay_open_too() {
    for (has_id, file) in [(true, with_id(0, "job")), (false, bare(LOG))] {
        let mut one = machine(has_id);
        one.write_open(&file, Intent::CREATE, 1);
        let mut restless = Vec::new();
        for id in 1..=8 {
            let next = if has_id { part(id) } else { bare("state.cpt") };
            write(&mut one, &next, Intent::REWRITE, 100, id * 1000);
            restless.extend(sync(&mut one, id * 1000 + 1).heard.restless);
            restless.extend(sync(&mut one, id * 1000 + 999).heard.restless);
        }
        let names: Vec<_> = restless.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, [file.name.as_str()]);
        let newest = one.datasets(0).iter().rev().find(|dataset| dataset.id > 0);
        assert!(newest.is_some_and(|newest| newest.id > 4), "sealed: {newest:?}");
    }
}

#[test]
fn neither_time_nor_late_writers_nor_the_next_file_of_a_slow_one_make_a_log() {
    let mut one = machine(true);
    // Open for hours, over many sync points.
    let Placement::Dataset(placed) = one.write_open(&part(1), Intent::REWRITE, 0) else { panic!() };
    for hour in 1..=20 {
        assert!(sync(&mut one, hour * 3_600_000).heard.restless.is_empty());
    }
    // Its thread is late: three more checkpoints begin before it is closed.
    let now = 80_000_000;
    for id in 2..=4 {
        checkpoint(&mut one, id, now + id);
        assert!(sync(&mut one, now + id).heard.restless.is_empty());
    }
    one.write_closed(&placed.key, &part(1).name, 100, now + 10);
    // Each file of the next is open only while others begin; what counts is the single file.
    for id in 5..=20 {
        let late = with_id(id - 3, "late");
        let opened = one.write_open(&late, Intent::REWRITE, now + id * 100);
        let Placement::Dataset(placed) = opened else { panic!() };
        checkpoint(&mut one, id, now + id * 100);
        assert!(sync(&mut one, now + id * 100 + 1).heard.restless.is_empty());
        one.write_closed(&placed.key, &late.name, 100, now + id * 100 + 2);
        assert!(sync(&mut one, now + id * 100 + 99).heard.restless.is_empty());
    }
}

/// Appends `each` times for each of 20 checkpoints; what was found.
fn appends(one: &mut Machine, file: impl Fn(u64) -> FileRef, each: u64) -> Vec<String> {
    let mut found = Vec::new();
    let mut bytes = 0;
    for step in 0..2000 {
        let now = 10 * step;
        if step % 100 == 0 {
            checkpoint(one, step / 100, now);
        }
        if step % (100 / each) == 1 % (100 / each) {
            bytes += 10;
            let intent = if bytes == 10 { Intent::CREATE } else { Intent::UPDATE };
            write(one, &file(step / 100), intent, bytes, now + 1);
        }
        found.extend(sync(one, now + 5).heard.restless.into_iter().map(|one| one.name));
    }
    found
}

#[test]
fn a_file_that_grows_all_the_time_is_loud_and_one_that_grows_with_each_checkpoint_is_not() {
    for each in [1, 2] {
        assert!(appends(&mut machine(true), |_| bare(LOG), each).is_empty(), "{each} times");
    }
    for each in [5, 50, 100] {
        assert_eq!(appends(&mut machine(true), |_| bare(LOG), each), [LOG], "{each} times");
    }
    // Parts of a checkpoint may be written at any number of sync points; not of an old one.
    assert!(appends(&mut machine(true), part, 50).is_empty());
    let old = with_id(0, "energy");
    assert_eq!(appends(&mut machine(true), |_| with_id(0, "energy"), 50), [old.name]);
}

#[test]
fn reading_with_the_right_to_write_and_writing_anew_are_no_appends() {
    let mut one = machine(true);
    write(&mut one, &bare("status"), Intent::CREATE, 10, 0);
    for step in 0..1000 {
        let now = 10 * step;
        if step % 100 == 0 {
            checkpoint(&mut one, step / 100, now);
        }
        write(&mut one, &bare("status"), Intent::UPDATE, 10, now + 1);
        write(&mut one, &bare("latest"), Intent::REWRITE, 10 + step, now + 1);
        assert!(sync(&mut one, now + 5).heard.restless.is_empty(), "step {step}");
    }
}

#[test]
fn without_ids_appends_are_no_checkpoints_and_the_others_are_cached() {
    for learn in [false, true] {
        let mut one = machine_with(false, learn, &[]);
        let (mut restless, mut cached) = (Vec::new(), false);
        for step in 0..200 {
            let now = 100 * step;
            if step % 20 == 0 {
                let state = one.write_open(&bare("state.cpt"), Intent::REWRITE, now);
                let Placement::Dataset(placed) = state else { panic!("{state:?}") };
                one.write_closed(&placed.key, "state.cpt", 100, now);
                cached = !placed.is_on_prefix();
            }
            // Twice: before the checkpoint can be sealed, and before the next step.
            for (line, until) in [(1, 2), (3, 99)] {
                let intent = if step + line == 1 { Intent::CREATE } else { Intent::APPEND };
                write(&mut one, &bare(LOG), intent, 10 * step + line, now + line);
                let heard = sync(&mut one, now + until).heard;
                restless.extend(heard.restless.into_iter().map(|one| one.name));
            }
        }
        assert_eq!(restless, [LOG], "learn: {learn}");
        assert!(cached, "the checkpoints of a run that learns ({learn}) stay on the PFS");
        let generations = one.datasets(0).last().map_or(0, |newest| newest.key.generation);
        assert!(generations < 16, "{generations} generations for 10 checkpoints");
    }
}

#[test]
fn a_checkpoint_without_ids_that_is_appended_to_after_a_sync_point_is_not_cached() {
    let mut one = machine_with(false, true, &[]);
    for step in 0..20 {
        let now = 1000 * step;
        write(&mut one, &bare("state.cpt"), Intent::REWRITE, 100, now);
        assert!(sync(&mut one, now + 1).heard.restless.is_empty());
        write(&mut one, &bare("state.cpt"), Intent::APPEND, 200, now + 2);
        assert!(sync(&mut one, now + 3).heard.restless.is_empty());
    }
    assert_eq!(one.knowledge(0).prefix_only, Some(Why::GoesOn));
}
