//! [`Comm`] over MPI, on communicators that belong to the engine alone. Each has a handler of
//! errors that does nothing, so errors are returned; libraries of the standard ABI do not agree on
//! the value of MPI_ERRORS_RETURN. Counts of MPI are `int`, so long messages travel in chunks.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use scr_core::comm::{Buffers, Comm, Over, Pending};
use scr_core::error::Result;

use super::library::{Library, library};
use super::pending::Exchange;
use super::values::Handle;
use super::{check, sparse, wait};

/// Longest single message; well below the `int` that counts it.
pub(super) const CHUNK_BYTES: usize = 1 << 30;

pub(super) const TAG_EXCHANGE: c_int = 1;
const TAG_HEADER: c_int = 2;
const TAG_DATA: c_int = 3;

/// A communicator of the engine. Dropped before MPI_Finalize it is freed.
pub struct MpiComm {
    pub(super) mpi: &'static Library,
    pub(super) raw: Handle,
    rank: usize,
    size: usize,
}

// SAFETY: a communicator handle is a plain value for MPI; the engine makes its MPI calls on one
// thread at a time (inside the program's own calls), and moving the handle transfers nothing else.
unsafe impl Send for MpiComm {}
// SAFETY: as above: shared references only read the handle.
unsafe impl Sync for MpiComm {}

impl MpiComm {
    /// Makes a private duplicate of the world. Collective over the world.
    pub fn duplicate_world() -> Result<Self> {
        let mpi = library()?;
        // SAFETY: MPI is initialised.
        unsafe { Self::duplicate(mpi, mpi.values.comm_world) }
    }

    /// Makes a private duplicate of the program's communicator `handle`, on which a call of MPI has
    /// just returned, if all its ranks are `willing`. Collective over it.
    pub fn duplicate_of(handle: usize, willing: bool) -> Result<Option<Self>> {
        let mpi = library()?;
        let (comm, mut unwilling) = (mpi.values.handle(handle), [i64::from(!willing)]);
        all_max(mpi, &mut unwilling, comm)?;
        // SAFETY: the handle is valid.
        if unwilling == [0] { unsafe { Self::duplicate(mpi, comm) }.map(Some) } else { Ok(None) }
    }

    /// Tells whether the program's communicator `handle` has the same ranks in the same order.
    pub fn has_ranks_of(&self, handle: usize) -> bool {
        let (values, mut result) = (&self.mpi.values, 0);
        let comm = values.handle(handle);
        if comm == values.comm_null {
            return false;
        }
        // SAFETY: the handle is what the program passes to its own MPI call right after. The
        // out-parameter is a local.
        let code = unsafe { (self.mpi.call.comm_compare)(comm, self.raw, &mut result) };
        code == 0 && result == values.congruent()
    }

    /// Needs a valid communicator (safety).
    unsafe fn duplicate(mpi: &'static Library, comm: Handle) -> Result<Self> {
        let mut place = mpi.values.handles(1, mpi.values.comm_null);
        // SAFETY: by this function's contract; there is a place for a handle.
        unsafe {
            let code = (mpi.call.comm_dup)(comm, place.place(0));
            check(code, "MPI_Comm_dup")?;
            Self::adopt(mpi, place.get(0))
        }
    }

    /// The communicator returns errors from now on. Safety: `raw` is valid and owned by the caller.
    unsafe fn adopt(mpi: &'static Library, raw: Handle) -> Result<Self> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: `raw` is valid by this function's contract; the out-parameters are locals.
        unsafe {
            Self::set_errors_return(mpi, raw)?;
            check((mpi.call.comm_rank)(raw, &mut rank), "MPI_Comm_rank")?;
            check((mpi.call.comm_size)(raw, &mut size), "MPI_Comm_size")?;
        }
        Ok(MpiComm { mpi, raw, rank: rank as usize, size: size as usize })
    }

    /// Needs a valid communicator of the engine's own (safety).
    pub(super) unsafe fn set_errors_return(mpi: &Library, raw: Handle) -> Result<()> {
        let mut place = mpi.values.handles(1, 0);
        // SAFETY: by this function's contract; the handler is a function that stays, and goes from
        // MPI with the last communicator that has it.
        unsafe {
            let code = (mpi.call.comm_create_errhandler)(on_error, place.place(0));
            check(code, "MPI_Comm_create_errhandler")?;
            let code = (mpi.call.comm_set_errhandler)(raw, place.get(0));
            check(code, "MPI_Comm_set_errhandler")?;
            check((mpi.call.errhandler_free)(place.place(0)), "MPI_Errhandler_free")
        }
    }

