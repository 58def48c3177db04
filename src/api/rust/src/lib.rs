//! Checkpoints, restarts and output through SCR, for MPI programs, whichever crate they have MPI
//! from.
//!
//! ```no_run
//! # fn load(_: &std::path::Path) -> std::io::Result<()> { Ok(()) }
//! # fn save(_: &std::path::Path) -> std::io::Result<()> { Ok(()) }
//! # fn main() -> Result<(), scr::Error> {
//! # let (rank, step) = (0, 1);
//! scr::init()?; // after MPI_Init
//! while scr::have_restart()?.is_some() {
//!     let dataset = scr::restart()?;
//!     let file = dataset.route(format!("rank_{rank}"))?;
//!     if dataset.complete(load(&file).is_ok()).is_ok() {
//!         break;
//!     } // else, on all ranks: the next older one is offered
//! }
//! if scr::need_checkpoint()? {
//!     let dataset = scr::checkpoint()?;
//!     let file = dataset.route(format!("ckpt/{step}/rank_{rank}"))?;
//!     dataset.complete(save(&file).is_ok())?;
//! }
//! scr::finalize() // before MPI_Finalize
//! # }
//! ```
//!
//! All ranks call these functions together, with the same arguments, but for [`route_file`],
//! [`Dataset::route`], [`config`], [`version`]. `docs/api.md` and the manual pages (section 3scr)
//! say what each call of C does that one of these makes.

mod c;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::{error, fmt, io, ops};

/// Why a call has failed: the message of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl error::Error for Error {}

/// For functions that read and write a file: `?` does with a path what it does with the file.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::other(error)
    }
}

/// What a call answers.
pub type Result<T> = std::result::Result<T, Error>;

/// What a dataset is: one of these, or both (`|`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(i32);

impl Flags {
    /// The program can restart from it.
    pub const CHECKPOINT: Flags = Flags(1);
    /// It is to reach the prefix directory.
    pub const OUTPUT: Flags = Flags(2);
}

impl ops::BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// Starts SCR; after MPI_Init, and once.
///
/// # Errors
/// MPI_Init has not been called; it is not the first time. Where SCR is switched off or cannot
/// start this is no error: a message says why, and files go where the program calls them.
pub fn init() -> Result<()> {
    c::init()
}

/// Ends SCR; before MPI_Finalize, and once.
///
/// # Errors
/// SCR has not been started, or a dataset has not been completed.
pub fn finalize() -> Result<()> {
    c::finalize()
}

/// Sets a parameter before [`init`] (`KEY=VALUE`; `KEY=` unsets), or returns its value at any time
/// (`KEY`).
///
/// # Errors
/// There is no such parameter or value, or it is too late to set one.
pub fn config(setting: &str) -> Result<Option<String>> {
    c::config(setting)
}

/// Returns the version of the library, as `v3.1.0`.
pub fn version() -> String {
    c::version()
}

/// Tells whether the program is to stop.
///
/// # Errors
/// SCR has not been started.
pub fn should_exit() -> Result<bool> {
    c::should_exit()
}

/// Tells whether a checkpoint is due.
///
/// # Errors
/// SCR has not been started, or a dataset has not been completed.
pub fn need_checkpoint() -> Result<bool> {
    c::need_checkpoint()
}

/// Returns the path at which to write or read the file that is finally called `name`, of this rank
/// alone. Between a start and its completion, where [`Dataset::route`] does the same; elsewhere it
/// is `name`.
///
/// # Errors
/// SCR has not been started; `name` is empty, not UTF-8, too long, not below the prefix, or one of
/// SCR's own; the checkpoint that is read has no such file, or several; its directory cannot be
/// made.
pub fn route_file(name: impl AsRef<Path>) -> Result<PathBuf> {
    let routed = c::route_file(name.as_ref().as_os_str().as_bytes())?;
    Ok(OsStr::from_bytes(&routed).into())
}

/// Returns the name of the checkpoint that can be read: the newest that the program has not
/// refused.
///
/// # Errors
/// SCR has not been started, or a dataset has not been completed.
pub fn have_restart() -> Result<Option<String>> {
    c::have_restart()
}

/// Begins to read the checkpoint that [`have_restart`] has offered.
///
/// # Errors
/// None was offered.
pub fn restart() -> Result<Dataset> {
    let name = c::start_restart()?;
    Ok(Dataset { name: Some(name), complete: Some(c::complete_restart) })
}

/// Begins a checkpoint, before the first file of it is opened.
///
/// # Errors
/// SCR has not been started, or a dataset has not been completed.
pub fn checkpoint() -> Result<Dataset> {
    c::start_checkpoint()?;
    Ok(Dataset { name: None, complete: Some(c::complete_checkpoint) })
}

/// Begins a dataset; without a name it gets one.
///
/// # Errors
/// SCR has not been started, or a dataset has not been completed; the name is too long, or empty;
/// the ranks give different arguments.
pub fn output(name: Option<&str>, flags: Flags) -> Result<Dataset> {
    c::start_output(name, flags.0)?;
    Ok(Dataset { name: name.map(str::to_owned), complete: Some(c::complete_output) })
}

/// Tells SCR that the program has restarted from this checkpoint by itself, or is about to.
///
/// # Errors
/// There is no such checkpoint.
pub fn current(name: &str) -> Result<()> {
    c::current(name)
}

/// Takes a dataset out of the index and the cache; its files on the prefix stay.
///
/// # Errors
/// There is no such dataset, or the index cannot be changed.
pub fn drop(name: &str) -> Result<()> {
    c::drop(name)
}

/// Deletes a dataset and its files.
///
/// # Errors
/// There is no such dataset, or the index or the files cannot be changed.
pub fn delete(name: &str) -> Result<()> {
    c::delete(name)
}

/// What is between a start and its completion, on each rank. One that is dropped instead, as by `?`
/// or a panic, is completed as not valid: the other ranks, which complete theirs, do not wait.
#[derive(Debug)]
#[must_use = "a dataset that is dropped is not valid"]
pub struct Dataset {
    name: Option<String>,
    complete: Option<fn(bool) -> Result<()>>,
}

impl Dataset {
    /// Returns the name that it was given, or under which it was offered.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the path at which to write or read the file that is finally called `name`. To read a
    /// file, the last part of its name will do.
    ///
    /// # Errors
    /// Those of [`route_file`].
    pub fn route(&self, name: impl AsRef<Path>) -> Result<PathBuf> {
        route_file(name)
    }

    /// Completes it, when its files are closed: `valid` if this rank has written or read all of its
    /// files, or has none.
    ///
    /// # Errors
    /// A rank says that it is not valid: then there is no such checkpoint, or, after a restart, the
    /// next older one is offered. A file that was routed is not there, or the files could not be
    /// protected.
    pub fn complete(mut self, valid: bool) -> Result<()> {
        self.complete.take().map_or(Ok(()), |complete| complete(valid))
    }
}

impl Drop for Dataset {
    fn drop(&mut self) {
        if let Some(complete) = self.complete.take() {
            // That it is not valid: what has led here says why.
            let _ = complete(false);
        }
    }
}
