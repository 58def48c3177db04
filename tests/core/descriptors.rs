//! Groups, stores, schemes and sets.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use scr_core::descriptors::{
    Descriptors, Membership, Overhead, RedundancyDesc, SchemeKind, choose_sets, rings_by_hops,
};
use scr_core::params::{Environment, Inputs, Settings, load};

fn settings(file: &str) -> Settings {
    settings_with_system(file, "")
}

fn settings_with_system(file: &str, system: &str) -> Settings {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join(".scrconf"), file).expect("a small file");
    let system_file = directory.path().join("system.conf");
    std::fs::write(&system_file, system).expect("a small file");
    let inputs = Inputs {
        environment: &Environment::new(),
        working_directory: directory.path(),
        system_file: &system_file,
        program: &[],
    };
    load(&inputs).expect("a valid configuration")
}

/// Two ranks on each of `nodes` nodes.
fn hosts(nodes: usize) -> Vec<String> {
    (0..2 * nodes).map(|rank| format!("node{}.cluster", rank / 2 + 1)).collect()
}

fn descriptors(file: &str) -> Descriptors {
    Descriptors::new(&settings(file), &hosts(4)).expect("valid descriptors")
}

fn mistake(file: &str) -> String {
    let result = Descriptors::new(&settings(file), &hosts(4));
    result.expect_err(file).to_string()
}

#[test]
fn without_a_word_xor_across_nodes_is_implied() {
    let all = descriptors("");
    let [descriptor] = &all.redundancy[..] else { panic!("{all:?}") };
    assert_eq!(descriptor.scheme, SchemeKind::Xor);
    assert_eq!(descriptor.base, Path::new("/dev/shm"));
    assert_eq!((descriptor.interval, descriptor.set_size, descriptor.bypass), (1, 8, false));
    assert_eq!(all.store(descriptor).count, 2);
    assert_eq!(all.groups.sets(descriptor), [[0, 2, 4, 6], [1, 3, 5, 7]]);
    assert!(all.sentences().is_empty(), "{:?}", all.warnings);
    assert_eq!(all.groups.members("NODE", 3), [2, 3]);
    assert_eq!(all.groups.members("WORLD", 3).len(), 8);
}

#[test]
fn what_is_kept_beside_the_files_follows_from_scheme_and_set() {
    let bytes = |line: &str, nodes: usize| {
        let settings = settings(&format!("SCR_COPY_TYPE=FILE\nCKPT=0 {line}"));
        let all = Descriptors::new(&settings, &hosts(nodes)).expect("valid descriptors");
        all.overheads(3).iter().map(|overhead| overhead.of(1001)).collect::<Vec<_>>()
    };
    assert_eq!(bytes("TYPE=SINGLE", 4), [0]);
    assert_eq!(bytes("TYPE=PARTNER", 4), [1001]);
    assert_eq!(bytes("TYPE=PARTNER SET_FAILURES=2", 4), [2002]);
    assert_eq!(bytes("TYPE=XOR", 4), [334]);
    assert_eq!(bytes("TYPE=RS SET_FAILURES=2", 5), [668]);
    // Sets that are smaller than what was asked for, and ranks that are alone.
    assert_eq!(bytes("TYPE=RS SET_FAILURES=3", 2), [1001]);
    assert_eq!(bytes("TYPE=XOR", 1), [0]);
    assert_eq!(Overhead::NONE.of(u64::MAX), 0);
}

const THREE: &str = "\
SCR_COPY_TYPE=FILE
GROUPS=node1 SWITCH=a
GROUPS=node2 SWITCH=a
GROUPS=node3 SWITCH=b
GROUPS=node4 SWITCH=b
STORE=/ssd COUNT=4 FLUSH=PTHREAD CAPACITY=1GB
CKPT=2 INTERVAL=8 GROUP=SWITCH STORE=/ssd TYPE=PARTNER OUTPUT=1
CKPT=0 INTERVAL=1 GROUP=NODE STORE=/tmp TYPE=XOR SET_SIZE=4
CKPT=1 INTERVAL=4 GROUP=NODE STORE=/ssd/ TYPE=XOR SET_SIZE=2
";