    pub(super) fn send_part(&self, bytes: &[u8], to: usize, tag: c_int) -> Result<()> {
        // SAFETY: the pointer and the count describe `bytes`, which outlives the blocking call.
        let code = wait(|| unsafe {
            (self.mpi.call.send)(
                address(bytes),
                bytes.len() as c_int,
                self.mpi.values.uint8,
                to as c_int,
                tag,
                self.raw,
            )
        });
        check(code, "MPI_Send")
    }

    pub(super) fn receive_part(&self, into: &mut [u8], from: usize, tag: c_int) -> Result<()> {
        // SAFETY: the pointer and the count describe `into`, which outlives the blocking call.
        let code = wait(|| unsafe {
            (self.mpi.call.recv)(
                into.as_mut_ptr().cast::<c_void>(),
                into.len() as c_int,
                self.mpi.values.uint8,
                from as c_int,
                tag,
                self.raw,
                self.mpi.values.no_status(),
            )
        });
        check(code, "MPI_Recv")
    }

    fn broadcast_part(&self, bytes: &mut [u8], root: usize) -> Result<()> {
        // SAFETY: the pointer and the count describe `bytes`, which outlives the blocking call.
        let code = wait(|| unsafe {
            (self.mpi.call.bcast)(
                bytes.as_mut_ptr().cast::<c_void>(),
                bytes.len() as c_int,
                self.mpi.values.uint8,
                root as c_int,
                self.raw,
            )
        });
        check(code, "MPI_Bcast")
    }

    /// All ranks have an `own` of one length.
    fn gather_blocks(&self, own: &[u8]) -> Result<Vec<u8>> {
        let mut all = vec![0_u8; own.len() * self.size];
        // SAFETY: one block goes out, `size` blocks come in, both buffers are that long.
        let code = wait(|| unsafe {
            (self.mpi.call.allgather)(
                own.as_ptr().cast::<c_void>(),
                own.len() as c_int,
                self.mpi.values.uint8,
                all.as_mut_ptr().cast::<c_void>(),
                own.len() as c_int,
                self.mpi.values.uint8,
                self.raw,
            )
        });
        check(code, "MPI_Allgather")?;
        Ok(all)
    }

    /// The sum of `lengths` fits an `int`.
    fn gather_at_once(&self, bytes: &[u8], lengths: &[u64]) -> Result<Vec<Vec<u8>>> {
        let counts: Vec<c_int> = lengths.iter().map(|&length| length as c_int).collect();
        let mut starts = Vec::with_capacity(counts.len());
        let mut total = 0;
        for &count in &counts {
            starts.push(total);
            total += count;
        }
        if total == 0 {
            return Ok(vec![Vec::new(); self.size]);
        }
        let mut all = vec![0_u8; total as usize];
        // SAFETY: `counts` and `starts` have one entry a rank and describe ranges within `all`.
        let code = wait(|| unsafe {
            (self.mpi.call.allgatherv)(
                address(bytes),
                bytes.len() as c_int,
                self.mpi.values.uint8,
                all.as_mut_ptr().cast::<c_void>(),
                counts.as_ptr(),
                starts.as_ptr(),
                self.mpi.values.uint8,
                self.raw,
            )
        });
        check(code, "MPI_Allgatherv")?;
        let part = |(&start, &count): (&c_int, &c_int)| {
            all[start as usize..(start + count) as usize].to_vec()
        };
        Ok(starts.iter().zip(&counts).map(part).collect())
    }
}

/// Makes each word the largest that a rank of `comm` has.
pub(super) fn all_max(mpi: &Library, words: &mut [i64], comm: Handle) -> Result<()> {
    let own = words.to_vec();
    // SAFETY: MPI is initialised; both buffers hold `words.len()` words and do not overlap.
    let code = wait(|| unsafe {
        (mpi.call.allreduce)(
            own.as_ptr().cast::<c_void>(),
            words.as_mut_ptr().cast::<c_void>(),
            words.len() as c_int,
            mpi.values.int64,
            mpi.values.max,
            comm,
        )
    });
    check(code, "MPI_Allreduce")
}

/// A message that fits into so many bytes travels with its length: one call takes half the time of
/// two, and where ranks share cores it is the calls that take the time.
const SHORT_BYTES: usize = 3072;
/// No more than that comes to a rank before the lengths are known, or 512 bytes of each.
const SHORT_BYTES_OF_ALL: usize = 64 << 10;
/// In larger groups nothing travels with its length: it takes a quarter of a MiB on each rank here.
const SHORT_RANKS_MAX: usize = 512;

