//! Signals that come while their thread holds malloc or the loader. Both are needed for our work,
//! so a handler that wrote a checkpoint then would write past the engine. Such a signal is put
//! aside; the stand-in sends it once more to that thread when it has got hold of them itself.

use std::ffi::c_int;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use libc::{siginfo_t, ucontext_t};

use crate::base::errno::{errno, set_errno};
use crate::base::thread;
use crate::signal::aside::{ASIDE, IS_FILLED, NONE};
use crate::signal::stand_in;

static LOCKING_CODE: OnceLock<Vec<Range<usize>>> = OnceLock::new();

pub(crate) fn prepare() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    // SAFETY: only asks.
    let loader = unsafe { libc::getauxval(libc::AT_BASE) } as usize;
    let known = [libc::malloc as *const () as usize, libc::mallinfo as *const () as usize, loader];
    LOCKING_CODE.get_or_init(|| code_of_files_with(&known, &maps));
}

fn code_of_files_with(addresses: &[usize], maps: &str) -> Vec<Range<usize>> {
    let mappings: Vec<_> = maps.lines().filter_map(mapping).collect();
    let is_meant = |file: &str| {
        let mut of_file = mappings.iter().filter(|mapping| mapping.2 == file);
        of_file.any(|(range, ..)| addresses.iter().any(|address| range.contains(address)))
    };
    let code = mappings.iter().filter(|(_, mode, file)| mode.contains('x') && is_meant(file));
    code.map(|(range, ..)| range.clone()).collect()
}

fn mapping(line: &str) -> Option<(Range<usize>, &str, &str)> {
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some((number(from)?..number(to)?, words.next()?, words.nth(3)?))
}

/// Returns true if the signal may have interrupted malloc or the loader: it comes once more, and
/// its handler must not run now. Safety: the arguments are those of a signal handler.
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
        if !may_hold_locks(context, number) || !stand_in::is_there() {
            return false;
        }
    }
    let code = errno();
    let put = match aside.thread.compare_exchange(NONE, IS_FILLED, acquire, acquire) {
        Ok(_) => {
            // SAFETY: the place is this thread's now.
            unsafe { (*aside.info.get()).write(*info) };
            aside.thread.store(own, release);
            // Handlers of other signals wait meanwhile: the stand-in serves one thread at a time.
            thread::enter_thread();
            let taken = || aside.thread.compare_exchange(own, NONE, acquire, acquire).is_ok();
            let now = stand_in::lend_now(taken) == Some(true);
            thread::leave_thread();
            !now
        }
        // The kernel, too, keeps only one of each kind; but all of the real-time signals.
        Err(thread) => thread == own && number < libc::SIGRTMIN(),
    };
    set_errno(code);
    put
}

/// Tells by the interrupted code's file. malloc and the loader make no system call that fails with
/// EINTR, that sends a signal or lets one come; whoever makes one, raise(3) for instance, counts on
/// it that the handler has run. Safety: the context is that of a signal handler.
unsafe fn may_hold_locks(context: *const ucontext_t, number: c_int) -> bool {
    // SAFETY: by this function's contract.
    let Some(interrupted) = (unsafe { Interrupted::of(context) }) else { return true };
    let code = LOCKING_CODE.get().map_or(&[][..], Vec::as_slice);
    if code.is_empty() {
        return true;
    }
    let Some(range) = code.iter().find(|range| range.contains(&interrupted.at)) else {
        return false;
    };
    match interrupted.result {
        result if result == -i64::from(libc::EINTR) => false,
        0 => !interrupted.awaits(number, range.start),
        _ => true,
    }
}

struct Interrupted {
    at: usize,
    /// This is only meant if that instruction follows a system call.
    result: i64,
    /// The first four arguments of that call; `None` where the result has taken the place of one.
    arguments: [Option<u64>; 4],
}

impl Interrupted {
    #[cfg(target_arch = "x86_64")]
    unsafe fn of(context: *const ucontext_t) -> Option<Self> {
        // SAFETY: by the caller's contract.
        let registers = unsafe { &(*context).uc_mcontext.gregs };
        let of = |register: c_int| registers[register as usize];
        let arguments = [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10];
        let arguments = arguments.map(|register| Some(of(register) as u64));
        Some(Interrupted { at: of(libc::REG_RIP) as usize, result: of(libc::REG_RAX), arguments })
    }

    #[cfg(target_arch = "aarch64")]
    unsafe fn of(context: *const ucontext_t) -> Option<Self> {
        // SAFETY: by the caller's contract.
        let machine = unsafe { &(*context).uc_mcontext };
        let of = |register: usize| Some(machine.regs[register]);
        let arguments = [None, of(1), of(2), of(3)];
        Some(Interrupted { at: machine.pc as usize, result: machine.regs[0] as i64, arguments })
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    unsafe fn of(_: *const ucontext_t) -> Option<Self> {
        None
    }

    /// True at the end of the thread's own tgkill(2) or kill(2) of the signal, or of an
    /// rt_sigprocmask(2).
    fn awaits(&self, number: c_int, start: usize) -> bool {
        const CALL: &[u8] =
            if cfg!(target_arch = "x86_64") { &[0x0f, 0x05] } else { &[0x01, 0x00, 0x00, 0xd4] };
        if self.at - start < CALL.len() {
            return false;
        }
        // SAFETY: these bytes are in a mapping of code, which can be read.
        let before =
            unsafe { std::slice::from_raw_parts((self.at - CALL.len()) as *const u8, CALL.len()) };
        // SAFETY: only asks.
        let (process, thread) = unsafe { (libc::getpid(), libc::syscall(libc::SYS_gettid)) };
        let is = |argument: usize, value: i64| {
            self.arguments[argument].is_none_or(|found| found as u32 == value as u32)
        };
        let number = i64::from(number);
        let sends = is(0, process.into()) && (is(1, number) || (is(1, thread) && is(2, number)));
        let lets = is(0, libc::SIG_SETMASK.into()) || is(0, libc::SIG_UNBLOCK.into());
        before == CALL && (sends || (lets && is(3, MASK_BYTES)))
    }
}

const MASK_BYTES: i64 = 8;

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
