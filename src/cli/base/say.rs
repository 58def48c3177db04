//! What the tools print: results on standard output, all else on standard error.

use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use scr_core::error::{Error, Result};
use scr_core::log::messages::{self, Id};
use scr_core::log::printable_lines;

/// As std's, which panics when nobody reads any more: a pipe or a terminal that is gone must not
/// end a command that looks after a job.
macro_rules! eprintln {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($part)*);
    }};
}

/// Prints what a tool has found, or why it could not.
pub fn finish(tool: &str, outcome: Result<String>) -> ExitCode {
    match outcome {
        Ok(text) => print(&text),
        Err(error) => fail(tool, &error, 1),
    }
}

/// Says what has failed; returns the exit status for that.
pub fn fail(tool: &str, error: &Error, status: u8) -> ExitCode {
    complain(tool, error);
    ExitCode::from(status)
}

pub fn complain(tool: &str, error: &Error) {
    tell(tool, error.id(), &error.to_string());
}

pub fn tell(tool: &str, id: Id, text: &str) {
    eprintln!("scr {tool}: {}", printable_lines(&id.close(text)));
}

/// Writes a line of a result that is no error, but that a person should know.
pub fn warned(id: Id, text: &str) -> String {
    format!("warning: {}\n", id.close(text))
}

/// Says what is no trouble, on standard error: standard output is the program's, or the result's.
pub fn narrate(tool: &str, text: &str) {
    eprintln!("scr {tool}: {}", printable_lines(text));
}

/// Prints a tool's result. Whoever stops reading (`scr config | head`) has what they wanted.
pub fn print(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(printable_lines(text).as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("scr: {}", messages::SYSTEM_REFUSED.close(&format!("cannot write: {error}")));
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
