//! Every name of every family of file functions.

use crate::programs::succeeded;
use crate::shim::{Place, program};

#[test]
fn each_alias_is_redirected_and_keeps_errno() {
    let place = Place::new();
    succeeded(&place.preloaded(program("families")).output().unwrap());
    let notes = place.events_of("note");
    assert!(notes.contains(&"note made 8".to_owned()), "mkdir is told: {notes:?}");
    assert!(notes.contains(&"note c_open 9".to_owned()), "chmod is told: {notes:?}");
}

#[test]
fn the_same_program_without_patterns_finds_all_on_the_file_system() {
    // What the program checks is wrong without the engine, so this shows that the test above tests.
    let place = Place::new();
    let output = place.command(program("families")).output().unwrap();
    assert!(!output.status.success());
}
