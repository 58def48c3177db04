//! `scr log`: what is written is found again; logs that are none.

use super::{code, err, out, scr};

fn add(dir: &std::path::Path, words: &[&str], on: &str) -> std::process::Output {
    let words = [&["log", "add"], words].concat();
    scr(dir, &words).envs([("SCR_LOG_ENABLE", on), ("SCR_JOB_ID", "7")]).output().expect("it runs")
}

#[test]
fn what_is_added_is_shown_as_text_and_as_json() {
    let dir = tempfile::tempdir().unwrap();
    let off = add(dir.path(), &["HELLO"], "0");
    assert_eq!((code(&off), std::fs::read_dir(dir.path()).unwrap().count()), (Some(0), 0));
    assert!(err(&off).contains("logging is off"), "{}", err(&off));
    let words = ["-T", "FLUSH", "-D", "6", "-N", "c.6", "-X", "by, hand", "-S", "60", "-L", "2.5"];
    assert_eq!(code(&add(dir.path(), &words, "1")), Some(0));
    assert_eq!(code(&add(dir.path(), &["NODE_FAIL", "--note", "n3"], "1")), Some(0));
    let show = |words: &[&str]| {
        let output =
            scr(dir.path(), &[&["log", "show"], words].concat()).env("TZ", "UTC").output().unwrap();
        assert_eq!(code(&output), Some(0), "{}", err(&output));
        out(&output)
    };
    let all = show(&[]);
    let log = || std::fs::read_to_string(dir.path().join(".scr/log")).unwrap();
    assert_eq!(all, log(), "TZ is empty where it is written, and UTC where it is shown");
    let part = "event=FLUSH, dset=6, name=\"c.6\", secs=2.500000, note=\"by, hand\"";
    assert!(all.starts_with("1970-01-01T00:01:00+00:00: ") && all.contains(part), "{all}");
    assert_eq!(show(&["--last", "1"]), all.lines().nth(1).unwrap().to_owned() + "\n");
    assert_eq!(show(&["--event", "flush"]).lines().count(), 1);
    assert_eq!(show(&["--since", "1971"]).lines().count(), 1);
    assert_eq!(show(&["--dataset", "6", "--job", "8"]), "");
    let json: serde_json::Value = serde_json::from_str(&show(&["--json"])).unwrap();
    assert_eq!((&json[0]["dset"], &json[0]["jobid"]), (&6.into(), &"7".into()));
    assert_eq!(json[0]["time"], "1970-01-01T00:01:00Z");
    assert_eq!(show(&["--since", "1971-01-01T00:00:00Z"]).lines().count(), 1);
    let in_tokyo = |since: &str| {
        let words = ["log", "show", "--since", since];
        out(&scr(dir.path(), &words).env("TZ", "Asia/Tokyo").output().unwrap())
    };
    for since in ["1970-01-01T09:01:00", "1970-01-01T09:01:00+09:00", "1970-01-01T00:01:00Z"] {
        assert!(in_tokyo(since).starts_with("1970-01-01T09:01:00+09:00: "), "{since}");
    }
    assert_eq!(in_tokyo("1970-01-01T09:01:01").lines().count(), 1);
    let text = log().replace("+00:00: ", ": ");
    std::fs::write(dir.path().join(".scr/log"), text).unwrap();
    assert_eq!(show(&[]), all, "a time without a zone is UTC");
}

