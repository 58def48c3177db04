//! Shared mappings that pass unseen: UCX, below MPICH, has mmap and munmap jump to functions of its
//! own, which call the kernel. What is mapped is then looked up in `/proc/self/maps`: when a file
//! that can be mapped for writing is closed, and, while one is mapped, at sync points.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use scr_abi::{Engine, accesses::trait_bit};

use crate::base::lock::{GENERATIONS, Lock};
use crate::fd::release::report;
use crate::{fd::logged, fd::open_files, signal::guard};

static HIDDEN: AtomicBool = AtomicBool::new(false);

static CLAIMED: Lock<Vec<Region>> = Lock::new([const { Mutex::new(Vec::new()) }; GENERATIONS]);

thread_local! {
    /// A mapping without length has come by.
    static REACHED: Cell<bool> = const { Cell::new(false) };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Region {
    start: usize,
    end: usize,
    file: (libc::dev_t, libc::ino_t),
}

pub(super) fn reached() {
    let _ = REACHED.try_with(|reached| reached.set(true));
}

pub(in crate::hooks) fn are_seen() -> bool {
    let code = guard::errno();
    let _ = REACHED.try_with(|reached| reached.set(false));
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a mapping without length is refused.
    unsafe { libc::mmap(std::ptr::null_mut(), 0, libc::PROT_NONE, flags, -1, 0) };
    guard::set_errno(code);
    let seen = REACHED.try_with(Cell::get).unwrap_or(false);
    HIDDEN.store(!seen, Ordering::Relaxed);
    seen
}

pub(super) fn flags_of(fd: c_int) -> c_int {
    // SAFETY: system call on numbers only.
    unsafe { libc::fcntl(fd, libc::F_GETFL) }
}

/// Tells whether no mapping changes a file unseen through a descriptor of these flags.
pub(super) fn cannot_change(flags: c_int) -> bool {
    flags & libc::O_ACCMODE == libc::O_WRONLY || are_seen()
}

/// Has the mappings of its file hold the token of `fd`, which is about to be closed. Guard held.
pub(super) fn claim_before_close(table: &Engine, fd: c_int) {
    if !HIDDEN.load(Ordering::Relaxed) {
        return;
    }
    let Some(claim) = open_files::claim(fd).filter(|claim| claim.writable) else { return };
    let Some(file) = identity(fd).filter(|_| flags_of(fd) & libc::O_ACCMODE == libc::O_RDWR) else {
        return;
    };
    for region in shared_regions().into_iter().filter(|region| region.file == file) {
        let length = region.end - region.start;
        logged::mark(fd, trait_bit::UNSEEN);
        report(table, open_files::attach_mapping(region.start, length, claim));
        let mut claimed = CLAIMED.lock();
        claimed.retain(|other| other.start != region.start);
        claimed.push(region);
    }
}

pub(in crate::hooks) fn sweep(table: &Engine) {
    if !HIDDEN.load(Ordering::Relaxed) || CLAIMED.lock().is_empty() {
        return;
    }
    let now = shared_regions();
    let overlaps = |one: &Region, other: &Region| {
        one.file == other.file && one.start < other.end && other.start < one.end
    };
    let mut gone = Vec::new();
    CLAIMED.lock().retain(|claimed| {
        let stays = now.iter().any(|region| overlaps(region, claimed));
        if !stays {
            gone.push(*claimed);
        }
        stays
    });
    for region in gone {
        report(table, open_files::detach_mapping(region.start, region.end - region.start));
    }
}

fn identity(fd: c_int) -> Option<(libc::dev_t, libc::ino_t)> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the buffer has the size of the structure, which is read only if the call filled it.
    let found = unsafe {
        if libc::fstat(fd, found.as_mut_ptr()) != 0 {
            return None;
        }
        found.assume_init()
    };
    Some((found.st_dev, found.st_ino))
}

fn shared_regions() -> Vec<Region> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter_map(shared_region).collect()
}

/// A line is `start-end rwxs offset major:minor inode path`.
fn shared_region(line: &str) -> Option<Region> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    if words.next()?.as_bytes().get(3) != Some(&b's') {
        return None;
    }
    let (major, minor) = words.nth(1)?.split_once(':')?;
    let inode = words.next()?.parse().ok()?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    let address = |text| usize::from_str_radix(text, 16).ok();
    let file = (libc::makedev(number(major)?, number(minor)?), inode);
    Some(Region { start: address(start)?, end: address(end)?, file })
}
