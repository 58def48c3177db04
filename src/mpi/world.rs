//! Which of the program's communicators count for the agreement, and the stream of each.
//!
//! All ranks must count the same calls. One thread makes the same ones everywhere, if they are on
//! intra-communicators of all the world's ranks. Calls of several threads have the same order
//! everywhere only if they are on one communicator. So where MPI lets several threads communicate,
//! each communicator has a stream of its own; where it does not, all are one, and only the thread
//! that initialised MPI counts: others call it all the same, in libraries. What was found out about
//! a communicator is kept with it, as an attribute, which goes when it is freed.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use mpi::ffi;
use scr_core::error::Result;
use scr_core::session::Herald;
use scr_core::streams::WORLD;
use scr_core::system::thread_id;

use super::communicator::address;
use super::lifecycle::attribute;
use super::{check, wait};

/// A communicator handle as the shim passes it on: a pointer (Open MPI) or an int (MPICH).
trait FromWord {
    fn from_word(word: usize) -> Self;
    /// The word, and those of its bits that count.
    fn to_word(self) -> (usize, usize);
}

impl FromWord for c_int {
    fn from_word(word: usize) -> Self {
        word as u32 as c_int
    }

    fn to_word(self) -> (usize, usize) {
        (self as u32 as usize, u32::MAX as usize)
    }
}

impl<T> FromWord for *mut T {
    fn from_word(word: usize) -> Self {
        word as *mut T
    }

    fn to_word(self) -> (usize, usize) {
        (self as usize, usize::MAX)
    }
}

/// Returns the rank of this process in the world. Local.
///
/// # Errors
/// [`scr_core::error::Error::Comm`] when MPI refuses.
pub fn world_rank() -> Result<usize> {
    let mut rank = 0;
    // SAFETY: MPI is initialised when the engine is; the out-parameter is a local.
    check(unsafe { ffi::PMPI_Comm_rank(ffi::RSMPI_COMM_WORLD, &mut rank) }, "MPI_Comm_rank")?;
    Ok(rank as usize)
}

/// Tells whether `own` is true on some rank of the world, and on all. In a call that all ranks
/// make, and before there is a communicator of ours. Collective.
///
/// # Errors
/// [`scr_core::error::Error::Comm`] when MPI refuses.
pub fn on_some_and_all(own: bool) -> Result<(bool, bool)> {
    let words = [c_int::from(own), c_int::from(!own)];
    let mut most = [0; 2];
    // SAFETY: both buffers hold two numbers and do not overlap; MPI is initialised.
    let code = wait(|| unsafe {
        ffi::PMPI_Allreduce(
            words.as_ptr().cast(),
            most.as_mut_ptr().cast(),
            2,
            ffi::RSMPI_INT32_T,
            ffi::RSMPI_MAX,
            ffi::RSMPI_COMM_WORLD,
        )
    });
    check(code, "MPI_Allreduce")?;
    Ok((most[0] != 0, most[1] == 0))
}

/// Returns the number of ranks in the world. Local.
///
/// # Errors
/// [`scr_core::error::Error::Comm`] when MPI refuses.
pub fn world_size() -> Result<usize> {
    let mut size = 0;
    // SAFETY: as in `world_rank`.
    check(unsafe { ffi::PMPI_Comm_size(ffi::RSMPI_COMM_WORLD, &mut size) }, "MPI_Comm_size")?;
    Ok(size as usize)
}

/// The launch check's word, an empty message on the world itself: a communicator of our own takes a
/// collective to make, and the program sends nothing before its MPI_Init returns.
pub struct WorldHerald;

/// The largest tag that every MPI has.
const HERALD_TAG: c_int = 32767;

impl Herald for WorldHerald {
    fn tell(&self, rank: usize) -> Result<()> {
        // SAFETY: MPI is initialised when the engine is; nothing is read at the valid address.
        let code = wait(|| unsafe {
            let (to, world) = (rank as c_int, ffi::RSMPI_COMM_WORLD);
            ffi::PMPI_Send(address(&[]), 0, ffi::RSMPI_UINT8_T, to, HERALD_TAG, world)
        });
        check(code, "MPI_Send")
    }