#[test]
fn times_for_people_are_those_of_their_zone() {
    let dir = tempfile::tempdir().unwrap();
    let log = |zone: &str, words: &[&str]| {
        let mut command = scr(dir.path(), &[&["log"], words].concat());
        let on = [("SCR_LOG_ENABLE", "1"), ("SCR_LOG_DB_ENABLE", "1"), ("TZ", zone)];
        let output = command.envs(on).output().unwrap();
        assert_eq!(code(&output), Some(0), "{}", err(&output));
        out(&output)
    };
    // Before and after the clocks of Berlin are set back, at 01:00 UTC.
    log("Europe/Berlin", &["add", "FIRST", "-S", "1792889999"]);
    log("Europe/Berlin", &["add", "SECOND", "-S", "1792890000"]);
    log("Asia/Kolkata", &["add", "THIRD", "-S", "1792890001"]);
    log("No/Where", &["add", "FOURTH", "-S", "1792890002"]);
    let text = std::fs::read_to_string(dir.path().join(".scr/log")).unwrap();
    let times: Vec<_> = text.lines().filter_map(|line| line.split_once(": ")).collect();
    let times: Vec<_> = times.into_iter().map(|(time, _)| time).collect();
    let want = [
        "2026-10-25T02:59:59+02:00",
        "2026-10-25T02:00:00+01:00",
        "2026-10-25T06:30:01+05:30",
        "2026-10-25T01:00:02+00:00",
    ];
    assert_eq!(times, want);
    // The database has the same events: each is shown once.
    let shown = log("Asia/Kolkata", &["show"]);
    let first: Vec<_> = shown.lines().map(|line| &line[..25]).collect();
    let want = ["06:29:59", "06:30:00", "06:30:01", "06:30:02"];
    assert_eq!(first, want.map(|time| format!("2026-10-25T{time}+05:30")));
}

#[test]
fn the_database_is_shown_where_there_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let command = |words: &[&str]| {
        let mut command = scr(dir.path(), &[&["log"], words].concat());
        let on = [("SCR_LOG_ENABLE", "1"), ("SCR_LOG_TXT_ENABLE", "0"), ("SCR_LOG_DB_ENABLE", "1")];
        command.envs(on).output().unwrap()
    };
    assert_eq!(code(&command(&["add", "HELLO", "--note", "x"])), Some(0));
    for words in [&["show"][..], &["show", "--database"]] {
        let output = command(words);
        assert!(out(&output).contains("event=HELLO, note=\"x\""), "{}", err(&output));
    }
    std::fs::write(dir.path().join(".scr/log.sqlite"), "no database at all").unwrap();
    let output = command(&["show"]);
    assert_eq!(code(&output), Some(1));
    assert!(err(&output).contains("log.sqlite"), "{}", err(&output));
}

#[test]
fn logs_that_are_missing_empty_damaged_or_unreadable() {
    let dir = tempfile::tempdir().unwrap();
    let show = || scr(dir.path(), &["log", "show"]).env("TZ", "UTC").output().unwrap();
    assert_eq!((code(&show()), out(&show())), (Some(0), String::new()));
    let log = dir.path().join(".scr/log");
    std::fs::create_dir(dir.path().join(".scr")).unwrap();
    std::fs::write(&log, "").unwrap();
    assert_eq!((code(&show()), out(&show())), (Some(0), String::new()));
    let good = "2011-02-28T12:37:36: user=me, jobid=4, host=a, event=START\n";
    std::fs::write(&log, [b"\xff\x00junk\n", good.as_bytes(), b"2011-02-28T12:"].concat()).unwrap();
    let shown = good.replace("36: user", "36+00:00: user");
    assert_eq!((code(&show()), out(&show())), (Some(0), shown));
    assert!(err(&show()).contains("2 lines of the log are no events"), "{}", err(&show()));
    std::fs::remove_file(&log).unwrap();
    std::fs::create_dir(&log).unwrap();
    assert_eq!(code(&show()), Some(1));
    let output = add(dir.path(), &["HELLO"], "1");
    assert_eq!(code(&output), Some(1));
    assert!(err(&output).contains("cannot write to the log"), "{}", err(&output));
    for words in [&["add"][..], &["add", "two words"], &["show", "--since", "soon"], &[]] {
        let output = scr(dir.path(), &[&["log"], words].concat()).output().unwrap();
        assert_eq!(code(&output), Some(2), "{words:?}");
    }
}
