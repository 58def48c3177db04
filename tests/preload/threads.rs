//! Threads, forks and cancellation under the hooks.

use crate::programs::succeeded;
use crate::shim::{Place, program};

#[test]
fn threads_forks_and_cancellation() {
    let place = Place::new();
    let out = succeeded(&place.preloaded(program("threads")).output().unwrap());
    assert_eq!(out, "through\n");
    // 8 threads x 300 files, each closed once although it had two descriptors.
    let opened = place.events_of("opened").len();
    assert!(opened >= 2400, "{opened}");
    let worker_opens = place.events_of("open").iter().filter(|line| line.contains("c_t")).count();
    assert_eq!(worker_opens, 2400);
    // Asked once more where the answer's path was not there any more, three times in all at most.
    let asked = |name| place.events_of("open").iter().filter(|line| line.contains(name)).count();
    assert_eq!((asked("c_moves"), asked("c_nowhere")), (2, 3));
}

#[test]
fn a_crash_in_malloc_ends_as_its_handler_says() {
    let place = Place::new();
    let crashes = program("crashes");
    for directory in ["/", "."] {
        let ended = place.preloaded(&crashes).arg(directory).output().unwrap();
        assert_eq!(ended.status.code(), Some(5), "{directory}: {ended:?}");
    }
}

#[test]
fn a_signal_that_a_thread_sends_itself_is_handled_at_once() {
    succeeded(&Place::new().preloaded(program("raises")).output().unwrap());
}
