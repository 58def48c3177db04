//! A file that is written over the pages of one that its rank no longer needs, which costs half of
//! what new pages cost on a RAM disk. The descriptor of the empty file that the program's open has
//! made, the *stand-in*, is put on a file of the engine's with old content ([`begin`]), which
//! nobody else can see. [`settle`] cuts that behind what was written and gives it the name of the
//! stand-in, before anything that could tell it from a new file. There is one such file at a time,
//! and no lock and no allocation: a handler of a signal may be the one who settles.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{CStr, c_char, c_int, c_long};
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use scr_abi::{Engine, PATH_BYTES};

use crate::base::real::page_bytes;
use crate::fd::course::{self, WriteCourse};
use crate::signal::guard;

/// The descriptor on the file that is not settled; -1: there is none.
static FD: AtomicI32 = AtomicI32::new(-1);
static STAND_IN: AtomicI32 = AtomicI32::new(-1);
static TOKEN: AtomicU64 = AtomicU64::new(0);
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);
/// The length that the file had when it was taken.
static OLD_BYTES: AtomicU64 = AtomicU64::new(0);
/// A thread that is writing to the file.
static WRITER: AtomicUsize = AtomicUsize::new(0);
/// The thread that settles, or begins, holds it.
static BUSY: AtomicBool = AtomicBool::new(false);
/// The token whose file is not what the program has written, 0: none.
static FAILED: AtomicU64 = AtomicU64::new(0);
/// So many files, one after the other, gave most of their old pages back.
static IN_VAIN: AtomicU32 = AtomicU32::new(0);

/// After so many files in vain, no more is tried.
const IN_VAIN_MAX: u32 = 2;
/// A thread that never returns from a write (it was cancelled there) is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);
const INTERVAL_NANOSECONDS: c_long = 100_000;
/// The stand-in gets a number from here on, so that the program's numbers are what they would be.
const NUMBERS: [c_int; 2] = [900, 200];
/// An open may ask for these beside writing.
const PLAIN_FLAGS: c_int = libc::O_WRONLY
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_TRUNC
    | libc::O_CLOEXEC
    | libc::O_LARGEFILE
    | libc::O_NOFOLLOW
    | libc::O_NOCTTY;

struct PathBuffer(UnsafeCell<[u8; PATH_BYTES]>);

// SAFETY: used by the one thread that has BUSY.
unsafe impl Sync for PathBuffer {}

/// The name of the file.
static PLACE: PathBuffer = PathBuffer(UnsafeCell::new([0; PATH_BYTES]));
/// The name of the stand-in, while the file is settled.
static TARGET: PathBuffer = PathBuffer(UnsafeCell::new([0; PATH_BYTES]));

thread_local! {
    static SELF: Cell<u8> = const { Cell::new(0) };
}

fn myself() -> usize {
    SELF.with(|own| std::ptr::from_ref(own) as usize)
}

#[inline]
pub(crate) fn is_pending() -> bool {
    FD.load(Ordering::Relaxed) >= 0
}

#[inline]
pub(crate) fn is_of(fd: c_int) -> bool {
    fd >= 0 && FD.load(Ordering::Relaxed) == fd
}

#[inline]
pub(crate) fn settle() {
    if is_pending() {
        settle_now(false);
    }
}

#[inline]
pub(crate) fn settle_of(fd: c_int) {
    if is_of(fd) {
        settle_now(false);
    }
}

/// Settles a file whose descriptor's place is not where the last write has ended.
#[cold]
pub(crate) fn settle_moved(fd: c_int) {
    if is_of(fd) {
        settle_now(true);
    }
}

#[inline]
pub(crate) fn note_writer(fd: c_int) {
    if is_of(fd) {
        WRITER.store(myself(), Ordering::Release);
    }
}

#[inline]
pub(crate) fn note_written(fd: c_int) {
    if is_of(fd) {
        WRITER.store(0, Ordering::Release);
    }
}

/// A thread that writes cannot wait for itself.
fn is_writer() -> bool {
    WRITER.load(Ordering::Acquire) == myself()
}

/// Tries no more: a process that has been started may look at files at any time.
pub(crate) fn give_up() {
    settle();
    IN_VAIN.store(IN_VAIN_MAX, Ordering::Relaxed);
}

pub(crate) fn forget_in_child() {
    FD.store(-1, Ordering::Release);
    BUSY.store(false, Ordering::Release);
    IN_VAIN.store(IN_VAIN_MAX, Ordering::Relaxed);
}

