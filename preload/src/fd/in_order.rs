//! Files that are written from their start to their end through one descriptor: their checksum is
//! taken while the data are in the processor's cache. All that could change the file in any other
//! way ends that for good ([`stop`]), after it has settled the file ([`reuse`]), and the engine
//! reads the file as ever. So does whatever was not seen, if it has moved the descriptor's place or
//! the file's end. No lock: a handler of a signal may write where it has interrupted a write. Of
//! two threads that write at the same time the second one ends it for both.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use crc32fast::Hasher;
use libc::iovec;
use scr_abi::WORTH_BYTES;

pub(crate) use crate::fd::course::is_followed;
use crate::fd::course::{FOLLOWING, PAUSED, UNKNOWN, USED, WRITING, WriteCourse, course, used};
use crate::fd::reuse;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WritePlace {
    Place,
    Offset(i64),
}

impl WritePlace {
    /// Takes an offset, of which -1 stands for the descriptor's own place.
    pub(crate) fn of(offset: i64) -> Self {
        if offset == -1 { Self::Place } else { Self::Offset(offset) }
    }

    /// Returns where a call goes on that has written `done` bytes.
    #[inline]
    pub(crate) fn behind(self, done: isize) -> Self {
        match self {
            Self::Place => Self::Place,
            Self::Offset(offset) => Self::Offset(offset.saturating_add(done as i64)),
        }
    }
}

/// No destructor, as [`crate::fd::changes::Change`] has none.
#[must_use]
#[derive(Clone, Copy)]
pub(crate) struct FollowedWrite(Option<&'static WriteCourse>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WholeFile {
    pub bytes: u64,
    pub crc32: u32,
}

/// Follows `fd`, which was opened just now to write; whoever has written to the same file before is
/// followed no more. `follow`: its file is in the cache, and all writes through it are seen.
pub(crate) fn begin(fd: c_int, follow: bool) {
    let is_used = used().iter().any(|one| one.state.load(Ordering::Acquire) != UNKNOWN);
    reuse::settle();
    let Some(found) = Some(fd).filter(|_| is_used || follow).and_then(status) else { return };
    let is_same = |one: &&WriteCourse| {
        one.state.load(Ordering::Acquire) != UNKNOWN
            && one.device.load(Ordering::Relaxed) == found.st_dev
            && one.inode.load(Ordering::Relaxed) == found.st_ino
    };
    let known_before = used().iter().filter(is_same).map(WriteCourse::stop).count() > 0;
    let is_new = found.st_mode & libc::S_IFMT == libc::S_IFREG && found.st_size == 0;
    let Some(course) = course(fd).filter(|_| is_new && follow && !known_before) else { return };
    if course.moves(UNKNOWN, WRITING) {
        course.number.store(fd, Ordering::Relaxed);
        USED.fetch_max(fd.unsigned_abs() as usize + 1, Ordering::AcqRel);
        course.crc32.store(0, Ordering::Relaxed);
        course.bytes.store(0, Ordering::Relaxed);
        course.device.store(found.st_dev, Ordering::Relaxed);
        course.inode.store(found.st_ino, Ordering::Relaxed);
        if !course.moves(WRITING, FOLLOWING) {
            course.forget();
        }
    }
}

#[inline]
pub(crate) fn next(fd: c_int, at: WritePlace) -> FollowedWrite {
    if is_followed(fd) { next_followed(fd, at) } else { FollowedWrite(None) }
}

fn next_followed(fd: c_int, at: WritePlace) -> FollowedWrite {
    let Some(course) = course(fd) else { return FollowedWrite(None) };
    if at != WritePlace::Place {
        reuse::settle_of(fd); // the descriptor's place would not tell how long the file is
    }
    while !course.moves(FOLLOWING, WRITING) {
        if course.state.load(Ordering::Acquire) != PAUSED {
            stop(fd);
            return FollowedWrite(None);
        }
        std::thread::yield_now();
    }
    reuse::note_writer(fd);
    let place = match at {
        WritePlace::Offset(offset) => offset,
        // SAFETY: system call on numbers.
        WritePlace::Place => unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) },
    };
    if u64::try_from(place) != Ok(course.bytes()) {
        reuse::settle_moved(fd);
        course.forget();
        return FollowedWrite(None);
    }
    FollowedWrite(Some(course))
}

