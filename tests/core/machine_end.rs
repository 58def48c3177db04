//! What comes to the prefix of checkpoints that are not the newest, mostly at the end of a run.

use scr_core::machine::{
    CompleteBy, DatasetKey, DatasetState, FileRef, Intent, Offer, RestartDecision, RestoredFiles,
    Resumed, SeriesConfig,
};

use super::machine::Ranks;

fn offer(id: u64, confirmed: bool) -> Offer {
    Offer {
        key: DatasetKey::new(0, id.to_string(), 0),
        id,
        number: id,
        epoch: id,
        confirmed,
        output: false,
        on_prefix: false,
        flushed: false,
    }
}

fn one_rank() -> Ranks {
    let config = SeriesConfig { flush_every: 0, ..SeriesConfig::new("data", true) };
    Ranks::of(1, SeriesConfig { learn: false, ..config })
}

fn file(id: u64) -> FileRef {
    let (name, masked) = (format!("{id}/a"), "{id}/a".to_string());
    FileRef { series: 0, id: Some(id.to_string()), name, masked, temporary: false }
}

/// A rank that has gone on from these checkpoints, whose first conference is its last.
fn resumed(offered: &[Offer]) -> Ranks {
    let mut ranks = one_rank();
    let own = offered.iter().map(|offer| {
        let file = file(offer.id);
        RestoredFiles {
            files: vec![(file.name, file.masked, 1, false)],
            ..RestoredFiles::default()
        }
    });
    let own = own.collect();
    let last_id = offered.last().map_or(0, |offer| offer.id);
    let decision = RestartDecision { offered: offered.to_vec(), last_id, ..Default::default() };
    ranks.machines[0].resume(&Resumed { decision, own, ..Resumed::default() });
    ranks
}

fn flushed(ranks: &Ranks) -> Vec<&str> {
    ranks.flushed.iter().map(|key| key.id.as_str()).collect()
}

#[test]
fn the_newest_complete_one_beside_a_newer_one_that_may_not_be() {
    let offered = [offer(1, true), offer(2, true), offer(3, false)];
    let mut ranks = resumed(&offered);
    ranks.end();
    assert_eq!(flushed(&ranks), ["2", "3"]);
    // Of the newest complete one, the program has deleted all files.
    let mut ranks = resumed(&offered);
    ranks.machines[0].deleted(&file(2), 1);
    ranks.end();
    assert_eq!(flushed(&ranks), ["1", "3"]);
}

#[test]
fn an_end_without_a_conference_is_to_save_the_same() {
    let unsaved = |offered: &[Offer]| {
        let all = resumed(offered).machines[0].unsaved();
        all.into_iter().map(|key| key.id).collect::<Vec<_>>()
    };
    let flushed = Offer { flushed: true, ..offer(3, true) };
    assert_eq!(unsaved(&[offer(1, true), offer(2, true), offer(3, false)]), ["2", "3"]);
    assert_eq!(unsaved(&[offer(1, true), offer(2, true), flushed.clone()]), [""; 0]);
    assert_eq!(unsaved(&[offer(2, true), flushed, offer(4, false)]), ["4"]);
}

#[test]
fn the_newest_that_the_program_has_not_deleted() {
    let mut ranks = resumed(&[offer(1, true), offer(2, true), offer(3, true)]);
    ranks.machines[0].deleted(&file(3), 1);
    ranks.end();
    assert_eq!(flushed(&ranks), ["2", "3"]);
    assert!(ranks.machines[0].is_left_out(&offer(3, true).key, &file(3).name));
}

#[test]
fn one_is_enough_if_it_is_complete_and_there() {
    let mut ranks = resumed(&[offer(1, true), offer(2, true), offer(3, true)]);
    ranks.end();
    assert_eq!(flushed(&ranks), ["3"]);
}

#[test]
fn what_is_left_of_an_amended_one_that_the_program_gave_up_is_not_sealed_again() {
    let mut ranks = one_rank();
    ranks.write(0, "{id}/a", 1);
    (0..2).for_each(|_| ranks.sync(200));
    assert_eq!(ranks.machines[0].datasets(0)[0].state, DatasetState::Provisional);
    // No agreement from here on.
    ranks.write(0, "{id}/b", 1);
    ranks.write(0, "{id}/a", 2);
    let now = ranks.now_ms;
    ranks.machines[0].deleted(&file(1), now);
    ranks.end();
    let datasets = ranks.machines[0].datasets(0).iter();
    let states: Vec<_> = datasets.map(|one| (&one.key.id[..], one.state)).collect();
    assert_eq!(states, [("1", DatasetState::Open), ("2", DatasetState::Confirmed)]);
}

