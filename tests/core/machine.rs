//! The state machine driven by hand: a few ranks in step, every step a success.

use scr_core::machine::{
    DatasetKey, DatasetState, FileRef, Intent, Machine, MachineConfig, Next, Offer, Outcome,
    Overheard, Placement, Reason, Report, RestartDecision, RestoredFiles, Resumed, SeriesConfig,
    Step, SyncKind,
};
use scr_core::streams::WORLD;

const BYTES: u64 = 100;

/// A file of a series without ids.
pub(super) fn file(rank: usize) -> FileRef {
    let name = format!("state_{rank}.dat");
    FileRef { series: 0, id: None, masked: name.clone(), name, temporary: false }
}

#[derive(Default)]
pub(super) struct Ranks {
    pub(super) machines: Vec<Machine>,
    pub(super) now_ms: u64,
    agreements: u64,
    /// In the order of their flushes.
    pub(super) flushed: Vec<DatasetKey>,
    /// What went along with them, by rank.
    pub(super) along: Vec<(DatasetKey, Vec<String>)>,
    /// So many of the next seals and confirmations fail on the last rank.
    pub(super) failing: u32,
    /// All steps of conferences, as rank 0 has them.
    pub(super) steps: Vec<Step>,
}

impl Ranks {
    pub(super) fn new(ranks: usize) -> Self {
        Self::of(ranks, SeriesConfig { learn: false, ..SeriesConfig::new("state", false) })
    }

    pub(super) fn of(ranks: usize, series: SeriesConfig) -> Self {
        Self::of_all(ranks, vec![series])
    }

    pub(super) fn of_all(ranks: usize, series: Vec<SeriesConfig>) -> Self {
        let config = |rank| MachineConfig::new(rank, vec![0; ranks], series.clone());
        let machines = (0..ranks).map(|rank| Machine::new(config(rank), &[], 0)).collect();
        Ranks { machines, ..Ranks::default() }
    }

    /// Opens the rank's file without truncation, changes it, closes it; where the change went, and
    /// whether a sealed dataset was revoked for it.
    pub(super) fn update(&mut self, rank: usize, exists: bool) -> (DatasetKey, bool) {
        let (machine, now) = (&mut self.machines[rank], self.now_ms);
        let intent = Intent { creates: !exists, ..Intent::UPDATE };
        let placement = match machine.write_open(&file(rank), intent, now) {
            Placement::CopyUp { .. } => machine.copy_up_closed(&file(rank), true, now),
            other => other,
        };
        let Placement::Dataset(placed) = placement else { panic!("not ours: {placement:?}") };
        machine.write_closed(&placed.key, &file(rank).name, BYTES, now);
        (placed.key, placed.revoke)
    }

    /// A collective of the program, `after_ms` after the last event.
    pub(super) fn sync(&mut self, after_ms: u64) {
        self.now_ms += after_ms;
        let now = self.now_ms;
        let words: Vec<_> = self
            .machines
            .iter_mut()
            .filter_map(|one| one.sync_point(SyncKind::Collective, now))
            .collect();
        let Some(mut most) = words.first().copied() else { return };
        self.agreements += 1;
        for own in &words {
            most = std::array::from_fn(|at| most[at].max(own[at]));
        }
        let next: Vec<Next> = self.machines.iter_mut().map(|one| one.agreed(WORLD, most)).collect();
        if next[0] == Next::Confer {
            self.confer();
        }
    }

    pub(super) fn confer(&mut self) {
        let now = self.now_ms;
        let reports: Vec<Report> = self.machines.iter_mut().map(|one| one.report(7, now)).collect();
        assert!(self.machines.iter_mut().all(|one| one.confer(&reports)));
        while self.step() {}
    }

    /// MPI_Finalize.
    pub(super) fn end(&mut self) {
        let now = self.now_ms;
        self.machines.iter_mut().for_each(|one| one.begin_end(now));
        self.confer();
        while self.machines[0].ends_again() {
            self.confer();
        }
    }

    /// What the last conference told each rank.
    fn heard(&mut self) -> Vec<Overheard> {
        self.machines.iter_mut().map(Machine::take_heard).collect()
    }

