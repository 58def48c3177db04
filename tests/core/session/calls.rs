//! Programs that call SCR, in one process: datasets that they begin and complete, the loop over
//! what they can restart from, and what is chosen or dropped by its name.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use scr_core::kvtree::KvTree;
use scr_core::operations::add_older_directory;
use scr_core::records::{FlushState, HaltFile, Location, Record as _};
use scr_core::session::{Call, Consent, Flags, Session};

use super::cluster::{Cluster, Rank};

pub const CHECKPOINT: Flags = Flags { checkpoint: true, output: false };
const OUTPUT: Flags = Flags { checkpoint: false, output: true };

/// A launch that ends all of a sudden, unless the program ends it.
pub fn launch<T: Send>(
    cluster: &Cluster,
    hosts: &str,
    program: impl Fn(&Session, usize) -> T + Sync,
) -> Vec<T> {
    let outcome = cluster.launch(hosts, None, |rank: &Rank| {
        rank.session().program.use_by_program(None);
        program(rank.session(), rank.rank)
    });
    let ended = |one: Option<T>| one.unwrap_or_else(|| panic!("{:?}", outcome.told));
    outcome.results.into_iter().map(ended).collect()
}

/// The one answer that all ranks have.
pub fn same<T: PartialEq + std::fmt::Debug>(mut answers: Vec<T>) -> T {
    assert!(answers.iter().all(|one| *one == answers[0]), "{answers:?}");
    answers.remove(0)
}

/// Writes `<name>/f<rank>` as a dataset; whether it is one.
pub fn write(session: &Session, prefix: &Path, name: &str, flags: Flags, valid: bool) -> bool {
    let rank = session.program.rank();
    session.program.start_dataset(Some(name), flags).unwrap();
    let place = session.program.route_output(&prefix.join(format!("{name}/f{rank}"))).unwrap();
    fs::write(place, format!("{name} of {rank}")).unwrap();
    session.program.complete_dataset(valid).unwrap()
}

/// What the rank's own file says in the checkpoint that is offered; it stays or goes by `valid`.
pub fn read(session: &Session, valid: bool) -> Option<String> {
    let name = session.program.have_restart().unwrap()?;
    assert_eq!(session.program.start_restart().unwrap(), name);
    let place =
        session.program.route_input(Path::new(&format!("f{}", session.program.rank()))).unwrap();
    let text = fs::read_to_string(place).unwrap();
    assert_eq!(text, format!("{name} of {}", session.program.rank()));
    let _ = session.program.complete_restart(valid);
    Some(name)
}

#[test]
fn invalid_on_one_rank_drops_it_everywhere() {
    for (hosts, scheme) in [("aa", "SINGLE"), ("abc", "XOR")] {
        let cluster = Cluster::new(&[&format!("SCR_COPY_TYPE={scheme}"), "SCR_CACHE_SIZE=1"]);
        let prefix = cluster.prefix();
        let answers = launch(&cluster, hosts, |session, rank| {
            let good = write(session, &prefix, "good", CHECKPOINT, true);
            let bad = write(session, &prefix, "bad", CHECKPOINT, rank != 1);
            (good, bad, session.program.have_restart().unwrap())
        });
        assert_eq!(same(answers), (true, false, Some("good".to_string())), "{scheme}");
        let after = launch(&cluster, hosts, |session, _| read(session, true));
        assert_eq!(same(after), Some("good".to_string()), "{scheme}");
    }
}

#[test]
fn a_checkpoint_that_one_rank_cannot_read_is_followed_by_the_next_older() {
    // The same nodes, or another one in the place of one whose cache is gone.
    for (hosts, lost) in [("abc", None), ("abd", Some('c'))] {
        let mut cluster = Cluster::new(&["SCR_COPY_TYPE=XOR", "SCR_CACHE_SIZE=2", "SCR_FLUSH=1"]);
        let prefix = cluster.prefix();
        launch(&cluster, "abc", |session, _| {
            ["1", "2", "3", "4"].map(|name| write(session, &prefix, name, CHECKPOINT, true))
        });
        lost.inspect(|host| cluster.lose(*host));
        let offered = launch(&cluster, hosts, |session, rank| {
            let all = [0; 5].map(|_| read(session, rank != 1));
            // Each is offered once; the prefix alone had the older ones.
            all.map(|name| name.unwrap_or_default()).join(" ")
        });
        assert_eq!(same(offered), "4 3 2 1 ", "{lost:?}");
        // Nor does a new run ask for them, wherever they are, unless the user does.
        let offered = launch(&cluster, hosts, |session, _| session.program.have_restart().unwrap());
        assert_eq!(same(offered), None, "{lost:?}");
        let chosen = cluster.run_with(&["SCR_CURRENT=4"], hosts, |rank: &Rank| {
            rank.session().program.use_by_program(None);
            read(rank.session(), true)
        });
        assert_eq!(same(chosen.all()).as_deref(), Some("4"), "{:?}", chosen.told);
    }
}

