//! Files of which this node has a part: a call that needs more is made on the file that is whole.

use std::fs;

use crate::programs::succeeded;
use crate::shim::{Place, program};

/// Runs a case of the program, whose file is whole in another place, if that is to be found.
fn run(case: &str, can_move: bool) -> Place {
    let place = Place::new();
    let refuge = place.cache().join("whole");
    fs::write(&refuge, [[0; 1000], [b'p'; 1000]].concat()).unwrap();
    std::os::unix::fs::symlink("/dev/full", place.cache().join("parted_full")).unwrap();
    let mut command = place.preloaded(program("parted"));
    command.arg(case).env("FAKE_AWAY", "1000-2000").env("FAKE_SIZE", "2000");
    if can_move {
        command.env("FAKE_EVACUATE", refuge);
    }
    succeeded(&command.output().unwrap());
    place
}

#[test]
fn what_is_not_here_is_read_where_the_file_is_whole() {
    let place = run("read_all", true);
    let moved = "access w0@0 5 6".to_owned();
    assert!(!place.events_of("access").contains(&moved), "it is not logged any more");
    let asked = place.events_of("has");
    let end = |event: &String| event.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    // All bits: the file leaves, whatever is here.
    let ends = asked.iter().map(end).filter(|end| *end < u64::MAX);
    assert_eq!(ends.max(), Some(2000), "nobody has what is behind its end");
    for case in ["together", "threads", "later", "beyond", "asked"] {
        assert!(run(case, true).events_of("failed").is_empty(), "{case}");
    }
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let place = run("read_none", false);
    assert!(place.events_of("failed").is_empty());
}

#[test]
fn its_size_is_what_all_nodes_have_made_it() {
    run("sizes", false);
}

#[test]
fn room_that_is_asked_for_is_not_taken() {
    let place = run("rooms", false);
    let grown: Vec<String> = place.events_of("access g0@0");
    assert_eq!(
        grown,
        ["1500", "2000", "1048576", "2097152"].map(|end| format!("access g0@0 0 {end}"))
    );
}

#[test]
fn calls_that_take_a_whole_file_get_one() {
    run("whole", true);
    let place = run("full", true);
    assert_eq!(place.events_of("access"), [""; 0]);
}
