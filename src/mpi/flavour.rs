//! Which MPI this library is made for, and which one the program runs with: a program can be linked
//! with one MPI and find the library for the other.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::ptr;

use mpi::ffi;

/// The limit of MPICH; that of Open MPI is lower.
const VERSION_BYTES: usize = 8192;

/// Two MPIs are told apart by their handles, which are addresses or numbers: with the wrong kind
/// no call can be made but the few that take none.
const MADE_FOR: &str =
    if size_of::<ffi::MPI_Comm>() == size_of::<*const u8>() { "Open MPI" } else { "MPICH" };

/// Returns the MPI of this library and that of the program, if they are not the same. Valid at any
/// time.
pub fn mismatch() -> Option<(&'static str, String)> {
    let version = library()?;
    (!is(&version, MADE_FOR)).then(|| (MADE_FOR, first_words(&version)))
}

/// Returns the MPI of the program in a few words; empty if it does not say. Valid at any time.
pub fn version() -> String {
    library().map(|version| first_words(&version)).unwrap_or_default()
}

/// What the program's MPI calls itself, all of it.
fn library() -> Option<String> {
    let mut text = [0 as c_char; VERSION_BYTES + 1];
    let mut length = 0;
    // SAFETY: the buffer is as large as any MPI's limit, with a NUL at its end; the call takes no
    // handle, so any MPI can answer it.
    unsafe {
        if ffi::PMPI_Get_library_version(text.as_mut_ptr(), ptr::from_mut(&mut length)) != 0 {
            return None;
        }
        Some(CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned())
    }
}

/// Whether an MPI that calls itself `version` is `made_for`, or has its handles: those that
/// descend from MPICH do not all say so.
fn is(version: &str, made_for: &str) -> bool {
    version.starts_with("Open MPI") == (made_for == "Open MPI")
}

/// "Open MPI v4.1.4" or "MPICH Version: 4.0.2" of what goes on for lines.
fn first_words(version: &str) -> String {
    let line = version.lines().next().unwrap_or_default();
    let words = line.split([',', '\t']).map(str::trim).filter(|word| !word.is_empty());
    words.take(2).filter(|word| !word.starts_with("package")).collect::<Vec<_>>().join(" ")
}
