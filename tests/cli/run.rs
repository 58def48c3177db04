//! `scr run` without MPI: exit statuses, repeats, signals, what the program finds around it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use scr_core::records::{FlushState, Location, Record as _};

use super::{code, err, on_terminal, out, scr};

/// `scr run --api` (the shim is not built for these tests) of a line of shell.
fn run(options: &[&str], line: &str) -> (tempfile::TempDir, std::process::Output) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut words = vec!["run", "--api", "--no-scavenge", "--pause", "0"];
    words.extend(options);
    words.extend(["--", "sh", "-c", line]);
    let output = scr(dir.path(), &words).output().expect("it runs");
    (dir, output)
}

#[test]
fn the_exit_status_is_that_of_the_program() {
    for (line, status) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
        let (_dir, output) = run(&[], line);
        assert_eq!(code(&output), Some(status), "{line}: {}", err(&output));
    }
}

#[test]
fn a_run_that_fails_is_started_again_as_often_as_allowed() {
    let line = "echo x >> runs; test $(wc -l < runs) -ge 3 || exit 4";
    let (dir, output) = run(&["--runs", "5"], line);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    assert_eq!(std::fs::read_to_string(dir.path().join("runs")).unwrap(), "x\nx\nx\n");
    let (_dir, output) = run(&["--runs", "2"], line);
    assert_eq!(code(&output), Some(4));
    assert!(err(&output).contains("no more runs are allowed"), "{}", err(&output));
    let (_dir, output) = run(&["--runs", "-1"], line);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
}

#[test]
fn settings_come_from_the_configuration_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(".scrconf"), "SCR_RUNS=3\n").unwrap();
    let words = ["run", "--api", "--no-scavenge", "--pause", "0", "--", "sh", "-c"];
    let line = "echo x >> runs; exit 9";
    let output = scr(dir.path(), &[&words[..], &[line]].concat()).output().unwrap();
    assert_eq!(code(&output), Some(9));
    assert_eq!(std::fs::read_to_string(dir.path().join("runs")).unwrap().len(), 6);
}

#[test]
fn what_is_wrong_is_told_before_anything_is_started() {
    let dir = tempfile::tempdir().unwrap();
    for (words, part) in [
        (&["run", "--api", "--", "no-such-command"][..], "no command 'no-such-command'"),
        (&["run", "--api", "--runs", "0", "--", "true"], "--runs 0"),
        (&["run", "--api", "--prefix", "/no/such/place", "--", "true"], "/no/such/place"),
        (&["run", "--api", "--exclude", "a[", "--", "true"], "no list of hosts"),
        (&["run", "--api", "--hostfile", "/no/file", "--", "true"], "/no/file"),
        (&["run", "--api", "--restart-command", "nothing-here", "--", "true"], "nothing-here"),
    ] {
        let output = scr(dir.path(), words).output().unwrap();
        assert_eq!(code(&output), Some(1), "{words:?}");
        assert!(err(&output).contains(part), "{words:?}: {}", err(&output));
    }
    for words in [&["run"][..], &["run", "--pause", "x", "--", "true"], &["run", "--runs", "x"]] {
        let output = scr(dir.path(), words).output().unwrap();
        assert_eq!(code(&output), Some(2), "{words:?}: {}", err(&output));
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_signal_reaches_the_program_and_ends_everything() {
    let dir = tempfile::tempdir().unwrap();
    let line =
        "trap 'exit 9' TERM; trap 'echo usr1' USR1; echo ready; while :; do sleep 0.01; done";
    let words = ["run", "--api", "--no-scavenge", "--pause", "0", "--runs", "-1", "--"];
    let mut child = scr(dir.path(), &[&words[..], &["sh", "-c", line]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let kill = |signal: &str| {
        let id = child.id().to_string();
        std::process::Command::new("kill").args([signal, &id]).status().unwrap();
    };
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    kill("-USR1");
    assert_eq!(lines.next().unwrap().unwrap(), "usr1");
    kill("-TERM");
    assert!(lines.next().is_none());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), Some(9));
    assert!(err(&output).contains("signal 15: no further run"), "{}", err(&output));
}

/// Nobody has to wait for the end of a pause.
#[test]
fn a_signal_ends_a_pause_and_there_is_no_further_run() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["run", "--api", "--no-scavenge", "--pause", "3600", "--runs", "-1", "--"];
    let mut child = scr(dir.path(), &[&words[..], &["sh", "-c", "exit 6"]].concat())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("run 1 failed with exit status 6")));
    std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(lines.any(|line| line.contains("signal 15: no further run")));
    assert_eq!(child.wait().unwrap().code(), Some(6));
}

