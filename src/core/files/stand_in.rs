//! A lock that is a file, where the file system has no locks: only one process can create it.
//!
//! It names its holder, by boot and process, and the holder changes its time every three seconds.
//! It is taken over when the holder is gone. A process that would be on this node is looked for; of
//! one elsewhere the file is watched for twelve seconds: if its time changes, the holder lives,
//! whatever the clocks say. So a process elsewhere that is stopped for longer loses its lock.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

use super::remove_file_if_there;
use crate::error::{Error, Result};
use crate::system::{block_signals, boot_id, random_u64};

/// Between two signs of life.
const SIGN: Duration = Duration::from_secs(3);
/// Who gives none for so long is gone.
const SILENCE: Duration = Duration::from_secs(12);
/// Between two looks at somebody else's.
const LOOK: Duration = Duration::from_millis(50);

/// The lock, held until it is dropped or the process has ended.
#[derive(Debug)]
pub struct StandIn {
    path: PathBuf,
    text: String,
    /// Dropped, it ends the thread that gives the signs of life.
    _alive: Sender<()>,
}

impl StandIn {
    /// Creates the file `path`, or takes it over. `holder` is for the message of those who cannot
    /// have it; `enter_thread` is called first on the thread that gives the signs of life.
    /// `Err(text)` within: a live process has it.
    ///
    /// # Errors
    /// The file cannot be made or read.
    pub fn take(
        path: &Path,
        holder: &str,
        enter_thread: impl FnOnce() + Send + 'static,
    ) -> Result<std::result::Result<StandIn, String>> {
        let text = format!("{holder}\n{}\n{:016x}\n", myself(), random_u64());
        loop {
            let mut options = OpenOptions::new();
            match options.write(true).create_new(true).mode(0o600).open(path) {
                Ok(file) => return Self::hold(path, file, text, enter_thread).map(Ok),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io("cannot create the lock file", path, error)),
            }
            if let Some(other) = watch(path, SILENCE)? {
                return Ok(Err(other));
            }
        }
    }

    fn hold(
        path: &Path,
        mut file: File,
        text: String,
        enter_thread: impl FnOnce() + Send + 'static,
    ) -> Result<StandIn> {
        file.write_all(text.as_bytes())
            .map_err(|error| Error::io("cannot write the lock file", path, error))?;
        let (alive, ended) = channel::<()>();
        let signs = move || {
            block_signals();
            enter_thread();
            while ended.recv_timeout(SIGN) == Err(RecvTimeoutError::Timeout) {
                let _ = file.set_modified(SystemTime::now()); // the next one may come
            }
        };
        std::thread::Builder::new()
            .name("scr-lock".to_string())
            .spawn(signs)
            .map_err(|error| Error::io("cannot start a thread for the lock", path, error))?;
        Ok(StandIn { path: path.to_path_buf(), text, _alive: alive })
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // Somebody who took this process for gone may have it.
        if fs::read_to_string(&self.path).is_ok_and(|found| found == self.text) {
            let _ = remove_file_if_there(&self.path);
        }
    }
}

