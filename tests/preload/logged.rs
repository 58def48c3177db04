//! Files whose reads and writes are logged: what the log says of each call is what the program
//! finds that it has done.

use crate::shim::{Place, program};

/// Bits of what is said of all (`scr_abi::accesses::trait_bit`).
const UNSEEN: u64 = 4;

fn of(case: &str) -> (Vec<String>, Vec<String>, String) {
    let place = Place::new();
    let done = place.preloaded(program("logged")).arg(case).output().unwrap();
    assert!(done.status.success(), "{case}: {}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).unwrap();
    let expected = text.lines().map(str::to_owned).collect();
    (
        place.events_of("access"),
        expected,
        place.events_of("traits").first().cloned().unwrap_or_default(),
    )
}

#[test]
fn the_log_says_what_each_call_has_done() {
    for case in ["writes", "reads", "sizes", "copies", "later", "dups", "appends", "streams"] {
        let (logged, expected, traits) = of(case);
        assert!(!expected.is_empty());
        assert_eq!(logged, expected, "{case}");
        assert!(["traits - 0", ""].contains(&traits.as_str()), "{case}: {traits}");
    }
}

#[test]
fn threads_write_one_log() {
    let (mut logged, mut expected, _) = of("threads");
    logged.sort();
    expected.sort();
    assert_eq!(logged, expected);
}

#[test]
fn what_is_not_seen_is_said() {
    for case in ["forks", "maps", "stream_reads"] {
        let (logged, expected, traits) = of(case);
        assert_eq!((logged, traits), (expected, format!("traits - {UNSEEN}")), "{case}");
    }
}
