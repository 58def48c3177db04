//! The door of a program in this process: it does what the shim does with the session's answers.
//! Files that it opens are here, calls that name them in `paths.rs`.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use scr_abi::BARRIERS_CARRY;
use scr_abi::accesses::{Access, Deed, Moment, Within, trait_bit};
use scr_abi::change::{CHANGES, EMPTIES};
use scr_core::files::Crc32;
use scr_core::log::{Voice, speak_as};
use scr_core::session::{Answer, Door, Host, Note, Session, TOKEN_LAZY};

use crate::mortal::{self, Life};

/// What ends a rank whose session ends the process.
pub struct Ended;

/// The host of one rank.
pub struct Files {
    life: Arc<Life>,
    voice: Arc<Voice>,
    /// The working directory of the program.
    pub(super) here: PathBuf,
    session: OnceLock<Weak<Session>>,
    open: Mutex<BTreeMap<u64, Arc<Held>>>,
    status: OnceLock<i32>,
    /// What threads that encode do first, and what the rank does before it waits for one.
    encoders: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
    waits: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
}

/// What descriptors of one open lead to.
struct Held {
    file: Mutex<File>,
    /// It must not change: it is replaced before the first write.
    lazy: AtomicBool,
    /// What was written from its start on, in order, while that is known.
    course: Mutex<Option<(u64, Crc32)>>,
}

impl Held {
    fn identity(&self) -> Option<(u64, u64)> {
        self.file.lock().unwrap().metadata().ok().map(|found| (found.dev(), found.ino()))
    }
}

impl Host for Files {
    fn door(&self) -> Door {
        Door::Files
    }

    fn end_process(&self, status: i32) -> ! {
        self.end_at_once(status)
    }

    fn end_at_once(&self, status: i32) -> ! {
        let _ = self.status.set(status);
        self.life.end();
        std::panic::resume_unwind(Box::new(Ended))
    }

    fn enter_thread(&self) {
        self.life.enter();
        speak_as(Some(self.voice.clone()));
        if std::thread::current().name() == Some("scr-encoder") {
            let first = self.encoders.lock().unwrap().clone();
            first.iter().for_each(|first| first());
        }
    }

    fn step_out(&self) -> u32 {
        let waits = self.waits.lock().unwrap().clone();
        waits.iter().for_each(|waits| waits());
        0
    }

    fn wake(&self, token: u64) {
        self.wake_to(token, CHANGES);
    }

    fn move_out(&self, token: u64) {
        self.alike(token, false).into_iter().for_each(|token| {
            let _ = self.replace(token, 0);
        });
    }
}

impl Files {
    pub fn new(life: Arc<Life>, here: &Path) -> Arc<Files> {
        Arc::new(Files {
            life,
            voice: Arc::new(Voice::new()),
            here: here.to_path_buf(),
            session: OnceLock::new(),
            open: Mutex::default(),
            status: OnceLock::new(),
            encoders: Mutex::default(),
            waits: Mutex::default(),
        })
    }

    /// Threads that encode do this first, before anything that lasts.
    pub fn let_encoders(&self, first: impl Fn() + Send + Sync + 'static) {
        *self.encoders.lock().unwrap() = Some(Arc::new(first));
    }

    /// The rank does this before it waits for one of them.
    pub fn before_waiting(&self, act: impl Fn() + Send + Sync + 'static) {
        *self.waits.lock().unwrap() = Some(Arc::new(act));
    }

    /// Whom it opens for.
    pub fn serve(&self, session: &Arc<Session>) {
        assert!(self.session.set(Arc::downgrade(session)).is_ok());
    }

    /// The process is gone: so are its threads.
    pub fn leave(&self) {
        if let Some(session) = self.session() {
            session.note(Note::Finalized);
        }
    }

    /// Nothing that the rank does has an effect any more.
    pub fn is_dead(&self) -> bool {
        self.life.is_dead()
    }

    /// With what the session has ended the rank.
    pub fn status(&self) -> Option<i32> {
        self.status.get().copied()
    }

    pub(super) fn session(&self) -> Option<Arc<Session>> {
        self.session.get().and_then(Weak::upgrade)
    }

    /// What the session says, if there is one.
    pub(super) fn ask(&self, question: impl FnOnce(&Session) -> Answer) -> Answer {
        self.session().map_or(Answer::PASS, |session| question(&session))
    }

    /// Another descriptor is open on a file.
    fn end_courses(&self, held: &Held) {
        let open: Vec<_> = self.open.lock().unwrap().values().cloned().collect();
        let identity = held.identity();
        for one in open.iter().filter(|one| one.identity() == identity) {
            *one.course.lock().unwrap() = None;
            *held.course.lock().unwrap() = None;
        }
    }

    fn held(&self, token: u64) -> Option<Arc<Held>> {
        self.open.lock().unwrap().get(&token).cloned()
    }

