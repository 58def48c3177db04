//! The files by which ranks tell each other of a launch (`check.rs`).

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::error::{Error, Result};
use crate::files::write_ours;

pub(crate) enum DecidedVerdict {
    Go,
    Stop(String),
}

/// Makes the file `path`; true for the one caller that has made it.
pub(crate) fn claim(path: &Path) -> Result<bool> {
    match fs::OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(Error::io("cannot write", path, e)),
    }
}

pub(crate) fn make_dir(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(|e| Error::io("cannot create the directory", dir, e))
}

/// Writes a file that is read by others; they see all of it or nothing. No two ranks write the same
/// one at the same time, or they write the same.
pub(crate) fn write_at_once(path: &Path, rank: usize, text: &str) -> Result<()> {
    let temporary = path.with_file_name(format!(".new.{rank}"));
    let written =
        write_ours(&temporary, text.as_bytes()).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|e| Error::io("cannot write", path, e))
}

pub(crate) fn stop_text(reason: &str) -> String {
    format!("stop {}\n", reason.replace('\n', " "))
}

/// Reads what a verdict says; `None` if there is none, or not all of it is there yet.
pub(crate) fn read_verdict(path: &Path) -> Result<Option<DecidedVerdict>> {
    let text = match fs::read_to_string(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|e| Error::io("cannot read", path, e))?,
    };
    let Some(whole) = text.strip_suffix('\n') else { return Ok(None) };
    let stop = whole.strip_prefix("stop ").map(|reason| DecidedVerdict::Stop(reason.to_string()));
    Ok(stop.or_else(|| (whole == "go").then_some(DecidedVerdict::Go)))
}
