//! Processes that this rank has started, and forked ones, see what it sees: their shim asks here
//! (`preload/src/child/mod.rs`), and a thread answers as the engine would answer the rank itself.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use scr_abi::wire::{self, Question, Reply, Request};

use super::counter::ChildrenSocket;
use crate::log;
use crate::namespace::{Answer, Entry};
use crate::session::{Session, door::hooked::Note};
use crate::system::{block_signals, identity, peer, raise, random_u64, user_id};

/// A child asks as soon as it is connected, unless it is stopped in between.
const PATIENCE: Duration = Duration::from_secs(1);

/// Pause when no connection can be taken, for want of descriptors.
const PAUSE: Duration = Duration::from_millis(10);

impl Session {
    /// Returns the name of the abstract socket at which children ask.
    pub fn address(&self) -> Option<&str> {
        self.counter.0.get().map(|door| door.address.as_str())
    }

    /// Starts the thread. It lives as long as the process, so the session must, too.
    pub fn serve_children(&'static self) {
        let rank = self.rank.site.rank;
        let start = || -> io::Result<()> {
            let address = format!("scr-{:016x}{:016x}", random_u64(), random_u64());
            let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&address)?)?;
            let listener = UnixListener::from(raise(listener.into()));
            let (fd, socket) = (listener.as_raw_fd(), identity(listener.as_raw_fd()));
            let body = move || {
                block_signals();
                self.rank.site.host.enter_thread();
                self.serve_all(listener);
            };
            std::thread::Builder::new().name("scr-children".to_string()).spawn(body)?;
            drop(self.counter.0.set(ChildrenSocket { address, fd, socket }));
            Ok(())
        };
        if let Err(error) = start() {
            log::message(1, format_args!("rank {rank}: its children see no cached files: {error}"));
        }
    }

    fn serve_all(&'static self, listener: UnixListener) {
        loop {
            match listener.accept() {
                Ok((stream, _)) => self.serve(UnixStream::from(raise(stream.into()))),
                Err(error) if is_gone(&error) => break,
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
        // The program has closed it, and the number may be that of a file of its own.
        std::mem::forget(listener);
    }

    /// Answers one question. One that may take long, since a file has to be copied or is on another
    /// node, does not hold up the others.
    fn serve(&'static self, mut stream: UnixStream) {
        let question = || -> io::Result<(Vec<u8>, i32)> {
            let (user, child) = peer(&stream)?;
            if user != user_id() {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            let question = wire::receive(&mut &stream)?;
            // Left by a child that did not wait until this process went on, and has acted itself.
            stream.set_nonblocking(true)?;
            let gone = matches!((&stream).read(&mut [0]), Ok(0));
            stream.set_nonblocking(false)?;
            if gone { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok((question, child)) }
        };
        let Ok((question, child)) = question() else { return };
        let Some(question) = Question::from_bytes(&question) else { return };
        let is_remote = || matches!(self.names.lookup(path_of(&question.path)), Answer::Known(_));
        let waits = match question.what {
            Request::Open => true,
            Request::Lookup => question.flags != 0,
            _ => false,
        };
        let is_long = question.may_change() || (waits && is_remote());
        if !is_long {
            drop(wire::send(&mut stream, &self.reply(&question, child).to_bytes()));
            return;
        }
        let body = move || {
            block_signals();
            self.rank.site.host.enter_thread();
            drop(wire::send(&mut stream, &self.reply(&question, child).to_bytes()));
        };
        drop(std::thread::Builder::new().name("scr-child".to_string()).spawn(body));
    }

    fn reply(&self, question: &Question, child: i32) -> Reply {
        let (path, other) = (path_of(&question.path), path_of(&question.other));
        let answer = match question.what {
            Request::Open => self.names.open_by_child(path, question.flags, child),
            Request::Lookup if question.flags != 0 => self.names.stat_by_child(path),
            Request::Lookup => self.names.lookup(path),
            Request::Change => self.names.open_by_child(path, libc::O_WRONLY, child),
            Request::Unlink => self.names.unlink(path),
            Request::Rename => self.names.rename(path, other),
            Request::Link => self.names.link(path, other, question.flags != 0),
            Request::Rmdir => self.names.rmdir(path),
            Request::Made => {
                self.note(Note::Mkdir(path));
                Answer::Done
            }
            Request::Make => {
                self.note(Note::Make(path));
                Answer::Done
            }
            Request::List => {
                return Reply::Entries(self.names.list(path).into_iter().map(entry).collect());
            }
        };
        reply_of(answer)
    }
}

/// The descriptor is closed, or another one.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBADF | libc::ENOTSOCK | libc::EINVAL))
}

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn entry(entry: Entry) -> wire::Entry {
    let Entry { name, ino, is_dir, hide } = entry;
    wire::Entry { name: name.into_bytes(), ino, is_dir, hide }
}

/// A child has no tokens, and nobody tells it when a name is foreign no more.
fn reply_of(answer: Answer) -> Reply {
    match answer {
        Answer::Pass { .. } | Answer::Foreign => Reply::Pass,
        Answer::Redirect { path, .. } => Reply::At(path.into_os_string().into_vec()),
        Answer::Fail(code) => Reply::Fail(code),
        Answer::Done => Reply::Done,
        Answer::Known(known) => Reply::Known(known),
    }
}
