//! How a long command tells how far it has come: a bar on a terminal, nothing of it in a pipe.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{code, err, on_terminal, out, scr};

/// A remote shell that says once that it was called, and answers when it may.
const SHELL: &str = "#!/bin/sh\ntest $1 = n2 && echo nothing && exit\n\
                     : > asked\nwhile ! test -e go; do sleep 0.01; done\necho nothing\n";

/// `scr scavenge` of two nodes in `dir`: n2 has nothing, n1 answers when there is a file `go`.
fn scavenge(dir: &Path) -> Command {
    let shell = dir.join("shell");
    std::fs::write(&shell, SHELL).expect("a script");
    std::fs::set_permissions(&shell, PermissionsExt::from_mode(0o755)).expect("executable");
    let mut command = scr(dir, &["scavenge", "--nodes", "n[1-2]"]);
    command.env("SCR_REMOTE_SHELL", shell).env("SCR_JOB_ID", "7");
    command
}

#[test]
fn on_a_terminal_there_is_a_bar_and_it_goes_away() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = on_terminal(&scavenge(dir.path()));
    let child = command.env("NO_COLOR", "1");
    let child = child.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = child.spawn().unwrap();
    let mut shown = String::new();
    let mut output = child.stdout.take().unwrap();
    let mut buffer = [0; 4096];
    while !(shown.contains("copying from the nodes [") && shown.contains("] 1/2")) {
        let count = output.read(&mut buffer).unwrap();
        assert!(count > 0, "no bar: {shown:?}");
        shown.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    std::fs::write(dir.path().join("go"), "").unwrap();
    output.read_to_string(&mut shown).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{shown:?}");
    // The line is cleared before the answer is printed.
    let (bar, answer) = shown.rsplit_once("\x1b[2K").expect("a cleared line");
    assert!(answer.contains("no node has a cache of this run"), "{shown:?}");
    assert!(!bar.contains("\x1b[3") && !bar.contains("\x1b[1m"), "colours: {shown:?}");
}

#[test]
fn in_a_pipe_there_are_only_lines() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("go"), "").unwrap();
    let output = scavenge(dir.path()).output().unwrap();
    assert_eq!(code(&output), Some(1));
    assert_eq!(
        (&*out(&output), &*err(&output)),
        ("no node has a cache of this run (SCR-5110)\n", "")
    );
}
