//! Which descriptors and shared mappings hold which of the engine's tokens. The lock is taken only
//! with the guard held and never while the engine is called. A bit per descriptor tells without
//! lock that a descriptor is not ours, which is the answer for nearly all.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::base::lock::{GENERATIONS, Lock};
use crate::fd::{in_order, logged, logged::Log, reuse};

const BITS: usize = 65_536;

static HELD: [AtomicU64; BITS / 64] = [const { AtomicU64::new(0) }; BITS / 64];
static STREAMS_SEEN: AtomicBool = AtomicBool::new(false);
static LAZY: [AtomicU64; BITS / 64] = [const { AtomicU64::new(0) }; BITS / 64];
static HELD_ABOVE: AtomicUsize = AtomicUsize::new(0);
static MAPPINGS: AtomicUsize = AtomicUsize::new(0);
static TABLE: Lock<DescriptorTable> =
    Lock::new([const { Mutex::new(DescriptorTable::new()) }; GENERATIONS]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub token: u64,
    pub writable: bool,
    /// The descriptor is to be replaced before its file is changed.
    pub lazy: bool,
    /// What is done through it is logged.
    pub log: Option<Log>,
}

/// What a descriptor is once it is replaced, as in [`Claim`].
#[derive(Clone, Copy, Default)]
pub(crate) struct Replaced {
    pub lazy: bool,
    pub log: Option<Log>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Released {
    pub claim: Claim,
    /// The engine is told once the real call has been made.
    pub last: bool,
}

#[derive(Clone, Copy)]
struct Mapping {
    length: usize,
    claim: Claim,
}

struct DescriptorTable {
    descriptors: BTreeMap<c_int, Claim>,
    mappings: BTreeMap<usize, Mapping>,
    holders: BTreeMap<u64, usize>,
    /// The stream on a descriptor is known by its address.
    streams: BTreeMap<c_int, usize>,
}

impl DescriptorTable {
    const fn new() -> Self {
        Self {
            descriptors: BTreeMap::new(),
            mappings: BTreeMap::new(),
            holders: BTreeMap::new(),
            streams: BTreeMap::new(),
        }
    }

    fn add_holder(&mut self, token: u64) {
        *self.holders.entry(token).or_insert(0) += 1;
    }

    fn drop_holder(&mut self, claim: Claim) -> Released {
        let count = self.holders.entry(claim.token).or_insert(1);
        *count -= 1;
        let last = *count == 0;
        if last {
            self.holders.remove(&claim.token);
        }
        Released { claim, last }
    }

    fn attach(&mut self, fd: c_int, claim: Claim) -> Option<Released> {
        self.add_holder(claim.token);
        in_order::stop(fd);
        let before = self.descriptors.insert(fd, claim);
        self.streams.remove(&fd);
        mark(fd, before.is_some(), true);
        mark_lazy(fd, claim.lazy);
        logged::set(fd, claim.log);
        before.map(|before| self.drop_holder(before))
    }