#[test]
fn the_largest_interval_that_divides_wins() {
    let all = descriptors(THREE);
    let chosen: Vec<_> = (1..=8).map(|number| all.select(number, false).index).collect();
    assert_eq!(chosen, [0, 0, 0, 1, 0, 0, 0, 2]);
    assert_eq!(all.select(1, true).index, 2);
    let bases: Vec<_> = all.stores.iter().map(|store| store.base.to_str()).collect();
    assert_eq!(bases, [Some("/ssd"), Some("/dev/shm"), Some("/tmp")]);
    let ssd = all.store(all.select(4, false));
    assert_eq!(
        (ssd.count, ssd.flush.as_deref(), ssd.capacity_bytes),
        (4, Some("PTHREAD"), Some(1 << 30))
    );
}

#[test]
fn intervals_and_stores_give_the_store_that_the_choice_gives() {
    use scr_core::machine::StoreTurns;
    let output = "SCR_COPY_TYPE=FILE\nCKPT=0\nCKPT=1 INTERVAL=3 STORE=/a ENABLED=0\n\
                  CKPT=2 INTERVAL=2 STORE=/b\nCKPT=3 INTERVAL=2 STORE=/c OUTPUT=1\n";
    for (text, output) in [(THREE, false), (THREE, true), (output, false), (output, true)] {
        let all = descriptors(text);
        let places = StoreTurns { rules: all.intervals(output), sizes: vec![] };
        for number in 1..50 {
            assert_eq!(places.store(number), all.select(number, output).store, "{number} {text}");
        }
    }
}

#[test]
fn a_store_without_directories_caches_nothing_and_says_so() {
    let lines = "SCR_COPY_TYPE=FILE\nSTORE=/flat MKDIR=0\nCKPT=0\nCKPT=1 INTERVAL=2 STORE=/flat\n";
    let all = descriptors(lines);
    assert_eq!((all.select(1, false).bypass, all.select(2, false).bypass), (false, true));
    assert!(all.sentences()[0].contains("/flat cannot hold directories"), "{:?}", all.warnings);
    let unused = descriptors("STORE=/flat MKDIR=0\n").sentences();
    assert!(unused.len() == 1 && !unused[0].contains("directories"), "{unused:?}");
}

#[test]
fn set_size_and_group_of_each_descriptor_count() {
    let all = descriptors(THREE);
    let sizes = |number| -> Vec<usize> {
        all.groups.sets(all.select(number, false)).iter().map(Vec::len).collect()
    };
    assert_eq!(sizes(1), [4, 4]);
    assert_eq!(sizes(4), [2, 2, 2, 2]);
    // Ranks 0 to 3 share one switch, so a set has one of them and one of the others.
    let partners = all.groups.sets(all.select(8, false));
    assert_eq!(partners, [[0, 4], [1, 5], [2, 6], [3, 7]]);
}

#[test]
fn a_host_without_a_groups_line_is_its_own_group() {
    let all = descriptors("GROUPS=node1 PSU=x\nGROUPS=node2 PSU=x\nSCR_GROUP=PSU\n");
    assert_eq!(all.groups.members("PSU", 0), [0, 1, 2, 3]);
    assert_eq!(all.groups.members("PSU", 4), [4, 5]);
    let [warning] = &all.sentences()[..] else { panic!("{:?}", all.warnings) };
    assert!(warning.contains("node3.cluster, node4.cluster"), "{warning}");
}

#[test]
fn a_job_too_small_for_its_scheme_hears_of_it() {
    let one_node = Descriptors::new(&settings("SCR_COPY_TYPE=PARTNER\n"), &hosts(1));
    let warnings = one_node.expect("valid descriptors").sentences();
    assert!(warnings[0].contains("PARTNER cannot protect all ranks"), "{warnings:?}");
    assert!(warnings[0].contains("one NODE"), "{warnings:?}");
    let uneven = ["a", "a", "a", "b"].map(str::to_string);
    let warnings = Descriptors::new(&settings(""), &uneven).expect("valid descriptors").sentences();
    assert!(warnings[0].contains("rank 1, 2"), "{warnings:?}");
    let three_nodes = |text: &str| {
        Descriptors::new(&settings(text), &hosts(3)).expect("valid descriptors").sentences()
    };
    let warnings = three_nodes("SCR_COPY_TYPE=RS\nSCR_SET_FAILURES=3\n");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let parts = ["RS with SET_FAILURES=3 needs sets of 4", "all ranks", "the loss of 2 NODE"];
    assert!(parts.iter().all(|part| warnings[0].contains(part)), "{warnings:?}");
    assert_eq!(three_nodes("SCR_COPY_TYPE=RS\n"), [""; 0]);
    assert!(three_nodes("SCR_COPY_TYPE=PARTNER\nSCR_SET_FAILURES=3\n")[0].contains("PARTNER with"));
    for quiet in ["SCR_COPY_TYPE=SINGLE\n", "SCR_CACHE_BYPASS=1\n"] {
        let all = Descriptors::new(&settings(quiet), &hosts(1)).expect("valid descriptors");
        assert!(all.sentences().is_empty(), "{:?}", all.warnings);
    }
}