    /// The tokens that are open on the same file, this one among them.
    fn alike(&self, token: u64, lazy: bool) -> Vec<u64> {
        let Some(identity) = self.held(token).map(|held| held.identity()) else {
            return Vec::new();
        };
        let open: Vec<_> = self.open.lock().unwrap().clone().into_iter().collect();
        let same = |held: &Held| {
            held.identity() == identity && (!lazy || held.lazy.load(Ordering::SeqCst))
        };
        open.into_iter().filter(|(_, held)| same(held)).map(|(token, _)| token).collect()
    }

    /// What reads a file that must not change gets one that may, before that `change`.
    fn wake_to(&self, token: u64, change: i32) {
        self.alike(token, true).into_iter().for_each(|token| {
            let _ = self.replace(token, change);
        });
    }

    /// The descriptor of `token` becomes the one that the session gives for it.
    fn replace(&self, token: u64, errno: i32) -> bool {
        let (Some(held), Some(session)) = (self.held(token), self.session()) else { return false };
        // Not locked: while this waits for others, another thread may have to move the file.
        let Ok(file) = held.file.lock().unwrap().try_clone() else { return false };
        let new = session.names.evacuate(token, file.as_raw_fd(), errno);
        if new < 0 {
            return false;
        }
        held.lazy.store(false, Ordering::SeqCst);
        *held.course.lock().unwrap() = None;
        // SAFETY: the session has opened it for us.
        *held.file.lock().unwrap() = unsafe { File::from_raw_fd(new) };
        true
    }