    fn detach(&mut self, fd: c_int) -> Option<Released> {
        in_order::stop(fd);
        let claim = self.descriptors.remove(&fd)?;
        self.streams.remove(&fd);
        mark(fd, true, false);
        mark_lazy(fd, false);
        logged::set(fd, None);
        Some(self.drop_holder(claim))
    }
}

fn mark(fd: c_int, was: bool, is: bool) {
    let Ok(index) = usize::try_from(fd) else { return };
    if index < BITS {
        let bit = 1 << (index % 64);
        if is {
            HELD[index / 64].fetch_or(bit, Ordering::Release);
        } else {
            HELD[index / 64].fetch_and(!bit, Ordering::Release);
        }
    } else if is && !was {
        HELD_ABOVE.fetch_add(1, Ordering::Release);
    } else if was && !is {
        HELD_ABOVE.fetch_sub(1, Ordering::Release);
    }
}

fn mark_lazy(fd: c_int, is: bool) {
    let Some(index) = usize::try_from(fd).ok().filter(|index| *index < BITS) else { return };
    let bit = 1 << (index % 64);
    if is {
        LAZY[index / 64].fetch_or(bit, Ordering::SeqCst);
    } else {
        LAZY[index / 64].fetch_and(!bit, Ordering::Release);
    }
}

/// Takes no lock: this is asked before every write, and one has to wait until such a descriptor is
/// replaced.
#[inline]
pub(crate) fn is_lazy(fd: c_int) -> bool {
    let Ok(index) = usize::try_from(fd) else { return false };
    LAZY.get(index / 64).is_some_and(|bits| bits.load(Ordering::SeqCst) & (1 << (index % 64)) != 0)
}

pub(crate) fn may_be_lazy(fd: c_int) -> bool {
    usize::try_from(fd).is_ok_and(|index| index < BITS)
}

/// Replaces in one piece: a claim goes before its descriptor, so none of these can be closed and
/// its number be used again meanwhile.
pub(crate) fn replace(token: u64, by: Replaced, put: impl Fn(c_int)) {
    let mut table = TABLE.lock();
    for (fd, claim) in table.descriptors.iter_mut().filter(|(_, claim)| claim.token == token) {
        put(*fd);
        in_order::stop(*fd);
        (claim.lazy, claim.log) = (by.lazy, by.log);
        logged::set(*fd, by.log);
        mark_lazy(*fd, by.lazy);
    }
}

/// Makes writers wait for the replacement of `token`, or not any more.
pub(crate) fn set_lazy(token: u64, lazy: bool) {
    let mut table = TABLE.lock();
    for (fd, claim) in table.descriptors.iter_mut().filter(|(_, claim)| claim.token == token) {
        claim.lazy = lazy;
        mark_lazy(*fd, lazy);
    }
}

/// Tells, too, which of them have a stream.
pub(crate) fn descriptors_of(tokens: &[u64]) -> Vec<(c_int, bool)> {
    let table = TABLE.lock();
    let held = table.descriptors.iter().filter(|(_, claim)| tokens.contains(&claim.token));
    held.map(|(&fd, _)| (fd, table.streams.contains_key(&fd))).collect()
}

/// Makes by `copy` a descriptor that no other thread can close.
pub(crate) fn hold(token: u64, copy: impl FnOnce(c_int) -> c_int) -> Option<c_int> {
    let table = TABLE.lock();
    let fd = table.descriptors.iter().find(|(_, claim)| claim.token == token).map(|(&fd, _)| fd);
    fd.map(copy)
}

pub(crate) fn lazy_holders() -> Vec<(u64, c_int)> {
    let table = TABLE.lock();
    let lazy = table.descriptors.iter().filter(|(_, claim)| claim.lazy);
    let mut holders: Vec<_> = lazy.map(|(&fd, claim)| (claim.token, fd)).collect();
    holders.sort_unstable();
    holders.dedup_by_key(|(token, _)| *token);
    holders
}

/// Finds those of them that are read from parts.
pub(crate) fn lazy_parts() -> Vec<u64> {
    let table = TABLE.lock();
    let part = |claim: &&Claim| claim.lazy && claim.log.is_some_and(Log::is_parted);
    table.descriptors.values().filter(part).map(|claim| claim.token).collect()
}

pub(crate) fn lazy_descriptors() -> Vec<c_int> {
    let table = TABLE.lock();
    table.descriptors.iter().filter(|(_, claim)| claim.lazy).map(|(&fd, _)| fd).collect()
}

pub(crate) fn parted_descriptors() -> Vec<c_int> {
    let table = TABLE.lock();
    let parted = |claim: &Claim| claim.log.is_some_and(Log::is_parted);
    table.descriptors.iter().filter(|(_, claim)| parted(claim)).map(|(&fd, _)| fd).collect()
}

/// Returns false if `fd` is surely not tracked. No lock.
pub(crate) fn may_hold(fd: c_int) -> bool {
    match usize::try_from(fd) {
        Ok(index) if index < BITS => {
            HELD[index / 64].load(Ordering::Acquire) & (1 << (index % 64)) != 0
        }
        Ok(_) => HELD_ABOVE.load(Ordering::Acquire) != 0,
        Err(_) => false,
    }
}

/// Returns the claim of a descriptor of that number that was closed behind our back.
pub(crate) fn attach(fd: c_int, claim: Claim) -> Option<Released> {
    TABLE.lock().attach(fd, claim)
}

pub(crate) fn detach(fd: c_int) -> Option<Released> {
    TABLE.lock().detach(fd)
}

/// Closes in one piece with `call`, which says whether they are closed; see [`replace`].
pub(crate) fn close_range(first: c_int, last: c_int, call: impl FnOnce() -> bool) -> Vec<Released> {
    let mut table = TABLE.lock();
    if !call() || first > last {
        return Vec::new();
    }
    let held: Vec<c_int> = table.descriptors.range(first..=last).map(|(&fd, _)| fd).collect();
    held.into_iter().filter_map(|fd| table.detach(fd)).collect()
}

/// Copies in one piece: where `from` is replaced meanwhile, its copy, which `call` makes, is, too.
/// Returns what the copy's number held before.
pub(crate) fn copy<E>(
    from: c_int,
    call: impl FnOnce() -> Result<c_int, E>,
) -> Result<(c_int, Option<Released>), E> {
    let mut table = TABLE.lock();
    in_order::stop(from);
    let to = call()?;
    let before = match table.descriptors.get(&from).copied() {
        Some(claim) => table.attach(to, claim),
        None => table.detach(to),
    };
    Ok((to, before))
}

pub(crate) fn claim(fd: c_int) -> Option<Claim> {
    TABLE.lock().descriptors.get(&fd).copied()
}

pub(crate) fn attach_stream(fd: c_int, stream: usize) {
    let mut table = TABLE.lock();
    if table.descriptors.contains_key(&fd) {
        table.streams.insert(fd, stream);
    }
}

pub(crate) fn streams() -> Vec<(c_int, usize)> {
    TABLE.lock().streams.iter().map(|(&fd, &stream)| (fd, stream)).collect()
}

/// Says whether what streams write passes us (`stream_writes`).
pub(crate) fn note_streams_seen(seen: bool) {
    STREAMS_SEEN.store(seen, Ordering::Release);
}

pub(crate) fn streams_are_seen() -> bool {
    STREAMS_SEEN.load(Ordering::Acquire)
}

/// Takes no lock: the parent's threads may have held it at the fork.
pub(crate) fn forget_in_child() {
    HELD.iter().chain(&LAZY).for_each(|bits| bits.store(0, Ordering::Release));
    HELD_ABOVE.store(0, Ordering::Release);
    MAPPINGS.store(0, Ordering::Release);
    reuse::forget_in_child();
    in_order::stop_all();
}

pub(crate) fn detach_all() -> Vec<u64> {
    let mut table = TABLE.lock();
    let tokens = table.holders.keys().copied().collect();
    let held: Vec<c_int> = table.descriptors.keys().copied().collect();
    for fd in held {
        table.detach(fd);
    }
    table.mappings.clear();
    table.holders.clear();
    MAPPINGS.store(0, Ordering::Release);
    tokens
}

/// Returns one of its descriptors with each.
pub(crate) fn holders_of_same_file(fd: c_int) -> Vec<(u64, c_int)> {
    let Some(file) = identity(fd) else { return Vec::new() };
    let table = TABLE.lock();
    let mut holders: Vec<(u64, c_int)> =
        table.descriptors.iter().map(|(&fd, claim)| (claim.token, fd)).collect();
    drop(table);
    holders.retain(|&(_, fd)| identity(fd) == Some(file));
    holders.sort_unstable();
    holders.dedup_by_key(|(token, _)| *token);
    holders
}

fn identity(fd: c_int) -> Option<(u64, u64)> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: fstat writes the structure when it returns 0.
    unsafe {
        if libc::fstat(fd, found.as_mut_ptr()) != 0 {
            return None;
        }
        let found = found.assume_init();
        Some((found.st_dev, found.st_ino))
    }
}

