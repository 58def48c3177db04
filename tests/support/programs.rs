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