/// Returns the holder, if the file at `path` is there and it is not known that its holder is gone;
/// changes nothing and does not wait. `None`: nobody has it.
///
/// # Errors
/// The file cannot be read.
pub fn holder(path: &Path) -> Result<Option<String>> {
    let failed = |error| Error::io("cannot read the lock file", path, error);
    let (text, time) = match fs::read_to_string(path) {
        Ok(text) => (text, fs::metadata(path).and_then(|found| found.modified()).map_err(failed)?),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let lives = lives(text.lines().nth(1).unwrap_or_default());
    // Clocks of this node and of the file system may differ by a little.
    let fresh = || time.elapsed().is_ok_and(|age| age < SILENCE * 2) || time > SystemTime::now();
    let holder = text.lines().next().unwrap_or_default().to_owned();
    Ok(lives.unwrap_or_else(fresh).then_some(holder))
}

/// The first line of the file at `path` if its holder lives; else the file is gone.
fn watch(path: &Path, silence: Duration) -> Result<Option<String>> {
    let look = || -> std::io::Result<(String, SystemTime)> {
        Ok((fs::read_to_string(path)?, fs::metadata(path)?.modified()?))
    };
    let begun = Instant::now();
    let mut first = None;
    loop {
        let found = match look() {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("cannot read the lock file", path, error)),
        };
        let holder = || found.0.lines().next().unwrap_or_default().to_string();
        match lives(found.0.lines().nth(1).unwrap_or_default()) {
            Some(true) => return Ok(Some(holder())),
            Some(false) => return take_away(path, &found.0).map(|()| None),
            None if first.as_ref().is_some_and(|first| *first != found) => {
                return Ok(Some(holder()));
            }
            None if begun.elapsed() >= silence => {
                return take_away(path, &found.0).map(|()| None);
            }
            None => first = Some(found),
        }
        std::thread::sleep(LOOK);
    }
}

/// Removes the file if it still says `text`: two may have found it left behind, and one of them may
/// have its own there by now.
fn take_away(path: &Path, text: &str) -> Result<()> {
    let aside = path.with_extension(format!("{:016x}", random_u64()));
    match fs::rename(path, &aside) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        renamed => renamed.map_err(|error| Error::io("cannot take over", path, error))?,
    }
    if fs::read_to_string(&aside).is_ok_and(|found| found != text) {
        return fs::rename(&aside, path).map_err(|error| Error::io("cannot leave", path, error));
    }
    remove_file_if_there(&aside)
}

/// This process among all of a machine: its boot, the processes that it can see, number, begin.
fn myself() -> String {
    let id = std::process::id();
    format!("{} {id} {}", sight(), begin_of(&id.to_string()).unwrap_or_default())
}

fn sight() -> String {
    let boot = boot_id().unwrap_or_default();
    let seen = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{boot} {}", seen.display())
}

/// When a process has begun, in the kernel's ticks.
fn begin_of(id: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name of the program, in brackets, may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19).map(str::to_string)
}

/// Whether the process that [`myself`] has described lives; `None` if it cannot be seen from here.
fn lives(who: &str) -> Option<bool> {
    let rest = who.strip_prefix(&sight())?.strip_prefix(' ')?;
    let (id, begin) = rest.split_once(' ')?;
    Some(begin_of(id).is_some_and(|found| found == begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(path: &Path) -> std::result::Result<StandIn, String> {
        StandIn::take(path, "node1", || ()).unwrap()
    }

    #[test]
    fn one_holder_at_a_time_and_the_next_after_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lease.held");
        let first = take(&path).unwrap();
        assert_eq!(take(&path).unwrap_err(), "node1");
        drop(first);
        let second = take(&path).unwrap();
        std::mem::forget(second); // as an end of the process would
        let text = fs::read_to_string(&path).unwrap();
        let me = format!(" {} ", std::process::id());
        fs::write(&path, text.replace(&me, " 4194305 ")).unwrap();
        take(&path).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "what it has taken over is gone");
    }

    #[test]
    fn of_a_process_elsewhere_the_signs_of_life_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lease.held");
        let elsewhere = "host far\nanother-boot pid:[1] 7 7\n0\n";
        fs::write(&path, elsewhere).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        let (stop, stopped) = channel::<()>();
        let alive = std::thread::spawn(move || {
            for second in 1.. {
                file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(second)).unwrap();
                if stopped.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        });
        assert_eq!(watch(&path, Duration::MAX).unwrap().as_deref(), Some("host far"));
        drop(stop);
        alive.join().unwrap();
        assert_eq!(watch(&path, Duration::ZERO).unwrap(), None);
        assert!(!path.exists());
    }

    #[test]
    fn another_ones_lock_is_left_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lease.held");
        fs::write(&path, "new").unwrap();
        take_away(&path, "old").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(lives("nonsense"), None);
    }
}
