//! Which of the program's communicators count for the agreement.
//!
//! All ranks must count the same calls. One thread makes the same ones everywhere, if they are on
//! intra-communicators of world *size*, whose members can only be all the world's ranks. Calls of
//! several threads have the same order everywhere only if they are on one communicator. So where
//! MPI lets several threads communicate, only the handle MPI_COMM_WORLD counts, and where it does
//! not, only the thread that initialised MPI: others call it all the same, in libraries. Once
//! processes can be added (spawn, connect, accept, join), only that handle counts in any case.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use mpi::ffi;
use scr_core::error::Result;
use scr_core::session::Herald;
use scr_core::system::thread_id;

use super::communicator::address;
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

/// Decides for each call whether it counts.
pub struct Classifier {
    world_size: usize,
    any_thread: bool,
    world_only: AtomicBool,
}

impl Classifier {
    /// Makes a classifier. To be called by the thread that has initialised MPI. `any_thread`: some
    /// rank may communicate with several threads (agreed among all ranks).
    pub fn new(world_size: usize, any_thread: bool) -> Self {
        INITIALISED_MPI.set(true);
        Classifier { world_size, any_thread, world_only: AtomicBool::new(any_thread) }
    }

    /// Lets only the world handle count from now on: processes were or will be added.
    pub fn restrict_to_world(&self) {
        self.world_only.store(true, Ordering::Relaxed);
    }

    /// Returns what tells calls on the world, which count whatever happens. To be called by the
    /// thread that has initialised MPI.
    pub fn counted(&self) -> Counted {
        // SAFETY: a constant of the MPI library, defined before main.
        let (world, mask) = unsafe { ffi::RSMPI_COMM_WORLD }.0.to_word();
        let thread = if self.any_thread { 0 } else { thread_id() as usize };
        Counted { world, mask, thread }
    }

    /// Tells whether a call of this thread on `handle` is a sync point.
    pub fn counts(&self, handle: usize) -> bool {
        if !self.any_thread && !INITIALISED_MPI.get() {
            return false;
        }
        let comm = ffi::MPI_Comm(FromWord::from_word(handle));
        // SAFETY: the handle is what the program passes to its own MPI call right after; a null
        // handle is sorted out first. The out-parameters are locals.
        unsafe {
            if comm == ffi::RSMPI_COMM_WORLD {
                return true;
            }
            if self.world_only.load(Ordering::Relaxed) || comm == ffi::RSMPI_COMM_NULL {
                return false;
            }
            let (mut size, mut inter) = (0, 0);
            ffi::PMPI_Comm_size(comm, &mut size) == 0
                && size as usize == self.world_size
                && ffi::PMPI_Comm_test_inter(comm, &mut inter) == 0
                && inter == 0
        }
    }
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
