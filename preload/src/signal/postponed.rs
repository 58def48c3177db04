//! Signals that come while their thread holds malloc or the loader. Both are needed for our work,
//! so a handler that wrote a checkpoint then would write past the engine. Such a signal is put
//! aside; the stand-in sends it once more to that thread when it has got hold of them itself.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::{siginfo_t, ucontext_t};

use crate::signal::handlers::SIGNALS;
use crate::{signal::guard, signal::stand_in};

/// One signal of one thread.
struct Aside {
    /// Its number, negative when the signal has been sent once more; or what follows.
    thread: AtomicI32,
    /// What the handler is to be told. (The kernel does not let one thread send it to another.)
    info: UnsafeCell<MaybeUninit<siginfo_t>>,
}

const NONE: c_int = 0;
const IS_FILLED: c_int = c_int::MIN;

// SAFETY: `info` is that thread's alone: from IS_FILLED until it has taken it again.
unsafe impl Sync for Aside {}

static ASIDE: [Aside; SIGNALS] = [const {
    Aside { thread: AtomicI32::new(NONE), info: UnsafeCell::new(MaybeUninit::uninit()) }
}; SIGNALS];

/// Where malloc and the loader are in memory.
static LOCKING_CODE: OnceLock<Vec<Range<usize>>> = OnceLock::new();

/// Finds out where malloc and the loader are, since the process has become a rank.
pub(crate) fn prepare() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    // SAFETY: only asks.
    let loader = unsafe { libc::getauxval(libc::AT_BASE) } as usize;
    let known = [libc::malloc as *const () as usize, libc::mallinfo as *const () as usize, loader];
    LOCKING_CODE.get_or_init(|| code_of_files_with(&known, &maps));
}

/// The executable mappings of each file that one of the addresses is in.
fn code_of_files_with(addresses: &[usize], maps: &str) -> Vec<Range<usize>> {
    let mappings: Vec<_> = maps.lines().filter_map(mapping).collect();
    let is_meant = |file: &str| {
        let mut of_file = mappings.iter().filter(|mapping| mapping.2 == file);
        of_file.any(|(range, ..)| addresses.iter().any(|address| range.contains(address)))
    };
    let code = mappings.iter().filter(|(_, mode, file)| mode.contains('x') && is_meant(file));
    code.map(|(range, ..)| range.clone()).collect()
}

/// Addresses, mode and file of a line of `/proc/self/maps` (man 5 proc).
fn mapping(line: &str) -> Option<(Range<usize>, &str, &str)> {
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some((number(from)?..number(to)?, words.next()?, words.nth(3)?))
}

/// Puts a signal aside that may have interrupted malloc or the loader. True if it comes once more,
/// and its handler must not run now.
///
/// # Safety
/// The arguments are those of a signal handler.
pub(crate) unsafe fn put_aside(
    number: c_int,
    info: *mut siginfo_t,
    context: *const ucontext_t,
) -> bool {
    let Some(aside) = usize::try_from(number).ok().and_then(|number| ASIDE.get(number)) else {
        return false;
    };
    let (acquire, release) = (Ordering::Acquire, Ordering::Release);
    // SAFETY: only asks.
    let own = unsafe { libc::syscall(libc::SYS_gettid) } as c_int;
    // SAFETY: by this function's contract, and what has been put aside is this thread's.
    unsafe {
        if aside.thread.load(acquire) == -own {
            *info = (*aside.info.get()).assume_init();
            aside.thread.store(NONE, release);
        }
        if !may_hold_locks(context) || !stand_in::is_there() {
            return false;
        }
    }
    let code = guard::errno();
    let put = match aside.thread.compare_exchange(NONE, IS_FILLED, acquire, acquire) {
        Ok(_) => {
            // SAFETY: the place is this thread's now.
            unsafe { (*aside.info.get()).write(*info) };
            aside.thread.store(own, release);
            // Handlers of other signals wait meanwhile: the stand-in serves one thread at a time.
            guard::enter_thread();
            let taken = || aside.thread.compare_exchange(own, NONE, acquire, acquire).is_ok();
            let now = stand_in::lend_now(taken) == Some(true);
            guard::leave_thread();
            !now
        }
        // The kernel, too, keeps only one of each kind; but all of the real-time signals.
        Err(thread) => thread == own && number < libc::SIGRTMIN(),
    };
    guard::set_errno(code);
    put
}

