//! Processors: which ones a process may use, and how much it has used.

use std::collections::BTreeSet;
use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use crate::system::errno::check;

/// Words of the kernel's set of processors: enough for 8192 of them.
const SET_WORDS: usize = 128;

/// Returns the processors that `process` may use; 0: the calling thread.
pub fn processors(process: i32) -> io::Result<BTreeSet<usize>> {
    let mut words = [0_u64; SET_WORDS];
    // SAFETY: the set is writable and as long as said.
    check(unsafe {
        libc::sched_getaffinity(process, size_of_val(&words), words.as_mut_ptr().cast())
    })?;
    let bits = |(at, word): (usize, &u64)| {
        let word = *word;
        (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
    };
    Ok(words.iter().enumerate().flat_map(bits).collect())
}

pub fn bind_thread(processors: &BTreeSet<usize>) -> io::Result<()> {
    let mut words = [0_u64; SET_WORDS];
    for one in processors.iter().filter(|one| **one < SET_WORDS * 64) {
        words[one / 64] |= 1 << (one % 64);
    }
    // SAFETY: the set is readable and as long as said; 0 is the calling thread.
    check(unsafe { libc::sched_setaffinity(0, size_of_val(&words), words.as_ptr().cast()) })?;
    Ok(())
}

/// Lets the calling thread take turns of a tenth of a millisecond with others of its processor, in
/// place of some three: one that comes to it meanwhile goes on as soon. Its share stays the same.
/// No effect where the kernel gives all threads the same (before 6.12).
pub fn take_short_turns() {
    /// `struct sched_attr` of the kernel, first version.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        turn_ns: u64,
        deadline_ns: u64,
        period_ns: u64,
    }
    const TURN_NS: u64 = 100_000;
    let size = size_of::<Attributes>() as u32;
    let mut own = Attributes { size, ..Attributes::default() };
    // SAFETY: 0 is the calling thread; the structure is writable and as long as said, and has no
    // gaps.
    unsafe {
        if libc::syscall(libc::SYS_sched_getattr, 0, &raw mut own, size, 0) == 0 {
            own.turn_ns = TURN_NS;
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const own, 0);
        }
    }
}

/// Lets the calling thread run only while a processor has nothing else to do, for good.
pub fn run_when_idle() {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 is the calling thread; the parameter is readable. A refusal changes nothing.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const none) };
}

/// Returns the processors on which this process may run if it wants to, whatever it is bound to.
pub fn permitted() -> io::Result<BTreeSet<usize>> {
    let find = || {
        bind_thread(&(0..SET_WORDS * 64).collect())?;
        processors(0)
    };
    // What a thread binds itself to is its own.
    let thread = std::thread::Builder::new().spawn(find)?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread has stopped")))
}

#[must_use]
pub fn parent() -> (i32, String) {
    let process = std::os::unix::process::parent_id();
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    (process as i32, name.trim_end().to_string())
}

#[must_use]
pub fn processor_time(of_thread: bool) -> Duration {
    let whom = if of_thread { libc::RUSAGE_THREAD } else { libc::RUSAGE_SELF };
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is writable; all zeros is a valid one, should the call refuse.
    let usage = unsafe {
        libc::getrusage(whom, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time = |of: libc::timeval| {
        Duration::from_secs(of.tv_sec as u64) + Duration::from_micros(of.tv_usec as u64)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Returns how long the calling thread was ready to run and had no processor; 0 if unknown.
#[must_use]
pub fn waited_for_processor() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    // Nanoseconds on a processor, nanoseconds of waiting for one, time slices.
    let waited = told.split(' ').nth(1).and_then(|number| number.parse().ok());
    Duration::from_nanos(waited.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_where_it_is_bound() {
        std::thread::spawn(|| {
            let all = processors(0).unwrap();
            let last = BTreeSet::from([*all.last().unwrap()]);
            bind_thread(&last).unwrap();
            assert_eq!(processors(0).unwrap(), last);
            assert!(bind_thread(&BTreeSet::new()).is_err());
            assert!(permitted().unwrap().is_superset(&all));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_is_used_is_counted() {
        let before = processor_time(true);
        while processor_time(true) < before + Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        assert!(processor_time(false) >= processor_time(true));
        assert!(!parent().1.is_empty());
    }
}
