//! Sockets between processes of one node.

use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;

use super::check;

/// The user at the other end.
///
/// # Errors
/// The kernel does not tell.
pub fn peer_user(stream: &UnixStream) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let to = (&raw mut peer).cast();
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: the structure and its size are writable, the descriptor is open.
    check(unsafe { libc::getsockopt(stream.as_raw_fd(), level, option, to, &raw mut length) })?;
    Ok(peer.uid)
}

/// Closes a descriptor that a forked child has of its parent, whose owner does not exist in it.
pub fn close_inherited(fd: RawFd) {
    // SAFETY: a system call on a number; nothing in this process uses it.
    unsafe { libc::close(fd) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_pair_are_of_this_user() {
        let (one, other) = UnixStream::pair().unwrap();
        let own = super::super::user_id();
        assert_eq!((peer_user(&one).unwrap(), peer_user(&other).unwrap()), (own, own));
    }
}