#[test]
fn mistakes_name_file_and_line() {
    let file = |lines: &str| format!("SCR_COPY_TYPE=FILE\n{lines}\n");
    for (text, place, part) in [
        (file("CKPT=0 TYPE=RS SET_FAILURES=128"), ":2:", "less than 128"),
        (file("CKPT=0 TYPE=RS SET_SIZE=129"), ":2:", "at most 128"),
        (file("CKPT=0 TYPE=XRO"), ":2:", "did you mean XOR?"),
        (file("CKPT=0 INTERVAL=0"), ":2:", "INTERVAL=0"),
        (file("CKPT=0 INTERVALL=2"), ":2:", "did you mean INTERVAL?"),
        (file("CKPT=0 GROUP=SWICH\nGROUPS=node1 SWITCH=a"), ":2:", "did you mean SWITCH?"),
        (file("CKPT=0 STORE=tmp"), ":2:", "absolute path"),
        (file("CKPT=x"), ":2:", "CKPT=x"),
        (file("CKPT=0\nCKPT=2"), ":3:", "1 is needed, found 2"),
        (file("CKPT=0\nCKPT=0"), ":3:", "1 is needed, found 0"),
        (file("CKPT=1"), ":2:", "0 is needed, found 1"),
        (file("CKPT=0 INTERVAL=2"), ":1:", "INTERVAL=1"),
        (file(""), ":1:", "INTERVAL=1"),
        (file("CKPT=0 STORE=/x\nSTORE=/x ENABLED=0"), ":1:", "INTERVAL=1"),
        (file("CKPT=0\nSTORE=/x SIZE=3"), ":3:", "no key SIZE"),
        (file("CKPT=0\nSTORE=/x COUNT=0"), ":3:", "COUNT=0"),
        (file("CKPT=0\nSTORE=/x\nSTORE=/x/"), ":4:", "twice"),
        (file("CKPT=0\nSTORE=/x FLUSH=BBAPI"), ":3:", "PTHREAD"),
        (file("CKPT=0\nSTORE=/x CAPACITY=big"), ":3:", "CAPACITY=big"),
        (file("CKPT=0\nGROUPS=n NODE=a"), ":3:", "always there"),
        (file("CKPT=0\nGROUPS=n A=a\nGROUPS=n A=b"), ":4:", "second A"),
        ("SCR_GROUP=RACK\n".to_string(), ":1:", "no group is called RACK"),
        ("SCR_COPY_TYPE=RS\nSCR_SET_FAILURES=200\n".to_string(), ":1:", "less than 128"),
        ("STORE=/dev/shm ENABLED=0\n".to_string(), "default", "disabled"),
    ] {
        let message = mistake(&text);
        // An implied descriptor's mistake is placed where SCR_COPY_TYPE comes from.
        let place_known = message.contains(place) || message.starts_with("default");
        assert!(place_known && message.contains(part), "{text}: {message}");
    }
}

#[test]
fn failures_are_what_the_scheme_can_do_with() {
    let failures = |text: &str| descriptors(text).redundancy[0].set_failures;
    for (scheme, unset, set) in [("SINGLE", 0, 0), ("XOR", 1, 1), ("PARTNER", 1, 3), ("RS", 2, 3)] {
        assert_eq!(failures(&format!("SCR_COPY_TYPE={scheme}\n")), unset, "{scheme}");
        let all = format!("SCR_COPY_TYPE={scheme}\nSCR_SET_FAILURES=3\n");
        assert_eq!(failures(&all), set, "{scheme}");
        let line = format!("SCR_COPY_TYPE=FILE\nCKPT=0 TYPE={scheme} SET_FAILURES=3\n");
        assert_eq!(failures(&line), set, "{scheme}");
        let told = |text: &str| {
            let warnings = descriptors(text).sentences();
            warnings.iter().filter(|one| one.contains("SET_FAILURES=3 has no effect")).count()
        };
        let lacks = usize::from(set < 3);
        assert_eq!((told(&all), told(&line)), (lacks, lacks), "{scheme}");
    }
    // A value for all is for those that have a choice.
    let both = "SCR_COPY_TYPE=FILE\nSCR_SET_FAILURES=3\nCKPT=0 TYPE=XOR\n\
                CKPT=1 INTERVAL=4 TYPE=RS\n";
    assert_eq!(descriptors(both).sentences(), [""; 0]);
    // A set has room for the losses, whatever its smallest size.
    let all = descriptors("SCR_COPY_TYPE=RS\nSCR_SET_SIZE=2\nSCR_SET_FAILURES=3\n");
    assert!(all.groups.sets(&all.redundancy[0]).iter().all(|set| set.len() >= 4));
}

