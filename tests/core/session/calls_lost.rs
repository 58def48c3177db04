//! Programs that call SCR and lose something: nodes, ranks of the next launch, the time to hear
//! that a flush is done.

use std::fs;
use std::path::Path;
use std::time::Duration;

use scr_core::session::{Flags, Session};

use super::calls::{CHECKPOINT, launch, read, same, write};
use super::cluster::Cluster;

const BOTH: Flags = Flags { checkpoint: true, output: true };

fn named(name: &str) -> Option<String> {
    Some(name.to_string())
}

#[test]
fn what_lost_nodes_had_is_there_for_the_calls_on_spares() {
    for (scheme, before, lost, after) in [
        ("XOR", "abc", "b", "axc"),
        ("PARTNER", "abc", "b", "axc"),
        ("RS", "abcd", "bd", "axcy"),
        // No spare is left: two ranks share a node.
        ("XOR", "abc", "b", "aac"),
    ] {
        let scheme = format!("SCR_COPY_TYPE={scheme}");
        let cluster = Cluster::new(&[&scheme, "SCR_CACHE_SIZE=2", "SCR_FLUSH=0"]);
        let prefix = cluster.prefix();
        launch(&cluster, before, |session, _| {
            write(session, &prefix, "1", CHECKPOINT, true)
                && write(session, &prefix, "2", CHECKPOINT, true)
        });
        lost.chars().for_each(|host| cluster.lose(host));
        let seen = launch(&cluster, after, |session, _| {
            let names = [read(session, false), read(session, true)];
            (names, write(session, &prefix, "3", CHECKPOINT, true), read(session, true))
        });
        let expected = ([named("2"), named("1")], true, named("3"));
        assert_eq!(same(seen), expected, "{scheme} on {after}");
    }
}

#[test]
fn more_lost_nodes_than_the_scheme_covers_leave_what_the_prefix_has() {
    let cluster = Cluster::new(&["SCR_COPY_TYPE=XOR", "SCR_CACHE_SIZE=2", "SCR_FLUSH=0"]);
    let prefix = cluster.prefix();
    launch(&cluster, "abc", |session, _| {
        write(session, &prefix, "there", BOTH, true)
            && write(session, &prefix, "lost", CHECKPOINT, true)
    });
    cluster.lose('a');
    cluster.lose('b');
    let seen = launch(&cluster, "xyc", |session, _| {
        let first = read(session, true);
        (first, write(session, &prefix, "next", CHECKPOINT, true), read(session, true))
    });
    assert_eq!(same(seen), (named("there"), true, named("next")));
}

/// What a launch with another number of ranks finds by the names of files.
fn files_of(session: &Session, names: &[&str]) -> Vec<String> {
    let Some(_) = session.program.have_restart().unwrap() else { return Vec::new() };
    session.program.start_restart().unwrap();
    let text = |name: &&str| match session.program.route_input(Path::new(name)) {
        Ok(place) => fs::read_to_string(place).unwrap(),
        Err(error) => error.to_string(),
    };
    let texts = names.iter().map(text).collect();
    session.program.complete_restart(true).unwrap();
    texts
}

#[test]
fn another_number_of_ranks_finds_files_by_their_names() {
    // Fewer, more, and with a node whose cache is gone.
    for (hosts, lost) in [("ab", None), ("abcde", None), ("ac", Some('b'))] {
        let cluster = Cluster::new(&["SCR_COPY_TYPE=XOR", "SCR_FLUSH=0"]);
        let prefix = cluster.prefix();
        launch(&cluster, "abc", |session, _| {
            write(session, &prefix, "old", CHECKPOINT, true)
                && write(session, &prefix, "new", CHECKPOINT, true)
        });
        lost.inspect(|host| cluster.lose(*host));
        // What is on nodes that no rank runs on, or is gone, can be rebuilt.
        let seen = launch(&cluster, hosts, |session, _| {
            let found = files_of(session, &["f0", "new/f1", "f2", "f3"]);
            let next = write(session, &prefix, "next", CHECKPOINT, true);
            (found, next, read(session, true))
        });
        let (found, next, last) = same(seen);
        let expected = ["new of 0", "new of 1", "new of 2", "new has no file f3"];
        assert_eq!((found, next, last), (expected.map(String::from).to_vec(), true, named("next")));
    }
}

#[test]
fn a_flush_that_was_done_when_the_program_died_counts() {
    let cluster = Cluster::new(&["SCR_COPY_TYPE=SINGLE", "SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1"]);
    let prefix = cluster.prefix();
    launch(&cluster, "ab", |session, _| {
        assert!(write(session, &prefix, "done", CHECKPOINT, true));
        // The threads have written all of it, and no call comes any more.
        let journal = prefix.join(".scr/journal/1");
        let is_staged = |node: usize| journal.join(format!("staged.{node}.scr")).exists();
        while !(is_staged(0) && is_staged(1)) {
            std::thread::sleep(Duration::from_millis(1)); // until then
        }
    });
    assert!(!prefix.join("done/f0").exists());
    cluster.lose('a');
    cluster.lose('b');
    let seen = launch(&cluster, "cd", |session, _| read(session, true));
    assert_eq!(same(seen), named("done"));
    assert_eq!(fs::read(prefix.join("done/f1")).unwrap(), b"done of 1");
}
