//! The `scr` command as a person or a script calls it, on one machine.

#[allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]
mod caches;
/// Nodes that are directories, as the tests of the core have them.
#[allow(dead_code, clippy::unwrap_used, reason = "as those tests do, which use the rest")]
#[path = "../core/cache/cluster.rs"]
mod cluster;
mod copies;
mod directories;
mod doctor;
mod examples;
mod explain;
mod garbage;
mod index;
mod job;
mod json;
mod log;
mod manual;
mod needs;
mod progress;
mod refused;
mod report;
mod run;
mod status;
#[allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]
#[path = "../core/support/theirs.rs"]
mod theirs;
#[allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]
mod theirs_first;
/// A file that their ranks write together.
#[allow(dead_code, clippy::unwrap_used, reason = "as those tests do, which use the rest")]
#[path = "../core/cache/together.rs"]
mod together;
/// What their ranks write.
#[allow(dead_code, clippy::unwrap_used, reason = "as those tests do, which use the rest")]
#[path = "../core/cache/job.rs"]
mod written;

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

/// The command, with nothing of SCR in its environment, in `dir`.
fn scr(dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scr"));
    command.args(words).current_dir(dir);
    let ours = |name: &OsStr| {
        let name = name.to_string_lossy();
        ["SCR_", "SLURM_", "PBS_", "LSB_", "FLUX_"].iter().any(|start| name.starts_with(start))
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command
}

/// The same command with a terminal around it, which standard input and output are those of.
fn on_terminal(plain: &Command) -> Command {
    let words = std::iter::once(plain.get_program()).chain(plain.get_args());
    let line: Vec<String> = words.map(|word| format!("'{}'", word.to_string_lossy())).collect();
    let mut command = Command::new("script"); // of util-linux
    // A shell that stays beside the command would end by a key itself.
    command.args(["-qefc", &format!("exec {}", line.join(" ")), "/dev/null"]).env("TERM", "xterm");
    command.current_dir(plain.get_current_dir().unwrap_or(Path::new("/")));
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
