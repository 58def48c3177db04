//! This program's own file, and how programs that it starts have ended.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;

use scr_core::error::{Error, Result};

pub fn own_path() -> Result<PathBuf> {
    std::env::current_exe()
        .map_err(|error| Error::io("cannot find", "this program's own file", error))
}

/// Returns what a shell reports for this end of a program.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(255);
    u8::try_from(code).unwrap_or(255)
}