    /// The program's open(2).
    pub fn open(&self, name: &str, flags: i32) -> io::Result<Open<'_>> {
        self.settled(|| self.open_now(name, flags))
    }

    fn open_now(&self, name: &str, flags: i32) -> io::Result<Open<'_>> {
        loop {
            let (path, answer) =
                self.ask_following(name, |session, path| session.names.open(path, flags));
            let (there, token) = match answer {
                Answer::Redirect { path, token } => (path, token),
                Answer::Pass { token } => (path, token),
                Answer::Foreign => (path, 0),
                Answer::Fail(errno) => return Err(io::Error::from_raw_os_error(errno)),
                other => panic!("{name}: {other:?}"),
            };
            let opened = mortal::program(|| real_open(&there, flags));
            let Ok(file) = opened.as_ref() else {
                let error = opened.unwrap_err();
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                if token != 0
                    && self.session().is_some_and(|one| !one.handles.opened(token, -1, errno))
                {
                    continue;
                }
                return Err(error);
            };
            let descriptor = file.as_raw_fd();
            let is_new = flags & libc::O_TRUNC != 0 || file.metadata()?.len() == 0;
            let held = Arc::new(Held {
                file: Mutex::new(opened?),
                lazy: AtomicBool::new(token & TOKEN_LAZY != 0),
                course: Mutex::new(is_new.then(|| (0, Crc32::new()))),
            });
            if token != 0 {
                self.end_courses(&held);
                self.open.lock().unwrap().insert(token, held.clone());
                if self.session().is_some_and(|one| !one.handles.opened(token, descriptor, 0)) {
                    self.replace(token, 0);
                }
            }
            return Ok(Open { door: self, token, held });
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

    /// Writes behind what the file has.
    pub fn append(&self, name: &str, text: &str) -> io::Result<()> {
        let file = self.open(name, libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND)?;
        file.write(text.as_bytes())?;
        file.close()
    }

    pub fn read_file(&self, name: &str) -> io::Result<Vec<u8>> {
        let file = self.open(name, libc::O_RDONLY)?;
        if let Some(session) = file.parted() {
            file.leave_unless(session.handles.has(file.token, 0, u64::MAX))?;
        }
        let mut bytes = Vec::new();
        file.held.file.lock().unwrap().read_to_end(&mut bytes)?;
        file.close()?;
        Ok(bytes)
    }

    /// The file as text; `None` if it cannot be read.
    pub fn text(&self, name: &str) -> Option<String> {
        self.read_file(name).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn real_open(path: &Path, flags: i32) -> io::Result<File> {
    let access = flags & libc::O_ACCMODE;
    let creates = flags & libc::O_CREAT != 0 && access != libc::O_RDONLY;
    OpenOptions::new()
        .read(access != libc::O_WRONLY)
        .write(access != libc::O_RDONLY)
        .create(creates)
        .create_new(creates && flags & libc::O_EXCL != 0)
        .truncate(flags & libc::O_TRUNC != 0)
        .custom_flags(flags & libc::O_APPEND)
        .mode(0o644)
        .open(path)
}

/// An open file of the program.
pub struct Open<'a> {
    door: &'a Files,
    token: u64,
    held: Arc<Held>,
}

impl Open<'_> {
    fn before(&self, change: i32) {
        if self.held.lazy.load(Ordering::SeqCst) {
            self.door.wake_to(self.token, change);
        }
    }

    /// Before the first change, and after an error: the call is made again where it may succeed.
    fn changing(&self, call: impl Fn(&mut File) -> io::Result<()>) -> io::Result<()> {
        self.before(CHANGES);
        loop {
            let Err(error) = mortal::program(|| call(&mut self.held.file.lock().unwrap())) else {
                return Ok(());
            };
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            if self.token == 0 || !self.door.replace(self.token, errno) {
                if let Some(session) = self.door.session().filter(|_| self.token != 0) {
                    session.handles.failed(self.token, errno);
                }
                return Err(error);
            }
        }
    }

    /// The program's write(2); a store that fails is no reason to fail.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let done = std::cell::Cell::new(0);
        self.changing(|file| {
            while done.get() < bytes.len() {
                done.set(done.get() + file.write(&bytes[done.get()..])?);
            }
            Ok(())
        })?;
        if let Some((length, crc32)) = &mut *self.held.course.lock().unwrap() {
            *length += bytes.len() as u64;
            crc32.update(bytes);
        }
        let end = self.held.file.lock().unwrap().stream_position()?;
        self.log(Deed::Write, end - bytes.len() as u64, end);
        Ok(())
    }

    /// The program's pwrite(2).
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        *self.held.course.lock().unwrap() = None;
        self.changing(|file| file.write_all_at(bytes, offset))?;
        self.log(Deed::Write, offset, offset + bytes.len() as u64);
        Ok(())
    }

    /// As the shim does for files that are logged.
    fn log(&self, deed: Deed, start: u64, end: u64) {
        let Some(session) = self.door.session().filter(|_| self.token != 0) else { return };
        let Some(log) = session.handles.log(self.token) else { return };
        let left = session.conference.idle_points().load(Ordering::SeqCst) & !BARRIERS_CARRY;
        let points = session.conference.points().load(Ordering::SeqCst) - u64::from(left);
        let stamp = Moment { points, round: session.handles.round().load(Ordering::SeqCst) };
        log.add(Access { deed, within: Within::Nothing, stamp, start, end });
    }

    /// The program's pread(2), of all that is asked for.
    pub fn read_at(&self, bytes: usize, offset: u64) -> io::Result<Vec<u8>> {
        let end = offset + bytes as u64;
        if let Some(session) = self.parted() {
            self.leave_unless(session.handles.has(self.token, offset, end))?;
        }
        let mut found = vec![0; bytes];
        self.held.file.lock().unwrap().read_exact_at(&mut found, offset)?;
        self.log(Deed::Read, offset, end);
        Ok(found)
    }

    /// The program's fstat(2): how long the file is.
    pub fn size(&self) -> io::Result<u64> {
        let known = self.parted().map(|session| {
            let size = session.handles.whole_size(self.token);
            self.leave_unless(size.is_some() || session.handles.has(self.token, 0, u64::MAX))?;
            io::Result::Ok(size)
        });
        let known = known.transpose()?.flatten();
        let here = self.held.file.lock().unwrap().metadata()?.len();
        let size = known.unwrap_or(here);
        self.log(Deed::Size, 0, size);
        Ok(size)
    }

    /// Whether what is read is what this node has of the file.
    pub fn is_parted(&self) -> bool {
        self.parted().is_some()
    }

    /// The session, if this node has only a part of the file.
    fn parted(&self) -> Option<Arc<Session>> {
        let session = self.door.session().filter(|_| self.token != 0)?;
        let log = session.handles.log(self.token)?;
        (log.traits() & trait_bit::PARTED != 0).then_some(session)
    }

    /// The file moves to the prefix, where it is whole, if the call needs more than its part.
    fn leave_unless(&self, is_fine: bool) -> io::Result<()> {
        match is_fine || self.door.replace(self.token, 0) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::EIO)),
        }
    }

    /// The program's ftruncate(2).
    pub fn set_size(&self, bytes: u64) -> io::Result<()> {
        *self.held.course.lock().unwrap() = None;
        self.before(if bytes == 0 { EMPTIES } else { CHANGES });
        self.changing(|file| file.set_len(bytes))?;
        self.log(Deed::Cut, 0, bytes);
        Ok(())
    }

    /// The program's close(2).
    pub fn close(self) -> io::Result<()> {
        let Open { door, token, held } = self;
        let course = held.course.lock().unwrap().clone();
        if let (Some((length, crc32)), Some(session)) = (course, door.session()) {
            let fd = held.file.lock().unwrap().as_raw_fd();
            session.handles.written(token, fd, length, crc32.value());
        }
        if token != 0 {
            door.open.lock().unwrap().remove(&token);
        }
        drop(held);
        match token == 0 || door.session().is_none_or(|session| session.handles.closed(token)) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::EIO)),
        }
    }
}
