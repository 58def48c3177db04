//! The end of a launcher whose launch has failed: `scr scavenge --after-launch` looks whether the
//! nodes' caches have what the prefix has not, and says so, or saves it. The launcher's status and
//! output stay, and a command that does not answer is left behind.

use std::ffi::c_void;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::{engine, signal::guard};

/// `scr run`, which sees to what its launches leave, sets it.
const SEEN_TO: &str = "SCR_LAUNCH_RUN";
/// The command asks to be run again, for as long as it takes.
const WANTED: i32 = 3;
const LOOK_MAX: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);

/// The time is in seconds since 1970.
static BEGUN: AtomicU64 = AtomicU64::new(0);
/// Children that the launcher forks have the same handlers.
static PROCESS: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    /// Unlike atexit, this function of glibc tells the status.
    fn on_exit(
        function: extern "C" fn(libc::c_int, *mut c_void),
        argument: *mut c_void,
    ) -> libc::c_int;
}

pub(super) fn arrange() {
    if std::env::var_os(SEEN_TO).is_some() {
        return;
    }
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    BEGUN.store(now.as_secs(), Ordering::Relaxed);
    PROCESS.store(u64::from(std::process::id()), Ordering::Relaxed);
    // SAFETY: a function of this library, which is never unloaded. If it cannot be registered,
    // nobody is told.
    unsafe { on_exit(ended, std::ptr::null_mut()) };
}

extern "C" fn ended(status: libc::c_int, _: *mut c_void) {
    if status == 0 || PROCESS.load(Ordering::Relaxed) != u64::from(std::process::id()) {
        return;
    }
    // A panic must not cross into libc.
    let _: Option<()> = guard::work(look);
}

fn look() {
    let Some(program) = program() else { return };
    let begun = BEGUN.load(Ordering::Relaxed).to_string();
    let start = |how: &str| {
        Command::new(&program)
            .args(["scavenge", how, &begun])
            // Ours is for the ranks; whatever else is preloaded is for the launcher.
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
    };
    let Ok(child) = start("--after-launch") else { return };
    if wait(child, LOOK_MAX) == Some(WANTED)
        && let Ok(child) = start("--save-launch")
    {
        wait(child, Duration::MAX);
    }
}

/// A command that takes too long is killed.
fn wait(mut child: Child, limit: Duration) -> Option<i32> {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.code(),
            Ok(None) if begun.elapsed() < limit => std::thread::sleep(POLL),
            Ok(None) => {
                let _ = child.kill();
                return None;
            }
            // The launcher has reaped it, or takes no notice of children.
            Err(_) => return None,
        }
    }
}

fn program() -> Option<PathBuf> {
    let path = engine::open::library_path().parent()?.parent()?.join("bin/scr");
    path.exists().then_some(path)
}