    /// One step of a conference on all ranks; false when there is none left.
    fn step(&mut self) -> bool {
        let steps: Vec<Option<Step>> = self.machines.iter_mut().map(Machine::next_step).collect();
        let mut worst = Outcome::Done;
        for (machine, step) in self.machines.iter_mut().zip(&steps) {
            let Some(step) = step else { return false };
            let own = match step {
                Step::Spill { key, files } => {
                    files
                        .iter()
                        .for_each(|name| machine.moved_to_prefix(key, name, Reason::NoRoom));
                    if machine.has_cached(key) { Outcome::Touched } else { Outcome::Done }
                }
                Step::Seal(plan) if !machine.seal_record(&plan.key) => Outcome::Touched,
                _ => machine.vote(step, Outcome::Done),
            };
            worst = Outcome::from_word(worst.to_word().max(own.to_word()));
        }
        if let Some(Some(Step::Flush { key, along, .. })) = steps.first() {
            self.flushed.push(key.clone());
            self.along.extend(self.machines.iter().flat_map(|one| one.files_along(along, key)));
        }
        if matches!(steps[0], Some(Step::Seal(_) | Step::Confirm { .. })) && self.failing > 0 {
            self.failing -= 1;
            worst = Outcome::Failed;
        }
        self.steps.extend(steps[0].clone());
        for (machine, step) in self.machines.iter_mut().zip(steps.iter().flatten()) {
            machine.done(step, worst);
        }
        true
    }

    /// The rank writes the file of checkpoint `id`; whether it goes to the prefix.
    pub(super) fn write(&mut self, rank: usize, masked: &str, id: u64) -> bool {
        self.write_to(0, rank, masked, id)
    }

    pub(super) fn write_to(&mut self, series: usize, rank: usize, masked: &str, id: u64) -> bool {
        let name = masked.replace("{id}", &id.to_string());
        let id = masked.contains("{id}").then(|| id.to_string());
        let file = FileRef { series, id, masked: masked.to_string(), name, temporary: false };
        let (machine, now) = (&mut self.machines[rank], self.now_ms);
        let placement = machine.write_open(&file, Intent::REWRITE, now);
        let Placement::Dataset(placed) = placement else { panic!("not ours: {placement:?}") };
        machine.write_closed(&placed.key, &file.name, BYTES, now);
        placed.is_on_prefix()
    }

    pub(super) fn newest_confirmed(&self) -> Option<u64> {
        let datasets = self.machines[0].datasets(0).iter();
        let confirmed = datasets.filter(|one| one.state == DatasetState::Confirmed);
        confirmed.map(|one| one.key.generation).max()
    }
}

#[test]
fn updates_in_place_begin_a_generation_each_and_are_confirmed() {
    // In steps of less and of more than the settle time.
    for every_ms in [5, 200] {
        let mut ranks = Ranks::new(2);
        for checkpoint in 0..10 {
            for rank in 0..2 {
                let (key, revoked) = ranks.update(rank, checkpoint > 0);
                assert_eq!((key.generation, revoked), (checkpoint, false), "{every_ms} ms");
            }
            ranks.sync(0);
            ranks.sync(every_ms);
            if checkpoint > 0 {
                let confirmed = ranks.newest_confirmed();
                assert!(confirmed >= Some(checkpoint - 1), "{every_ms} ms: {confirmed:?}");
            }
        }
    }
}

#[test]
fn an_update_between_two_sync_points_stays_in_its_dataset() {
    let mut ranks = Ranks::new(1);
    ranks.sync(0);
    for _ in 0..3 {
        assert_eq!(ranks.update(0, true).0.generation, 0);
    }
    ranks.sync(0);
    for _ in 0..3 {
        assert_eq!(ranks.update(0, true).0.generation, 1);
    }
}

#[test]
fn a_checkpoint_written_in_two_phases_only_begins_a_generation_early() {
    let mut ranks = Ranks::new(2);
    for _ in 0..10 {
        for _phase in 0..2 {
            // Rank 1 takes part in the first checkpoint alone.
            ranks.update(0, true);
            if ranks.now_ms == 0 {
                ranks.update(1, true);
            }
            ranks.sync(1);
        }
        ranks.sync(300);
    }
    for _ in 0..20 {
        ranks.sync(100);
    }
    let datasets = ranks.machines[0].datasets(0);
    assert!(datasets.iter().all(|one| one.state != DatasetState::Open), "{datasets:?}");
    assert!(ranks.newest_confirmed() >= Some(18), "{datasets:?}");
}

