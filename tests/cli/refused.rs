//! Arguments and settings that are wrong, records that cannot be read, output that nobody reads:
//! what each command says, and by which exit status a script knows.

use std::path::Path;
use std::process::{Output, Stdio};

use super::{code, err, out, scr};

fn ask(dir: &Path, words: &[&str]) -> Output {
    scr(dir, words).env("SCR_JOB_ID", "7").output().expect("it runs")
}

#[test]
fn an_argument_that_is_wrong_is_named_and_the_status_is_2() {
    let dir = tempfile::tempdir().unwrap();
    for tool in super::manual::tools() {
        let output = ask(dir.path(), &[&tool, "--no-such-option"]);
        assert_eq!(code(&output), Some(2), "{tool}: {}", err(&output));
        assert!(err(&output).contains("--no-such-option"), "{tool}: {}", err(&output));
    }
    for words in [
        &["no-such-command"][..],
        &["check-node", "/tmp=much"],
        &["config", "--all"],
        &["env", "--user", "--job"],
        &["flush-file", "--need-flush", "six"],
        &["flush-file", "--latest", "--json"],
        &["halt", "--checkpoints", "-1"],
        &["halt", "--before", "soon"],
        &["halt", "--list", "--checkpoints", "3"],
        &["halt", "--unset", "everything"],
        &["hosts", "n[1-3]"],
        &["hosts", "--count"],
        &["hosts", "--nth", "first", "n1"],
        &["log", "show", "--since", "yesterday"],
        &["log", "add"],
        &["log", "add", "two words"],
        &["log", "add", "X", "--seconds", "nan"],
        &["nodes", "n1"],
        &["print"],
        &["print", "--json", "--indented", "x"],
        &["retries-halt", "x"],
        &["run", "--nodes", "many", "--", "true"],
        &["run", "--pause", "-1", "--", "true"],
        &["sim", "start"],
        &["sim", "start", "few"],
        &["sim", "run", "--mpi", "other", "-n", "1", "true"],
        &["sim", "kill"],
    ] {
        let output = ask(dir.path(), words);
        assert_eq!(code(&output), Some(2), "{words:?}: {}{}", out(&output), err(&output));
        assert!(!err(&output).is_empty(), "{words:?}");
    }
    // What follows the command is its own.
    let words = ["run", "--api", "--no-scavenge", "sh", "-c", "exit $1", "--runs", "5"];
    assert_eq!(code(&ask(dir.path(), &words)), Some(5));
    // One that only a look at the world shows to be wrong is a failure.
    for (words, part) in [
        (&["hosts", "--nth", "9", "n[1-3]"][..], "3 hosts"),
        (&["hosts", "--count", "n[1-"], "n[1-"),
        (&["print", "/no/such/file"], "/no/such/file"),
        (&["halt", "/no/such/place"], "/no/such/place"),
        (&["sim", "--name", "../x", "status"], "cannot name a cluster"),
        (&["sim", "--name", "not-there", "status"], "no cluster 'not-there' is running"),
        (&["sim", "--name", "not-there", "start", "0"], "1 to 200 nodes"),
    ] {
        let output = ask(dir.path(), words);
        assert_eq!(code(&output), Some(1), "{words:?}: {}{}", out(&output), err(&output));
        assert!(err(&output).contains(part), "{words:?}: {}", err(&output));
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "something was made");
}

/// Whatever reads the settings says which file is wrong, before it does anything.
#[test]
fn settings_that_are_no_good_are_told_by_each_command() {
    let commands = [
        &["check-node"][..],
        &["cat", "x"],
        &["cntl-dir"],
        &["config", "--explain"],
        &["copy"],
        &["cp", "x", "y"],
        &["down-nodes", "n1"],
        &["env"],
        &["log", "add", "HELLO"],
        &["log", "show"],
        &["prerun"],
        &["rebuild"],
        &["run", "--api", "--", "true"],
        &["scavenge"],
        &["test-runtime"],
        &["ls"],
        &["transfer"],
        &["verify"],
    ];
    let damages: [&[u8]; 5] = [
        b"SCR_CACHE_SIZE=two\n",
        b"SCR_CACHE_SIZE=two\nSCR_NO_SUCH_SETTING=1\n",
        b"SCR_NO_SUCH_SETTING=1\n",
        b"SCR_PREFIX='/x\n",
        &[0xff; 64],
    ];
    for words in commands {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join(".scrconf");
        let refused = |what: &str| {
            let output = ask(dir.path(), words);
            let told =
                format!("{words:?} {what}: {:?}\n{}{}", output.status, out(&output), err(&output));
            assert!(matches!(code(&output), Some(1 | 2)), "{told}");
            assert!(
                err(&output).contains(".scrconf") && !err(&output).contains("panicked"),
                "{told}"
            );
            assert!(err(&output).lines().all(|line| line.contains("(SCR-")), "{told}");
        };
        for damage in damages {
            std::fs::write(&config, damage).unwrap();
            refused(&String::from_utf8_lossy(damage));
        }
        std::fs::remove_file(&config).unwrap();
        std::fs::create_dir(&config).unwrap();
        refused("a directory");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "{words:?}");
    }
}