const LENGTH_BYTES: usize = size_of::<u64>();

/// Bytes of the block that goes first in a group of so many ranks.
fn block_bytes(ranks: usize) -> usize {
    match ranks {
        0..=SHORT_RANKS_MAX => (SHORT_BYTES_OF_ALL / ranks.max(1)).clamp(512, SHORT_BYTES),
        _ => LENGTH_BYTES,
    }
}

/// The beginning of a message, as a block of `room` bytes: its length, and all of a short one,
/// which most are.
fn begin_of(bytes: &[u8], room: usize) -> Vec<u8> {
    let mut block = (bytes.len() as u64).to_ne_bytes().to_vec();
    if LENGTH_BYTES + bytes.len() <= room {
        block.extend(bytes);
    }
    block.resize(room, 0);
    block
}

fn length_in(block: &[u8]) -> u64 {
    block.first_chunk().map_or(0, |length| u64::from_ne_bytes(*length))
}

/// The message, if all of it is in the block.
fn whole_in(block: &[u8]) -> Option<Vec<u8>> {
    let length = usize::try_from(length_in(block)).ok()?;
    block.get(LENGTH_BYTES..)?.get(..length).map(<[u8]>::to_vec)
}

/// Avoids that of an empty slice, which dangles, and can be the very number that means MPI_IN_PLACE
/// (1 in Open MPI).
pub(super) fn address(bytes: &[u8]) -> *const c_void {
    static NOTHING: u8 = 0;
    if bytes.is_empty() { (&raw const NOTHING).cast() } else { bytes.as_ptr().cast() }
}

fn chunk_count(length: usize) -> usize {
    length.div_ceil(CHUNK_BYTES)
}

/// The range past the end is empty.
fn chunk_range(length: usize, index: usize) -> std::ops::Range<usize> {
    let start = (index * CHUNK_BYTES).min(length);
    start..(start + CHUNK_BYTES).min(length)
}

impl Comm for MpiComm {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn barrier(&self) -> Result<()> {
        // SAFETY: the communicator is ours and valid.
        check(wait(|| unsafe { (self.mpi.call.barrier)(self.raw) }), "MPI_Barrier")
    }

    fn broadcast(&self, bytes: &mut Vec<u8>, root: usize) -> Result<()> {
        let mut begin = begin_of(bytes, SHORT_BYTES);
        self.broadcast_part(&mut begin, root)?;
        if let Some(whole) = whole_in(&begin) {
            *bytes = whole;
            return Ok(());
        }
        if self.rank != root {
            bytes.clear();
            bytes.resize(length_in(&begin) as usize, 0);
        }
        for chunk in bytes.chunks_mut(CHUNK_BYTES) {
            self.broadcast_part(chunk, root)?;
        }
        Ok(())
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let room = block_bytes(self.size);
        let begins = self.gather_blocks(&begin_of(bytes, room))?;
        if let Some(all) = begins.chunks(room).map(whole_in).collect() {
            return Ok(all);
        }
        let lengths: Vec<u64> = begins.chunks(room).map(length_in).collect();
        if lengths.iter().sum::<u64>() <= c_int::MAX as u64 {
            return self.gather_at_once(bytes, &lengths);
        }
        let mut parts = Vec::with_capacity(self.size);
        for (rank, &length) in lengths.iter().enumerate() {
            let mut part =
                if rank == self.rank { bytes.to_vec() } else { vec![0; length as usize] };
            for chunk in part.chunks_mut(CHUNK_BYTES) {
                self.broadcast_part(chunk, rank)?;
            }
            parts.push(part);
        }
        Ok(parts)
    }

    fn all_max(&self, words: &mut [i64]) -> Result<()> {
        all_max(self.mpi, words, self.raw)
    }