pub(crate) fn is_mapped(token: u64) -> bool {
    any_mappings() && TABLE.lock().mappings.values().any(|mapping| mapping.claim.token == token)
}

pub(crate) fn writers_of(token: u64) -> usize {
    let table = TABLE.lock();
    let writes = |claim: &Claim| claim.token == token && claim.writable;
    table.descriptors.values().filter(|claim| writes(claim)).count()
        + table.mappings.values().filter(|mapping| writes(&mapping.claim)).count()
}

pub(crate) fn any_mappings() -> bool {
    MAPPINGS.load(Ordering::Acquire) != 0
}

/// Returns the claims that the mapping has replaced.
pub(crate) fn attach_mapping(start: usize, length: usize, claim: Claim) -> Vec<Released> {
    let mut table = TABLE.lock();
    // First the new holder, so that a mapping that replaces its own kind never looks like the last.
    table.add_holder(claim.token);
    let gone = unmap(&mut table, start, length);
    table.mappings.insert(start, Mapping { length, claim });
    MAPPINGS.store(table.mappings.len(), Ordering::Release);
    gone
}

pub(crate) fn detach_mapping(start: usize, length: usize) -> Vec<Released> {
    let mut table = TABLE.lock();
    let gone = unmap(&mut table, start, length);
    MAPPINGS.store(table.mappings.len(), Ordering::Release);
    gone
}

pub(crate) fn mapping_claim(address: usize) -> Option<Claim> {
    let table = TABLE.lock();
    let (&start, mapping) = table.mappings.range(..=address).next_back()?;
    (address - start < mapping.length).then_some(mapping.claim)
}

