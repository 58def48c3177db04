//! Small programs for tests, compiled when they are needed.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs `compiler` on `arguments` and returns `output`; panics with the compiler's words.
pub fn compile<I>(compiler: &str, arguments: I, output: &Path) -> PathBuf
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    let done = Command::new(compiler)
        .args(arguments)
        .arg("-o")
        .arg(output)
        .output()
        .unwrap_or_else(|error| panic!("{compiler} cannot be run: {error}"));
    assert!(done.status.success(), "{compiler}: {}", text(&done.stderr));
    output.to_path_buf()
}

/// Writes a program that is to be run, by another process: the child of another test's fork may
/// hold a descriptor of ours for a moment, and what is open for writing cannot be run.
#[track_caller]
pub fn script(path: &Path, text: &str) {
    let write = "printf %s \"$2\" > \"$1\" && chmod 755 \"$1\"";
    let words = ["-c", write, "sh"].map(OsStr::new);
    let done = Command::new("sh").args(words).arg(path).arg(text).output().unwrap();
    succeeded(&done);
}

/// Standard output or error as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Asserts that a program ended with status 0, with all it said otherwise. Returns its output.
#[track_caller]
pub fn succeeded(output: &Output) -> String {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n--- stdout\n{out}--- stderr\n{err}", output.status);
    out
}
