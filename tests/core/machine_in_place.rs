//! Files without id that are opened without truncation, as Fortran does it, while nothing is known
//! of their series yet, and faster than it can settle.

use scr_core::machine::{
    FileRef, Intent, Machine, MachineConfig, Placement, Routing, SeriesConfig, Why,
};

use super::machine::{Ranks, file};

/// The rank changes its file; whether that goes to the prefix.
fn change(ranks: &mut Ranks, rank: usize, intent: Intent) -> bool {
    let (now, file): (u64, FileRef) = (ranks.now_ms, file(rank));
    let machine = &mut ranks.machines[rank];
    let placement = match machine.write_open(&file, intent, now) {
        Placement::CopyUp { .. } => machine.copy_up_closed(&file, true, now),
        other => other,
    };
    let Placement::Dataset(placed) = placement else { panic!("not ours: {placement:?}") };
    machine.write_closed(&placed.key, &file.name, 100, now);
    placed.is_on_prefix()
}

/// Two ranks open their files like that, one after another; a collective after each, in 5 ms.
fn run(intents: &[Intent]) -> (Ranks, Vec<bool>) {
    let mut ranks = Ranks::of(2, SeriesConfig::new("state", false));
    let mut on_prefix = Vec::new();
    for intent in intents {
        let own = [0, 1].map(|rank| change(&mut ranks, rank, *intent));
        assert_eq!(own[0], own[1]);
        on_prefix.push(own[0]);
        ranks.sync(0);
        ranks.sync(5);
    }
    (ranks, on_prefix)
}

#[test]
fn a_file_that_is_changed_in_place_at_once_is_cached_from_the_third_write_on() {
    // Of an earlier run, or not.
    for first in [Intent::UPDATE, Intent::CREATE] {
        let mut intents = [Intent::UPDATE; 8];
        intents[0] = first;
        let (ranks, on_prefix) = run(&intents);
        assert_eq!(on_prefix, [true, true, false, false, false, false, false, false]);
        assert_eq!(ranks.machines[0].unprotected(0), None);
        assert!(ranks.newest_confirmed() >= Some(6));
    }
}

#[test]
fn a_file_that_is_made_once_and_then_changed_in_place_is_cached() {
    let mut intents = [Intent::UPDATE; 8];
    intents[0] = Intent { creates: true, ..Intent::REWRITE };
    let (ranks, on_prefix) = run(&intents);
    assert_eq!(on_prefix[4..], [false; 4], "{on_prefix:?}");
    assert_eq!(ranks.machines[0].unprotected(0), None);
}

#[test]
fn a_checkpoint_that_goes_on_in_place_after_a_collective_is_not_cached_and_that_is_told() {
    let intents = [Intent::REWRITE, Intent::UPDATE].repeat(4);
    let (ranks, on_prefix) = run(&intents);
    assert_eq!(on_prefix, [true; 8]);
    for (rank, machine) in ranks.machines.iter().enumerate() {
        let name = file(rank).name;
        assert_eq!(machine.routing(0), Routing::Prefix);
        // Both files are such, and rank 0's is told first.
        let told = (rank == 0).then_some((Why::GoesOn, name.as_str()));
        assert_eq!(machine.unprotected(0), told, "{rank}");
        let known = machine.knowledge(0);
        assert_eq!(known.prefix_only, Some(Why::GoesOn));
        // In the next run, without and with the user's word.
        for (learn, routing) in [(true, Routing::Prefix), (false, Routing::Cache)] {
            let config = SeriesConfig { learn, ..SeriesConfig::new("state", false) };
            let config = MachineConfig::new(rank, vec![0; 2], vec![config]);
            let next = Machine::new(config, std::slice::from_ref(&known), 0);
            assert_eq!(next.routing(0), routing);
            assert_eq!(next.unprotected(0), told.filter(|_| learn), "{rank}");
        }
    }
}

/// One rank empties the file of all; they write to it, close it, and go on with it.
#[test]
fn ranks_that_write_a_file_together_are_in_one_checkpoint_whoever_has_made_it() {
    let mut ranks = Ranks::of(3, SeriesConfig::new("state", false));
    let shared = file(0);
    let all_open = |ranks: &mut Ranks, intents: &[Intent]| {
        let open = |(machine, intent): (&mut Machine, &Intent)| {
            let placement = machine.write_open(&shared, *intent, 0);
            let Placement::Dataset(placed) = placement else { panic!("not ours: {placement:?}") };
            placed.key
        };
        let keys: Vec<_> = ranks.machines.iter_mut().zip(intents).map(open).collect();
        ranks.sync(0);
        for (machine, key) in ranks.machines.iter_mut().zip(&keys) {
            machine.write_closed(key, &shared.name, 100, 0);
        }
        ranks.sync(0);
        keys
    };
    let begun = all_open(&mut ranks, &[Intent::REWRITE, Intent::UPDATE, Intent::UPDATE]);
    let gone_on = all_open(&mut ranks, &[Intent::UPDATE; 3]);
    for keys in [begun, gone_on] {
        assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    }
}
