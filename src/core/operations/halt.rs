//! Halt conditions, as a person changes them (manual 1.1, section 9.5).

use std::path::{Path, PathBuf};

use super::prefix::state_dir;
use crate::error::{Error, Result};
use crate::files::create_dirs;
use crate::records::{HaltFile, Record as _, update};

/// A condition of the halt file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HaltCondition {
    /// Number of checkpoints to come.
    Checkpoints,
    /// Halt before this time.
    Before,
    /// Halt after this time.
    After,
    /// How long before `Before`.
    Seconds,
    /// A reason: it halts at once.
    Reason,
}

/// A change that a person wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HaltWish {
    /// Halt at the next checkpoint, for this reason.
    Now(String),
    /// Halt after so many checkpoints.
    Checkpoints(u64),
    /// Halt before this time, seconds since 1970.
    Before(u64),
    /// Halt once this time has passed, seconds since 1970.
    After(u64),
    /// Halt so many seconds before `Before`, or the end of the allocation.
    Seconds(u64),
    /// The condition is taken back.
    Unset(HaltCondition),
}

/// Changes the halt file of `prefix` under its lock and returns it: a run that changes it at the
/// same time loses nothing.
pub fn change_halt_file(prefix: &Path, wishes: &[HaltWish]) -> Result<HaltFile> {
    if !prefix.is_dir() {
        return Err(Error::Missing(format!("{} is no directory", prefix.display())));
    }
    let path = path(prefix);
    create_dirs(&state_dir(prefix), 0o777)?;
    update(&path, |file: &mut HaltFile| {
        wishes.iter().for_each(|wish| apply(file, wish));
        Ok(file.clone())
    })
}

/// Returns what the halt file of `prefix` says; the default if there is none.
pub fn read_halt_file(prefix: &Path) -> Result<HaltFile> {
    Ok(HaltFile::read(&path(prefix))?.unwrap_or_default())
}

/// Takes back what a run has recorded itself when it ended.
pub fn forget_halt_reason(prefix: &Path) -> Result<()> {
    if !read_halt_file(prefix)?.forget_own_reason() {
        return Ok(());
    }
    update(&path(prefix), |file: &mut HaltFile| {
        file.forget_own_reason();
        Ok(())
    })
}

fn path(prefix: &Path) -> PathBuf {
    state_dir(prefix).join(HaltFile::NAME)
}

fn apply(file: &mut HaltFile, wish: &HaltWish) {
    match wish {
        HaltWish::Now(reason) => file.exit_reason = Some(reason.clone()),
        HaltWish::Checkpoints(count) => file.checkpoints_left = Some(*count),
        HaltWish::Before(time) => file.exit_before = Some(*time),
        HaltWish::After(time) => file.exit_after = Some(*time),
        HaltWish::Seconds(seconds) => file.halt_seconds = Some(*seconds),
        HaltWish::Unset(condition) => match condition {
            HaltCondition::Checkpoints => file.checkpoints_left = None,
            HaltCondition::Before => file.exit_before = None,
            HaltCondition::After => file.exit_after = None,
            HaltCondition::Seconds => file.halt_seconds = None,
            HaltCondition::Reason => file.exit_reason = None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_kept_and_taken_back_one_by_one() {
        let prefix = tempfile::tempdir().unwrap();
        assert_eq!(read_halt_file(prefix.path()).unwrap(), HaltFile::default());
        let wishes = [HaltWish::Checkpoints(3), HaltWish::After(2000), HaltWish::Now("me".into())];
        let file = change_halt_file(prefix.path(), &wishes).unwrap();
        assert_eq!(read_halt_file(prefix.path()).unwrap(), file);
        assert_eq!((file.checkpoints_left, file.exit_after), (Some(3), Some(2000)));
        let less = [HaltWish::Unset(HaltCondition::Reason), HaltWish::Seconds(60)];
        let file = change_halt_file(prefix.path(), &less).unwrap();
        assert_eq!((file.exit_reason, file.halt_seconds), (None, Some(60)));
        assert_eq!(file.checkpoints_left, Some(3));
    }

    #[test]
    fn changes_at_the_same_time_are_all_kept() {
        let prefix = tempfile::tempdir().unwrap();
        let path = path(prefix.path());
        change_halt_file(prefix.path(), &[HaltWish::Checkpoints(100)]).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        update(&path, |file: &mut HaltFile| {
                            file.checkpoints_left = file.checkpoints_left.map(|left| left - 1);
                            Ok(())
                        })
                        .unwrap();
                    }
                });
            }
            for time in 1..=25 {
                change_halt_file(prefix.path(), &[HaltWish::After(time)]).unwrap();
            }
        });
        let file = read_halt_file(prefix.path()).unwrap();
        assert_eq!((file.checkpoints_left, file.exit_after), (Some(0), Some(25)));
    }

    #[test]
    fn a_damaged_file_is_told_and_stays() {
        let prefix = tempfile::tempdir().unwrap();
        std::fs::create_dir(state_dir(prefix.path())).unwrap();
        std::fs::write(path(prefix.path()), "no halt file").unwrap();
        assert!(read_halt_file(prefix.path()).is_err());
        assert!(change_halt_file(prefix.path(), &[HaltWish::Checkpoints(1)]).is_err());
        assert_eq!(std::fs::read(path(prefix.path())).unwrap(), b"no halt file");
        assert!(change_halt_file(Path::new("/no/such/prefix"), &[]).is_err());
    }
}
