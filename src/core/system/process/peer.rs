//! Sockets between processes of one node.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use crate::system::errno::check;

/// Returns user and process at the other end; no process (0) if it is in a space of its own.
pub fn peer(stream: &UnixStream) -> io::Result<(u32, i32)> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let to = (&raw mut found).cast();
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: the structure and its size are writable, the descriptor is open.
    check(unsafe { libc::getsockopt(stream.as_raw_fd(), level, option, to, &raw mut length) })?;
    Ok((found.uid, found.pid))
}

/// Lowest number of a descriptor that we keep, unless the process may have fewer: no program looks
/// for its own there, and the kernel's table for them stays small.
const HIGH: u64 = 768;

/// Moves a descriptor to a high number; leaves it as it is if there is none left.
#[must_use]
pub fn raise(fd: OwnedFd) -> OwnedFd {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is writable.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let from = HIGH.min(limit.rlim_cur / 4 * 3) as libc::c_int;
    // SAFETY: a system call on numbers; the descriptor is open.
    match check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, from) }) {
        // SAFETY: made just now, and nobody else's.
        Ok(high) => unsafe { OwnedFd::from_raw_fd(high) },
        Err(_) => fd,
    }
}

/// Lets the kernel make its table of this process's descriptors as large as `raise` needs it: in
/// a process with threads that takes 10 ms and more, for which only who needs the room waits.
pub fn make_room() {
    if let Ok((one, _)) = UnixStream::pair() {
        drop(raise(one.into()));
    }
}

/// Tells what an open descriptor leads to: device and number of the file.
#[must_use]
pub fn identity(fd: RawFd) -> Option<(u64, u64)> {
    let mut found = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the structure is writable.
    check(unsafe { libc::fstat(fd, found.as_mut_ptr()) }).ok()?;
    // SAFETY: fstat has succeeded, hence written it.
    let found = unsafe { found.assume_init() };
    Some((found.st_dev, found.st_ino))
}

/// Tells whether this process has children; `None` if the kernel does not tell.
#[must_use]
pub fn has_children() -> Option<bool> {
    let mut any = false;
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let children = task.ok()?.path().join("children");
        any |= !std::fs::read_to_string(children).ok()?.trim().is_empty();
    }
    Some(any)
}

/// Closes a descriptor that a forked child has of its parent, whose owner does not exist in it; not
/// one that the program has put in its place.
pub fn close_inherited(fd: RawFd, was: Option<(u64, u64)>) {
    if was.is_some() && identity(fd) == was {
        // SAFETY: a system call on a number; nothing in this process uses it.
        unsafe { libc::close(fd) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::IntoRawFd as _;

    use super::*;

    #[test]
    fn a_raised_descriptor_is_the_same_file_and_only_that_is_closed() {
        let (one, other) = UnixStream::pair().unwrap();
        let was = identity(one.as_raw_fd());
        let high = raise(one.into());
        assert!(high.as_raw_fd() >= 64 && identity(high.as_raw_fd()) == was && was.is_some());
        close_inherited(high.as_raw_fd(), identity(other.as_raw_fd()));
        assert_eq!(identity(high.as_raw_fd()), was);
        close_inherited(high.into_raw_fd(), was);
        assert_eq!((&other).read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn both_ends_of_a_pair_are_of_this_process() {
        let (one, other) = UnixStream::pair().unwrap();
        let own = (crate::system::user_id(), std::process::id() as i32);
        assert_eq!((peer(&one).unwrap(), peer(&other).unwrap()), (own, own));
    }
}