/// True if the signal may have interrupted malloc or the loader: it comes from their files' code.
/// They make no system call that fails with EINTR; whoever makes one counts on it that the handler
/// has run.
///
/// # Safety
/// The context is that of a signal handler.
unsafe fn may_hold_locks(context: *const ucontext_t) -> bool {
    // SAFETY: by this function's contract.
    let (at, result) = match unsafe { registers(context) } {
        Some(registers) => registers,
        None => return true,
    };
    let code = LOCKING_CODE.get().map_or(&[][..], Vec::as_slice);
    let in_it = code.is_empty() || code.iter().any(|range| range.contains(&at));
    in_it && result != -i64::from(libc::EINTR)
}

/// The address of the next instruction, and the result if that follows a system call.
#[cfg(target_arch = "x86_64")]
unsafe fn registers(context: *const ucontext_t) -> Option<(usize, i64)> {
    // SAFETY: by the caller's contract.
    let registers = unsafe { &(*context).uc_mcontext.gregs };
    Some((registers[libc::REG_RIP as usize] as usize, registers[libc::REG_RAX as usize]))
}

#[cfg(target_arch = "aarch64")]
unsafe fn registers(context: *const ucontext_t) -> Option<(usize, i64)> {
    // SAFETY: by the caller's contract.
    let machine = unsafe { &(*context).uc_mcontext };
    Some((machine.pc as usize, machine.regs[0] as i64))
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn registers(_: *const ucontext_t) -> Option<(usize, i64)> {
    None
}

/// Tells whether [`send_all`] has something to do.
pub(crate) fn any() -> bool {
    ASIDE.iter().any(|aside| aside.thread.load(Ordering::Acquire) > NONE)
}

/// Sends once more what has been put aside. Called by the stand-in only, when it has got hold of
/// malloc and the loader.
pub(crate) fn send_all() {
    for (number, aside) in ASIDE.iter().enumerate() {
        let thread = aside.thread.load(Ordering::Acquire);
        if thread <= NONE {
            continue;
        }
        aside.thread.store(-thread, Ordering::Release);
        // SAFETY: a thread that has ended gets no signal.
        if unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, number) } != 0 {
            aside.thread.store(NONE, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_a_file_is_all_that_can_be_executed() {
        let maps = "1000-2000 r--p 00000000 08:01 7  /lib/libc.so.6\n\
                    2000-4000 r-xp 00001000 08:01 7  /lib/libc.so.6\n\
                    4000-5000 r-xp 00000000 08:01 8  /lib/other.so\n\
                    5000-6000 rw-p 00000000 00:00 0 \n\
                    6000-7000 r-xp 00000000 00:00 0  [vdso]\n\
                    nonsense\n";
        assert_eq!(code_of_files_with(&[0x2010], maps).first(), Some(&(0x2000..0x4000)));
        assert_eq!(code_of_files_with(&[0x1000, 0x4fff], maps), [0x2000..0x4000, 0x4000..0x5000]);
        assert_eq!(code_of_files_with(&[0x5000, 0x9000, 0], maps), []);
    }

    #[test]
    fn malloc_and_the_loader_are_found() {
        prepare();
        let code = LOCKING_CODE.get().expect("prepared");
        let found = |address| code.iter().any(|range| range.contains(&address));
        assert!(found(libc::malloc as *const () as usize));
        assert!(!found(prepare as *const () as usize));
        assert!(code.len() >= 2, "{code:x?}");
    }
}