#[test]
fn what_only_the_cache_has_and_was_refused_is_told_of_until_a_newer_one_is_there() {
    let cluster = Cluster::new(&["SCR_COPY_TYPE=XOR", "SCR_CACHE_SIZE=2", "SCR_FLUSH=0"]);
    let prefix = cluster.prefix();
    launch(&cluster, "ab", |session, _| {
        for name in ["1", "2"] {
            assert!(write(session, &prefix, name, CHECKPOINT, true));
        }
        session.program.have_restart().unwrap();
        session.program.start_restart().unwrap();
        session.program.complete_restart(session.program.rank() != 1).unwrap_err();
    });
    for _ in 0..2 {
        let next = cluster.launch("ab", None, |rank: &Rank| {
            rank.session().program.use_by_program(None);
            rank.session().program.have_restart().unwrap()
        });
        assert_eq!(same(next.all()).as_deref(), Some("1"), "{:?}", next.told);
        let told = next.told.iter().filter(|line| line.contains("2 is in the cache, but"));
        assert_eq!(told.count(), 1, "{:?}", next.told);
    }
    launch(&cluster, "ab", |session, _| {
        assert!(write(session, &prefix, "3", CHECKPOINT, true));
        assert!(write(session, &prefix, "4", CHECKPOINT, true));
    });
    let last = cluster.launch("ab", None, |rank: &Rank| {
        rank.session().program.use_by_program(None);
        rank.session().program.have_restart().unwrap()
    });
    assert_eq!(same(last.all()).as_deref(), Some("4"));
    assert!(last.told.iter().all(|line| !line.contains("but")), "{:?}", last.told);
}

#[test]
fn what_was_refused_and_is_nowhere_else_outlives_the_run() {
    let mut cluster = Cluster::new(&["SCR_COPY_TYPE=XOR", "SCR_FLUSH=0"]);
    let prefix = cluster.prefix();
    launch(&cluster, "ab", |session, _| {
        assert!(write(session, &prefix, "1", CHECKPOINT, true));
        session.program.have_restart().unwrap();
        session.program.start_restart().unwrap();
        session.program.complete_restart(false).unwrap_err();
        session.program.finish_program();
    });
    let none = launch(&cluster, "ab", |session, _| {
        let found = session.program.have_restart().unwrap();
        session.program.finish_program();
        found
    });
    assert_eq!(same(none), None);
    let chosen = cluster.run_with(&["SCR_CURRENT=1"], "ab", |rank: &Rank| {
        rank.session().program.use_by_program(None);
        read(rank.session(), true)
    });
    assert_eq!(same(chosen.all()).as_deref(), Some("1"), "{:?}", chosen.told);
}

#[test]
fn a_halt_is_carried_out_in_the_call_that_completes_the_checkpoint() {
    let cluster = Cluster::new(&["SCR_COPY_TYPE=SINGLE", "SCR_HALT_EXIT=1", "SCR_HALT_STATUS=7"]);
    let (prefix, returned) = (cluster.prefix(), AtomicBool::new(false));
    let outcome = cluster.launch("ab", None, |rank: &Rank| {
        rank.session().program.use_by_program(None);
        if rank.rank == 0 {
            let halt = HaltFile { exit_reason: Some("enough".into()), ..HaltFile::default() };
            halt.write(&prefix.join(".scr").join(HaltFile::NAME)).unwrap();
        }
        rank.gather(&[]);
        write(rank.session(), &prefix, "1", CHECKPOINT, true);
        returned.store(true, Ordering::SeqCst);
    });
    assert_eq!(outcome.statuses, [Some(7), Some(7)], "{:?}", outcome.told);
    assert!(!returned.load(Ordering::SeqCst));
    assert_eq!(fs::read(prefix.join("1/f1")).unwrap(), b"1 of 1");
}

