//! Queues that a process shares with the kernel, which writes files for it: no function of libc is
//! called for that, so nothing can be seen of it.

use std::fs;

/// What the kernel calls the memory of io_uring(7) and of io_submit(2).
const NAMES: [&[u8]; 2] = [b"[io_uring]", b"/[aio]"];

/// Tells whether this process has such a queue, or may have one.
#[must_use]
pub fn has_kernel_queues() -> bool {
    let has = |maps: Vec<u8>| {
        NAMES.iter().any(|name| maps.windows(name.len()).any(|found| found == *name))
    };
    fs::read("/proc/self/maps").map_or(true, has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_found() {
        let mut queue = 0_usize;
        // SAFETY: the kernel writes a number of this size.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut queue) };
        let error = std::io::Error::last_os_error();
        if made == -1 && error.raw_os_error() == Some(libc::ENOSYS) {
            return; // a kernel without them, or an emulator
        }
        assert_eq!(made, 0, "{error}");
        assert!(has_kernel_queues());
        // SAFETY: made above.
        unsafe { libc::syscall(libc::SYS_io_destroy, queue) };
        assert!(!has_kernel_queues());
    }
}
