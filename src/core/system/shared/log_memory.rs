//! Memory of logs that the shim writes, and children that have it, too.

use scr_abi::accesses::AccessLog;

/// Makes an empty log, which stays as long as the process and takes memory as it is filled. `None`:
/// there is no room.
pub fn access_log() -> Option<&'static AccessLog> {
    let bytes = size_of::<AccessLog>();
    // SAFETY: the kernel chooses the address; nothing else knows this memory.
    let start = unsafe {
        let (read, write) = (libc::PROT_READ, libc::PROT_WRITE);
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        libc::mmap(std::ptr::null_mut(), bytes, read | write, flags, -1, 0)
    };
    // SAFETY: so long, aligned to a page, never unmapped, and all zero, which is an empty log.
    (start != libc::MAP_FAILED).then(|| unsafe { &*start.cast_const().cast() })
}