    fn has_told(&self, rank: usize) -> Result<bool> {
        let (from, mut flag) = (rank as c_int, 0);
        // SAFETY: as above; the flag is a local, and no status is wanted.
        let code = unsafe {
            let (world, nothing) = (ffi::RSMPI_COMM_WORLD, ffi::RSMPI_STATUS_IGNORE);
            ffi::PMPI_Iprobe(from, HERALD_TAG, world, &mut flag, nothing)
        };
        check(code, "MPI_Iprobe")?;
        if flag == 0 {
            return Ok(false);
        }
        // SAFETY: as above; the message is there, and nothing is written.
        let code = unsafe {
            let (to, world) = (address(&[]).cast_mut(), ffi::RSMPI_COMM_WORLD);
            let (byte, nothing) = (ffi::RSMPI_UINT8_T, ffi::RSMPI_STATUS_IGNORE);
            ffi::PMPI_Recv(to, 0, byte, from, HERALD_TAG, world, nothing)
        };
        check(code, "MPI_Recv").map(|()| true)
    }
}

/// Tells whether this level of thread support lets several threads communicate, be it in turn.
pub fn permits_threads(granted: c_int) -> bool {
    // SAFETY: a constant of the MPI library, defined before main.
    granted >= unsafe { ffi::RSMPI_THREAD_SERIALIZED }
}

thread_local! {
    static INITIALISED_MPI: Cell<bool> = const { Cell::new(false) };
}

/// Calls that count whatever happens, as a caller can tell them without MPI.
pub struct Counted {
    /// The handle of the world, as the program passes it.
    pub world: usize,
    /// The bits of it that count.
    pub mask: usize,
    /// The one thread whose calls count, as pthread_self says; 0: any.
    pub thread: usize,
}

/// The stream of a communicator that has none yet.
const NO_STREAM: usize = usize::MAX;

/// What is known of a communicator of all ranks; kept with it.
struct Known {
    /// It has ranks of other worlds in it.
    foreign: bool,
    /// Calls while it had no stream.
    calls: AtomicU64,
    stream: AtomicUsize,
}

/// Streams whose communicators were freed, as bits.
static FREED: AtomicU64 = AtomicU64::new(0);

/// Where a call counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// Nowhere.
    No,
    /// Nowhere: on the world, but by another thread than the one that counts.
    NoThread,
    /// In this stream.
    In(usize),
    /// Its communicator may have a stream: [`Classifier::place`].
    Unplaced,
}

/// Decides for each call whether it counts.
pub struct Classifier {
    world_size: usize,
    any_thread: bool,
    /// Communicators with ranks of other worlds may be there.
    merged: AtomicBool,
    /// The key of what is known of a communicator.
    key: c_int,
    /// MPI is being finalized: nothing is asked of the key any more.
    ended: AtomicBool,
}

impl Classifier {
    /// Makes a classifier. To be called by the thread that has initialised MPI. `any_thread`: some
    /// rank may communicate with several threads (agreed among all ranks).
    ///
    /// # Errors
    /// [`scr_core::error::Error::Comm`] when MPI refuses.
    pub fn new(world_size: usize, any_thread: bool) -> Result<Self> {
        INITIALISED_MPI.set(true);
        let key = attribute(forget_known)?;
        let (merged, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Classifier { world_size, any_thread, merged, key, ended })
    }

    /// Gives the key back, in MPI_Finalize: no call counts from now on but those on the world.
    pub fn end(&self) {
        if !self.ended.swap(true, Ordering::SeqCst) {
            let mut key = self.key;
            // SAFETY: MPI still works, and nobody uses the key after `ended`. What is kept under it
            // goes with its communicators.
            unsafe { ffi::PMPI_Comm_free_keyval(&mut key) };
        }
    }

    /// Communicators with ranks of other worlds may be there from now on: processes were or will be
    /// added.
    pub fn expect_others(&self) {
        self.merged.store(true, Ordering::Relaxed);
    }

    /// Returns what tells calls on the world, which count whatever happens. To be called by the
    /// thread that has initialised MPI.
    pub fn counted(&self) -> Counted {
        // SAFETY: a constant of the MPI library, defined before main.
        let (world, mask) = unsafe { ffi::RSMPI_COMM_WORLD }.0.to_word();
        let thread = if self.any_thread { 0 } else { thread_id() as usize };
        Counted { world, mask, thread }
    }