#[test]
fn a_pointer_to_what_the_program_has_deleted_does_not_replace_a_newer_one() {
    let mut ranks = one_rank();
    for id in 1..=2 {
        ranks.write(0, "{id}/a", id);
        ranks.write(0, "latest", id);
        ranks.sync(1);
    }
    // The newer one cannot be sealed.
    let (now, masked) = (ranks.now_ms, "{id}/b".to_string());
    let open = FileRef { name: "2/b".into(), masked, ..file(2) };
    ranks.machines[0].write_open(&open, Intent::REWRITE, now);
    (0..10).for_each(|_| ranks.sync(200));
    let states: Vec<_> = ranks.machines[0].datasets(0).iter().map(|one| one.state).collect();
    assert_eq!(states, [DatasetState::Confirmed, DatasetState::Open]);
    ranks.machines[0].deleted(&file(1), now);
    ranks.confer();
    let key = offer(1, true).key;
    assert!(!ranks.machines[0].is_left_out(&key, "latest"));
    ranks.machines[0].begin_end(now);
    assert!(ranks.machines[0].is_left_out(&key, "latest"));
}

#[test]
fn without_ids_what_a_launch_began_with_is_not_due_beside_a_newer_complete_one() {
    let config = SeriesConfig { flush_every: 0, learn: false, ..SeriesConfig::new("state", false) };
    let mut ranks = Ranks::of(1, SeriesConfig { complete: CompleteBy::FirstSeal, ..config });
    let offered = [1, 2].map(|id| {
        let key = DatasetKey::new(0, "", id - 1);
        Offer { key, ..offer(id, true) }
    });
    // The second one rests on a file of the first, which the program writes anew, too.
    let own = [&["params", "state"][..], &["state"]].map(|names| {
        let file = |name: &&str| (name.to_string(), name.to_string(), 1, false);
        RestoredFiles { files: names.iter().map(file).collect(), ..RestoredFiles::default() }
    });
    let decision = RestartDecision { offered: offered.into(), last_id: 2, ..Default::default() };
    ranks.machines[0].resume(&Resumed { decision, own: own.into(), ..Resumed::default() });
    for name in ["params", "state"] {
        ranks.write(0, name, 3);
    }
    (0..4).for_each(|_| ranks.sync(200));
    let newest = ranks.machines[0].datasets(0).last().map(|one| (one.key.generation, one.state));
    assert_eq!(newest, Some((2, DatasetState::Confirmed)));
    assert_eq!(ranks.flushed, []);
    ranks.end();
    assert_eq!(ranks.flushed, [DatasetKey::new(0, "", 2)]);
}

#[test]
fn a_thread_is_kept_back_by_what_has_come_and_not_by_what_comes_after_it() {
    let mut ranks = Ranks::of(1, SeriesConfig { learn: false, ..SeriesConfig::new("s", false) });
    let keys = [1, 2].map(|generation| DatasetKey::new(0, String::new(), generation));
    let one = |key: &DatasetKey| Offer { key: key.clone(), ..offer(key.generation, true) };
    let own = vec![("s".to_string(), "s".to_string(), 1, false)];
    let own = keys
        .iter()
        .map(|_| RestoredFiles { files: own.clone(), ..RestoredFiles::default() })
        .collect();
    let offered = keys.iter().map(one).collect();
    let decision = RestartDecision { offered, last_id: 2, ..Default::default() };
    let machine = &mut ranks.machines[0];
    machine.resume(&Resumed { decision, own, ..Resumed::default() });
    machine.flush_begun(&keys[0]);
    assert!(!machine.is_left_out(&keys[0], "s"));
    machine.flush_begun(&keys[1]);
    // A flush that begins now would come after the newer one.
    assert!(machine.is_left_out(&keys[0], "s") && !machine.is_left_out_now(&keys[0], "s"));
    machine.published(&keys[1], "s");
    assert!(machine.is_left_out_now(&keys[0], "s") && !machine.is_left_out_now(&keys[1], "s"));
}
