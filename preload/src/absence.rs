//! A rank that cannot take part: the others, whose engines wait for it, hear of it where they wait
//! (`src/core/session/launch.rs`), so that one message names all. Without others it speaks itself.

use std::ffi::CStr;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::launcher::NONCE;
use crate::message::{complain, rank};

/// How long a rank with an engine may take to come to its launch check.
const PATIENCE: Duration = Duration::from_secs(2);

/// Tells why this rank runs without us.
pub(crate) fn tell(why: &str) {
    if !leave_note(why) {
        complain(&format!("{why}. The program runs without checkpoint caching."));
    }
}

/// True if the others will tell.
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

/// Where ranks with an engine meet, as far as can be known without reading the settings.
fn meeting_place() -> Option<PathBuf> {
    let nonce = std::env::var_os(NONCE)?;
    let here = std::env::current_dir().ok()?;
    let prefix = std::env::var_os("SCR_PREFIX").map_or_else(|| here.clone(), |dir| here.join(dir));
    Some(prefix.join(".scr").join("launch").join(nonce))
}

fn hostname() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: the buffer has the size that is passed; its last byte stays a NUL.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let name = CStr::from_bytes_until_nul(&name).map(CStr::to_string_lossy);
    name.map_or_else(|_| "unknown".to_owned(), |name| name.into_owned())
}
