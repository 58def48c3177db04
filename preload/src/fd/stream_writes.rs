//! libc's streams write by a function of libc's own that no hook sees, and what it could not write
//! is lost with the stream's buffer. So its entry in the two tables that all streams on files share
//! (`_IO_file_jumps`, and `_IO_wfile_jumps` for wide characters) is replaced by ours: it waits for
//! a file that moves, and has it moved when the store is full. Streams of fopencookie(3) would have
//! no wide characters and no `fileno`. The tables change at the first stream that is tracked, and
//! only if their entries are what libc exports as `_IO_file_read` and `_IO_file_write`, and the
//! memory can be written. Otherwise a full store is an error for the program, and a file that a
//! stream is on does not move while it is open.

use std::ffi::{CStr, c_int, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::FILE;

use crate::base::real::page_bytes;
use crate::fd::in_order::{self, WritePlace};
use crate::{fd::changes, fd::failing_store, fd::logged, fd::open_files, signal::guard};

type Write = unsafe extern "C-unwind" fn(*mut FILE, *const c_void, isize) -> isize;

/// The same in every glibc since 2.1.
const READ: usize = 14;
const WRITE: usize = 15;

/// libc's function; 0 until the tables are changed.
static ORIGINAL: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    fn fileno_unlocked(stream: *mut FILE) -> c_int;
    fn ferror_unlocked(stream: *mut FILE) -> c_int;
    fn clearerr_unlocked(stream: *mut FILE);
    fn __fwriting(stream: *mut FILE) -> c_int;
}

/// Puts our function into libc's tables where they fit. Guard held.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let (Some(read), Some(write)) = (address(c"_IO_file_read"), address(c"_IO_file_write"))
        else {
            return;
        };
        let mut seen = 0;
        let tables = [c"_IO_file_jumps", c"_IO_wfile_jumps"];
        for name in tables {
            let Some(table) = address(name) else { continue };
            let entry = |at: usize| (table + at * size_of::<usize>()) as *const AtomicUsize;
            // SAFETY: the tables are arrays of at least 20 words, aligned, alive as long as libc.
            let (reads, writes) = unsafe { (&*entry(READ), &*entry(WRITE)) };
            let known = (reads.load(Ordering::Relaxed), writes.load(Ordering::Relaxed));
            if known == (read, write) {
                ORIGINAL.store(write, Ordering::Release);
                set(writes, file_write as *const () as usize);
                let is_ours = writes.load(Ordering::Relaxed) != write;
                seen += usize::from(is_ours);
            }
        }
        open_files::note_streams_seen(seen == tables.len());
    });
}

/// Watches if a stream of the program may be on `fd`, which the program has put there.
pub(crate) fn watch_standard(fd: c_int) {
    if fd <= libc::STDERR_FILENO && open_files::may_hold(fd) {
        watch();
    }
}

fn address(name: &CStr) -> Option<usize> {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) } as usize;
    (found != 0).then_some(found)
}

fn set(word: &AtomicUsize, value: usize) {
    let page = page_bytes();
    let address = std::ptr::from_ref(word) as usize;
    let Some(writable) = is_writable(address) else { return };
    let start = (address / page * page) as *mut c_void;
    let readable = libc::PROT_READ;
    // SAFETY: the page holds the word and stays readable throughout; it gets its protection back.
    unsafe {
        if writable || libc::mprotect(start, page, readable | libc::PROT_WRITE) == 0 {
            word.store(value, Ordering::Release);
            if !writable {
                libc::mprotect(start, page, readable);
            }
        }
    }
}

fn is_writable(address: usize) -> Option<bool> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let number = |text: &str| usize::from_str_radix(text, 16).ok();
    maps.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let inside = (number(start)?..number(end)?).contains(&address);
        inside.then(|| fields.next().is_some_and(|marks| marks.as_bytes().get(1) == Some(&b'w')))
    })
}

unsafe extern "C-unwind" fn file_write(
    stream: *mut FILE,
    data: *const c_void,
    bytes: isize,
) -> isize {
    // SAFETY: the address was compared with libc's own export before this function was installed.
    let write = unsafe { std::mem::transmute::<usize, Write>(ORIGINAL.load(Ordering::Acquire)) };
    let mut done = 0;
    // SAFETY: libc holds the stream and calls with its own buffer; the rest of that is written in a
    // further call just as libc's loop would do it. An error mark that was not there before is ours
    // to take back.
    unsafe {
        let (fd, marked) = (fileno_unlocked(stream), ferror_unlocked(stream));
        let next = in_order::next(fd, WritePlace::Place);
        for _ in 0..=changes::MOVES_MAX {
            let Some(change) = changes::begin_next(fd) else { break };
            let logged = logged::begin(fd, WritePlace::Place);
            let now = write(stream, data.byte_offset(done), bytes - done);
            let code = guard::errno();
            done += logged.wrote(now).max(0);
            let begun = change.end();
            if done >= bytes || !failing_store::try_again(fd, code, begun) {
                break;
            }
            if marked == 0 {
                clearerr_unlocked(stream);
            }
        }
        next.done(data, if done == bytes { done } else { -1 });
    }
    done
}

/// Writes what the stream holds back; outside of our work, where a full store can be dealt with.
/// Closing the stream will not tell of the error any more. Safety: `stream` is open.
pub(crate) unsafe fn flush(stream: *mut FILE) -> Option<c_int> {
    type Known = unsafe extern "C" fn(*mut FILE) -> c_int;
    type Flush = unsafe extern "C-unwind" fn(*mut FILE) -> c_int;
    // SAFETY: both types are libc's fflush. A thread that is cancelled in the write unwinds through
    // it, which the compiler, which knows that function by its name, takes to be impossible.
    let flush = unsafe { std::mem::transmute::<Known, Flush>(libc::fflush) };
    let flush = std::hint::black_box(flush);
    // SAFETY: the caller's promise.
    let failed = unsafe { __fwriting(stream) != 0 && flush(stream) != 0 };
    failed.then(guard::errno)
}
