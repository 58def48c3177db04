//! Sparse all-to-all: everybody learns how many messages are on their way to it, then takes them in
//! whatever order they come. What a rank has for itself does not go by MPI.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::iter;

use scr_core::comm::Comm;
use scr_core::error::Result;

use super::communicator::{CHUNK_BYTES, MpiComm, address};
use super::values::{Handles, Status};
use super::{check, wait};

const TAG_ANNOUNCE: c_int = 4;
const TAG_CONTENT: c_int = 5;

pub(super) fn exchange(comm: &MpiComm, out: &[(usize, Vec<u8>)]) -> Result<Vec<(usize, Vec<u8>)>> {
    let own = comm.rank();
    let to_others = || out.iter().filter(|(to, _)| *to != own);
    let expected = incoming_count(comm, to_others())?;
    let headers: Vec<[u8; 8]> =
        to_others().map(|(_, bytes)| (bytes.len() as u64).to_ne_bytes()).collect();
    let messages = to_others().zip(&headers).flat_map(|((to, bytes), header)| {
        let chunks = bytes.chunks(CHUNK_BYTES).map(|chunk| (*to, chunk, TAG_CONTENT));
        iter::once((*to, &header[..], TAG_ANNOUNCE)).chain(chunks)
    });
    let values = &comm.mpi.values;
    let count = messages.clone().count();
    let mut requests = values.handles(count, values.request_null);
    for (at, (to, bytes, tag)) in messages.enumerate() {
        start_send(comm, bytes, to, tag, requests.place(at))?;
    }
    let mut arrived: Vec<_> = out.iter().filter(|(to, _)| *to == own).cloned().collect();
    for _ in 0..expected {
        arrived.push(receive_any(comm)?);
    }
    wait_all(comm, &mut requests, count)?;
    // Without it a quick neighbour's next exchange would be counted into this one.
    comm.barrier()?;
    arrived.sort_by_key(|(source, _)| *source);
    Ok(arrived)
}

fn incoming_count<'a>(
    comm: &MpiComm,
    out: impl Iterator<Item = &'a (usize, Vec<u8>)>,
) -> Result<usize> {
    let mut counts = vec![0_i64; comm.size()];
    for (to, _) in out {
        counts[*to] += 1;
    }
    let mut own = 0_i64;
    // SAFETY: `counts` has one word a rank, one word comes back.
    let code = wait(|| unsafe {
        (comm.mpi.call.reduce_scatter_block)(
            counts.as_ptr().cast::<c_void>(),
            (&raw mut own).cast::<c_void>(),
            1,
            comm.mpi.values.int64,
            comm.mpi.values.sum,
            comm.raw,
        )
    });
    check(code, "MPI_Reduce_scatter_block")?;
    Ok(own as usize)
}

fn start_send(
    comm: &MpiComm,
    bytes: &[u8],
    to: usize,
    tag: c_int,
    request: *mut c_void,
) -> Result<()> {
    // SAFETY: the buffers belong to the caller of `exchange` and outlive `wait_all`; when an error
    // ends the exchange early the communicator is given up for good, as `Comm` demands.
    let code = unsafe {
        (comm.mpi.call.isend)(
            address(bytes),
            bytes.len() as c_int,
            comm.mpi.values.uint8,
            to as c_int,
            tag,
            comm.raw,
            request,
        )
    };
    check(code, "MPI_Isend")
}

fn receive_any(comm: &MpiComm) -> Result<(usize, Vec<u8>)> {
    let values = &comm.mpi.values;
    let mut length = [0_u8; 8];
    let mut status = Status::new();
    // SAFETY: a place for a status; the buffer is eight bytes long.
    let code = wait(|| unsafe {
        (comm.mpi.call.recv)(
            length.as_mut_ptr().cast::<c_void>(),
            8,
            values.uint8,
            values.any_source,
            TAG_ANNOUNCE,
            comm.raw,
            status.place(),
        )
    });
    check(code, "MPI_Recv")?;
    let source = status.source(values) as usize;
    let mut bytes = vec![0; u64::from_ne_bytes(length) as usize];
    for chunk in bytes.chunks_mut(CHUNK_BYTES) {
        comm.receive_part(chunk, source, TAG_CONTENT)?;
    }
    Ok((source, bytes))
}

fn wait_all(comm: &MpiComm, requests: &mut Handles, count: usize) -> Result<()> {
    let all = requests.place(0);
    // SAFETY: every request was started by `start_send` and is completed here, once.
    let code = wait(|| unsafe {
        (comm.mpi.call.waitall)(count as c_int, all, comm.mpi.values.no_status())
    });
    check(code, "MPI_Waitall")
}