#[test]
fn the_flush_file_is_current_when_a_checkpoint_is_complete() {
    let cluster = Cluster::new(&["SCR_COPY_TYPE=SINGLE", "SCR_FLUSH=2", "SCR_CACHE_SIZE=2"]);
    let prefix = cluster.prefix();
    let seen = launch(&cluster, "ab", |session, rank| {
        ["1", "2", "3"].map(|name| {
            write(session, &prefix, name, CHECKPOINT, true);
            let path = prefix.join(".scr").join(FlushState::NAME);
            let state = FlushState::read(&path).unwrap().filter(|_| rank == 0);
            let known = |state: &FlushState| {
                let at = |place| state.at(place).into_iter().collect::<Vec<u64>>();
                (at(Location::Cache), at(Location::Prefix), state.name(1).is_some())
            };
            state.as_ref().map(known)
        })
    });
    let expected = [(vec![1], vec![]), (vec![1, 2], vec![2]), (vec![2, 3], vec![2])];
    for (at, (cached, flushed)) in expected.into_iter().enumerate() {
        assert_eq!(seen[0][at], Some((cached, flushed, at < 2)), "after {}", at + 1);
    }
}

#[test]
fn whatever_the_index_lists_can_be_dropped_and_deleted() {
    let cluster = Cluster::new(&["SCR_COPY_TYPE=SINGLE", "SCR_FLUSH=1"]);
    let prefix = cluster.prefix();
    launch(&cluster, "aa", |session, _| {
        for name in ["plot", "view"] {
            assert!(write(session, &prefix, name, OUTPUT, true));
        }
        assert!(write(session, &prefix, "refused", CHECKPOINT, true));
        session.program.have_restart().unwrap();
        session.program.start_restart().unwrap();
        session.program.complete_restart(false).unwrap_err();
        session.program.drop_named("plot", false).unwrap();
        session.program.finish_program();
    });
    let answers = launch(&cluster, "aa", |session, _| {
        let dropped =
            ["plot", "view", "refused"].map(|name| session.program.drop_named(name, true));
        (session.program.have_restart().unwrap(), dropped.map(|done| done.is_ok()))
    });
    assert_eq!(same(answers), (None, [false, true, true]));
    let is_there = |name: &str| prefix.join(name).join("f1").exists();
    assert!(is_there("plot") && !is_there("view") && !is_there("refused"));
}

#[test]
fn a_checkpoint_of_version_1_1_is_offered_once_it_is_in_the_index() {
    let cluster = Cluster::new(&["SCR_COPY_TYPE=PARTNER"]);
    let dir = cluster.prefix().join("old");
    fs::create_dir(&dir).unwrap();
    let mut summary = KvTree::new();
    summary.set_value("VERSION", 5);
    let entry = summary.set_kv("CKPT", 6);
    entry.set_value("COMPLETE", 1);
    entry.set_value("RANKS", 2);
    for rank in 0..2 {
        let (name, text) = (format!("f{rank}"), format!("old of {rank}"));
        entry.set_kv("RANK", rank).set_kv("FILE", &name).set_value("SIZE", text.len());
        fs::write(dir.join(name), text).unwrap();
    }
    summary.write_file(dir.join("summary.scr")).unwrap();
    add_older_directory(&cluster.prefix(), &dir).unwrap();
    let found = launch(&cluster, "ab", |session, _| read(session, true));
    assert_eq!(same(found), Some("old".to_string()));
}

#[test]
fn what_is_chosen_dropped_or_deleted_is_so_on_all_ranks() {
    let cluster = Cluster::new(&["SCR_COPY_TYPE=SINGLE", "SCR_FLUSH=1", "SCR_CACHE_SIZE=2"]);
    let prefix = cluster.prefix();
    launch(&cluster, "aa", |session, _| {
        for name in ["1", "2", "3", "4"] {
            assert!(write(session, &prefix, name, CHECKPOINT, true));
        }
        session.program.finish_program();
    });
    let answers = launch(&cluster, "aa", |session, _| {
        let nothing = session.program.choose_current("nothing").unwrap_err().to_string();
        session.program.choose_current("2").unwrap();
        let chosen = read(session, true);
        // What is written now is newer than what was chosen.
        write(session, &prefix, "5", CHECKPOINT, true);
        let newest = session.program.have_restart().unwrap();
        session.program.finish_program();
        (nothing.contains("no checkpoint nothing"), chosen, newest)
    });
    assert_eq!(same(answers), (true, Some("2".to_string()), Some("5".to_string())));
    let answers = launch(&cluster, "aa", |session, _| {
        session.program.drop_named("5", false).unwrap();
        let after_drop = session.program.have_restart().unwrap();
        session.program.drop_named("4", true).unwrap();
        let after_delete = session.program.have_restart().unwrap();
        (after_drop, after_delete, session.program.drop_named("5", false).is_err())
    });
    let name = |name: &str| Some(name.to_string());
    assert_eq!(same(answers), (name("4"), name("3"), true));
    let is_there = |name: &str| prefix.join(name).join("f1").exists();
    assert!(is_there("5") && is_there("3") && !is_there("4"));
}