#[test]
fn a_store_that_nothing_goes_to_is_told_of_unless_the_system_describes_it() {
    let lines = "STORE=/ssd\nSTORE=/ram ENABLED=0\n";
    let told = descriptors(lines).sentences();
    assert!(told.len() == 1 && told[0].contains("store /ssd: SCR_CACHE_BASE is"), "{told:?}");
    let named = format!("{lines}SCR_COPY_TYPE=FILE\nCKPT=0 STORE=/ssd\n");
    assert_eq!(descriptors(&named).sentences(), [""; 0]);
    let system = settings_with_system("", &format!("SCR_CACHE_BASE=/ram2\nSTORE=/ram2\n{lines}"));
    assert_eq!(Descriptors::new(&system, &hosts(4)).expect("valid").sentences(), [""; 0]);
}

#[test]
fn the_line_of_a_store_decides_how_it_is_flushed() {
    let is_async = |text: &str| {
        let settings = settings(text);
        let all = Descriptors::new(&settings, &hosts(1)).expect("valid descriptors");
        all.stores[0].flushes_async(&settings)
    };
    assert!(is_async("SCR_FLUSH_ASYNC=1\n") && is_async("SCR_FLUSH_TYPE=PTHREAD\n"));
    assert!(!is_async(""));
    assert!(!is_async("SCR_FLUSH_ASYNC=1\nSTORE=/dev/shm FLUSH=SYNC\n"));
    assert!(is_async("SCR_FLUSH_ASYNC=1\nSTORE=/dev/shm\n"));
    assert!(is_async("STORE=/dev/shm FLUSH=PTHREAD\n"));
}

#[test]
fn ckpt_lines_without_file_are_ignored_with_a_message() {
    let all = descriptors("CKPT=0 TYPE=SINGLE\n");
    assert_eq!(all.redundancy[0].scheme, SchemeKind::Xor);
    assert!(all.sentences()[0].contains("SCR_COPY_TYPE=FILE"), "{:?}", all.warnings);
}

#[test]
fn only_the_systems_stores_may_be_used_if_it_names_them() {
    let user = "SCR_COPY_TYPE=FILE\nCKPT=0 STORE=/mine\n";
    let result = Descriptors::new(&settings_with_system(user, "STORE=/ram\n"), &hosts(2));
    let message = result.expect_err("a store of the user").to_string();
    assert!(message.contains("/mine is no store of this system"), "{message}");
}

#[test]
fn a_stored_descriptor_gives_the_same_sets_under_another_configuration() {
    let all = descriptors(THREE);
    let first = all.select(8, false);
    let membership = all.groups.membership(first, 4).expect("a rank of the job");
    assert_eq!((membership.rank, membership.group_id, membership.groups), (1, 0, 4));
    let tree = first.to_tree("/ssd/me/scr.1", Some(&membership));
    assert_eq!(tree.get_value("TYPE"), Some("PARTNER"));
    assert_eq!(tree.get_value("GROUP_RANK"), Some("1"));
    assert_eq!(Membership::get(&tree), Some(membership));
    let read = RedundancyDesc::from_tree(&tree).expect("a descriptor");
    assert_eq!(RedundancyDesc { store: first.store, ..read }, *first);

    // SWITCH is configured no more: nodes are what is known.
    let later = descriptors("");
    let (membership, completed) = later.choose(&tree, 4).expect("a descriptor");
    assert_eq!(membership.members.len(), 4);
    assert_eq!(completed.get_value("GROUP_SIZE"), Some("4"));
    assert!(later.is_spread(&tree, &membership.members), "encoded again at each restart");
    assert_eq!(later.former_group(&tree).as_deref(), Some("SWITCH"));
    assert_eq!(all.former_group(&tree), None);
    assert!(all.is_spread(&tree, &[0, 4]));
    assert!(!all.is_spread(&tree, &[0, 2]));
    assert!(!all.is_spread(&tree, &[0, 99]));
    // Alone it was unprotected; the placement has company for it now.
    assert!(!all.is_spread(&tree, &[0]));
    let alone = Descriptors::new(&settings(THREE), &hosts(2)).expect("valid descriptors");
    assert!(alone.is_spread(&tree, &[0]));
    assert!(later.choose(&Default::default(), 0).is_err());
}

