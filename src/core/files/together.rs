//! Files that become durable together. An fsync(2) waits for the disk; of a thousand small files
//! each one does. Where the file system can, one call serves them all.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::directory::{make_dir, open_dir};
use crate::error::{Error, Result};
use crate::system;

/// Files that are held open at a time, at most.
const MOST: usize = 64;
/// Of fewer the file system would be asked for more than they are.
const MANY: usize = 8;

/// Files and directories that are not known to be durable yet.
#[derive(Debug, Default)]
pub struct Together {
    waiting: Vec<(File, PathBuf)>,
    dirs: BTreeSet<PathBuf>,
}

impl Together {
    /// Takes an open file, named `path` in messages; all so far become durable when there are many.
    /// Returns whether they have.
    ///
    /// # Errors
    /// One of them cannot be made durable.
    pub fn add(&mut self, file: File, path: &Path) -> Result<bool> {
        self.waiting.push((file, path.to_path_buf()));
        let full = self.waiting.len() >= MOST;
        if full {
            self.finish()?;
        }
        Ok(full)
    }

    /// Creates `dir` and its missing parents as [`super::create_dirs`] does; their names become
    /// durable with all else.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create_dirs(&mut self, dir: &Path, mode: u32) -> Result<()> {
        make_dir(dir, mode, &mut |parent| {
            self.dirs.insert(parent.to_path_buf());
            Ok(())
        })
    }

    /// Makes the names in `dirs` durable, and all that waits.
    ///
    /// # Errors
    /// One of them cannot be made durable.
    pub fn finish_with(mut self, dirs: impl IntoIterator<Item = PathBuf>) -> Result<()> {
        self.dirs.extend(dirs);
        self.finish()
    }

    /// Makes durable all that waits.
    ///
    /// # Errors
    /// One of them cannot be made durable; none of the rest is known to be.
    pub fn finish(&mut self) -> Result<()> {
        let mut dirs = std::mem::take(&mut self.dirs).into_iter().peekable();
        loop {
            while self.waiting.len() < MOST
                && let Some(dir) = dirs.next()
            {
                self.waiting.push((open_dir(&dir)?, dir));
            }
            sync(&std::mem::take(&mut self.waiting))?;
            if dirs.peek().is_none() {
                return Ok(());
            }
        }
    }
}

fn sync(files: &[(File, PathBuf)]) -> Result<()> {
    let at_once = files.len() >= MANY && sync_at_once(files).unwrap_or(false);
    for (file, path) in files {
        let synced = if at_once { system::written_out(file) } else { file.sync_all() };
        match synced {
            // File systems that cannot fsync a directory are content to say so.
            Err(error) if is_unsupported(&error) && is_dir(file) => {}
            synced => synced.map_err(|error| Error::io("cannot sync", path, error))?,
        }
    }
    Ok(())
}

/// Whether one call has made all of them durable.
fn sync_at_once(files: &[(File, PathBuf)]) -> io::Result<bool> {
    let device = |(file, _): &(File, PathBuf)| file.metadata().map(|found| found.dev());
    let first = device(&files[0])?;
    for file in files {
        if device(file)? != first {
            return Ok(false);
        }
    }
    system::sync_file_system(&files[0].0)
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported)
}

fn is_dir(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_become_durable_on_any_file_system() {
        for top in ["/dev/shm", "/var/tmp"] {
            let dir = tempfile::tempdir_in(top).unwrap();
            let mut together = Together::default();
            let mut add = |number: usize| {
                let folder = dir.path().join(format!("a/{number}"));
                together.create_dirs(&folder, 0o700).unwrap();
                let path = folder.join("file");
                together.add(File::create(&path).unwrap(), &path).unwrap()
            };
            let done: Vec<usize> = (1..=MOST + MANY).filter(|number| add(*number)).collect();
            assert_eq!(done, [MOST], "no more are held open");
            together.finish_with([dir.path().to_path_buf()]).unwrap();
            let missing = Together::default().finish_with([dir.path().join("none")]);
            assert!(missing.unwrap_err().to_string().contains("none"));
        }
    }
}
