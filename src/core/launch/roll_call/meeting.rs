//! Ranks that meet without MPI, by files on the PFS.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::files::write_ours;
use crate::launch::host::Host;
use crate::launch::site::Site;
use crate::log;

/// How long an exiting rank waits for others that show no sign of life.
const EXIT_WAIT: Duration = Duration::from_secs(2);

const BEAT: Duration = Duration::from_millis(500);

/// A folder on the PFS in which each rank leaves a mark, `<rank>`: a launcher kills the others as
/// soon as one process has ended without MPI_Finalize, so each waits for the marks of all.
pub struct Meeting {
    pub folder: PathBuf,
    pub rank: usize,
    pub size: usize,
}

/// Folders below the state folder in which ranks that exit meet.
const EXIT_FOLDER: &str = "exit.";

/// Folders below the state folder with a file for each thing that was told to a person.
const TOLD_FOLDER: &str = "told.";

/// Makes one of the ranks of `launch` tell what they tell a person once.
pub(crate) fn share_messages(site: &Site, launch: u64) {
    log::share(Some(site.state_dir().join(format!("{TOLD_FOLDER}{launch:016x}"))));
}

/// Removes the folders in which the ranks of earlier launches met. For rank 0.
pub(crate) fn sweep_meetings(site: &Site, launch: u64) {
    let Ok(entries) = std::fs::read_dir(site.state_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let meeting = name.strip_prefix(EXIT_FOLDER).or_else(|| name.strip_prefix(TOLD_FOLDER));
        if meeting.is_some_and(|of| of != format!("{launch:016x}")) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Meeting {
    pub(crate) fn of(site: &Site, launch: u64, what: &str) -> Meeting {
        let folder = site.state_dir().join(format!("{EXIT_FOLDER}{launch:016x}")).join(what);
        Meeting { folder, rank: site.rank, size: site.size }
    }

    /// Leaves this rank's mark and waits for those of all; rank 0's is the last one, and `last`
    /// runs on it before. `false`: for a while nobody has come, or shown that he lives.
    pub fn is_complete(&self, last: impl FnOnce()) -> bool {
        if self.rank == 0 {
            return self.waits_for(self.size - 1) && {
                last();
                self.leave_mark() && self.waits_for(self.size)
            };
        }
        self.leave_mark() && self.waits_for(self.size)
    }

    fn leave_mark(&self) -> bool {
        let mark = self.folder.join(self.rank.to_string());
        std::fs::create_dir_all(&self.folder).and_then(|()| write_ours(&mark, b"")).is_ok()
    }

    fn waits_for(&self, marks: usize) -> bool {
        // Every rank lists the marks of all. A short pause lets all leave at the same moment.
        let pause = Duration::from_micros(200 + self.size as u64 * 8);
        let (mut found, mut since) = (Vec::new(), Instant::now());
        loop {
            let now = names(&self.folder);
            if now.iter().filter(|name| !name.contains('.')).count() >= marks {
                return true;
            }
            if now != found {
                (found, since) = (now, Instant::now());
            }
            if since.elapsed() >= EXIT_WAIT {
                return false;
            }
            std::thread::sleep(pause);
        }
    }

    /// Does `work` while a thread shows the others that it goes on, by a name that changes.
    pub fn show_life_during(&self, host: Arc<dyn Host>, work: impl FnOnce()) {
        let done = Arc::new(AtomicBool::new(false));
        let (seen, folder, rank) = (done.clone(), self.folder.clone(), self.rank);
        let beat = move || {
            crate::system::block_signals();
            host.enter_thread();
            beat_until(&seen, &folder, rank);
        };
        let thread = std::thread::Builder::new().name("scr-alive".into()).spawn(beat);
        work();
        done.store(true, Ordering::Relaxed);
        if let Ok(thread) = thread {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn beat_until(done: &AtomicBool, folder: &Path, rank: usize) {
    if std::fs::create_dir_all(folder).is_err() {
        return;
    }
    let sign = |beat: u64| folder.join(format!("{rank}.{beat}"));
    for beat in 0_u64.. {
        std::thread::park_timeout(BEAT);
        if done.load(Ordering::Relaxed) {
            return;
        }
        if beat == 0 || std::fs::rename(sign(beat - 1), sign(beat)).is_err() {
            let _ = write_ours(&sign(beat), b"");
        }
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::threads::run;

    #[test]
    fn all_go_when_all_have_come_and_rank_0_has_done_its_part() {
        let dir = tempfile::tempdir().unwrap();
        let done = dir.path().join("done");
        let complete = run(3, |comm| {
            let folder = dir.path().join("ended");
            let meeting = Meeting { folder, rank: comm.rank(), size: 3 };
            let all = meeting.is_complete(|| std::fs::write(&done, "").unwrap());
            all && done.exists()
        });
        assert_eq!(complete, [true; 3]);
    }

    #[test]
    fn who_waits_in_vain_goes_and_does_not_act_for_all() {
        let dir = tempfile::tempdir().unwrap();
        let meeting = Meeting { folder: dir.path().join("ended"), rank: 0, size: 2 };
        assert!(!meeting.is_complete(|| panic!("rank 1 has not come")));
        assert!(!meeting.folder.exists(), "no mark of rank 0");
    }
}