#[inline]
pub(crate) fn stop(fd: c_int) {
    if is_followed(fd) {
        reuse::settle_of(fd);
        course(fd).into_iter().for_each(WriteCourse::stop);
    }
}

/// Follows nothing any more: something may change files that no hook sees.
pub(crate) fn stop_all() {
    reuse::settle();
    used().iter().for_each(WriteCourse::stop);
}

/// Ends it for `fd`, which is about to be closed. `None`: its file was not followed, or is too
/// short to be worth it.
pub(crate) fn finish(fd: c_int) -> Option<WholeFile> {
    reuse::settle_of(fd);
    let course = course(fd)?;
    let bytes = course.bytes();
    let crc32 = course.crc32.load(Ordering::Relaxed);
    let whole = course.moves(FOLLOWING, UNKNOWN);
    course.stop();
    (whole && bytes >= WORTH_BYTES).then_some(WholeFile { bytes, crc32 })
}

impl WriteCourse {
    fn forget(&self) {
        reuse::settle_of(self.number.load(Ordering::Relaxed));
        self.state.store(UNKNOWN, Ordering::Release);
    }

    /// Safety: each part is that long, up to `written` bytes of all of them.
    unsafe fn add_parts(&self, parts: impl Iterator<Item = (*const u8, usize)>, written: isize) {
        // What a call has done that has failed nobody knows.
        let Ok(mut left) = usize::try_from(written) else { return self.forget() };
        let bytes = self.bytes.load(Ordering::Relaxed) + left as u64;
        let mut hasher = Hasher::new_with_initial(self.crc32.load(Ordering::Relaxed));
        for (data, length) in parts {
            let now = left.min(length);
            if now > 0 {
                // SAFETY: the caller's promise; the call has just read these bytes.
                hasher.update(unsafe { std::slice::from_raw_parts(data, now) });
            }
            left -= now;
        }
        self.crc32.store(hasher.finalize(), Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Release);
        if left > 0 {
            return self.forget();
        }
        reuse::note_written(self.number.load(Ordering::Relaxed));
        if !self.moves(WRITING, FOLLOWING) {
            self.forget();
        }
    }
}

impl FollowedWrite {
    /// Needs at least `written` bytes of `data`, if that is positive (safety).
    #[inline]
    pub(crate) unsafe fn done(self, data: *const c_void, written: isize) {
        if let Some(course) = self.0 {
            // SAFETY: the caller's promise.
            unsafe { course.add_parts(std::iter::once((data.cast(), usize::MAX)), written) }
        }
    }

    /// Needs parts that are there and together at least as long as `written`, if that is positive
    /// (safety).
    #[inline]
    pub(crate) unsafe fn parts_done(self, parts: *const iovec, count: c_int, written: isize) {
        let Some(course) = self.0 else { return };
        let count = usize::try_from(count).ok().filter(|_| written > 0).unwrap_or(0);
        let part = |at| {
            // SAFETY: the caller's promise.
            let iovec { iov_base, iov_len } = unsafe { *parts.add(at) };
            (iov_base.cast_const().cast(), iov_len)
        };
        // SAFETY: as above.
        unsafe { course.add_parts((0..count).map(part), written) }
    }
}