    /// Tells where a call of this thread on `handle` counts.
    pub fn counts(&self, handle: usize) -> Counts {
        let comm = ffi::MPI_Comm(FromWord::from_word(handle));
        // SAFETY: a constant of the MPI library, defined before main.
        let is_world = comm == unsafe { ffi::RSMPI_COMM_WORLD };
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

    /// Looks for a stream of the communicator `handle`, at a call of it that all ranks make: `seek`
    /// says which places this rank has when all are there, `place` takes what all have. Now and
    /// then only, since there may be none for long.
    ///
    /// # Errors
    /// [`scr_core::error::Error::Comm`] when MPI refuses.
    pub fn place(
        &self,
        handle: usize,
        seek: impl FnOnce() -> u64,
        place: impl FnOnce(u64) -> Option<usize>,
    ) -> Result<Option<usize>> {
        let comm = ffi::MPI_Comm(FromWord::from_word(handle));
        let Some(known) = self.known(comm) else { return Ok(None) };
        if !(known.calls.fetch_add(1, Ordering::Relaxed) + 1).is_power_of_two() {
            return Ok(None);
        }
        // SAFETY: the handle is what the program passes to its own MPI call right after.
        check(wait(|| unsafe { ffi::PMPI_Barrier(comm) }), "MPI_Barrier")?;
        let own = seek();
        let mut on_all = 0_u64;
        // SAFETY: as above; both buffers are locals of one word.
        let code = wait(|| unsafe {
            ffi::PMPI_Allreduce(
                (&raw const own).cast(),
                (&raw mut on_all).cast(),
                1,
                ffi::RSMPI_UINT64_T,
                ffi::RSMPI_BAND,
                comm,
            )
        });
        let stream = place(if code == 0 { on_all } else { 0 });
        check(code, "MPI_Allreduce")?;
        known.stream.store(stream.unwrap_or(NO_STREAM), Ordering::Relaxed);
        Ok(stream)
    }

    /// What is known of a communicator; `None`: it is not one of as many ranks as the world has.
    fn known(&self, comm: ffi::MPI_Comm) -> Option<&'static Known> {
        let (mut size, mut inter, mut found) = (0, 0, 0);
        let mut value: *mut c_void = ptr::null_mut();
        // SAFETY: the handle is what the program passes to its own MPI call right after; a null
        // handle is sorted out first. The out-parameters are locals.
        unsafe {
            if self.ended.load(Ordering::SeqCst)
                || comm == ffi::RSMPI_COMM_NULL
                || ffi::PMPI_Comm_size(comm, &mut size) != 0
                || size as usize != self.world_size
                || ffi::PMPI_Comm_get_attr(comm, self.key, (&raw mut value).cast(), &mut found) != 0
            {
                return None;
            }
            if found == 0 {
                if ffi::PMPI_Comm_test_inter(comm, &mut inter) != 0 || inter != 0 {
                    return None;
                }
                let stream = AtomicUsize::new(NO_STREAM);
                let foreign = self.merged.load(Ordering::Relaxed) && has_others(comm);
                let known = Box::new(Known { foreign, calls: AtomicU64::new(0), stream });
                value = Box::into_raw(known).cast();
                if ffi::PMPI_Comm_set_attr(comm, self.key, value) != 0 {
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

/// Tells whether ranks of other worlds are members.
///
/// # Safety
/// `comm` is an intra-communicator.
unsafe fn has_others(comm: ffi::MPI_Comm) -> bool {
    let mut result = 0;
    // SAFETY: by this function's contract; the out-parameter is a local.
    unsafe {
        let code = ffi::PMPI_Comm_compare(comm, ffi::RSMPI_COMM_WORLD, &mut result);
        code != 0 || result == ffi::RSMPI_UNEQUAL
    }
}

/// A communicator of all ranks is freed.
unsafe extern "C" fn forget_known(
    _comm: ffi::MPI_Comm,
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

/// Tells whether the communicator has more than one rank; a handle of no communicator has not.
pub fn is_shared(handle: usize) -> bool {
    let comm = ffi::MPI_Comm(FromWord::from_word(handle));
    let mut size = 0;
    // SAFETY: the handle is what the program passes to its own MPI call right after; a null handle
    // is sorted out first. The out-parameter is a local.
    unsafe { comm != ffi::RSMPI_COMM_NULL && ffi::PMPI_Comm_size(comm, &mut size) == 0 && size > 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_int_handle_is_the_low_half_of_the_word() {
        assert_eq!(c_int::from_word(0xffff_ffff_4400_0000), 0x4400_0000);
        assert_eq!(<*mut u8>::from_word(16) as usize, 16);
        let (word, mask) = c_int::from_word(0x4400_0000).to_word();
        assert_eq!(0xffff_ffff_4400_0000 & mask, word);
        assert_eq!(<*mut u8>::from_word(16).to_word(), (16, usize::MAX));
    }
}