/// A slip in its name is not a prefix that has had no run.
#[test]
fn a_prefix_that_is_not_there_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("not_there");
    let tools = [&["status"][..], &["index", "list"], &["halt", "--list"], &["log", "show"]];
    for words in [&tools[..], &[&["report"]]].concat() {
        let named = [words, &["--prefix", place.to_str().unwrap()]].concat();
        let output = ask(dir.path(), &named);
        let told = err(&output);
        assert_eq!((code(&output), out(&output).as_str()), (Some(1), ""), "{words:?}: {told}");
        assert!(told.contains("not_there") && told.contains("(SCR-7"), "{words:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
    assert!(!place.exists());
}

/// As records of another user: nothing false is said of them, and the cause once.
#[test]
fn records_that_may_not_be_read_are_told_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join(".scr");
    std::fs::create_dir(&state).unwrap();
    // Nobody can open a socket.
    let names = ["run.scr", "index.scr", "halt.scr", "flush.scr", "lease"];
    let socket = |name| std::os::unix::net::UnixListener::bind(state.join(name)).unwrap();
    let _unreadable = names.map(socket);
    for tool in ["status", "report"] {
        let output = ask(dir.path(), &[tool, "--prefix", "."]);
        assert_eq!(code(&output), Some(2), "{}", err(&output));
        let told = err(&output);
        assert!(told.contains("other records there (SCR-7001)"), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
    let shown = out(&ask(dir.path(), &["status"]));
    assert!(
        shown.contains("nothing is known of one") && !shown.contains("no checkpoint"),
        "{shown}"
    );
    let output = ask(dir.path(), &["status", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(told["state"], "unknown");
}

#[test]
fn a_list_of_hosts_that_is_none_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hosts");
    let run = || {
        let words = ["run", "--api", "--hostfile", "hosts", "--pause", "0", "--", "true"];
        ask(dir.path(), &words)
    };
    for content in [&b""[..], b"# nobody\n", &[0xff, 0xfe, 0x00]] {
        std::fs::write(&file, content).unwrap();
        let output = run();
        assert_eq!(code(&output), Some(1), "{content:?}: {}", err(&output));
        assert!(err(&output).contains("hosts"), "{content:?}: {}", err(&output));
    }
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    assert_eq!(code(&run()), Some(1));
}

/// What SCR's records say is of no account for whether the program runs.
#[test]
fn damaged_records_do_not_keep_a_program_from_running() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join(".scr");
    std::fs::create_dir(&state).unwrap();
    for damage in [&b""[..], b"text", &[0xff; 64]] {
        for name in ["index.scr", "flush.scr", "halt.scr", "nodes.scr", "lease"] {
            std::fs::write(state.join(name), damage).unwrap();
        }
        let words = ["run", "--api", "--no-scavenge", "--pause", "0", "--", "sh", "-c", "exit 6"];
        let output = ask(dir.path(), &words);
        assert_eq!(code(&output), Some(6), "{}", err(&output));
        assert!(err(&output).contains("halt.scr"), "{}", err(&output));
    }
}

/// The reader of a log has gone: the job goes on, and its status is that of the program.
#[test]
fn a_run_whose_messages_nobody_reads_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let line = "echo x >> runs; test $(wc -l < runs) -ge 3 || exit 4";
    let words = ["run", "--api", "--no-scavenge", "--pause", "0", "--runs", "5", "--"];
    let mut child = scr(dir.path(), &[&words[..], &["sh", "-c", line]].concat())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(std::fs::read_to_string(dir.path().join("runs")).unwrap(), "x\nx\nx\n");
}

/// A full disk is no success.
#[test]
fn an_answer_that_cannot_be_written_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let asked = [&["env"][..], &["hosts", "--count", "n1"], &["config"], &["halt", "--list"]];
    for words in asked {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = scr(dir.path(), words).stdout(full).output().unwrap();
        assert_eq!(code(&output), Some(1), "{words:?}");
        assert!(err(&output).contains("No space left"), "{words:?}: {}", err(&output));
    }
}
