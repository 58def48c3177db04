//! Which of the program's communicators count for the agreement, and the stream of each. All ranks
//! must count the same calls, and those of several threads have the same order everywhere only if
//! they are on one communicator. So where MPI lets several threads communicate, each communicator
//! has a stream of its own; else all are one, and only the thread that initialised MPI counts:
//! others call it all the same, in libraries. An attribute of the communicator keeps what was found
//! out.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use scr_core::error::Result;
use scr_core::session::Herald;
use scr_core::streams::WORLD;
use scr_core::system::thread_id;

use super::communicator::{address, all_max};
use super::library::{Library, library};
use super::lifecycle::attribute;
use super::values::Handle;
use super::{check, wait};

pub fn world_rank() -> Result<usize> {
    let mpi = library()?;
    let mut rank = 0;
    // SAFETY: MPI is initialised; the out-parameter is a local.
    let code = unsafe { (mpi.call.comm_rank)(mpi.values.comm_world, &mut rank) };
    check(code, "MPI_Comm_rank")?;
    Ok(rank as usize)
}

/// Tells whether `own` is true on some rank of the world, and on all. In a call that all ranks
/// make, and before there is a communicator of ours. Collective.
pub fn on_some_and_all(own: bool) -> Result<(bool, bool)> {
    let mpi = library()?;
    let mut most = [i64::from(own), i64::from(!own)];
    all_max(mpi, &mut most, mpi.values.comm_world)?;
    Ok((most[0] != 0, most[1] == 0))
}

pub fn world_size() -> Result<usize> {
    let mpi = library()?;
    let mut size = 0;
    // SAFETY: as in `world_rank`.
    let code = unsafe { (mpi.call.comm_size)(mpi.values.comm_world, &mut size) };
    check(code, "MPI_Comm_size")?;
    Ok(size as usize)
}

/// The launch check's word, an empty message on the world itself: a communicator of our own takes a
/// collective to make, and the program sends nothing before its MPI_Init returns.
pub struct WorldHerald;

/// The largest tag that every MPI has.
const HERALD_TAG: c_int = 32767;

impl Herald for WorldHerald {
    fn tell(&self, rank: usize) -> Result<()> {
        let mpi = library()?;
        let (to, world, byte) = (rank as c_int, mpi.values.comm_world, mpi.values.uint8);
        // SAFETY: MPI is initialised; nothing is read at the valid address.
        let code =
            wait(|| unsafe { (mpi.call.send)(address(&[]), 0, byte, to, HERALD_TAG, world) });
        check(code, "MPI_Send")
    }

    fn has_told(&self, rank: usize) -> Result<bool> {
        let mpi = library()?;
        let (from, mut flag) = (rank as c_int, 0);
        let (world, nothing) = (mpi.values.comm_world, mpi.values.no_status());
        // SAFETY: as above; the flag is a local, and no status is wanted.
        let code = unsafe { (mpi.call.iprobe)(from, HERALD_TAG, world, &mut flag, nothing) };
        check(code, "MPI_Iprobe")?;
        if flag == 0 {
            return Ok(false);
        }
        let to = address(&[]).cast_mut();
        // SAFETY: as above; the message is there, and nothing is written.
        let code =
            unsafe { (mpi.call.recv)(to, 0, mpi.values.uint8, from, HERALD_TAG, world, nothing) };
        check(code, "MPI_Recv").map(|()| true)
    }
}

thread_local! {
    static INITIALISED_MPI: Cell<bool> = const { Cell::new(false) };
}

pub struct Counted {
    pub world: usize,
    /// The bits of it that count.
    pub mask: usize,
    /// The one thread whose calls count, as pthread_self says; 0: any.
    pub thread: usize,
}

const NO_STREAM: usize = usize::MAX;

/// What is known is kept with a communicator of all ranks.
struct Known {
    foreign: bool,
    /// Calls are counted while the communicator has no stream.
    calls: AtomicU64,
    stream: AtomicUsize,
}

/// A bit for each stream whose communicator was freed.
static FREED: AtomicU64 = AtomicU64::new(0);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    No,
    /// The call is on the world, but by another thread than the one that counts.
    NoThread,
    In(usize),
    /// Its communicator may have a stream: [`Classifier::place`].
    Unplaced,
}

/// What the blocking collective calls on a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileCalls {
    /// One rank makes them alone.
    OfOneRank,
    /// Sync points of this stream.
    Counted(usize),
    /// Calls of these ranks only, which tell one another.
    OfGroup(usize),
    /// None, though several ranks make them.
    Uncounted,
}

pub struct Classifier {
    mpi: &'static Library,
    world_size: usize,
    any_thread: bool,
    merged: AtomicBool,
    key: c_int,
    /// After the end nothing is asked of the key any more.
    ended: AtomicBool,
}

