//! The program's calls that name a file, with what the shim's hooks do about them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use scr_abi::open_mode;
use scr_core::session::{Answer, Note, Session};

use super::door::Files;
use crate::mortal;

/// As many as the kernel follows.
const LINKS_MAX: usize = 40;

fn error(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

impl Files {
    /// The name that the session knows: symbolic links in it are followed, but for the last part,
    /// and those that are names of checkpoint directories themselves.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.whole(&self.here.join(name))
    }

    fn whole(&self, path: &Path) -> PathBuf {
        let (Some(folder), Some(last)) = (path.parent(), path.file_name()) else {
            return path.to_path_buf();
        };
        let session = self.session();
        let aliases = session.iter().flat_map(|session| session.stores.aliases());
        let named = |folder: &Path| aliases.clone().any(|it| self.here.join(&it.name) == folder);
        if folder.ancestors().any(named) {
            return path.to_path_buf();
        }
        folder.canonicalize().map_or_else(|_| path.to_path_buf(), |folder| folder.join(last))
    }

    /// Asks about what a name leads to; and where that is.
    pub(super) fn ask_following(
        &self,
        name: &str,
        question: impl Fn(&Session, &Path) -> Answer,
    ) -> (PathBuf, Answer) {
        let mut path = self.path(name);
        for _ in 0..LINKS_MAX {
            let answer = self.ask(|session| question(session, &path));
            let passes = matches!(answer, Answer::Pass { token: 0 } | Answer::Foreign);
            match fs::read_link(&path) {
                Ok(target) if passes => path = self.whole(&path.with_file_name("").join(target)),
                _ => return (path, answer),
            }
        }
        (path, Answer::Fail(libc::ELOOP))
    }

    /// Makes a call again that finds nothing while names change.
    pub(super) fn settled<T>(&self, call: impl Fn() -> io::Result<T>) -> io::Result<T> {
        let session = self.session();
        let turns = || session.as_ref().map_or(0, |one| one.node.turns().load(Ordering::SeqCst));
        loop {
            let (before, result) = (turns(), call());
            let found = !matches!(&result, Err(one) if one.kind() == io::ErrorKind::NotFound);
            if found || turns() == before {
                return result;
            }
        }
    }

    /// What the cache has under the name itself.
    fn lookup(&self, path: &Path) -> Answer {
        self.ask(|session| session.names.lookup(path))
    }

    fn note(&self, note: Note<'_>) {
        if let Some(session) = self.session() {
            session.note(note);
        }
    }

    fn done(
        &self,
        answer: Answer,
        path: &Path,
        call: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<()> {
        match answer {
            Answer::Done => Ok(()),
            Answer::Fail(errno) => Err(error(errno)),
            Answer::Redirect { path, .. } => mortal::program(|| call(&path)),
            _ => mortal::program(|| call(path)),
        }
    }

    /// stat(2): the size.
    pub fn size(&self, name: &str) -> io::Result<u64> {
        self.settled(|| {
            match self.ask_following(name, |session, path| session.names.lookup(path)) {
                (_, Answer::Redirect { path, .. }) => path.metadata().map(|found| found.len()),
                (_, Answer::Known(known)) => Ok(known.size),
                (_, Answer::Fail(errno)) => Err(error(errno)),
                (path, _) => path.metadata().map(|found| found.len()),
            }
        })
    }

    /// access(2).
    pub fn exists(&self, name: &str) -> bool {
        self.size(name).is_ok()
    }

    pub fn mkdir(&self, name: &str) -> io::Result<()> {
        let path = self.path(name);
        let found = self.lookup(&path);
        match found {
            Answer::Fail(libc::ENOENT) => self.note(Note::Make(&path)),
            Answer::Redirect { .. } | Answer::Known(_) => return Err(error(libc::EEXIST)),
            _ => {}
        }
        let made = mortal::program(|| fs::create_dir(&path));
        let taken = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
        // One that is there for files that the program does not see is as good as new.
        let unseen = || matches!(self.lookup(&path), Answer::Fail(libc::ENOENT)) && path.is_dir();
        match made {
            Err(error) if !(taken(&error) && unseen()) => return Err(error),
            _ => self.note(Note::Mkdir(&path)),
        }
        Ok(())
    }

    /// The same if it is not there.
    pub fn make_dir(&self, name: &str) -> io::Result<()> {
        match self.mkdir(name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    pub fn rmdir(&self, name: &str) -> io::Result<()> {
        let path = self.path(name);
        if matches!(self.lookup(&path), Answer::Redirect { .. } | Answer::Known(_)) {
            return Err(error(libc::ENOTDIR));
        }
        self.done(self.ask(|session| session.names.rmdir(&path)), &path, |path| {
            fs::remove_dir(path)
        })
    }

    pub fn unlink(&self, name: &str) -> io::Result<()> {
        let path = self.path(name);
        let ask = || self.ask(|session| session.names.unlink(&path));
        self.settled(|| self.done(ask(), &path, |path| fs::remove_file(path)))
    }

    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.path(from), self.path(to));
        let ask = || self.ask(|session| session.names.rename(&from, &to));
        self.settled(|| self.done(ask(), &from, |from| fs::rename(from, &to)))
    }

    /// What comes before MPI_File_open on a communicator of these ranks.
    pub fn open_together(&self, name: &str, ranks: &[usize]) {
        if let Some(session) = self.session() {
            session.names.shared_open(&self.path(name), ranks, open_mode::CREATE);
        }
    }

    /// link(2).
    pub fn link(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.path(from), self.path(to));
        let answer = self.ask(|session| session.names.link(&from, &to, false));
        self.done(answer, &from, |from| fs::hard_link(from, &to))
    }

    pub fn symlink(&self, target: &str, name: &str) -> io::Result<()> {
        let path = self.path(name);
        if matches!(self.lookup(&path), Answer::Redirect { .. } | Answer::Known(_)) {
            return Err(error(libc::EEXIST));
        }
        let answer = self.ask(|session| session.names.link(Path::new(target), &path, true));
        self.done(answer, &path, |path| symlink(target, path))
    }

    pub fn readlink(&self, name: &str) -> io::Result<String> {
        let path = self.path(name);
        let path = match self.lookup(&path) {
            Answer::Redirect { path, .. } => path,
            Answer::Fail(errno) => return Err(error(errno)),
            Answer::Known(_) => return Err(error(libc::EINVAL)),
            _ => path,
        };
        Ok(fs::read_link(path)?.to_string_lossy().into_owned())
    }

    /// Names in a directory, as the program sees them.
    pub fn names(&self, name: &str) -> io::Result<BTreeSet<String>> {
        let path = match self.ask_following(name, |session, path| session.names.lookup(path)) {
            (_, Answer::Redirect { .. } | Answer::Known(_)) => return Err(error(libc::ENOTDIR)),
            (_, Answer::Fail(errno)) => return Err(error(errno)),
            (path, _) => path,
        };
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(&path)? {
            names.insert(entry?.file_name().to_string_lossy().into_owned());
        }
        for entry in self.session().iter().flat_map(|session| session.names.list(&path)) {
            match entry.hide {
                true => drop(names.remove(&entry.name)),
                false => drop(names.insert(entry.name)),
            }
        }
        Ok(names)
    }

    /// The same; of a directory that is not there, none.
    pub fn list(&self, name: &str) -> BTreeSet<String> {
        self.names(name).unwrap_or_default()
    }
}
