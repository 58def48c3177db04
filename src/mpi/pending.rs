//! An exchange that goes on while the program does: one nonblocking send and one receive.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use scr_core::comm::{Buffers, Pending};
use scr_core::error::Result;

use super::communicator::{MpiComm, TAG_EXCHANGE, address};
use super::library::Library;
use super::values::Handles;
use super::{check, wait};

/// An exchange whose buffers belong to MPI until both requests are through.
pub struct Exchange {
    mpi: &'static Library,
    requests: Handles,
    buffers: Buffers,
    is_over: bool,
}

// SAFETY: a request handle is a plain value for MPI; the engine makes its MPI calls on one thread
// at a time, and moving the handles and buffers does not move what MPI works on: the heap.
unsafe impl Send for Exchange {}

impl Exchange {
    /// Takes buffers that are below what an `int` counts; what is empty is no message.
    pub fn begin(comm: &MpiComm, buffers: Buffers, to: usize, from: usize) -> Result<Exchange> {
        let values = &comm.mpi.values;
        let (nobody, requests) = (values.proc_null, values.handles(2, values.request_null));
        let mut one = Exchange { mpi: comm.mpi, requests, buffers, is_over: false };
        let Buffers { out, into } = &mut one.buffers;
        // SAFETY: the pointer and the count describe `into`, which is neither touched nor dropped
        // before the request is over.
        let code = unsafe {
            (comm.mpi.call.irecv)(
                into.as_mut_ptr().cast::<c_void>(),
                into.len() as c_int,
                values.uint8,
                if into.is_empty() { nobody } else { from as c_int },
                TAG_EXCHANGE,
                comm.raw,
                one.requests.place(0),
            )
        };
        check(code, "MPI_Irecv")?;
        // SAFETY: as above, of `out`.
        let code = unsafe {
            (comm.mpi.call.isend)(
                address(out),
                out.len() as c_int,
                values.uint8,
                if out.is_empty() { nobody } else { to as c_int },
                TAG_EXCHANGE,
                comm.raw,
                one.requests.place(1),
            )
        };
        check(code, "MPI_Isend")?;
        Ok(one)
    }

    fn end(&mut self) -> Buffers {
        self.is_over = true;
        std::mem::take(&mut self.buffers)
    }
}

impl Pending for Exchange {
    fn advance(&mut self) -> Result<Option<Buffers>> {
        let mut flag = 0;
        // SAFETY: two requests of ours; no statuses are wanted, and the flag is a local.
        let code = unsafe {
            let (all, nothing) = (self.requests.place(0), self.mpi.values.no_status());
            (self.mpi.call.testall)(2, all, &mut flag, nothing)
        };
        check(code, "MPI_Testall")?;
        Ok((flag != 0).then(|| self.end()))
    }

    fn wait(&mut self) -> Result<Buffers> {
        let (all, nothing) = (self.requests.place(0), self.mpi.values.no_status());
        // SAFETY: two requests of ours; no statuses are wanted.
        let code = wait(|| unsafe { (self.mpi.call.waitall)(2, all, nothing) });
        check(code, "MPI_Waitall")?;
        Ok(self.end())
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.is_over {
            // MPI may write to them, or read them, as long as the process lives.
            std::mem::forget(std::mem::take(&mut self.buffers));
        }
    }
}
