//! The door of a program in this process: it does what the shim does with the session's answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use scr_core::log::{Voice, speak_as};
use scr_core::session::{Answer, Door, Host, Session};

use crate::mortal::{self, Life};

/// What ends a rank whose session ends the process.
pub struct Ended;

/// The host of one rank.
pub struct Files {
    life: Arc<Life>,
    voice: Arc<Voice>,
    session: OnceLock<Weak<Session>>,
    open: Mutex<BTreeMap<u64, Arc<Mutex<File>>>>,
}

impl Host for Files {
    fn door(&self) -> Door {
        Door::Files
    }

    fn end_process(&self, status: i32) -> ! {
        self.end_at_once(status)
    }

    fn end_at_once(&self, _status: i32) -> ! {
        self.life.end();
        std::panic::panic_any(Ended)
    }

    fn enter_thread(&self) {
        self.life.enter();
        speak_as(Some(self.voice.clone()));
    }

    fn wake(&self, token: u64) {
        self.replace(token, 0);
    }

    fn move_out(&self, token: u64) {
        self.replace(token, 0);
    }
}

impl Files {
    pub fn new(life: Arc<Life>, voice: Arc<Voice>) -> Arc<Files> {
        Arc::new(Files { life, voice, session: OnceLock::new(), open: Mutex::default() })
    }

    /// Whom it opens for.
    pub fn serve(&self, session: &Arc<Session>) {
        assert!(self.session.set(Arc::downgrade(session)).is_ok());
    }

    /// Nothing that the rank does has an effect any more.
    pub fn is_dead(&self) -> bool {
        self.life.is_dead()
    }

    fn session(&self) -> Arc<Session> {
        self.session.get().and_then(Weak::upgrade).unwrap()
    }

    /// The descriptor of `token` becomes the one that the session gives for it.
    fn replace(&self, token: u64, errno: i32) -> bool {
        let Some(file) = self.open.lock().unwrap().get(&token).cloned() else { return false };
        let mut file = file.lock().unwrap();
        let new = self.session().evacuate(token, file.as_raw_fd(), errno);
        if new < 0 {
            return false;
        }
        // SAFETY: the session has opened it for us.
        *file = unsafe { File::from_raw_fd(new) };
        true
    }

    fn path(&self, name: &str) -> PathBuf {
        self.session().prefix().join(name)
    }

    /// The program's open(2).
    pub fn open(&self, name: &str, flags: i32) -> io::Result<Open<'_>> {
        let session = self.session();
        let path = self.path(name);
        loop {
            let (there, token) = match session.open(&path, flags, 0o644) {
                Answer::Redirect { path, token } => (path, token),
                Answer::Pass { token } => (path.clone(), token),
                Answer::Foreign => (path.clone(), 0),
                Answer::Fail(errno) => return Err(io::Error::from_raw_os_error(errno)),
                other => panic!("{name}: {other:?}"),
            };
            let opened = mortal::program(|| real_open(&there, flags));
            let Ok(file) = opened.as_ref() else {
                let error = opened.unwrap_err();
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                if token != 0 && !session.opened(token, -1, errno) {
                    continue;
                }
                return Err(error);
            };
            let descriptor = file.as_raw_fd();
            let file = Arc::new(Mutex::new(opened?));
            if token != 0 {
                self.open.lock().unwrap().insert(token, file.clone());
                if !session.opened(token, descriptor, 0) {
                    self.replace(token, 0);
                }
            }
            return Ok(Open { door: self, token, file });
        }
    }

    /// Writes a file from its begin, in pieces.
    pub fn write_file(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = self.open(name, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC)?;
        for piece in bytes.chunks(bytes.len().div_ceil(2).max(1)) {
            file.write(piece)?;
        }
        file.close()
    }

    pub fn read_file(&self, name: &str) -> io::Result<Vec<u8>> {
        let file = self.open(name, libc::O_RDONLY)?;
        let mut bytes = Vec::new();
        file.file.lock().unwrap().read_to_end(&mut bytes)?;
        file.close()?;
        Ok(bytes)
    }

    pub fn make_dir(&self, name: &str) -> io::Result<()> {
        match mortal::program(|| fs::create_dir(self.path(name))) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => {
                let path = self.path(name);
                self.session().note(scr_core::session::Note::Mkdir(&path));
                Ok(())
            }
        }
    }

    pub fn unlink(&self, name: &str) -> io::Result<()> {
        let path = self.path(name);
        self.done(self.session().unlink(&path), &path, |path| fs::remove_file(path))
    }

    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.path(from), self.path(to));
        self.done(self.session().rename(&from, &to), &from, |from| fs::rename(from, &to))
    }

    fn done(
        &self,
        answer: Answer,
        path: &Path,
        call: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<()> {
        match answer {
            Answer::Done => Ok(()),
            Answer::Fail(errno) => Err(io::Error::from_raw_os_error(errno)),
            Answer::Redirect { path, .. } => mortal::program(|| call(&path)),
            _ => mortal::program(|| call(path)),
        }
    }

    /// Names in a directory, as the program sees them.
    pub fn list(&self, name: &str) -> BTreeSet<String> {
        let path = self.path(name);
        let real = fs::read_dir(&path).into_iter().flatten().flatten();
        let mut names: BTreeSet<String> =
            real.map(|entry| entry.file_name().into_string().unwrap()).collect();
        for entry in self.session().list(&path) {
            match entry.hide {
                true => drop(names.remove(&entry.name)),
                false => drop(names.insert(entry.name)),
            }
        }
        names
    }
}

fn real_open(path: &Path, flags: i32) -> io::Result<File> {
    let access = flags & libc::O_ACCMODE;
    OpenOptions::new()
        .read(access != libc::O_WRONLY)
        .write(access != libc::O_RDONLY)
        .create(flags & libc::O_CREAT != 0 && access != libc::O_RDONLY)
        .truncate(flags & libc::O_TRUNC != 0)
        .custom_flags(flags & libc::O_APPEND)
        .mode(0o644)
        .open(path)
}

/// An open file of the program.
pub struct Open<'a> {
    door: &'a Files,
    token: u64,
    file: Arc<Mutex<File>>,
}

impl Open<'_> {
    /// The program's write(2); a store that fails is no reason to fail.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut left = bytes;
        while !left.is_empty() {
            let wrote = mortal::program(|| self.file.lock().unwrap().write(left));
            match wrote {
                Ok(count) => left = &left[count..],
                Err(error) => {
                    let errno = error.raw_os_error().unwrap_or(libc::EIO);
                    if self.token == 0 || !self.door.replace(self.token, errno) {
                        if self.token != 0 {
                            self.door.session().failed(self.token, errno);
                        }
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// The program's close(2).
    pub fn close(self) -> io::Result<()> {
        let Open { door, token, file } = self;
        if token != 0 {
            door.open.lock().unwrap().remove(&token);
        }
        drop(file);
        match token == 0 || door.session().closed(token) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::EIO)),
        }
    }
}