/// Speaks before the engine hears of the close of `token`. Guard held.
pub(crate) fn tell_failure(table: &Engine, token: u64) {
    if FAILED.load(Ordering::Relaxed) == token && token != 0 {
        FAILED.store(0, Ordering::Relaxed);
        (table.failed)(token, libc::EIO);
    }
}

/// Corrects the length of a file that is not cut yet.
pub(crate) fn correct(fd: c_int, found: &mut libc::stat) {
    if !is_of(fd) || found.st_ino != INODE.load(Ordering::Relaxed) {
        return;
    }
    if let Some(bytes) = course::bytes_so_far(fd) {
        let page = page_bytes() as u64;
        found.st_size = bytes.cast_signed();
        found.st_blocks = (bytes.next_multiple_of(page) / 512).cast_signed();
    }
}

pub(crate) fn fits(fd: c_int, flags: c_int) -> bool {
    let writes = flags & libc::O_ACCMODE == libc::O_WRONLY && flags & !PLAIN_FLAGS == 0;
    let tries = IN_VAIN.load(Ordering::Relaxed) < IN_VAIN_MAX;
    writes && tries && !is_pending() && course::is_followed(fd)
}

/// Puts `fd`, which the program has opened just now on an empty file, on the file of `new`, by
/// `put`.
pub(crate) fn begin(token: u64, fd: c_int, new: c_int, put: impl FnOnce()) {
    if !BUSY.swap(true, Ordering::AcqRel) {
        put_on(fd, new, token, put);
        BUSY.store(false, Ordering::Release);
    }
}

/// What is not put there the engine removes in its time. [`BUSY`] is held.
fn put_on(fd: c_int, new: c_int, token: u64, put: impl FnOnce()) {
    let Some(found) = status(new) else { return };
    let copy = |from: &c_int| {
        // SAFETY: system call on numbers.
        let copy = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_DUPFD_CLOEXEC, *from) };
        c_int::try_from(copy).ok().filter(|copy| *copy >= 0)
    };
    let Some(stand_in) = NUMBERS.iter().find_map(copy) else { return };
    // SAFETY: this thread has BUSY.
    let readable = unsafe { lies_at(stand_in, &TARGET) && lies_at(new, &PLACE) };
    if !readable || !course::moves_to(fd, found.st_dev, found.st_ino) {
        // SAFETY: made above.
        unsafe { libc::syscall(libc::SYS_close, stand_in) };
        return;
    }
    put();
    STAND_IN.store(stand_in, Ordering::Relaxed);
    TOKEN.store(token, Ordering::Relaxed);
    DEVICE.store(found.st_dev, Ordering::Relaxed);
    INODE.store(found.st_ino, Ordering::Relaxed);
    OLD_BYTES.store(found.st_size.unsigned_abs(), Ordering::Relaxed);
    WRITER.store(0, Ordering::Relaxed);
    FD.store(fd, Ordering::Release);
}

/// `moved`: see [`settle_moved`].
#[cold]
fn settle_now(moved: bool) {
    let code = guard::errno();
    // A handler that came in between would wait for this thread.
    let mask = block_signals();
    let until = Instant::now() + PATIENCE;
    while BUSY.swap(true, Ordering::AcqRel) {
        pass_time(); // its own patience has an end
    }
    let fd = FD.load(Ordering::Acquire);
    if let Some(course) = course::course(fd) {
        let written = at_rest(course, until);
        if !settle_held(fd, course, written, moved) {
            FAILED.store(TOKEN.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        FD.store(-1, Ordering::Release);
        if written.is_some() {
            course.go_on();
        }
    }
    BUSY.store(false, Ordering::Release);
    unblock_signals(&mask);
    guard::set_errno(code);
}

/// Keeps other threads from writing. `None`: this thread is in a write, or one that does not come
/// back, and the descriptor's place has to tell.
fn at_rest(course: &WriteCourse, until: Instant) -> Option<u64> {
    loop {
        if let Some(bytes) = course.pause() {
            return Some(bytes);
        }
        if is_writer() || Instant::now() > until {
            return None;
        }
        pass_time();
    }
}

/// No point of cancellation: others would wait for ever for a thread that ends here.
fn pass_time() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: INTERVAL_NANOSECONDS };
    let rest: *mut libc::timespec = std::ptr::null_mut();
    // SAFETY: the structure is valid for the call, which writes nothing.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, rest) };
}

