//! Sparse all-to-all: everybody learns how many messages are on their way to it, then takes them in
//! whatever order they come.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use mpi::ffi;
use scr_core::comm::Comm;
use scr_core::error::Result;

use super::communicator::{CHUNK_BYTES, MpiComm, address};
use super::{check, wait};

const TAG_ANNOUNCE: c_int = 4;
const TAG_CONTENT: c_int = 5;

/// Does what [`Comm::sparse_exchange`] says.
pub(super) fn exchange(comm: &MpiComm, out: &[(usize, Vec<u8>)]) -> Result<Vec<(usize, Vec<u8>)>> {
    let expected = incoming_count(comm, out)?;
    let headers: Vec<[u8; 8]> =
        out.iter().map(|(_, bytes)| (bytes.len() as u64).to_ne_bytes()).collect();
    let mut requests = Vec::new();
    for ((to, bytes), header) in out.iter().zip(&headers) {
        requests.push(start_send(comm, header, *to, TAG_ANNOUNCE)?);
        for chunk in bytes.chunks(CHUNK_BYTES) {
            requests.push(start_send(comm, chunk, *to, TAG_CONTENT)?);
        }
    }
    let mut arrived = Vec::with_capacity(expected);
    for _ in 0..expected {
        arrived.push(receive_any(comm)?);
    }
    wait_all(&mut requests)?;
    // Without it a quick neighbour's next exchange would be counted into this one.
    comm.barrier()?;
    arrived.sort_by_key(|(source, _)| *source);
    Ok(arrived)
}

fn incoming_count(comm: &MpiComm, out: &[(usize, Vec<u8>)]) -> Result<usize> {
    let mut counts = vec![0_i64; comm.size()];
    for (to, _) in out {
        counts[*to] += 1;
    }
    let mut own = 0_i64;
    // SAFETY: `counts` has one word a rank, one word comes back.
    let code = wait(|| unsafe {
        ffi::PMPI_Reduce_scatter_block(
            counts.as_ptr().cast::<c_void>(),
            (&raw mut own).cast::<c_void>(),
            1,
            ffi::RSMPI_INT64_T,
            ffi::RSMPI_SUM,
            comm.raw,
        )
    });
    check(code, "MPI_Reduce_scatter_block")?;
    Ok(own as usize)
}

fn start_send(comm: &MpiComm, bytes: &[u8], to: usize, tag: c_int) -> Result<ffi::MPI_Request> {
    // SAFETY: the buffers belong to the caller of `exchange` and outlive `wait_all`; when an error
    // ends the exchange early the communicator is given up for good, as `Comm` demands.
    unsafe {
        let mut request = ffi::RSMPI_REQUEST_NULL;
        let code = ffi::PMPI_Isend(
            address(bytes),
            bytes.len() as c_int,
            ffi::RSMPI_UINT8_T,
            to as c_int,
            tag,
            comm.raw,
            &mut request,
        );
        check(code, "MPI_Isend")?;
        Ok(request)
    }
}

fn receive_any(comm: &MpiComm) -> Result<(usize, Vec<u8>)> {
    let mut length = [0_u8; 8];
    // SAFETY: `MPI_Status` is plain data that MPI fills in; the buffer is eight bytes long.
    let (code, status) = wait(|| unsafe {
        let mut status: ffi::MPI_Status = std::mem::zeroed();
        let code = ffi::PMPI_Recv(
            length.as_mut_ptr().cast::<c_void>(),
            8,
            ffi::RSMPI_UINT8_T,
            ffi::RSMPI_ANY_SOURCE,
            TAG_ANNOUNCE,
            comm.raw,
            &mut status,
        );
        (code, status)
    });
    check(code, "MPI_Recv")?;
    let source = status.MPI_SOURCE as usize;
    let mut bytes = vec![0; u64::from_ne_bytes(length) as usize];
    for chunk in bytes.chunks_mut(CHUNK_BYTES) {
        comm.receive_part(chunk, source, TAG_CONTENT)?;
    }
    Ok((source, bytes))
}

fn wait_all(requests: &mut [ffi::MPI_Request]) -> Result<()> {
    // SAFETY: every request was started by `start_send` and is completed here, once.
    let code = wait(|| unsafe {
        ffi::PMPI_Waitall(
            requests.len() as c_int,
            requests.as_mut_ptr(),
            ffi::RSMPI_STATUSES_IGNORE,
        )
    });
    check(code, "MPI_Waitall")
}
