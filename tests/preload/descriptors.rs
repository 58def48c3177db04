//! Which descriptors, streams and mappings hold a file, and what happens when writing fails.

use std::fs;
use std::path::Path;

use crate::programs::succeeded;
use crate::shim::{Place, program};

/// What the engine heard between the program's marks, in short.
fn story(place: &Place) -> Vec<(String, Vec<String>)> {
    let mut story = vec![(String::new(), Vec::new())];
    for line in place.events() {
        if let Some(mark) = line.strip_prefix("-- ") {
            story.push((mark.to_owned(), Vec::new()));
        } else if let Some((_, events)) = story.last_mut() {
            let kind = line.split(' ').next().unwrap();
            let number = line.rsplit(' ').next().unwrap();
            if ["closed", "failed", "evacuate"].contains(&kind) {
                events.push(format!("{kind} {number}"));
            }
        }
    }
    story
}

#[test]
fn a_file_is_closed_when_its_last_holder_is_gone() {
    let place = Place::new();
    let refuge = place.prefix().join("refuge");
    std::os::unix::fs::symlink("/dev/full", place.cache().join("c_full")).unwrap();
    let mut command = place.preloaded(program("descriptors"));
    succeeded(&command.env("FAKE_EVACUATE", &refuge).output().unwrap());
    let (nospace, closed) = (format!("failed {}", 28), "closed 0");
    let want: [(&str, &[&str]); 33] = [
        ("", &[]),
        ("dup", &[]),
        ("last", &[closed]),
        ("dup2 over it", &[closed]),
        ("dup3 to another", &[]),
        ("close_range", &[closed]),
        ("closefrom", &[]),
        ("still one", &[closed]),
        ("fdopen", &[]),
        ("fclose was not the last", &[closed]),
        ("freopen", &[closed]),
        ("second stream", &[closed]),
        ("mmap", &[]),
        ("closed but mapped", &[]),
        ("half", &[closed]),
        ("private", &[closed]),
        ("gone", &[]),
        ("a close that no hook sees", &[closed]),
        ("found by its number", &[]),
        ("fork", &[]),
        ("vfork", &[]),
        ("parent", &[closed]),
        ("full", &["evacuate 0", closed]),
        ("full without refuge", &["evacuate 0", &nospace, closed]),
        ("full stream", &["evacuate 0", closed]),
        ("full stream, closed at once", &["evacuate 0", closed]),
        ("full wide stream", &["evacuate 0", closed]),
        // What cannot be made durable, either, is an error of its own.
        ("full stream without refuge", &["evacuate 0", &nospace, "failed 5", &nospace, closed]),
        ("the program's own mistake", &[closed]),
        ("no room at the open", &["evacuate 0", closed]),
        ("no room for a mapping", &["evacuate 0", closed]),
        ("no room for libc's threads", &["evacuate 0", closed]),
        ("", &[]),
    ];
    let story = story(&place);
    for ((mark, events), (want_mark, want_events)) in story.iter().zip(want) {
        assert_eq!((mark.as_str(), events.as_slice()), (want_mark, &owned(want_events)[..]));
    }
    assert_eq!(story.len(), want.len() - 1);
    assert_eq!(fs::read_to_string(refuge).unwrap(), "1234567");
}