    fn exchange(&self, out: &[u8], to: usize, into: &mut [u8], from: usize) -> Result<()> {
        let (sends, receives) = (chunk_count(out.len()), chunk_count(into.len()));
        for index in 0..sends.max(receives) {
            let part = &out[chunk_range(out.len(), index)];
            let range = chunk_range(into.len(), index);
            let room = &mut into[range];
            // SAFETY: each pointer and count describe one of the two slices; MPI_PROC_NULL makes a
            // side void once it has no chunk left.
            let code = wait(|| unsafe {
                let nobody = self.mpi.values.proc_null;
                (self.mpi.call.sendrecv)(
                    address(part),
                    part.len() as c_int,
                    self.mpi.values.uint8,
                    if index < sends { to as c_int } else { nobody },
                    TAG_EXCHANGE,
                    room.as_mut_ptr().cast::<c_void>(),
                    room.len() as c_int,
                    self.mpi.values.uint8,
                    if index < receives { from as c_int } else { nobody },
                    TAG_EXCHANGE,
                    self.raw,
                    self.mpi.values.no_status(),
                )
            });
            check(code, "MPI_Sendrecv")?;
        }
        Ok(())
    }

    fn begin_exchange(
        &self,
        mut buffers: Buffers,
        to: usize,
        from: usize,
    ) -> Result<Box<dyn Pending>> {
        if buffers.out.len().max(buffers.into.len()) > CHUNK_BYTES {
            self.exchange(&buffers.out, to, &mut buffers.into, from)?;
            return Ok(Box::new(Over(buffers)));
        }
        Ok(Box::new(Exchange::begin(self, buffers, to, from)?))
    }

    fn send(&self, bytes: &[u8], to: usize) -> Result<()> {
        self.send_part(&(bytes.len() as u64).to_ne_bytes(), to, TAG_HEADER)?;
        bytes.chunks(CHUNK_BYTES).try_for_each(|chunk| self.send_part(chunk, to, TAG_DATA))
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        let mut length = [0; 8];
        self.receive_part(&mut length, from, TAG_HEADER)?;
        let mut bytes = vec![0; u64::from_ne_bytes(length) as usize];
        for chunk in bytes.chunks_mut(CHUNK_BYTES) {
            self.receive_part(chunk, from, TAG_DATA)?;
        }
        Ok(bytes)
    }

    fn sparse_exchange(&self, out: Vec<(usize, Vec<u8>)>) -> Result<Vec<(usize, Vec<u8>)>> {
        sparse::exchange(self, &out)
    }

    fn split(&self, color: i64, key: i64) -> Result<Option<Box<dyn Comm>>> {
        let (mpi, values) = (self.mpi, &self.mpi.values);
        let color = if color < 0 { values.undefined } else { color as c_int };
        let mut place = values.handles(1, values.comm_null);
        // SAFETY: the communicator is ours, and there is a place for a handle.
        unsafe {
            let made = place.place(0);
            let code = wait(|| (mpi.call.comm_split)(self.raw, color, key as c_int, made));
            check(code, "MPI_Comm_split")?;
            if place.get(0) == values.comm_null {
                return Ok(None);
            }
            Ok(Some(Box::new(Self::adopt(mpi, place.get(0))?)))
        }
    }
}

impl Drop for MpiComm {
    fn drop(&mut self) {
        if super::is_finalized() {
            return;
        }
        let mut place = self.mpi.values.handles(1, self.raw);
        // SAFETY: the handle is ours, freed once; MPI is not finalized. The code does not matter
        // any more: there is nobody left who could use this communicator.
        unsafe {
            (self.mpi.call.comm_free)(place.place(0));
        }
    }
}

unsafe extern "C" fn on_error(_comm: *mut c_void, _code: *mut c_int) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_messages_travel_with_their_length() {
        for room in [1, 20, 100, SHORT_RANKS_MAX, SHORT_RANKS_MAX + 1].map(block_bytes) {
            let most = room - LENGTH_BYTES;
            for bytes in [vec![], vec![3; most / 2], vec![3; most]] {
                let block = begin_of(&bytes, room);
                assert_eq!((block.len(), whole_in(&block)), (room, Some(bytes)));
            }
            let long = begin_of(&vec![7; most + 1], room);
            assert_eq!((whole_in(&long), length_in(&long)), (None, most as u64 + 1));
        }
    }

    #[test]
    fn nothing_to_send_has_a_real_address() {
        assert!(address(&[]) as usize > 4096);
    }

    #[test]
    fn chunks_cover_a_message_once() {
        assert_eq!(chunk_count(0), 0);
        assert_eq!(chunk_range(0, 0), 0..0);
        assert_eq!(chunk_count(CHUNK_BYTES + 1), 2);
        assert_eq!(chunk_range(CHUNK_BYTES + 1, 1), CHUNK_BYTES..CHUNK_BYTES + 1);
        assert_eq!(chunk_range(CHUNK_BYTES + 1, 2), CHUNK_BYTES + 1..CHUNK_BYTES + 1);
    }
}