#[test]
fn output_leaves_the_cache_and_is_no_checkpoint() {
    let cluster = Cluster::new(&["SCR_COPY_TYPE=SINGLE", "SCR_FLUSH=0"]);
    let prefix = cluster.prefix();
    let answers = launch(&cluster, "aa", |session, _| {
        let plot = write(session, &prefix, "plot", OUTPUT, true);
        let nothing = session.program.have_restart().unwrap();
        write(session, &prefix, "kept", CHECKPOINT, true);
        (plot, nothing, session.program.have_restart().unwrap())
    });
    assert_eq!(same(answers), (true, None, Some("kept".to_string())));
    assert_eq!(fs::read(prefix.join("plot/f1")).unwrap(), b"plot of 1");
    assert!(!prefix.join("kept/f1").exists());
}

#[test]
fn a_checkpoint_is_due_by_its_settings_and_alike_on_all_ranks() {
    for (setting, expected) in [
        ("SCR_CHECKPOINT_INTERVAL=0", "111111"),
        ("SCR_CHECKPOINT_INTERVAL=1", "111111"),
        ("SCR_CHECKPOINT_INTERVAL=3", "001001"),
        ("SCR_CHECKPOINT_SECONDS=1000", "000000"),
    ] {
        let cluster = Cluster::new(&[setting]);
        let answers = launch(&cluster, "ab", |session, _| {
            [0; 6].map(|_| if session.program.is_checkpoint_due().unwrap() { '1' } else { '0' })
        });
        assert_eq!(String::from_iter(same(answers)), expected, "{setting}");
    }
}

#[test]
fn a_checkpoint_is_due_by_what_the_last_one_has_cost() {
    // From the start call to the end of the complete call; 5 % is after twenty times that.
    let cluster = Cluster::new(&["SCR_CHECKPOINT_OVERHEAD=5"]);
    let prefix = cluster.prefix();
    let answers = launch(&cluster, "ab", |session, _| {
        let first = session.program.is_checkpoint_due().unwrap();
        session.program.start_dataset(Some("dear"), CHECKPOINT).unwrap();
        let place = session
            .program
            .route_output(&prefix.join(format!("f{}", session.program.rank())))
            .unwrap();
        fs::write(place, "x").unwrap();
        std::thread::sleep(Duration::from_millis(300)); // what it costs
        assert!(session.program.complete_dataset(true).unwrap());
        (first, session.program.is_checkpoint_due().unwrap())
    });
    assert_eq!(same(answers), (true, false));
}

#[test]
fn ranks_that_do_not_call_alike_hear_of_it_on_all() {
    let cluster = Cluster::new(&[]);
    let consents = |session: &Session, call, error: Option<&str>, arguments: &[u8]| {
        let error = error.map(str::to_string);
        session
            .program
            .consent(&Consent { call, error, arguments })
            .err()
            .map(|error| error.to_string())
    };
    // (what rank 0 calls, and with what; the same of rank 1; words of the error).
    let (start, end) = (Call::StartCheckpoint, Call::Finalize);
    for (first, second, expected) in [
        ((start, None, "a"), (start, None, "a"), None),
        ((start, None, "a"), (end, None, "a"), Some("different functions")),
        ((start, None, "a"), (start, None, "b"), Some("different arguments: rank 0 a, rank 1 b")),
        ((start, None, "a"), (start, Some("it is bad"), "a"), Some("rank 1: it is bad")),
        ((start, Some("bad"), "a"), (start, Some("bad"), "a"), Some("bad")),
    ] {
        let answers = launch(&cluster, "ab", |session, rank| {
            let (call, error, arguments) = if rank == 0 { first } else { second };
            consents(session, call, error, arguments.as_bytes())
        });
        let answer = same(answers);
        assert_eq!(answer.is_some(), expected.is_some(), "{answer:?}");
        let found = answer.unwrap_or_default();
        assert!(found.contains(expected.unwrap_or_default()), "{found}");
    }
}

#[test]
fn without_a_begin_there_is_no_end() {
    let cluster = Cluster::new(&[]);
    let answers = launch(&cluster, "a", |session, _| {
        let nothing = Path::new("x");
        [
            session.program.complete_dataset(true).is_err(),
            session.program.start_restart().is_err(),
            session.program.complete_restart(true).is_err(),
            session.program.route_output(nothing).is_err(),
            session.program.route_input(nothing).is_err(),
        ]
    });
    assert_eq!(same(answers), [true; 5]);
}