impl Classifier {
    /// Makes a classifier. To be called by the thread that has initialised MPI. `any_thread`: some
    /// rank may communicate with several threads (agreed among all ranks).
    pub fn new(world_size: usize, any_thread: bool) -> Result<Self> {
        INITIALISED_MPI.set(true);
        let mpi = library()?;
        let key = attribute(mpi, forget_known)?;
        let (merged, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Classifier { mpi, world_size, any_thread, merged, key, ended })
    }

    /// Gives the key back: from MPI_Finalize on only calls on the world count.
    pub fn end(&self) {
        if !self.ended.swap(true, Ordering::SeqCst) {
            let mut key = self.key;
            // SAFETY: MPI still works, and nobody uses the key after `ended`. What is kept under it
            // goes with its communicators.
            unsafe { (self.mpi.call.comm_free_keyval)(&mut key) };
        }
    }

    pub fn expect_others(&self) {
        self.merged.store(true, Ordering::Relaxed);
    }

    /// Returns what tells calls on the world, which count whatever happens. To be called by the
    /// thread that has initialised MPI.
    pub fn counted(&self) -> Counted {
        let mask = self.mpi.values.mask();
        let world = self.mpi.values.comm_world & mask;
        let thread = if self.any_thread { 0 } else { thread_id() as usize };
        Counted { world, mask, thread }
    }

    pub fn counts(&self, handle: usize) -> Counts {
        let comm = self.mpi.values.handle(handle);
        let is_world = comm == self.mpi.values.comm_world;
        if !self.any_thread && !INITIALISED_MPI.get() {
            return if is_world { Counts::NoThread } else { Counts::No };
        }
        if is_world {
            return Counts::In(WORLD);
        }
        match self.known(comm) {
            Some(known) if known.foreign => Counts::No,
            Some(_) if !self.any_thread => Counts::In(WORLD),
            Some(known) => match known.stream.load(Ordering::Relaxed) {
                NO_STREAM => Counts::Unplaced,
                stream => Counts::In(stream),
            },
            None => Counts::No,
        }
    }

    /// Tells what blocking collective calls of this thread are on a file that the ranks of `handle`
    /// have tried to open; `counts`: they may count. Several threads may order those on two files
    /// in any way: so each file has a stream of its own then, for which all ranks look as
    /// [`Classifier::place`] says.
    pub fn calls_on_files_of(
        &self,
        handle: usize,
        counts: bool,
        seek: impl FnOnce() -> u64,
        place: impl FnOnce(u64) -> Option<usize>,
    ) -> FileCalls {
        let comm = self.mpi.values.handle(handle);
        let of_all = match self.counts(handle) {
            Counts::No | Counts::NoThread => false,
            Counts::In(_) | Counts::Unplaced => counts,
        };
        match of_all {
            false if self.is_of_one(comm) => FileCalls::OfOneRank,
            false => FileCalls::Uncounted,
            true if !self.any_thread => FileCalls::Counted(WORLD),
            true => match self.look_for_place(comm, seek, place) {
                Ok(Some(stream)) => FileCalls::Counted(stream),
                Ok(None) | Err(_) => FileCalls::Uncounted,
            },
        }
    }

    /// Tells whether calls of smaller communicators can be counted, the same on all ranks, and
    /// whether those of this thread can be.
    pub fn counts_groups(&self) -> (bool, bool) {
        (!self.any_thread, INITIALISED_MPI.get())
    }

    fn is_of_one(&self, comm: Handle) -> bool {
        let mut size = 0;
        // SAFETY: the program has just opened a file on it; the out-parameter is a local.
        unsafe { (self.mpi.call.comm_size)(comm, &mut size) == 0 && size == 1 }
    }

    /// Looks for a stream of the communicator `handle`, at a call of it that all ranks make: `seek`
    /// says which places this rank has when all are there, `place` takes what all have. Now and
    /// then only, since there may be none for long.
    pub fn place(
        &self,
        handle: usize,
        seek: impl FnOnce() -> u64,
        place: impl FnOnce(u64) -> Option<usize>,
    ) -> Result<Option<usize>> {
        let comm = self.mpi.values.handle(handle);
        let Some(known) = self.known(comm) else { return Ok(None) };
        if !(known.calls.fetch_add(1, Ordering::Relaxed) + 1).is_power_of_two() {
            return Ok(None);
        }
        let stream = self.look_for_place(comm, seek, place)?;
        known.stream.store(stream.unwrap_or(NO_STREAM), Ordering::Relaxed);
        Ok(stream)
    }

