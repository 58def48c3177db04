//! One question to a rank: a connection of its own, and a deadline. The kernel takes connections
//! for a process that is stopped (a debugger that a crash handler has started stops it, and then
//! opens files itself), so whoever waits looks at the rank now and then.

use std::ffi::{c_char, c_void};
use std::io::{self, ErrorKind, Read, Write};
use std::mem::offset_of;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use scr_abi::wire;

/// A rank does not wait as long for a file of another node of which nothing comes.
const PATIENCE: Duration = Duration::from_secs(90);

const LOOK: Duration = Duration::from_millis(200);

/// One that is traced stops at each of its calls.
const LOOKS: u32 = 5;

const PAUSE: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InquiryFailure {
    Gone,
    /// Nothing was asked: no connection, or one to somebody else.
    Unreached,
    Stopped,
    Late,
    /// The connection ended before, or there is no descriptor for it.
    Cut,
}

pub(crate) fn ask(address: &[u8], question: &[u8]) -> Result<Vec<u8>, InquiryFailure> {
    let deadline = Instant::now() + PATIENCE;
    let stream = connect(address, deadline)?;
    // Whoever took the name of a rank that has gone is not believed.
    let rank = peer(&stream).ok_or(InquiryFailure::Unreached)?;
    let mut line = Connection { stream, rank, deadline, why: InquiryFailure::Cut };
    let answer = wire::send(&mut line, question).and_then(|()| wire::receive(&mut line));
    answer.map_err(|_| line.why)
}

fn connect(address: &[u8], deadline: Instant) -> Result<UnixStream, InquiryFailure> {
    let family = libc::AF_UNIX as libc::sa_family_t;
    let mut name = libc::sockaddr_un { sun_family: family, sun_path: [0; 108] };
    if address.len() >= name.sun_path.len() {
        return Err(InquiryFailure::Unreached);
    }
    for (to, from) in name.sun_path[1..].iter_mut().zip(address) {
        *to = *from as c_char;
    }
    let length = offset_of!(libc::sockaddr_un, sun_path) + 1 + address.len();
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: a system call on numbers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    if fd < 0 {
        // Where sockets are forbidden nothing can be asked; where they are used up, it should be.
        let used_up = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS];
        let code = io::Error::last_os_error().raw_os_error().unwrap_or(0);
        return Err(if used_up.contains(&code) {
            InquiryFailure::Cut
        } else {
            InquiryFailure::Unreached
        });
    }
    // SAFETY: made just now, and nobody else's.
    let stream = unsafe { UnixStream::from_raw_fd(fd) };
    loop {
        // SAFETY: the address is readable for its length, which fits.
        let done =
            unsafe { libc::connect(fd, (&raw const name).cast(), length as libc::socklen_t) };
        if done == 0 {
            return Ok(stream);
        }
        match io::Error::last_os_error().kind() {
            ErrorKind::Interrupted => {}
            ErrorKind::ConnectionRefused => return Err(InquiryFailure::Gone),
            ErrorKind::WouldBlock if Instant::now() < deadline => std::thread::sleep(PAUSE),
            ErrorKind::WouldBlock => return Err(InquiryFailure::Late),
            _ => return Err(InquiryFailure::Unreached),
        }
    }
}

/// The process is told only if it is this user's.
fn peer(stream: &UnixStream) -> Option<libc::pid_t> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the structure and its size are writable, the descriptor is open.
    let is_ours = unsafe {
        let (to, fd) = ((&raw mut peer).cast::<c_void>(), stream.as_raw_fd());
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, to, &raw mut length) == 0
            && peer.uid == libc::geteuid()
    };
    is_ours.then_some(peer.pid)
}

/// No signal comes when its other end goes, and none makes a wait longer.
struct Connection {
    stream: UnixStream,
    rank: libc::pid_t,
    deadline: Instant,
    why: InquiryFailure,
}