/// False: the file is not what the program has written. [`BUSY`] is held.
fn settle_held(fd: c_int, course: &WriteCourse, written: Option<u64>, moved: bool) -> bool {
    // SAFETY: this thread has BUSY; the place was written when the file was taken.
    let place = unsafe { CStr::from_ptr(PLACE.0.get().cast::<c_char>()) };
    let is_ours = |found: &libc::stat| {
        found.st_dev == DEVICE.load(Ordering::Relaxed)
            && found.st_ino == INODE.load(Ordering::Relaxed)
    };
    let open = status(fd).filter(is_ours);
    // SAFETY: system call on numbers.
    let at = open.map(|_| unsafe { libc::syscall(libc::SYS_lseek, fd, 0, libc::SEEK_CUR) });
    let at = at.and_then(|at| u64::try_from(at).ok());
    // A descriptor that was closed by a way that no hook sees has written no more.
    let bytes = written.or(at).unwrap_or_else(|| course.bytes());
    let known = !moved && at.is_none_or(|at| at == bytes);
    let old = OLD_BYTES.load(Ordering::Relaxed);
    let in_vain = bytes < old / 2;
    IN_VAIN
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| match count {
            _ if count >= IN_VAIN_MAX => None,
            _ => Some(if in_vain { count + 1 } else { 0 }),
        })
        .ok();
    let cut = cut(place, bytes);
    let stand_in = STAND_IN.swap(-1, Ordering::Relaxed);
    let named = cut && take_name(place, stand_in);
    // SAFETY: a descriptor of ours.
    unsafe { libc::syscall(libc::SYS_close, stand_in) };
    known && named
}

/// The time of its last change stays.
fn cut(place: &CStr, bytes: u64) -> bool {
    // SAFETY: a C string, a structure that is written before it is read, numbers.
    unsafe {
        let mut found = MaybeUninit::<libc::stat>::uninit();
        let to = found.as_mut_ptr();
        if libc::syscall(libc::SYS_newfstatat, libc::AT_FDCWD, place.as_ptr(), to, 0) != 0 {
            return false;
        }
        let found = found.assume_init();
        if found.st_size.unsigned_abs() == bytes {
            return true;
        }
        let omitted = libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT };
        let changed = libc::timespec { tv_sec: found.st_mtime, tv_nsec: found.st_mtime_nsec };
        let times = [omitted, changed];
        libc::syscall(libc::SYS_truncate, place.as_ptr(), bytes) == 0
            && libc::syscall(libc::SYS_utimensat, libc::AT_FDCWD, place.as_ptr(), times.as_ptr(), 0)
                == 0
    }
}

/// The file has none if the stand-in has none any more.
fn take_name(place: &CStr, stand_in: c_int) -> bool {
    let Some(empty) = status(stand_in) else { return false };
    // SAFETY: C strings and numbers; this thread has BUSY.
    unsafe {
        if empty.st_nlink == 0 {
            return libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, place.as_ptr(), 0) == 0;
        }
        if empty.st_nlink > 1 || empty.st_size != 0 || !lies_at(stand_in, &TARGET) {
            return false;
        }
        let target = TARGET.0.get().cast::<c_char>();
        let (here, none) = (libc::AT_FDCWD, 0);
        libc::syscall(libc::SYS_renameat2, here, place.as_ptr(), here, target, none) == 0
    }
}

/// Safety: the calling thread has [`BUSY`].
unsafe fn lies_at(fd: c_int, to: &PathBuffer) -> bool {
    let mut link = [0_u8; 32];
    if write!(&mut link[..], "/proc/self/fd/{fd}\0").is_err() {
        return false;
    }
    // SAFETY: the link is a C string, the buffer as long as is said, and no one else uses it.
    unsafe {
        let place = to.0.get().cast::<u8>();
        let (here, most) = (libc::AT_FDCWD, PATH_BYTES - 1);
        let length = libc::syscall(libc::SYS_readlinkat, here, link.as_ptr(), place, most);
        let Some(length) = usize::try_from(length).ok().filter(|length| *length < most) else {
            return false;
        };
        place.add(length).write(0);
        let mut found = MaybeUninit::<libc::stat>::uninit();
        let (file, none) = (found.as_mut_ptr(), libc::AT_SYMLINK_NOFOLLOW);
        libc::syscall(libc::SYS_newfstatat, here, place, file, none) == 0
            && status(fd).is_some_and(|own| {
                let found = found.assume_init();
                (own.st_dev, own.st_ino) == (found.st_dev, found.st_ino)
            })
    }
}

fn status(fd: c_int) -> Option<libc::stat> {
    let mut found = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the call writes the structure when it returns 0.
    unsafe {
        let done: c_long = libc::syscall(libc::SYS_fstat, fd, found.as_mut_ptr());
        (done == 0).then(|| found.assume_init())
    }
}

fn block_signals() -> libc::sigset_t {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: both sets are filled before they are used.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

fn unblock_signals(before: &libc::sigset_t) {
    // SAFETY: a set that the kernel gave.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}