    fn look_for_place(
        &self,
        comm: Handle,
        seek: impl FnOnce() -> u64,
        place: impl FnOnce(u64) -> Option<usize>,
    ) -> Result<Option<usize>> {
        let (call, values) = (&self.mpi.call, &self.mpi.values);
        // SAFETY: the handle is one of an MPI call of the program, right before or after this.
        check(wait(|| unsafe { (call.barrier)(comm) }), "MPI_Barrier")?;
        let own = seek();
        let mut on_all = 0_u64;
        // SAFETY: as above; both buffers are locals of one word.
        let code = wait(|| unsafe {
            (call.allreduce)(
                (&raw const own).cast(),
                (&raw mut on_all).cast(),
                1,
                values.uint64,
                values.band,
                comm,
            )
        });
        let stream = place(if code == 0 { on_all } else { 0 });
        check(code, "MPI_Allreduce")?;
        Ok(stream)
    }

    /// `None`: the communicator has not as many ranks as the world.
    fn known(&self, comm: Handle) -> Option<&'static Known> {
        let (mut size, mut inter, mut found) = (0, 0, 0);
        let mut value: *mut c_void = ptr::null_mut();
        let (call, values) = (&self.mpi.call, &self.mpi.values);
        // SAFETY: the handle is what the program passes to its own MPI call right after; a null
        // handle is sorted out first. The out-parameters are locals.
        unsafe {
            if self.ended.load(Ordering::SeqCst)
                || comm == values.comm_null
                || (call.comm_size)(comm, &mut size) != 0
                || size as usize != self.world_size
                || (call.comm_get_attr)(comm, self.key, &raw mut value, &mut found) != 0
            {
                return None;
            }
            if found == 0 {
                if (call.comm_test_inter)(comm, &mut inter) != 0 || inter != 0 {
                    return None;
                }
                let stream = AtomicUsize::new(NO_STREAM);
                let foreign = self.merged.load(Ordering::Relaxed) && has_others(self.mpi, comm);
                let known = Box::new(Known { foreign, calls: AtomicU64::new(0), stream });
                value = Box::into_raw(known).cast();
                if (call.comm_set_attr)(comm, self.key, value) != 0 {
                    drop(Box::from_raw(value.cast::<Known>()));
                    return None;
                }
            }
            // SAFETY: what was kept there, which lives until the communicator is freed: after the
            // program's call, for which it is needed.
            value.cast::<Known>().as_ref()
        }
    }
}

/// Takes the streams whose communicators were freed since this was asked last.
pub fn take_freed() -> impl Iterator<Item = usize> {
    // Most often there is none, and every call asks.
    let freed = match FREED.load(Ordering::Relaxed) {
        0 => 0,
        _ => FREED.swap(0, Ordering::AcqRel),
    };
    (0..u64::BITS as usize).filter(move |stream| freed >> stream & 1 != 0)
}

/// Safety: `comm` is an intra-communicator.
unsafe fn has_others(mpi: &Library, comm: Handle) -> bool {
    let mut result = 0;
    // SAFETY: by this function's contract; the out-parameter is a local.
    unsafe {
        let code = (mpi.call.comm_compare)(comm, mpi.values.comm_world, &mut result);
        code != 0 || result == mpi.values.unequal
    }
}

unsafe extern "C" fn forget_known(
    _comm: Handle,
    _key: c_int,
    value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    // SAFETY: the value is what `known` has kept there, and nobody uses the communicator any more.
    let known = unsafe { Box::from_raw(value.cast::<Known>()) };
    if let Some(bit) = 1_u64.checked_shl(known.stream.load(Ordering::Relaxed).min(64) as u32) {
        FREED.fetch_or(bit, Ordering::AcqRel);
    }
    0
}

/// Returns the world ranks of a communicator's members, one that is not of this world as
/// `usize::MAX`; empty for a handle of no communicator.
pub fn members(handle: usize) -> Vec<usize> {
    let Ok(mpi) = library() else { return Vec::new() };
    let comm = mpi.values.handle(handle);
    let mut size = 0;
    let mut groups = mpi.values.handles(2, 0);
    // SAFETY: the handle is what the program passes to its own MPI call right after; a null handle
    // is sorted out first. The out-parameters are locals of the sizes that are said.
    unsafe {
        if comm == mpi.values.comm_null || (mpi.call.comm_size)(comm, &mut size) != 0 {
            return Vec::new();
        }
        let own: Vec<c_int> = (0..size).collect();
        let mut of_world = vec![mpi.values.undefined; own.len()];
        if (mpi.call.comm_group)(comm, groups.place(0)) == 0
            && (mpi.call.comm_group)(mpi.values.comm_world, groups.place(1)) == 0
        {
            let (group, world) = (groups.get(0), groups.get(1));
            let into = of_world.as_mut_ptr();
            let _ = (mpi.call.group_translate_ranks)(group, size, own.as_ptr(), world, into);
            let _ = (mpi.call.group_free)(groups.place(0));
            let _ = (mpi.call.group_free)(groups.place(1));
        }
        of_world.into_iter().map(|rank| usize::try_from(rank).unwrap_or(usize::MAX)).collect()
    }
}
