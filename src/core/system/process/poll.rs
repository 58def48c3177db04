//! Waiting for sockets, and the addresses of this machine.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::RawFd;
use std::time::Duration;

use crate::system::errno::check;

/// Waits until bytes can be written to one of `to`, or read (or a connection taken) from one of
/// `from`, `patience` at most. Tells whether one of them can; an error of a socket counts as such.
pub fn await_ready(to: &[RawFd], from: &[RawFd], patience: Duration) -> io::Result<bool> {
    let wish = |fd: &RawFd, events| libc::pollfd { fd: *fd, events, revents: 0 };
    let writes = to.iter().map(|fd| wish(fd, libc::POLLOUT));
    let mut wishes: Vec<_> = writes.chain(from.iter().map(|fd| wish(fd, libc::POLLIN))).collect();
    let patience = libc::c_int::try_from(patience.as_millis()).unwrap_or(libc::c_int::MAX);
    let (first, count) = (wishes.as_mut_ptr(), wishes.len() as libc::nfds_t);
    // SAFETY: so many entries, writable.
    match check(unsafe { libc::poll(first, count, patience) }) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
        ready => ready.map(|ready| ready > 0),
    }
}

/// Returns the addresses by which other machines may reach this one, the loop-back not among them.
pub fn addresses() -> io::Result<Vec<IpAddr>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the list is given back below, and not used afterwards.
    check(unsafe { libc::getifaddrs(&raw mut first) })?;
    let mut found = Vec::new();
    let mut at = first;
    // SAFETY: entries of the list are valid until it is given back; the last one has no next.
    while let Some(entry) = unsafe { at.as_ref() } {
        at = entry.ifa_next;
        let flags = entry.ifa_flags as libc::c_int;
        let wanted = libc::IFF_UP | libc::IFF_RUNNING;
        if flags & wanted == wanted && flags & libc::IFF_LOOPBACK == 0 {
            found.extend(address(entry.ifa_addr));
        }
    }
    // SAFETY: what getifaddrs has made, once.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// The address, unless it is of another kind, or counts on one cable only.
fn address(of: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: null or a valid address of getifaddrs, as long as its family says.
    unsafe {
        match libc::c_int::from(of.as_ref()?.sa_family) {
            libc::AF_INET => {
                let found = of.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from(u32::from_be(found.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let found = of.cast::<libc::sockaddr_in6>().read_unaligned();
                let found = Ipv6Addr::from(found.sin6_addr.s6_addr);
                (!found.is_unicast_link_local()).then_some(found.into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_can_be_read_is_told() {
        let (mut one, other) = UnixStream::pair().unwrap();
        let from = [other.as_raw_fd()];
        assert!(!await_ready(&[], &from, Duration::ZERO).unwrap());
        assert!(await_ready(&[one.as_raw_fd()], &from, Duration::ZERO).unwrap());
        one.write_all(b"a").unwrap();
        assert!(await_ready(&[], &from, Duration::from_secs(60)).unwrap());
    }

    #[test]
    fn no_address_is_the_loop_back() {
        assert!(addresses().unwrap().iter().all(|one| !one.is_loopback()));
    }
}