#[test]
fn a_sealed_copy_is_left_before_its_first_change() {
    let place = Place::new();
    succeeded(&place.preloaded(program("lazy")).output().unwrap());
    let story = story(&place);
    let story = &story[1..];
    assert_eq!((story[0].0.as_str(), &story[0].1), ("reading", &owned(&["closed 0"])));
    for (mark, events) in &story[1..] {
        // An emptied one needs no copy.
        let wanted = if mark == "emptied" { "evacuate -2" } else { "evacuate -1" };
        let moves = events.iter().filter(|event| *event == wanted).count();
        // What was impossible is asked for again at the next attempt.
        let (wanted, closes) = match mark.as_str() {
            "two openers" | "fopen" => (2..3, 2),
            "impossible" => (1..9, 0),
            "no stream" | "no other stream" | "a child that only reads" => (1..9, 1),
            _ => (1..2, 1),
        };
        assert!(wanted.contains(&moves), "{mark}: {events:?}");
        let closed = events.iter().filter(|event| event.starts_with("closed")).count();
        assert_eq!(closed, closes, "{mark}: {events:?}");
    }
    assert_eq!(story.len(), 28);
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn the_checksum_of_what_was_written_in_order_is_known_at_the_close() {
    let place = Place::new();
    succeeded(&place.preloaded(program("in_order")).output().unwrap());
    let (mut what, mut cases) = (String::new(), 0);
    for line in place.events() {
        if let Some(mark) = line.strip_prefix("-- ") {
            assert!(what.is_empty() || what.ends_with(": none"), "not told of {what}");
            (what, cases) = (mark.to_owned(), cases + usize::from(mark != "end"));
        } else if let Some(told) = line.strip_prefix("written ") {
            let (of, want) = what.split_once(": ").unwrap();
            // The file of the last case has been written before, as long as half of it.
            if told.ends_with(" 200000") {
                assert_eq!(told, format!("{want} 200000"), "{of}");
                what = format!("{of}: none");
            } else {
                assert_eq!(of, "written twice");
            }
        }
        if line == "-- end" {
            break;
        }
    }
    assert_eq!(cases, 26);
}

#[test]
fn files_left_open_are_closed_at_the_very_end() {
    for (arguments, event) in [(&[][..], "note - 6"), (&["without finalize"], "note - 4")] {
        let place = Place::new();
        let mut command = place.preloaded(program("left_open"));
        succeeded(&command.args(arguments).output().unwrap());
        let events = place.events();
        let end = events.iter().position(|line| line == "-- main ends").unwrap();
        let closed = events[end..].iter().filter(|line| line.starts_with("closed")).count();
        assert_eq!(closed, 4, "{events:?}");
        assert!(events.contains(&event.to_owned()), "{events:?}");
        assert_eq!(events.iter().filter(|line| *line == "note - 4").count(), arguments.len());
        for (name, text) in [("c_stream", "text"), ("c_fdopen", "more"), ("c_late", "late")] {
            let path = place.cache().join(name);
            assert_eq!(fs::read_to_string(path).unwrap(), text);
        }
    }
}

#[test]
fn an_end_at_once_is_an_end_unless_it_interrupts_what_is_needed_for_it() {
    for (how, told, closed) in [
        ("_exit", 1, 1),
        ("_Exit", 1, 1),
        ("quick_exit", 1, 1),
        ("handler", 1, 1),
        ("finalized", 0, 1),
        ("in the engine", 1, 1),
        ("in malloc", 0, 0),
    ] {
        let place = Place::new();
        let ended = place.preloaded(program("exits")).arg(how).output().unwrap();
        assert_eq!(ended.status.code(), Some(5), "{how}: {ended:?}");
        let events = place.events();
        let end = events.iter().position(|line| line == "-- main ends").unwrap();
        let count = |events: &[String], head: &str| {
            events.iter().filter(|line| line.starts_with(head)).count()
        };
        assert_eq!(count(&events[..end], "note - 4"), 0, "{how}: a child's end: {events:?}");
        let got = (count(&events[end..], "note - 4"), count(&events[end..], "closed"));
        assert_eq!(got, (told, closed), "{how}: {events:?}");
    }
}

/// What may happen between two writes to a file, and what is told of it in the end.
const BETWEEN: [&str; 40] = [
    "none",
    "longer",
    "shorter",
    "grown",
    "back",
    "stay",
    "hole",
    "end",
    "data",
    "elsewhere",
    "offset",
    "vector",
    "fstat",
    "stat",
    "dup",
    "dup2",
    "printed",
    "append",
    "flags",
    "sync",
    "lock",
    "mode",
    "rename",
    "unlink",
    "second",
    "another",
    "own name",
    "sent",
    "fork",
    "system",
    "thread",
    "handler",
    "fault",
    "barrier",
    "raw close",
    "range",
    "exit",
    "nothing",
    "one half",
    "exclusive",
];

/// What the program prints and leaves, with the shim and without it; and the engine's events. Old
/// files are `old` bytes long.
fn with_and_without(program: &Path, words: &[&str], old: u32) -> Vec<String> {
    let (place, plain) = (Place::new(), Place::new());
    let mut commands = [place.preloaded(program), plain.command(program)];
    let [got, want] = commands.each_mut().map(|command| {
        let output = command.args(words).env("FAKE_OLD", old.to_string()).output().unwrap();
        succeeded(&output);
        String::from_utf8(output.stdout).unwrap()
    });
    assert_eq!(got, want, "{words:?} over {old} bytes");
    for name in ["c_over", "c_over_2"] {
        let left = [place.cache(), plain.prefix()].map(|at| fs::read(at.join(name)).ok());
        assert!(left[0] == left[1], "{words:?} over {old} bytes: {name}");
    }
    assert!(!place.cache().join("old").exists(), "{words:?}");
    place.events()
}

#[test]
fn a_file_that_is_written_over_an_old_one_is_a_new_one() {
    let program = program("over");
    for what in BETWEEN {
        for old in [1 << 16, 1 << 18] {
            let events = with_and_without(&program, &[what], old);
            assert!(events.iter().any(|event| event.starts_with("reuse c_over")), "{what}");
            assert!(!events.iter().any(|event| event.starts_with("failed")), "{what}: {events:?}");
        }
    }
}

#[test]
fn whatever_is_called_in_whatever_order() {
    let program = program("over");
    let seeds = std::env::var("SCR_OVER_SEEDS").ok().and_then(|text| text.parse().ok());
    let mut reused = 0;
    for seed in 0..seeds.unwrap_or(60_u32) {
        let words = ["random", &seed.to_string()];
        let events = with_and_without(&program, &words, 1 << 17);
        reused += events.iter().filter(|event| event.starts_with("reuse")).count();
    }
    assert!(reused > 60, "{reused}");
}