#[test]
fn the_documents_own_hash_is_read() {
    let mut tree = scr_core::kvtree::KvTree::new();
    for (key, value) in [
        ("ENABLED", "1"),
        ("INDEX", "0"),
        ("INTERVAL", "1"),
        ("BASE", "/tmp"),
        ("DIRECTORY", "/tmp/user1/scr.1145655/index.0"),
        ("TYPE", "XOR"),
        ("HOP_DISTANCE", "1"),
        ("SET_SIZE", "8"),
    ] {
        tree.set_value(key, value);
    }
    let descriptor = RedundancyDesc::from_tree(&tree).expect("a descriptor");
    assert_eq!((descriptor.scheme, descriptor.base), (SchemeKind::Xor, PathBuf::from("/tmp")));
    tree.set_value("SET_SIZE", "many");
    assert_eq!(RedundancyDesc::from_tree(&tree), None);
}

#[test]
fn partners_are_as_many_hops_away_as_asked() {
    assert_eq!(rings_by_hops(&[0, 2, 4, 6, 8], 2), [[0, 4, 8, 2, 6]]);
    assert_eq!(rings_by_hops(&[0, 1, 2, 3], 2), [[0, 2], [1, 3]]);
    assert_eq!(rings_by_hops(&[5], 3), [[5]]);
    assert!(rings_by_hops(&[], 3).is_empty());
    let six: Vec<String> = (0..6).map(|node| format!("node{node}")).collect();
    let sets = |scheme: &str, hops: usize, copies: usize| {
        let file = format!(
            "SCR_COPY_TYPE={scheme}\nSCR_HOP_DISTANCE={hops}\nSCR_SET_SIZE=6\n\
             SCR_SET_FAILURES={copies}\n"
        );
        let all = Descriptors::new(&settings(&file), &six).expect("valid descriptors");
        all.groups.sets(&all.redundancy[0])
    };
    assert_eq!(sets("PARTNER", 2, 1), [[0, 2, 4], [1, 3, 5]]);
    assert_eq!(sets("PARTNER", 3, 1), [[0, 3], [1, 4], [2, 5]]);
    assert_eq!(sets("XOR", 2, 1), [[0, 2, 4, 1, 3, 5]]);
    // Neither a second copy nor a neighbour at all would have a place in so small rings.
    assert_eq!(sets("PARTNER", 3, 2), [[0, 3, 1, 4, 2, 5]]);
    assert_eq!(sets("PARTNER", 6, 1), [[0, 1, 2, 3, 4, 5]]);
}

mod any {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn placement_gives_sound_sets(
            placement in proptest::collection::vec(0u8..12, 0..60),
            set_size in 0usize..12,
        ) {
            let groups: Vec<String> = placement.iter().map(ToString::to_string).collect();
            let sets = choose_sets(&groups, set_size);
            let mut all: Vec<usize> = sets.iter().flatten().copied().collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..groups.len()).collect::<Vec<_>>());
            for set in &sets {
                let distinct: BTreeSet<_> = set.iter().map(|rank| &groups[*rank]).collect();
                prop_assert_eq!(distinct.len(), set.len());
            }
            let sizes: Vec<_> = sets.iter().map(Vec::len).collect();
            if let (Some(least), Some(most)) = (sizes.iter().min(), sizes.iter().max()) {
                prop_assert!(most - least <= 1);
                let size = |group| groups.iter().filter(|other| *other == group).count();
                let largest = groups.iter().map(size).max();
                // The minimum holds wherever the groups permit it.
                if largest.is_some_and(|largest| largest * set_size.max(2) <= groups.len()) {
                    prop_assert!(*least >= set_size.max(2));
                }
            }
        }

        #[test]
        fn order_is_a_permutation(size in 0usize..20, hops in 1usize..30) {
            let set: Vec<usize> = (0..size).collect();
            let mut order = rings_by_hops(&set, hops).concat();
            order.sort_unstable();
            prop_assert_eq!(order, set);
        }
    }
}
