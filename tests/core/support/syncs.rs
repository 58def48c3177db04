//! Counts what this process makes durable: its own fsync(2) comes before that of libc.

use std::ffi::c_int;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Below which directories files are noted, and those that were synced.
static NOTED: Mutex<Vec<(PathBuf, Vec<PathBuf>)>> = Mutex::new(Vec::new());

/// Begins to note the files below `top` that are synced.
pub fn watch(top: &Path) {
    NOTED.lock().unwrap().push((top.to_path_buf(), Vec::new()));
}

/// The files below `top`, relative, that were synced since [`watch`], which comes to its end.
pub fn watched(top: &Path) -> Vec<PathBuf> {
    let mut noted = NOTED.lock().unwrap();
    let at = noted.iter().position(|(watched, _)| watched == top).unwrap();
    let (_, found) = noted.swap_remove(at);
    found.into_iter().map(|path| path.strip_prefix(top).unwrap().to_path_buf()).collect()
}

/// In the place of libc's in this program.
#[unsafe(no_mangle)]
pub extern "C" fn fsync(descriptor: c_int) -> c_int {
    if let Ok(path) = fs::read_link(format!("/proc/self/fd/{descriptor}")) {
        let mut noted = NOTED.lock().unwrap();
        let watched = noted.iter_mut().filter(|(top, _)| path.starts_with(top));
        watched.for_each(|(_, found)| found.push(path.clone()));
    }
    // SAFETY: takes any number, and is what libc's does.
    unsafe { libc::syscall(libc::SYS_fsync, descriptor) as c_int }
}