#[test]
fn an_open_for_update_that_changes_nothing_begins_nothing() {
    let mut ranks = Ranks::new(1);
    ranks.update(0, false);
    ranks.sync(0);
    ranks.sync(100);
    let now = ranks.now_ms;
    let machine = &mut ranks.machines[0];
    let intent = Intent::UPDATE;
    let placement = machine.write_open(&file(0), intent, now);
    assert!(matches!(placement, Placement::CopyUp { .. }), "{placement:?}");
    assert_eq!(machine.copy_up_closed(&file(0), false, now), Placement::Pass);
    ranks.sync(100);
    assert_eq!(ranks.machines[0].datasets(0).len(), 1);
}

#[test]
fn a_deletion_keeps_a_file_from_the_flush_at_the_end_and_a_newer_dataset_replaces_it() {
    let mut ranks = Ranks::new(1);
    let (first, _) = ranks.update(0, false);
    ranks.sync(0);
    ranks.sync(100);
    let now = ranks.now_ms;
    ranks.machines[0].deleted(&file(0), now);
    // Until then it may be all that there is to restart from.
    assert!(!ranks.machines[0].is_left_out(&first, &file(0).name));
    let placement = ranks.machines[0].write_open(&file(0), Intent::REWRITE, now);
    let Placement::Dataset(second) = placement else { panic!("{placement:?}") };
    ranks.machines[0].write_closed(&second.key, &file(0).name, BYTES, now);
    assert_ne!(second.key, first);
    let mut ended = ranks.machines[0].clone();
    ended.begin_end(now);
    assert!(!ended.is_left_out(&second.key, &file(0).name));
    assert!(ended.is_left_out(&first, &file(0).name));
    for _ in 0..10 {
        ranks.sync(100);
    }
    let mut left = ranks.machines[0].datasets(0).iter().map(|one| &one.key);
    assert!(left.all(|key| *key == second.key));
    ranks.end();
    assert_eq!(ranks.flushed, [second.key]);
}

#[test]
fn what_is_left_of_a_checkpoint_that_the_program_deleted_from_is_due_all_the_same() {
    let config = SeriesConfig { learn: false, flush_every: 1, ..SeriesConfig::new("ckpt", true) };
    let mut ranks = Ranks::of(1, config);
    for masked in ["{id}/a", "{id}/b"] {
        ranks.write(0, masked, 1);
        ranks.sync(1);
    }
    let (masked, name) = ("{id}/a".to_string(), "1/a".to_string());
    let a = FileRef { series: 0, id: Some("1".to_string()), name, masked, temporary: false };
    let now = ranks.now_ms;
    ranks.machines[0].deleted(&a, now);
    for id in 2..=8 {
        for masked in ["{id}/a", "{id}/b"] {
            ranks.write(0, masked, id);
        }
        (0..4).for_each(|_| ranks.sync(200));
    }
    let flushed = |key: &DatasetKey| ranks.flushed.contains(key);
    let unflushed: Vec<u64> =
        (1..=7).filter(|id| !flushed(&DatasetKey::new(0, id.to_string(), 0))).collect();
    assert_eq!(unflushed, [], "{:?}", ranks.flushed);
}

#[test]
fn of_two_close_checkpoints_at_the_end_the_newest_is_flushed() {
    for pointer in [false, true] {
        let config = SeriesConfig { flush_every: 0, ..SeriesConfig::new("ckpt", true) };
        let mut ranks = Ranks::of(2, SeriesConfig { learn: false, ..config });
        for id in 1..=2 {
            ranks.write(0, "{id}/a", id);
            // A name without id that the newer one does not have any more.
            if pointer && id == 1 {
                ranks.write(0, "latest", id);
            }
            ranks.write(1, "{id}/b", id);
        }
        ranks.end();
        let flushed: Vec<&str> = ranks.flushed.iter().map(|key| &key.id[..]).collect();
        assert_eq!(flushed, if pointer { vec!["1", "2"] } else { vec!["2"] });
    }
}

