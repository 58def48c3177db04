//! What is known of the descriptors through which a file is written from its start to its end.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

const FOLLOWED: usize = 1024;

// What is known of a descriptor's file.
pub(super) const UNKNOWN: u32 = 0;
pub(super) const FOLLOWING: u32 = 1;
/// A call is writing, or the fields are being filled.
pub(super) const WRITING: u32 = 2;
/// The same, and nothing will be known when it returns.
pub(super) const SPOILED: u32 = 3;
/// Its file is settled, and nobody may write meanwhile.
pub(super) const PAUSED: u32 = 4;

pub(crate) struct WriteCourse {
    pub(super) state: AtomicU32,
    pub(super) number: AtomicI32,
    pub(super) crc32: AtomicU32,
    pub(super) bytes: AtomicU64,
    pub(super) device: AtomicU64,
    pub(super) inode: AtomicU64,
}

static COURSES: [WriteCourse; FOLLOWED] = [const {
    WriteCourse {
        state: AtomicU32::new(UNKNOWN),
        number: AtomicI32::new(-1),
        crc32: AtomicU32::new(0),
        bytes: AtomicU64::new(0),
        device: AtomicU64::new(0),
        inode: AtomicU64::new(0),
    }
}; FOLLOWED];

pub(super) static USED: AtomicUsize = AtomicUsize::new(0);

pub(super) fn used() -> &'static [WriteCourse] {
    &COURSES[..USED.load(Ordering::Acquire)]
}

pub(crate) fn course(fd: c_int) -> Option<&'static WriteCourse> {
    COURSES.get(usize::try_from(fd).ok()?)
}

#[inline]
pub(crate) fn is_followed(fd: c_int) -> bool {
    course(fd).is_some_and(|course| course.state.load(Ordering::Relaxed) != UNKNOWN)
}

/// Follows `fd`, to which nothing is written yet, to another file. False: it is not followed.
pub(crate) fn moves_to(fd: c_int, device: u64, inode: u64) -> bool {
    let Some(course) = course(fd).filter(|course| course.pause().is_some()) else { return false };
    course.device.store(device, Ordering::Relaxed);
    course.inode.store(inode, Ordering::Relaxed);
    course.go_on();
    true
}

pub(crate) fn bytes_so_far(fd: c_int) -> Option<u64> {
    is_followed(fd).then(|| course(fd).map(WriteCourse::bytes)).flatten()
}

impl WriteCourse {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Has writers wait. `None`: a call is writing.
    pub(crate) fn pause(&self) -> Option<u64> {
        self.moves(FOLLOWING, PAUSED).then(|| self.bytes())
    }

    pub(crate) fn go_on(&self) {
        self.moves(PAUSED, FOLLOWING);
    }

    pub(super) fn moves(&self, from: u32, to: u32) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Leaves the end to a call that is under way.
    pub(super) fn stop(&self) {
        loop {
            let next = match self.state.load(Ordering::Relaxed) {
                FOLLOWING => (FOLLOWING, UNKNOWN),
                WRITING => (WRITING, SPOILED),
                PAUSED => {
                    std::thread::yield_now();
                    continue;
                }
                _ => return,
            };
            if self.moves(next.0, next.1) {
                return;
            }
        }
    }
}
