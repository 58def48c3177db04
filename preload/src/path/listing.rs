//! Merged directory streams: the real entries come first, without the hidden ones, then the cached
//! names. Streams to which the engine adds nothing and hides nothing are not in the table, and
//! while that is empty a readdir costs one load.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{AT_FDCWD, DIR, dirent};
use parking_lot::Mutex;

use crate::base::lock::{GENERATIONS, Lock};
use crate::engine::ActiveEngine;
use crate::path::disk;
use crate::{path::canonical, signal::guard};

pub(crate) const ADDED: c_long = c_long::MIN;

pub(crate) struct MergedListing {
    /// These names do not come from the file system's listing.
    pub hidden: BTreeSet<Vec<u8>>,
    /// Names, with their types and numbers.
    pub added: Vec<(CString, u8, u64)>,
    /// The real entries are still being read while it is `None`.
    pub next: Option<usize>,
    /// An entry that was handed out is valid until the next readdir of the stream.
    entry: Box<dirent>,
}

// Streams are used by one thread at a time (POSIX), the table by all.
static STREAMS: Lock<BTreeMap<usize, MergedListing>> =
    Lock::new([const { Mutex::new(BTreeMap::new()) }; GENERATIONS]);
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Looks at a stream that was opened or rewound just now. Guard held.
pub(crate) fn begin(active: &ActiveEngine, stream: *mut DIR) {
    let found = contents(active, stream);
    let mut streams = STREAMS.lock();
    match found {
        Some(found) => streams.insert(stream as usize, found),
        None => streams.remove(&(stream as usize)),
    };
    COUNT.store(streams.len(), Ordering::Release);
}

pub(crate) fn end(stream: *mut DIR) {
    if any() {
        let _: Option<()> = guard::work(|| {
            let mut streams = STREAMS.lock();
            streams.remove(&(stream as usize));
            COUNT.store(streams.len(), Ordering::Release);
        });
    }
}

pub(crate) fn forget_in_child() {
    COUNT.store(0, Ordering::Release);
}

pub(crate) fn any() -> bool {
    COUNT.load(Ordering::Acquire) != 0
}

extern "C" fn collect(
    context: *mut c_void,
    name: *const c_char,
    d_type: u8,
    ino: u64,
    hide: c_int,
) {
    // SAFETY: the engine passes on the context that `contents` gave it, and a C string.
    let (listing, name) = unsafe { (&mut *context.cast::<MergedListing>(), CStr::from_ptr(name)) };
    listing.hidden.insert(name.to_bytes().to_vec());
    if hide == 0 {
        listing.added.push((name.to_owned(), d_type, ino));
    }
}

/// An added name is hidden among the real ones, so that it comes once. Guard held.
fn contents(active: &ActiveEngine, stream: *mut DIR) -> Option<MergedListing> {
    // SAFETY: an open stream.
    let physical = disk::of_descriptor(unsafe { libc::dirfd(stream) })?;
    let path = canonical::locate(&active.prefix, AT_FDCWD, &physical)?;
    // SAFETY: plain data, for which all zero is a value.
    let entry = unsafe { Box::new(std::mem::zeroed()) };
    let mut found = MergedListing { hidden: BTreeSet::new(), added: Vec::new(), next: None, entry };
    let calls = (active.table.list)(path.as_ptr(), collect, (&raw mut found).cast());
    (calls > 0).then_some(found)
}

impl MergedListing {
    fn take_added(&mut self) -> Option<*mut dirent> {
        let index = self.next.unwrap_or(0);
        let (name, d_type, ino) = self.added.get(index)?;
        let entry = &mut *self.entry;
        let name = name.as_bytes_with_nul();
        let room = entry.d_name.len();
        let length = name.len().min(room - 1);
        for (to, &from) in entry.d_name.iter_mut().zip(&name[..length]) {
            *to = from.cast_signed() as c_char;
        }
        entry.d_name[length] = 0;
        entry.d_type = *d_type;
        entry.d_ino = (*ino).max(1); // zero means "no entry" to old programs
        entry.d_off = 0;
        entry.d_reclen = u16::try_from(size_of::<dirent>()).unwrap_or(u16::MAX);
        self.next = Some(index + 1);
        Some(&raw mut *self.entry)
    }
}

/// Returns `None` if the stream is not merged.
pub(crate) fn with_merged<T>(
    stream: *mut DIR,
    job: impl FnOnce(&mut MergedListing) -> T,
) -> Option<T> {
    if !any() {
        return None;
    }
    guard::work(|| STREAMS.lock().get_mut(&(stream as usize)).map(job)).flatten()
}

pub(crate) enum ListingStage {
    /// The file system's own entries are being read.
    Real,
    Added(*mut dirent),
    End,
}

pub(crate) fn stage(listing: &mut MergedListing) -> ListingStage {
    match listing.next {
        None => ListingStage::Real,
        Some(_) => listing.take_added().map_or(ListingStage::End, ListingStage::Added),
    }
}

/// Begins when the file system's own entries are through.
pub(crate) fn begin_added(listing: &mut MergedListing) -> Option<*mut dirent> {
    listing.next = Some(0);
    listing.take_added()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_names_come_once_and_in_order() {
        // SAFETY: plain data, for which all zero is a value.
        let entry = unsafe { Box::new(std::mem::zeroed()) };
        let mut merged =
            MergedListing { hidden: BTreeSet::new(), added: Vec::new(), next: None, entry };
        let context = (&raw mut merged).cast();
        collect(context, c"a".as_ptr(), libc::DT_REG, 7, 0);
        collect(context, c"gone".as_ptr(), libc::DT_REG, 8, 1);
        collect(context, c"b".as_ptr(), libc::DT_DIR, 9, 0);
        assert!(["a", "b", "gone"].iter().all(|name| merged.hidden.contains(name.as_bytes())));
        assert!(matches!(stage(&mut merged), ListingStage::Real));
        let mut names = Vec::new();
        let mut next = begin_added(&mut merged);
        while let Some(entry) = next {
            // SAFETY: the entry is the stream's own, with a C string as its name.
            let name = unsafe { CStr::from_ptr((&raw const (*entry).d_name).cast()) };
            // SAFETY: as above.
            names.push((name.to_str().unwrap().to_owned(), unsafe { (*entry).d_ino }));
            next = match stage(&mut merged) {
                ListingStage::Added(entry) => Some(entry),
                ListingStage::Real | ListingStage::End => None,
            };
        }
        assert_eq!(names, [("a".to_owned(), 7), ("b".to_owned(), 9)]);
    }
}