#[test]
fn a_file_that_has_moved_on_the_prefix_does_not_come_back_by_a_flush() {
    let mut ranks = Ranks::new(1);
    let (key, _) = ranks.update(0, false);
    ranks.sync(0);
    ranks.sync(100);
    let now = ranks.now_ms;
    ranks.machines[0].moved_away(&file(0), now);
    assert!(ranks.machines[0].is_left_out(&key, &file(0).name));
    let (again, _) = ranks.update(0, false);
    assert!(!ranks.machines[0].is_left_out(&again, &file(0).name));
}

#[test]
fn files_of_a_new_kind_go_to_the_prefix_until_their_writers_have_been_seen() {
    let mut ranks = Ranks::of(2, SeriesConfig::new("ckpt", true));
    let mut on_prefix = Vec::new();
    for id in 1..=6 {
        let own = [ranks.write(0, "{id}/part.0", id), ranks.write(1, "{id}/part.1", id)];
        let (mut late, mut shared) = (None, None);
        if id >= 3 {
            late = Some(ranks.write(0, "{id}/late", id));
            let both = [ranks.write(0, "{id}/shared", id), ranks.write(1, "{id}/shared", id)];
            shared = Some(both);
        }
        on_prefix.push((own, late, shared));
        for _ in 0..4 {
            ranks.sync(200);
        }
    }
    let (prefix, cache) = ([true; 2], [false; 2]);
    let expected = [
        (prefix, None, None),
        (cache, None, None),
        (cache, Some(true), Some(prefix)),
        (cache, Some(false), Some(cache)),
        (cache, Some(false), Some(cache)),
        (cache, Some(false), Some(cache)),
    ];
    assert_eq!(on_prefix, expected);
}

#[test]
fn the_rest_of_a_first_dataset_goes_where_its_begin_lies_and_the_next_to_the_cache() {
    let mut ranks = Ranks::of(1, SeriesConfig::new("ckpt", true));
    let mut on_prefix = Vec::new();
    for id in 1..=2 {
        for part in ["{id}/data", "{id}/data", "{id}/header"] {
            on_prefix.push(ranks.write(0, part, id));
            for _ in 0..4 {
                ranks.sync(200); // quiet long enough to be taken for its end
            }
        }
    }
    assert_eq!(on_prefix, [true, true, true, false, false, false]);
}

#[test]
fn the_second_checkpoint_is_sealed_at_once_when_it_has_the_files_of_the_first() {
    let mut ranks = Ranks::of(2, SeriesConfig::new("data", true));
    // Rank 1 writes nothing.
    ranks.write(0, "data.{id}.0", 1);
    for _ in 0..30 {
        ranks.sync(10);
    }
    ranks.write(0, "data.{id}.0", 2);
    ranks.sync(20);
    let states: Vec<DatasetState> =
        ranks.machines[0].datasets(0).iter().map(|dataset| dataset.state).collect();
    assert_eq!(states, [DatasetState::Confirmed, DatasetState::Confirmed]);
}

/// A checkpoint that a restart has found in the cache alone.
fn offered(key: DatasetKey, id: u64, confirmed: bool) -> Offer {
    let (number, epoch) = (id, id);
    Offer { key, id, number, epoch, confirmed, output: false, on_prefix: false, flushed: false }
}

#[test]
fn the_newest_of_a_restart_stays_until_it_is_on_the_prefix_due_or_not() {
    let mut ranks = Ranks::of(1, SeriesConfig::new("data", true));
    let offer = |id: u64| offered(DatasetKey::new(0, id.to_string(), 0), id, true);
    let decision =
        RestartDecision { offered: vec![offer(1), offer(2)], last_id: 2, ..Default::default() };
    ranks.machines[0].resume(&Resumed { decision, ..Resumed::default() });
    let due: Vec<bool> = ranks.machines[0].datasets(0).iter().map(|one| one.due).collect();
    assert_eq!(due, [false, true]);
    ranks.confer();
    assert_eq!(ranks.flushed, [offer(2).key]);
}

