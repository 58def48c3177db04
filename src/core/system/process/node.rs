//! Names, clocks, randomness.

use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::system::errno::check;

/// Returns the identity of the node's present boot; `None` if the system does not tell.
#[must_use]
pub fn boot_id() -> Option<String> {
    static BOOT: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(text.trim().to_owned()).filter(|id| !id.is_empty())
    };
    BOOT.get_or_init(read).clone()
}

const NAME_BYTES_MAX: usize = 256;

/// Returns this node's host name; `localhost` if it has none.
#[must_use]
pub fn hostname() -> String {
    let mut name = [0_u8; NAME_BYTES_MAX];
    // SAFETY: the buffer has the length that is given; one byte is kept back so that it ends with a
    // NUL even if the name is cut.
    let result = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let text = until_nul(&name);
    if check(result).is_err() || text.is_empty() { "localhost".into() } else { text }
}

/// Sends a signal to a process; `false` if it is gone or not ours. A child that has not been waited
/// for keeps its number, so nobody else gets the signal.
pub fn send_signal(process: u32, signal: i32) -> bool {
    let Ok(process) = libc::pid_t::try_from(process) else { return false };
    // SAFETY: a system call on numbers; 0 and negative ones, which mean groups, are refused.
    process > 0 && check(unsafe { libc::kill(process, signal) }).is_ok()
}

/// Returns the effective user id.
#[must_use]
pub fn user_id() -> u32 {
    // SAFETY: geteuid has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

#[must_use]
pub fn group_id() -> u32 {
    // SAFETY: getegid has no arguments and cannot fail.
    unsafe { libc::getegid() }
}

#[must_use]
pub fn user_name() -> String {
    name_of_user(user_id())
}

/// Returns the name of a user; `uid<number>` if the system does not know it.
#[must_use]
pub fn name_of_user(user: u32) -> String {
    let mut strings = vec![0_u8; 16 << 10];
    let mut entry = MaybeUninit::<libc::passwd>::zeroed();
    let mut found = std::ptr::null_mut();
    // SAFETY: all pointers are to live buffers, of the length that is given where one is.
    let result = unsafe {
        libc::getpwuid_r(
            user,
            entry.as_mut_ptr(),
            strings.as_mut_ptr().cast(),
            strings.len(),
            &raw mut found,
        )
    };
    if result != 0 || found.is_null() {
        return format!("uid{user}");
    }
    // SAFETY: with success and a result, pw_name points to a NUL-terminated string in `strings`,
    // which lives until the end of this function.
    let name = unsafe { std::ffi::CStr::from_ptr((*found).pw_name) };
    match name.to_str() {
        // It becomes a part of a path.
        Ok(name) if !name.is_empty() && !name.contains('/') && !name.starts_with('.') => {
            name.to_owned()
        }
        _ => format!("uid{user}"),
    }
}

/// Returns a random number from the kernel, for nonces and epochs; never 0, which means "none" in
/// records.
#[must_use]
pub fn random_u64() -> u64 {
    let mut bytes = [0_u8; 8];
    // By its number: C libraries before 2.25 have no name for it.
    // SAFETY: the buffer has the length that is given.
    let got = unsafe { libc::syscall(libc::SYS_getrandom, bytes.as_mut_ptr(), bytes.len(), 0_u32) };
    let mut number = u64::from_ne_bytes(bytes);
    if usize::try_from(got) != Ok(bytes.len()) {
        // Only kernels before 3.17, or a filter that forbids the call: time, process and the
        // address layout differ enough between launches.
        let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos());
        let address = &raw const bytes as u64;
        number = (nanoseconds as u64).rotate_left(32) ^ address ^ u64::from(std::process::id());
    }
    number.max(1)
}

/// Returns the milliseconds of a clock that never goes back; its zero means nothing.
#[must_use]
pub fn monotonic_ms() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec. CLOCK_MONOTONIC exists on every Linux, so this cannot
    // fail; if it did, `now` stays 0.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// Returns the id of the calling thread; never 0, and no two threads that live at the same time
/// share it.
#[must_use]
pub fn thread_id() -> u64 {
    // SAFETY: no arguments, always succeeds.
    unsafe { libc::pthread_self() }
}

/// Returns the seconds since 1970, of the wall clock.
#[must_use]
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Ends the process without any of its exit handlers: for a process that hangs in one.
pub fn exit_at_once(status: i32) -> ! {
    // SAFETY: _exit has no precondition and does not return.
    unsafe { libc::_exit(status) }
}

/// Blocks all signals in the calling thread: our threads must not run the program's handlers.
pub fn block_signals() {
    let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: sigfillset fills the set before pthread_sigmask reads it; the old mask is not asked
    // for, which a null pointer says. Neither can fail with these arguments.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
    }
}

fn until_nul(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_agree_with_the_system() {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(hostname(), kernel.trim());
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
        let ours = format!(":{}:", user_id());
        let name = user_name();
        assert!(passwd.lines().any(|l| l.starts_with(&format!("{name}:")) && l.contains(&ours)));
    }

    #[test]
    fn random_numbers_differ() {
        assert_ne!(random_u64(), random_u64());
    }

    #[test]
    fn clocks_run() {
        let (before, wall) = (monotonic_ms(), unix_seconds());
        std::thread::sleep(std::time::Duration::from_millis(3));
        assert!(monotonic_ms() >= before + 2);
        assert!(wall > 1_700_000_000);
    }

    #[test]
    fn signals_are_blocked_in_the_thread_only() {
        let blocked = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        let term = 1 << (libc::SIGTERM - 1);
        let inside = std::thread::spawn(move || {
            block_signals();
            blocked()
        });
        assert_ne!(inside.join().unwrap() & term, 0);
        assert_eq!(blocked() & term, 0);
    }
}