/// Pieces that remain keep their claim.
fn unmap(table: &mut DescriptorTable, start: usize, length: usize) -> Vec<Released> {
    let end = start.saturating_add(length);
    let hit: Vec<(usize, Mapping)> = table
        .mappings
        .range(..end)
        .filter(|(from, mapping)| from.saturating_add(mapping.length) > start)
        .map(|(&from, &mapping)| (from, mapping))
        .collect();
    let mut gone = Vec::new();
    for (from, mapping) in hit {
        table.mappings.remove(&from);
        let to = from + mapping.length;
        if from < start {
            table.add_holder(mapping.claim.token);
            table.mappings.insert(from, Mapping { length: start - from, ..mapping });
        }
        if to > end {
            table.add_holder(mapping.claim.token);
            table.mappings.insert(end, Mapping { length: to - end, ..mapping });
        }
        gone.push(table.drop_holder(mapping.claim));
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn writer(token: u64) -> Claim {
        Claim { token, writable: true, lazy: false, log: None }
    }

    fn copied(from: c_int, to: c_int) -> Option<Released> {
        copy(from, || Ok::<_, ()>(to)).unwrap().1
    }

    // Descriptor numbers and tokens differ from test to test: the table is one per process.
    #[test]
    fn the_last_of_several_copies_releases() {
        assert!(!may_hold(1001));
        assert_eq!(attach(1001, writer(11)), None);
        assert_eq!(copied(1001, 1002), None);
        assert!(may_hold(1001) && may_hold(1002));
        assert_eq!(writers_of(11), 2);
        assert_eq!(hold(11, |fd| fd), Some(1001));
        assert_eq!(detach(1001), Some(Released { claim: writer(11), last: false }));
        assert_eq!(detach(1001), None);
        assert_eq!(close_range(1000, 1003, || false), []);
        assert_eq!(close_range(1000, 1003, || true), [Released { claim: writer(11), last: true }]);
        assert!(!may_hold(1002));
    }

    #[test]
    fn a_number_used_again_tells_that_the_old_descriptor_is_gone() {
        attach(1101, writer(21));
        let before = attach(1101, writer(22));
        assert_eq!(before, Some(Released { claim: writer(21), last: true }));
        // dup2 of an untracked descriptor over a tracked one.
        assert_eq!(copied(1199, 1101), Some(Released { claim: writer(22), last: true }));
    }

    #[test]
    fn numbers_above_the_bitmap_are_found_too() {
        let fd = c_int::try_from(BITS).unwrap() + 5;
        attach(fd, writer(31));
        assert!(may_hold(fd));
        assert!(detach(fd).unwrap().last);
        assert!(!may_hold(fd));
    }

    #[test]
    fn a_copy_of_a_lazy_descriptor_is_lazy_until_the_token_is_woken() {
        attach(1401, Claim { lazy: true, ..writer(51) });
        copied(1401, 1402);
        assert!(is_lazy(1401) && is_lazy(1402) && !is_lazy(1403) && !is_lazy(-1));
        assert!(lazy_holders().contains(&(51, 1401)));
        replace(51, Replaced::default(), |_| ());
        assert!(!is_lazy(1401) && !is_lazy(1402));
        attach(1401, Claim { lazy: true, ..writer(52) });
        close_range(1401, 1402, || true);
        assert!(!is_lazy(1401));
    }

    /// Goal: nothing comes between a system call and its entry in the table. Method: while each
    /// call is made, another thread replaces the token's descriptors; it comes to its end first, if
    /// it is not made to wait.
    #[test]
    fn a_copy_and_a_replacement_do_not_cross() {
        attach(1501, Claim { lazy: true, ..writer(61) });
        let replaced = Mutex::new(Vec::new());
        let done = AtomicUsize::new(0);
        let other = || {
            replace(61, Replaced::default(), |fd| replaced.lock().push(fd));
            done.store(1, Ordering::Release);
        };
        std::thread::scope(|scope| {
            let call = || {
                scope.spawn(other);
                while done.load(Ordering::Acquire) == 0 && !TABLE.is_locked() {
                    std::thread::yield_now();
                }
                Ok::<_, ()>(1502)
            };
            copy(1501, call).unwrap();
        });
        assert_eq!(*replaced.lock(), [1501, 1502]);
        assert!(!is_lazy(1501) && !is_lazy(1502));
        close_range(1501, 1502, || true);
        assert_eq!(hold(61, |fd| fd), None);
    }

    #[test]
    fn a_mapping_holds_the_token_until_its_last_page_goes() {
        attach(1301, writer(41));
        attach_mapping(0x10_000, 0x4000, writer(41));
        assert!(!detach(1301).unwrap().last);
        assert_eq!(mapping_claim(0x13_fff), Some(writer(41)));
        assert_eq!(mapping_claim(0x14_000), None);
        // A hole in the middle leaves two pieces.
        assert!(detach_mapping(0x11_000, 0x1000).iter().all(|gone| !gone.last));
        assert!(detach_mapping(0x10_000, 0x1000).iter().all(|gone| !gone.last));
        let rest = detach_mapping(0x12_000, 0x2000);
        assert_eq!(rest, [Released { claim: writer(41), last: true }]);
    }
}