impl Connection {
    fn wait_for(&mut self, events: libc::c_short) -> io::Result<()> {
        let mut stopped = 0;
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return self.give_up(InquiryFailure::Late);
            }
            let mut on = libc::pollfd { fd: self.stream.as_raw_fd(), events, revents: 0 };
            let wait = left.min(LOOK).as_millis() as libc::c_int + 1;
            // SAFETY: one structure, which is writable.
            match unsafe { libc::poll(&raw mut on, 1, wait) } {
                0 => {
                    stopped = if is_stopped(self.rank) { stopped + 1 } else { 0 };
                    if stopped == LOOKS {
                        return self.give_up(InquiryFailure::Stopped);
                    }
                }
                -1 if io::Error::last_os_error().kind() != ErrorKind::Interrupted => {
                    return Err(io::Error::last_os_error());
                }
                -1 => {}
                _ => return Ok(()),
            }
        }
    }

    fn give_up(&mut self, why: InquiryFailure) -> io::Result<()> {
        self.why = why;
        Err(ErrorKind::TimedOut.into())
    }

    fn transfer(
        &mut self,
        events: libc::c_short,
        call: impl Fn(i32) -> isize,
    ) -> io::Result<usize> {
        loop {
            let done = call(self.stream.as_raw_fd());
            let error = match usize::try_from(done) {
                Ok(done) => return Ok(done),
                Err(_) => io::Error::last_os_error(),
            };
            match error.kind() {
                ErrorKind::WouldBlock => self.wait_for(events)?,
                ErrorKind::Interrupted => {}
                _ => return Err(error),
            }
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the bytes are readable for their length, the descriptor is open.
        let send =
            |fd| unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        self.transfer(libc::POLLOUT, send)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Connection {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let (to, length) = (bytes.as_mut_ptr().cast::<c_void>(), bytes.len());
        // SAFETY: the bytes are writable for their length, the descriptor is open.
        let receive = |fd| unsafe { libc::recv(fd, to, length, 0) };
        self.transfer(libc::POLLIN, receive)
    }
}

/// A process is stopped by a signal or a tracer, or dead. One that cannot be seen is not.
fn is_stopped(process: libc::pid_t) -> bool {
    let stat = std::fs::read(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name before it may hold anything, but what follows holds no parenthesis.
    let end = stat.iter().rposition(|&byte| byte == b')');
    let state = end.and_then(|end| stat.get(end + 2));
    state.is_some_and(|state| b"tTZX".contains(state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// The child of a test's fork holds the listeners of all others, which nobody is gone from
    /// while it lives.
    fn alone() -> MutexGuard<'static, ()> {
        static ONE: Mutex<()> = Mutex::new(());
        ONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn address() -> Vec<u8> {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        format!("scr-test-{}-{number}", std::process::id()).into_bytes()
    }

    fn listen(address: &[u8]) -> UnixListener {
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(address).unwrap()).unwrap()
    }

    #[test]
    fn an_answer_comes_and_an_end_without_one_is_told_from_nobody() {
        let _alone = alone();
        let address = address();
        assert_eq!(ask(&address, b"?"), Err(InquiryFailure::Gone));
        let listener = listen(&address);
        let serve = std::thread::spawn(move || {
            let mut first = listener.accept().unwrap().0;
            let question = wire::receive(&mut first).unwrap();
            wire::send(&mut first, &[&question[..], b"!"].concat()).unwrap();
            drop(listener.accept().unwrap());
        });
        assert_eq!(ask(&address, b"?"), Ok(b"?!".to_vec()));
        assert_eq!(ask(&address, b"?"), Err(InquiryFailure::Cut));
        serve.join().unwrap();
        assert_eq!(ask(&address, b"?"), Err(InquiryFailure::Gone));
    }

    #[test]
    fn nobody_waits_for_a_rank_that_is_stopped() {
        let _alone = alone();
        let address = address();
        // SAFETY: the child uses nothing that another thread may have held at the fork.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let _listener = listen(&address);
            // SAFETY: signals to itself.
            unsafe {
                libc::raise(libc::SIGSTOP);
                libc::_exit(0);
            }
        }
        let mut status = 0;
        // SAFETY: the status is writable, the child is ours, here and below.
        unsafe { libc::waitpid(child, &raw mut status, libc::WUNTRACED) };
        let begun = Instant::now();
        let answer = ask(&address, b"?");
        // SAFETY: as above.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, &raw mut status, 0);
        }
        assert_eq!(answer, Err(InquiryFailure::Stopped));
        assert!(begun.elapsed() < PATIENCE / 2);
        assert_eq!(ask(&address, b"?"), Err(InquiryFailure::Gone));
    }
}
