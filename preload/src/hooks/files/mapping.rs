//! Shared mappings: a file can be written through memory long after its descriptor was closed. So
//! one of a writable tracked descriptor holds the token until it is unmapped, whatever its
//! protection, since mprotect can make it writable.

use std::ffi::{c_int, c_void};

use libc::{off_t, size_t};
use scr_abi::{Engine, accesses::trait_bit};

use crate::base::real::page_bytes;
use crate::fd::handle::{Outcome, handle};
use crate::fd::in_order::WritePlace;
use crate::fd::logged::{self, parted};
use crate::fd::open_files::{self, Claim};
use crate::fd::release::report;
use crate::hooks::family::interpose;
use crate::hooks::files::intent::may_change;
use crate::hooks::files::unseen_mappings;
use crate::{engine, fd::changes, fd::failing_store, signal::guard};

// Addresses travel as integers here, so that a missing symbol returns MAP_FAILED.
type Mmap = unsafe extern "C-unwind" fn(usize, size_t, c_int, c_int, c_int, off_t) -> isize;
type Munmap = unsafe extern "C-unwind" fn(usize, size_t) -> c_int;
type Mremap = unsafe extern "C-unwind" fn(usize, size_t, size_t, c_int, ...) -> isize;
type Msync = unsafe extern "C-unwind" fn(*mut c_void, size_t, c_int) -> c_int;

interpose! {
    plain [mmap, mmap64](
        address: usize, length: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t
    ) -> isize = Mmap => mmap;
    plain [munmap](address: usize, length: size_t) -> c_int = Munmap => munmap;
    plain [mremap](
        address: usize, old_length: size_t, new_length: size_t, flags: c_int, new_address: usize
    ) -> isize = Mremap => mremap;
    cancellable [msync](address: *mut c_void, length: size_t, flags: c_int) -> c_int
        = Msync => msync;
}

const FAILED: isize = -1;

unsafe fn mmap(
    real: Mmap,
    address: usize,
    length: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> isize {
    if length == 0 {
        unseen_mappings::reached();
    }
    let shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE && flags & libc::MAP_ANONYMOUS == 0;
    if flags & libc::MAP_ANONYMOUS == 0 && !may_map(fd, shared, offset, length) {
        return FAILED;
    }
    if shared {
        if !may_change(fd) {
            return FAILED;
        }
        // A page that finds no room when it is written is a SIGBUS.
        failing_store::ensure(fd, offset, length);
    }
    let Some(change) = changes::begin(if shared { fd } else { -1 }) else { return FAILED };
    // SAFETY: the program's own call.
    let start = unsafe { real(address, length, protection, flags, fd, offset) };
    if flags & libc::MAP_ANONYMOUS == 0 {
        logged::mark(fd, trait_bit::UNSEEN);
    }
    if start != FAILED && shared && open_files::may_hold(fd) {
        mapped(start.cast_unsigned(), length, fd);
    } else if start != FAILED && flags & libc::MAP_FIXED != 0 {
        unmapped(start.cast_unsigned(), length);
    }
    change.end();
    start
}

/// What is mapped for all to see can be written, or is to be seen when others write it.
fn may_map(fd: c_int, shared: bool, offset: off_t, length: size_t) -> bool {
    match shared {
        true => parted::leave(fd),
        false => parted::may_read(fd, WritePlace::Offset(offset), length),
    }
}

fn mapped(start: usize, length: usize, fd: c_int) {
    with_engine(|table| {
        if let Some(claim) = open_files::claim(fd)
            && claim.writable
        {
            report(table, open_files::attach_mapping(start, page_up(length), claim));
        }
    });
}

fn unmapped(start: usize, length: usize) {
    if open_files::any_mappings() {
        with_engine(|table| _ = report(table, open_files::detach_mapping(start, page_up(length))));
    }
}

fn with_engine(job: impl FnOnce(&Engine)) {
    if let Some(active) = engine::active() {
        let _: Option<()> = handle((), active, || {
            job(&active.table);
            Outcome::Pass
        });
    }
}

fn page_up(length: usize) -> usize {
    length.checked_next_multiple_of(page_bytes()).unwrap_or(length)
}

unsafe fn munmap(real: Munmap, address: usize, length: size_t) -> c_int {
    // The claim goes after the call has succeeded; no other thread may map these addresses before,
    // and if one does in between, its own claim replaces ours.
    // SAFETY: the program's own call.
    let result = unsafe { real(address, length) };
    if result == 0 {
        unmapped(address, length);
    }
    result
}

unsafe fn mremap(
    real: Mremap,
    address: usize,
    old_length: size_t,
    new_length: size_t,
    flags: c_int,
    new_address: usize,
) -> isize {
    let held = if engine::active().is_some() && open_files::any_mappings() {
        guard::work(|| open_files::mapping_claim(address)).flatten()
    } else {
        None
    };
    // SAFETY: the program's own call; the last argument is used with MREMAP_FIXED only.
    let start = unsafe { real(address, old_length, new_length, flags, new_address) };
    if let Some(claim) = held
        && start != FAILED
    {
        moved(claim, address, old_length, start.cast_unsigned(), new_length);
    }
    start
}

/// The new place is claimed before the old one is given up, so that the token stays held.
fn moved(claim: Claim, old: usize, old_length: usize, new: usize, new_length: usize) {
    with_engine(|table| {
        if old != new {
            report(table, open_files::attach_mapping(new, page_up(new_length), claim));
            report(table, open_files::detach_mapping(old, page_up(old_length)));
        } else if new_length > old_length {
            report(table, open_files::attach_mapping(new, page_up(new_length), claim));
        } else {
            let end = new + page_up(new_length);
            let cut = page_up(old_length) - page_up(new_length);
            report(table, open_files::detach_mapping(end, cut));
        }
    });
}

unsafe fn msync(real: Msync, address: *mut c_void, length: size_t, flags: c_int) -> c_int {
    // SAFETY: the program's own call.
    let result = unsafe { real(address, length, flags) };
    let code = guard::errno();
    if result == 0 || !open_files::any_mappings() || failing_store::harmless(code) {
        return result;
    }
    let mut put_off = false;
    with_engine(|table| {
        if let Some(claim) = open_files::mapping_claim(address as usize) {
            put_off = failing_store::put_off(table, claim.token, code);
            if !put_off {
                (table.failed)(claim.token, code);
            }
        }
    });
    guard::set_errno(code);
    if put_off { 0 } else { result }
}