#[test]
fn what_may_not_be_complete_reaches_the_prefix_together_with_what_rests_on_it() {
    let mut ranks = Ranks::new(2);
    let key = |generation| DatasetKey::new(0, "", generation);
    let offer = |id: u64| offered(key(id - 1), id, id == 1);
    let offered = vec![offer(1), offer(2)];
    let decision = RestartDecision { offered, last_id: 2, ..Default::default() };
    for (rank, machine) in ranks.machines.iter_mut().enumerate() {
        let files = vec![(file(rank).name, file(rank).name, BYTES, false)];
        let own = vec![RestoredFiles { files, ..Default::default() }; 2];
        machine.resume(&Resumed { decision: decision.clone(), own, ..Resumed::default() });
    }
    // Rank 1's file is still that of the second one.
    assert_eq!(ranks.update(0, true).0, key(2));
    ranks.end();
    assert_eq!(ranks.flushed, [key(2)]);
    let by_rank = [vec![], vec![file(1).name]];
    assert_eq!(ranks.along, by_rank.map(|second| [(key(0), vec![]), (key(1), second)]).concat());
}

#[test]
fn a_barrier_carries_an_agreement_unless_collectives_come_very_fast() {
    for (step_ms, carries) in [(15, true), (0, false)] {
        let mut machine = Ranks::new(1).machines.remove(0);
        let mut now_ms = 0;
        for _ in 0..200 {
            now_ms += step_ms;
            if let Some(words) = machine.sync_point(SyncKind::Collective, now_ms) {
                machine.agreed(WORLD, words);
            }
        }
        let barriers = (0..10).filter(|_| {
            let words = machine.sync_point(SyncKind::Barrier, now_ms);
            words.map(|words| machine.agreed(WORLD, words)).is_some()
        });
        assert_eq!(barriers.count() >= 4, carries, "a step of {step_ms} ms");
    }
}

#[test]
fn a_file_that_stays_open_does_not_cost_an_agreement_at_every_sync_point() {
    let mut ranks = Ranks::new(2);
    for rank in 0..2 {
        ranks.update(rank, false);
    }
    let machine = &mut ranks.machines[0];
    let placement = machine.write_open(&file(0), Intent::REWRITE, 0);
    assert!(matches!(placement, Placement::Dataset(_)), "{placement:?}");
    for _ in 0..4000 {
        ranks.sync(1);
    }
    assert!(ranks.agreements < 1400, "{} agreements", ranks.agreements);
    let (now, key) = (ranks.now_ms, DatasetKey::new(0, "", 0));
    ranks.machines[0].write_closed(&key, &file(0).name, BYTES, now);
    // From then on at slow steps: within a few of them it is sealed.
    for _ in 0..12 {
        ranks.sync(1000);
    }
    let state = ranks.machines[0].datasets(0)[0].state;
    assert_ne!(state, DatasetState::Open);
}

#[test]
fn the_owner_hears_of_a_deletion_and_the_deleter_of_a_new_file_of_that_name() {
    let mut ranks = Ranks::new(2);
    for rank in 0..2 {
        ranks.update(rank, false);
    }
    for _ in 0..4 {
        ranks.sync(200);
    }
    let (now, name) = (ranks.now_ms, file(1).name);
    ranks.machines[0].deleted(&file(1), now);
    ranks.sync(1);
    let told = Overheard { deleted: vec![name.clone()], ..Overheard::default() };
    assert_eq!(ranks.heard(), [Overheard::default(), told]);
    ranks.machines[1].deleted(&file(1), now);
    ranks.update(1, false);
    ranks.sync(1);
    let told = Overheard { revived: vec![name], ..Overheard::default() };
    assert_eq!(ranks.heard(), [told, Overheard::default()]);
}

#[test]
fn a_file_that_was_written_after_its_deletion_elsewhere_stays() {
    let mut ranks = Ranks::new(2);
    for rank in 0..2 {
        ranks.update(rank, false);
    }
    for _ in 0..4 {
        ranks.sync(200);
    }
    let now = ranks.now_ms;
    ranks.machines[0].deleted(&file(1), now);
    // Before the next agreement.
    ranks.update(1, true);
    ranks.sync(1);
    ranks.heard();
    ranks.sync(1);
    let told = Overheard { revived: vec![file(1).name], ..Overheard::default() };
    assert_eq!(ranks.heard(), [told, Overheard::default()]);
}
