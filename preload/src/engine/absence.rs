//! A rank that cannot take part: the others, whose engines wait for it, hear of it where they wait
//! (`src/core/launch/roll_call/check.rs`), so that one message names all. Without others it speaks
//! itself.

use std::ffi::CStr;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use scr_abi::messages::{self, Id};

use crate::base::message::{complain, rank};

/// The launcher gives the random number, and the engine's launch check reads it.
pub(crate) const NONCE: &str = "SCR_LAUNCH_NONCE";

const PATIENCE: Duration = Duration::from_secs(2);

const REQUIRED: &str = "SCR_RESTART_REQUIRED";

/// Ends the run where it is not to begin anew: `SCR_RESTART_REQUIRED=1`, and an earlier run has
/// left its traces.
pub(crate) fn tell(id: Id, why: &str) {
    if leave_note(why) {
        return;
    }
    end_where_required(why);
    complain(id, &format!("{why}. The program runs without checkpoint caching"));
}

fn end_where_required(why: &str) {
    let prefix = prefix().filter(|prefix| is_restart_required() && has_traces(prefix));
    let Some(prefix) = prefix else { return };
    // The launcher kills the one that speaks as soon as another one has ended.
    if rank().is_some_and(|rank| rank != "0") {
        std::thread::sleep(PATIENCE);
    }
    complain(
        messages::RESTART_REQUIRED,
        &format!(
            "{why}. {REQUIRED}=1: the run ends before it computes, since SCR cannot take part in \
             it and an earlier one of {} may have left checkpoints. Without the setting the \
             program would go on from what it finds there",
            prefix.display()
        ),
    );
    // SAFETY: it has no preconditions. No handlers run, and no MPI: nothing has begun.
    unsafe { libc::_exit(1) }
}

/// The process that has begun a session; 0: none.
static SESSION_OF: AtomicU32 = AtomicU32::new(0);

/// Leaves it to `at_the_end`, which calls [`tell_of_session`]: MPI_Init may still come, since a
/// library can have a session of its own.
pub(crate) fn session_begun(at_the_end: extern "C" fn()) {
    let is_off = std::env::var_os("SCR_ENABLE").is_some_and(|value| value == "0");
    let own = std::process::id();
    if !is_off && SESSION_OF.swap(own, Ordering::AcqRel) != own {
        // SAFETY: a function of this library, which is never unloaded.
        unsafe { libc::atexit(at_the_end) };
    }
}

pub(crate) fn mpi_begun() {
    SESSION_OF.store(0, Ordering::Release);
}

/// Ends the run, where it must not go on, before the ranks meet in a communicator of a session.
pub(crate) fn session_computes() {
    if SESSION_OF.load(Ordering::Acquire) == std::process::id() {
        end_where_required("the program makes a communicator of a session of MPI without MPI_Init");
    }
}

pub(crate) fn tell_of_session() {
    // A child that was forked has this handler, too.
    if SESSION_OF.load(Ordering::Acquire) == std::process::id() {
        let text = "the program began MPI by MPI_Session_init, and SCR begins at MPI_Init only. \
                    The program ran without checkpoint caching";
        complain(messages::SESSION_BEGUN, text);
    }
}

/// A `.scrconf` only the engine can read.
fn is_restart_required() -> bool {
    std::env::var(REQUIRED).is_ok_and(|value| !matches!(value.trim(), "" | "0"))
}

/// The traces may be on the prefix, or only in a cache.
fn has_traces(prefix: &Path) -> bool {
    ["index.scr", "flush.scr"].iter().any(|name| prefix.join(".scr").join(name).exists())
}

fn leave_note(why: &str) -> bool {
    let (Some(rank), Some(place)) = (rank(), meeting_place()) else { return false };
    let begin = Instant::now();
    while !place.is_dir() {
        if begin.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let note = place.join(format!("missing.{}", hostname()));
    let line = format!("{rank}\t{}\n", why.replace(['\n', '\t'], " "));
    // Ranks of one node write to the same file, each its line in one piece.
    let file = OpenOptions::new().append(true).create(true).open(note);
    file.is_ok_and(|mut file| file.write_all(line.as_bytes()).is_ok())
}

/// The settings are not read, so the place is as far as can be known without them.
fn meeting_place() -> Option<PathBuf> {
    let nonce = std::env::var_os(NONCE)?;
    Some(prefix()?.join(".scr").join("launch").join(nonce))
}

fn prefix() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    Some(std::env::var_os("SCR_PREFIX").map_or_else(|| here.clone(), |dir| here.join(dir)))
}

fn hostname() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: the buffer has the size that is passed; its last byte stays a NUL.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let name = CStr::from_bytes_until_nul(&name).map(CStr::to_string_lossy);
    name.map_or_else(|_| "unknown".to_owned(), |name| name.into_owned())
}