/// At a terminal a key interrupts the program once; a signal from elsewhere reaches it as well.
#[test]
fn an_interrupt_reaches_the_program_once_from_a_key_and_from_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let line = "echo $PPID > pid; trap 'echo int >> ints' INT; : > ready; \
                while ! test -e stop; do sleep 0.01; done; exit 7";
    std::fs::write(dir.path().join("line"), line).unwrap();
    let plain = scr(dir.path(), &["run", "--api", "--no-scavenge", "--", "sh", "line"]);
    let mut command = on_terminal(&plain);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let there = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap_or_default();
    let wait = |what: &str, done: &dyn Fn() -> bool| {
        let begin = std::time::Instant::now();
        while !done() {
            assert!(begin.elapsed() < std::time::Duration::from_secs(60), "no {what}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    wait("program", &|| dir.path().join("ready").exists());
    std::process::Command::new("kill").args(["-INT", there("pid").trim()]).status().unwrap();
    wait("signal", &|| there("ints") == "int\n");
    child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    wait("key", &|| there("ints").starts_with("int\nint\n"));
    std::fs::write(dir.path().join("stop"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), &*there("ints")), (Some(7), "int\nint\n"), "{}", out(&output));
    assert!(out(&output).contains("signal 2: no further run"), "{}", out(&output));
}

#[test]
fn a_request_to_halt_stops_the_repeats_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    let halt = scr(dir.path(), &["halt", "--reason", "maintenance"]).output().unwrap();
    assert_eq!(code(&halt), Some(0));
    let words = ["run", "--api", "--no-scavenge", "--pause", "0", "--runs", "-1", "--", "false"];
    let output = scr(dir.path(), &words).output().unwrap();
    assert_eq!(code(&output), Some(1));
    assert!(err(&output).contains("halt condition maintenance"), "{}", err(&output));
    let shown = scr(dir.path(), &["halt", "--list"]).output().unwrap();
    assert!(out(&shown).contains("maintenance"), "{}", out(&shown));
    let retries = scr(dir.path(), &["retries-halt"]).output().unwrap();
    assert_eq!((code(&retries), out(&retries)), (Some(0), "maintenance\n".to_owned()));
}

/// srun kills the ranks that have not ended yet when the first one ends by a halt condition.
#[test]
fn a_halted_run_that_its_launcher_kills_has_the_status_of_a_halt() {
    let halt = format!("{} halt --reason enough; kill", env!("CARGO_BIN_EXE_scr"));
    for (setting, signal, status) in [("5", "TERM", 5), ("0", "TERM", 143), ("5", "SEGV", 139)] {
        let dir = tempfile::tempdir().unwrap();
        let line = format!("{halt} -{signal} $$");
        let words = ["run", "--api", "--no-scavenge", "--pause", "0", "--", "sh", "-c", &line];
        let output = scr(dir.path(), &words).env("SCR_HALT_STATUS", setting).output().unwrap();
        assert_eq!(code(&output), Some(status), "{signal}: {}", err(&output));
    }
}

#[test]
fn switched_off_the_program_runs_once_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let line = "echo \"<$SCR_PREFIX><$LD_PRELOAD>\"; exit 3";
    let words = ["run", "--runs", "5", "--", "sh", "-c", line];
    let output =
        scr(dir.path(), &words).env("SCR_ENABLE", "0").env_remove("LD_PRELOAD").output().unwrap();
    assert_eq!((code(&output), out(&output)), (Some(3), "<><>\n".to_owned()));
}

/// What the shim does with it.
#[test]
fn without_the_shim_open_mpi_is_told_which_variables_go_to_other_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let launcher = dir.path().join("orterun");
    std::fs::write(&launcher, "#!/bin/sh\necho \"$@\"\n").unwrap();
    std::fs::set_permissions(&launcher, std::fs::Permissions::from_mode(0o755)).unwrap();
    let launcher = launcher.display().to_string();
    let seen = |options: &[&str], list: Option<&str>| {
        let words = ["run", "--api", "--no-scavenge", "--pause", "0", "--", &launcher];
        let mut command = scr(dir.path(), &[&words[..], options, &["true"]].concat());
        command.env("SCR_FLUSH", "3").env("SCR_COPY_TYPE", "SINGLE");
        list.map(|list| command.env("OMPI_MCA_mca_base_env_list", list));
        out(&command.output().unwrap())
    };
    let names = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let pairs = words.windows(2).filter(|pair| pair[0] == "-x");
        pairs.map(|pair| pair[1].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&seen(&["-n", "2"], None)), ["SCR_COPY_TYPE", "SCR_FLUSH", "SCR_PREFIX"]);
    let own = seen(&["-x", "SCR_FLUSH=1"], None);
    assert_eq!(names(&own), ["SCR_COPY_TYPE", "SCR_PREFIX", "SCR_FLUSH=1"]);
    assert_eq!(names(&seen(&["--mca", "mca_base_env_list", "A"], None)), [""; 0]);
    assert_eq!(names(&seen(&["-n", "2"], Some("A=1"))), [""; 0]);
}

#[test]
fn what_only_the_caches_have_after_the_last_run_is_saved_or_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = FlushState::default();
    state.set(7, Location::Cache);
    state.set_name(7, "kept");
    std::fs::create_dir(dir.path().join(".scr")).unwrap();
    state.write(&dir.path().join(".scr").join(FlushState::NAME)).unwrap();
    for (options, words) in [
        (&["--no-scavenge"][..], "kept is in the caches alone"),
        (&[], "no node has a cache of this run"),
    ] {
        let all = [&["run", "--api", "--pause", "0"], options, &["--", "true"]].concat();
        let output = scr(dir.path(), &all).env("SCR_CNTL_BASE", dir.path()).output().unwrap();
        assert_eq!(code(&output), Some(0), "{}", err(&output));
        assert!(err(&output).contains(words), "{options:?}: {}", err(&output));
    }
}