fn status(fd: c_int) -> Option<libc::stat> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: fstat writes the structure when it returns 0.
    unsafe { (libc::fstat(fd, found.as_mut_ptr()) == 0).then(|| found.assume_init()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};
    use std::io::{Seek as _, SeekFrom, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::sync::{Mutex, MutexGuard};

    /// The table is one per process, and numbers are used again.
    static ONE: Mutex<()> = Mutex::new(());

    struct Written(File, MutexGuard<'static, ()>);

    impl Written {
        fn new() -> Self {
            let guard = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let file = tempfile::tempfile().unwrap();
            begin(file.as_raw_fd(), true);
            assert!(is_followed(file.as_raw_fd()));
            Self(file, guard)
        }

        fn fd(&self) -> c_int {
            self.0.as_raw_fd()
        }

        fn write(&mut self, data: &[u8]) {
            let next = next(self.fd(), WritePlace::Place);
            self.0.write_all(data).unwrap();
            done(next, data);
        }
    }

    fn done(next: FollowedWrite, data: &[u8]) {
        // SAFETY: so long it is.
        unsafe { next.done(data.as_ptr().cast(), data.len() as isize) }
    }

    const SOME: &[u8] = &[7; WORTH_BYTES as usize];

    #[test]
    fn what_is_written_in_order_has_its_checksum() {
        let mut one = Written::new();
        one.write(b"1234");
        let parts = [(&b"56"[..], 2), (&b"789"[..], 3)].map(|(data, iov_len)| iovec {
            iov_base: data.as_ptr().cast::<c_void>().cast_mut(),
            iov_len,
        });
        let next = next(one.fd(), WritePlace::Offset(4));
        one.0.write_all(b"56789").unwrap();
        // SAFETY: two parts, five bytes.
        unsafe { next.parts_done(parts.as_ptr(), 2, 5) }
        let known = course(one.fd()).unwrap();
        assert_eq!(known.crc32.load(Ordering::Relaxed), 0xcbf4_3926);
        one.write(SOME);
        let whole = finish(one.fd()).unwrap();
        assert_eq!(whole.bytes, 9 + WORTH_BYTES);
        let all = [b"123456789", SOME].concat();
        assert_eq!(whole.crc32, crc32fast::hash(&all));
        assert_eq!(finish(one.fd()), None);
    }

    #[test]
    fn whatever_else_happens_ends_it() {
        let ends = |act: &dyn Fn(&mut Written)| {
            let mut one = Written::new();
            one.write(SOME);
            act(&mut one);
            one.write(SOME);
            finish(one.fd())
        };
        assert!(ends(&|_| {}).is_some());
        assert_eq!(ends(&|one| stop(one.fd())), None);
        assert_eq!(ends(&|_| stop_all()), None);
        assert_eq!(ends(&|one| assert!(one.0.seek(SeekFrom::Start(3)).is_ok())), None);
        assert_eq!(ends(&|one| assert!(one.0.write_all(b"unseen").is_ok())), None);
        let failed = |one: &mut Written| {
            // SAFETY: nothing was written.
            unsafe { next(one.fd(), WritePlace::Place).done(SOME.as_ptr().cast(), -1) }
        };
        assert_eq!(ends(&failed), None);
        let again = |one: &mut Written| {
            let path = format!("/proc/self/fd/{}", one.fd());
            let other = OpenOptions::new().write(true).open(path).unwrap();
            begin(other.as_raw_fd(), true);
        };
        assert_eq!(ends(&again), None);
    }

    #[test]
    fn of_two_writes_at_the_same_time_the_second_ends_it() {
        let mut one = Written::new();
        let first = next(one.fd(), WritePlace::Place);
        one.write(SOME);
        done(first, SOME);
        assert_eq!(finish(one.fd()), None);

        one.0.set_len(0).unwrap();
        begin(one.fd(), true);
        one.0.rewind().unwrap();
        let first = next(one.fd(), WritePlace::Place);
        assert_eq!(finish(one.fd()), None, "closed while it is written");
        done(first, b"");
        assert!(!is_followed(one.fd()));
    }

    #[test]
    fn files_that_are_not_empty_are_not_followed() {
        let _guard = ONE.lock();
        let mut file = tempfile::tempfile().unwrap();
        begin(file.as_raw_fd(), false);
        assert!(!is_followed(file.as_raw_fd()), "it is not in the cache");
        file.write_all(b"x").unwrap();
        begin(file.as_raw_fd(), true);
        assert!(!is_followed(file.as_raw_fd()));
    }
}
